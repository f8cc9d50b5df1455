//! A webhook as a stored configuration names it: by URL, or by a service whose place may change from one call to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::services::{Locations, ServiceReference, ServiceResolver};
use crate::{Endpoint, Trust, Webhook};

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    Url(String),
    Service(ServiceReference),
    /// The configuration does not say, which is told in these words.
    Missing(&'static str),
}

/// Why a webhook cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Its configuration makes no connection.
    #[error("{0}")]
    Configuration(String),
    /// Nobody knows where its service is: as a call says it that finds nobody.
    #[error("{0}")]
    Service(String),
}

/// A webhook that is connected to when it is first called.
pub struct ConfiguredWebhook {
    address: WebhookAddress,
    ca_bundle: String,
    timeout: Duration,
    services: Arc<dyn ServiceResolver>,
    /// What it was last set up as: again and again the same, unless its service moves.
    connected: ArcSwapOption<Connected>,
}

struct Connected {
    locations: Option<Locations>,
    webhook: Result<Arc<Webhook>, ConnectError>,
}

impl ConfiguredWebhook {
    /// `ca_bundle` is PEM in base64, as configurations have it.
    pub fn new(
        address: WebhookAddress,
        ca_bundle: &str,
        timeout: Duration,
        services: Arc<dyn ServiceResolver>,
    ) -> Self {
        let connected = ArcSwapOption::empty();
        Self { address, ca_bundle: ca_bundle.to_owned(), timeout, services, connected }
    }

    /// The webhook, ready to be called; the reason if it cannot be.
    pub async fn connection(&self) -> Result<Arc<Webhook>, ConnectError> {
        let locations = match &self.address {
            WebhookAddress::Missing(reason) => return Err(ConnectError::Configuration((*reason).to_owned())),
            WebhookAddress::Url(_) => None,
            WebhookAddress::Service(service) => {
                let resolved = self.services.resolve(&service.service()).await;
                let unresolved = |reason: String| ConnectError::Service(self.unresolved(service, &reason));
                Some(resolved.map_err(|error| unresolved(error.to_string()))?)
            }
        };
        let connected = self.connected.load();
        if let Some(connected) = connected.as_ref().filter(|connected| connected.locations == locations) {
            return connected.webhook.clone();
        }
        let webhook = self.connect(locations.clone()).map(Arc::new).map_err(ConnectError::Configuration);
        self.connected.store(Some(Arc::new(Connected { locations, webhook: webhook.clone() })));
        webhook
    }

    fn connect(&self, locations: Option<Locations>) -> Result<Webhook, String> {
        let bundle = STANDARD.decode(&self.ca_bundle).map_err(|error| error.to_string())?;
        let mut endpoint = match (&self.address, locations) {
            (WebhookAddress::Service(service), Some(locations)) => {
                // Webhooks at the same service begin with different addresses of it.
                static CONNECTED: AtomicUsize = AtomicUsize::new(0);
                let locations = locations.beginning_at(CONNECTED.fetch_add(1, Ordering::Relaxed));
                let path = service.path.as_deref().unwrap_or("/");
                Endpoint::of_service(&service.service(), path, locations, &bundle)
            }
            (WebhookAddress::Url(url), _) => Endpoint::vouched(url, &bundle),
            _ => return Err("the webhook has no address".to_owned()),
        };
        // Whom this machine trusts, where the configuration names nobody. White space names nobody either.
        if bundle.trim_ascii().is_empty() {
            endpoint.trust = Trust::System;
        }
        Webhook::at(endpoint, self.timeout).map_err(|error| error.to_string())
    }

    /// As a call says it that finds no service.
    fn unresolved(&self, service: &ServiceReference, reason: &str) -> String {
        let path = service.path.as_deref().unwrap_or_default().trim_start_matches('/');
        let name = service.service();
        let (host, port) = (name.server_name(), name.port);
        format!("Post \"https://{host}:{port}/{path}?timeout={}s\": {reason}", self.timeout.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::MappedServices;

    #[tokio::test]
    async fn a_bundle_of_white_space_names_nobody() {
        let webhook = |bundle: &[u8]| {
            let address = WebhookAddress::Url("https://webhook.test/".to_owned());
            let services = Arc::new(MappedServices::new(Vec::new(), None));
            ConfiguredWebhook::new(address, &STANDARD.encode(bundle), Duration::from_secs(1), services)
        };
        assert!(webhook(b"").connection().await.is_ok());
        assert!(webhook(b" \n").connection().await.is_ok());
        assert!(webhook(b"nobody").connection().await.is_err());
    }
}
