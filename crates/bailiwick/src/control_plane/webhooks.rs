//! Where webhooks that are configured through the API may lead: the options, and the policy they make.

use std::net::SocketAddr;

use bailiwick_webhook::dial::{Cidr, DialPolicy};

use super::StoreOptions;

/// etcd's, where a URL names none.
const ETCD_PORT: u16 = 2379;

/// Where webhooks that are configured through the API may lead. Holds for the whole process.
#[derive(Clone, Debug, Default)]
pub struct DialOptions {
    /// Not here, besides what is always denied.
    pub deny_cidrs: Vec<Cidr>,
    /// Here although a wider range is denied.
    pub allow_cidrs: Vec<Cidr>,
}

impl DialOptions {
    /// The policy; our own store is never to be called.
    pub(super) async fn policy(&self, store: &StoreOptions) -> DialPolicy {
        let mut denied: Vec<SocketAddr> = Vec::new();
        if let StoreOptions::Etcd(etcd) = store {
            for uri in etcd.endpoints.iter().filter_map(|endpoint| endpoint.parse::<http::Uri>().ok()) {
                let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
                match tokio::net::lookup_host((host, uri.port_u16().unwrap_or(ETCD_PORT))).await {
                    Ok(addresses) => denied.extend(addresses),
                    Err(error) => {
                        tracing::warn!(%error, %uri, "webhooks are not kept from the store: it has no address")
                    }
                }
            }
        }
        DialPolicy::new(&self.allow_cidrs, &self.deny_cidrs, denied)
    }
}
