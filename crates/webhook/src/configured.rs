//! A webhook as a stored configuration names it: by URL, or by a service whose place may change from one call to the next.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::services::{Location, ServiceReference, ServiceResolver};
use crate::{Endpoint, Trust, Webhook};

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    Url(String),
    Service(ServiceReference),
    /// The configuration does not say, which is told in these words.
    Missing(&'static str),
}

/// Who vouches for a webhook whose configuration has no CA bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingBundle {
    /// Whom this machine trusts.
    SystemTrust,
    /// Nobody: it is not called.
    Refused,
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
    missing_bundle: MissingBundle,
    timeout: Duration,
    services: Arc<dyn ServiceResolver>,
    /// What it was last set up as: again and again the same, unless its service moves.
    connected: ArcSwapOption<Connected>,
}

struct Connected {
    location: Option<Location>,
    webhook: Result<Arc<Webhook>, ConnectError>,
}

impl ConfiguredWebhook {
    /// `ca_bundle` is PEM in base64, as configurations have it.
    pub fn new(
        address: WebhookAddress,
        ca_bundle: &str,
        missing_bundle: MissingBundle,
        timeout: Duration,
        services: Arc<dyn ServiceResolver>,
    ) -> Self {
        let connected = ArcSwapOption::empty();
        Self { address, ca_bundle: ca_bundle.to_owned(), missing_bundle, timeout, services, connected }
    }

    /// The webhook, ready to be called; the reason if it cannot be.
    pub async fn connection(&self) -> Result<Arc<Webhook>, ConnectError> {
        let location = match &self.address {
            WebhookAddress::Missing(reason) => return Err(ConnectError::Configuration((*reason).to_owned())),
            WebhookAddress::Url(_) => None,
            WebhookAddress::Service(service) => {
                let resolved = self.services.resolve(&service.service()).await;
                let unresolved = |reason: String| ConnectError::Service(self.unresolved(service, &reason));
                Some(resolved.map_err(|error| unresolved(error.to_string()))?)
            }
        };
        let connected = self.connected.load();
        if let Some(connected) = connected.as_ref().filter(|connected| connected.location == location) {
            return connected.webhook.clone();
        }
        let webhook = self.connect(location.clone()).map(Arc::new).map_err(ConnectError::Configuration);
        self.connected.store(Some(Arc::new(Connected { location, webhook: webhook.clone() })));
        webhook
    }

    fn connect(&self, location: Option<Location>) -> Result<Webhook, String> {
        let bundle = STANDARD.decode(&self.ca_bundle).map_err(|error| error.to_string())?;
        let mut endpoint = match (&self.address, location) {
            (WebhookAddress::Service(service), Some(location)) => {
                let path = service.path.as_deref().unwrap_or("/");
                Endpoint::of_service(&service.service(), path, location, &bundle)
            }
            (WebhookAddress::Url(url), _) => Endpoint::vouched(url, &bundle),
            _ => return Err("the webhook has no address".to_owned()),
        };
        if bundle.is_empty() && self.missing_bundle == MissingBundle::SystemTrust {
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
