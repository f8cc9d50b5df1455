//! The flags of `bailiwick serve` for group versions that other servers serve, and for where services are.

use std::path::PathBuf;

use anyhow::bail;
use bailiwick::{Aggregation, AggregationOptions, ServiceEndpoint};

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Aggregation")]
pub struct Flags {
    /// Client certificate by which aggregated servers know us; made by ourselves if not given.
    #[arg(long)]
    proxy_client_cert_file: Option<PathBuf>,
    /// The key of --proxy-client-cert-file.
    #[arg(long)]
    proxy_client_key_file: Option<PathBuf>,
    /// Where a service is that APIServices and webhooks name: namespace/name[:port]=https://host:port[,https://host:port…]. May
    /// be given several times; namespaces say more in ConfigMaps named bailiwick-service-endpoints.
    #[arg(long)]
    service_endpoint: Vec<ServiceEndpoint>,
}

impl Flags {
    pub fn aggregation(&self) -> anyhow::Result<Aggregation> {
        let proxy_client_certificate = match (&self.proxy_client_cert_file, &self.proxy_client_key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => bail!("--proxy-client-cert-file and --proxy-client-key-file must be specified together"),
        };
        Ok(Aggregation::On(AggregationOptions { proxy_client_certificate }))
    }

    pub fn service_endpoints(&self) -> Vec<ServiceEndpoint> {
        self.service_endpoint.clone()
    }
}
