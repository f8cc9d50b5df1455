//! Whether other servers may serve parts of the API: the options, the aggregator they make, and the certificate by which
//! those servers know that it is us who says who a user is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_aggregation::Aggregator;
use bailiwick_auth::pki::FrontProxyPki;
use bailiwick_server::ApiServer;
use bailiwick_webhook::Identity;
use bailiwick_webhook::services::ServiceResolver;
use jiff::Timestamp;
use serde_json::Value;

use super::{Error, read};
use crate::api_services::{self, Conditions};
use crate::authentication_trust::Trust;
use crate::background::{Background, ChangedFiles};
use crate::service_endpoints::StoredEndpointMaps;

/// How often our own certificate is looked at: it lasts a year and is renewed two months before.
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// How long a start waits for the servers behind us; most are there or are not at once.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(2);

/// Whether other servers may serve parts of the API.
#[derive(Clone, Debug)]
pub enum Aggregation {
    /// APIServices with a service route requests to it.
    On(AggregationOptions),
    /// APIServices are records without an effect.
    Off,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self::On(AggregationOptions::default())
    }
}

/// How we prove ourselves to the servers behind us.
#[derive(Clone, Debug, Default)]
pub struct AggregationOptions {
    /// A client certificate and its key. Whoever signed it must be among the authorities of
    /// [`super::FrontProxyOptions`]. Without it we make one, with an authority of its own.
    pub proxy_client_certificate: Option<(PathBuf, PathBuf)>,
}

/// What the options make.
pub(super) struct Built {
    pub aggregator: Arc<Aggregator>,
    identity: Source,
}

/// Where the certificate comes from.
enum Source {
    Files(PathBuf, PathBuf),
    Own { directory: PathBuf, pki: FrontProxyPki },
}

impl Aggregation {
    /// The aggregator, if there is to be one.
    pub(super) fn build(
        &self,
        pki_dir: &Path,
        services: Arc<dyn ServiceResolver>,
        now: Timestamp,
    ) -> Result<Option<Built>, Error> {
        let Self::On(options) = self else { return Ok(None) };
        let (identity, source) = match &options.proxy_client_certificate {
            Some((certificate, key)) => {
                (from_files(certificate, key)?, Source::Files(certificate.clone(), key.clone()))
            }
            None => {
                let pki = FrontProxyPki::ensure(pki_dir, now)?;
                (identity_of(&pki), Source::Own { directory: pki_dir.to_owned(), pki })
            }
        };
        Ok(Some(Built { aggregator: Aggregator::new(services, Some(identity)), identity: source }))
    }
}

fn from_files(certificate: &Path, key: &Path) -> Result<Identity, Error> {
    Ok(Identity { certificate_pem: read(certificate)?.into_bytes(), key_pem: read(key)?.into_bytes() })
}

fn identity_of(pki: &FrontProxyPki) -> Identity {
    let client = &pki.client;
    Identity { certificate_pem: client.certificate_pem.clone().into(), key_pem: client.key_pem.clone().into() }
}

impl Built {
    /// Adds what servers behind us must know to believe us, if the certificate is our own.
    pub(super) fn add_trust(&self, trust: &mut Trust) {
        let Source::Own { pki, .. } = &self.identity else { return };
        let bundle = trust.entry("requestheader-client-ca-file".to_owned()).or_default();
        if !bundle.is_empty() && !bundle.ends_with('\n') {
            bundle.push('\n');
        }
        bundle.push_str(&pki.ca_pem);
        for (key, name) in [
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-uid-headers", "X-Remote-Uid"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ] {
            add_name(trust, key, name);
        }
        // No names at all mean every name.
        let key = "requestheader-allowed-names";
        if trust.get(key).is_none_or(|names| names != "[]") {
            add_name(trust, key, FrontProxyPki::CLIENT_NAME);
        }
    }

    /// Feeds the aggregator and lets it look after its servers, from now on.
    pub(super) async fn start(
        self,
        server: &Arc<ApiServer>,
        endpoint_maps: &StoredEndpointMaps,
    ) -> Result<Option<Background>, Error> {
        endpoint_maps.tell(&self.aggregator);
        api_services::connect(server, &self.aggregator).await?;
        self.aggregator.start(Arc::new(Conditions::new(server)));
        // Clients that come at once should not find groups without resources.
        let _ = tokio::time::timeout(FIRST_LOOK_MAX, self.aggregator.looked()).await;
        let aggregator = Arc::downgrade(&self.aggregator);
        let keep_current = async move {
            let mut files = match &self.identity {
                Source::Files(certificate, key) => Some(ChangedFiles::new(vec![certificate.clone(), key.clone()])),
                Source::Own { .. } => None,
            };
            loop {
                match &mut files {
                    Some(files) => files.changed().await,
                    None => tokio::time::sleep(RENEWAL_CHECK).await,
                }
                let identity = match &self.identity {
                    Source::Files(certificate, key) => from_files(certificate, key),
                    Source::Own { directory, .. } => {
                        let pki = FrontProxyPki::ensure(directory, Timestamp::now());
                        pki.map(|pki| identity_of(&pki)).map_err(Error::from)
                    }
                };
                let Some(aggregator) = aggregator.upgrade() else { return };
                match identity {
                    Ok(identity) => aggregator.set_identity(identity),
                    Err(error) => tracing::warn!(%error, "the front proxy's certificate stays as it is"),
                }
            }
        };
        Ok(Some(Background::spawn(keep_current)))
    }
}

/// Adds a name to a JSON list of names.
fn add_name(trust: &mut Trust, key: &str, name: &str) {
    let list = trust.entry(key.to_owned()).or_insert_with(|| "[]".to_owned());
    let mut names: Vec<String> = serde_json::from_str(list).unwrap_or_default();
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
        *list = Value::from(names).to_string();
    }
}
