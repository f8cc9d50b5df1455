//! The flags of `bailiwick serve` that say who may do what.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bailiwick::{AuthenticationOptions, AuthorizationMode, AuthorizationOptions, WebhookOptions};
use bailiwick_auth::authn::Anonymous;
use bailiwick_auth::authz::webhook::Version;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Authorization")]
pub struct Flags {
    /// Who is asked whether a request is allowed, in order: RBAC (stored roles and bindings), Webhook, AlwaysAllow,
    /// AlwaysDeny. Members of system:masters may always do everything. RBAC if not given.
    #[arg(long, value_delimiter = ',', conflicts_with = "authorization_config")]
    authorization_mode: Vec<String>,
    /// File with an AuthorizationConfiguration (apiserver.config.k8s.io/v1), read again every minute if it changes.
    #[arg(long)]
    authorization_config: Option<PathBuf>,
    /// Kubeconfig of the server that mode Webhook asks.
    #[arg(long, conflicts_with = "authorization_config")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// The version of SubjectAccessReview sent to the webhook: v1 or v1beta1. v1beta1 if not given, as upstream.
    #[arg(long, conflicts_with = "authorization_config")]
    authorization_webhook_version: Option<String>,
    /// How long a yes of the webhook is remembered, such as 5m; that if not given.
    #[arg(long, value_parser = duration, conflicts_with = "authorization_config")]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// How long a no of the webhook is remembered, such as 30s; that if not given.
    #[arg(long, value_parser = duration, conflicts_with = "authorization_config")]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
}

/// A duration in Go's notation.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = bailiwick_cel::Duration::parse(text).and_then(|duration| u64::try_from(duration.nanos).ok());
    parsed.map(Duration::from_nanos).ok_or_else(|| format!("invalid duration {text:?}"))
}

impl Flags {
    /// What was asked for; `None` if nothing was.
    pub fn options(&self) -> anyhow::Result<Option<AuthorizationOptions>> {
        if let Some(path) = &self.authorization_config {
            return Ok(Some(AuthorizationOptions::config_file(path)));
        }
        if self.authorization_mode.is_empty() {
            self.no_webhook()?;
            return Ok(None);
        }
        let mut modes: Vec<AuthorizationMode> = Vec::new();
        for mode in &self.authorization_mode {
            let mode = match mode.as_str() {
                "RBAC" => AuthorizationMode::Rbac,
                "AlwaysAllow" => AuthorizationMode::AlwaysAllow,
                "AlwaysDeny" => AuthorizationMode::AlwaysDeny,
                "Webhook" => AuthorizationMode::Webhook(self.webhook()?),
                "Node" => bail!("authorization-mode Node: this control plane has no nodes; leave it out"),
                "ABAC" => bail!("authorization-mode ABAC: policy files are not supported; use RBAC or Webhook"),
                other => bail!("authorization-mode {other:?} is not a valid mode"),
            };
            if modes.contains(&mode) {
                bail!("authorization-mode {:?} has mode specified more than once", self.authorization_mode);
            }
            modes.push(mode);
        }
        if !modes.iter().any(|mode| matches!(mode, AuthorizationMode::Webhook(_))) {
            self.no_webhook()?;
        }
        Ok(Some(AuthorizationOptions::modes(modes)))
    }

    /// Where everything is allowed, requests without credentials are refused, as kube-apiserver does: who may do anything
    /// should at least have a name.
    pub fn restrict(&self, authentication: &mut AuthenticationOptions) {
        // A configuration file may say otherwise.
        let anybody = authentication.configuration.is_none()
            && matches!(authentication.anonymous, None | Some(Anonymous::Allowed));
        if anybody && self.authorization_mode.iter().any(|mode| mode == "AlwaysAllow") {
            tracing::warn!("requests without credentials are refused: the authorization mode is AlwaysAllow");
            authentication.anonymous = Some(Anonymous::Refused);
        }
    }

    fn no_webhook(&self) -> anyhow::Result<()> {
        if self.authorization_webhook_config_file.is_some() {
            bail!("cannot specify --authorization-webhook-config-file without mode Webhook");
        }
        Ok(())
    }

    fn webhook(&self) -> anyhow::Result<WebhookOptions> {
        let version = self.authorization_webhook_version.as_deref().unwrap_or("v1beta1");
        Ok(WebhookOptions {
            kubeconfig: self
                .authorization_webhook_config_file
                .clone()
                .context("authorization-mode Webhook's authorization config file not passed")?,
            version: Version::parse(version).with_context(|| {
                format!(
                    "unsupported webhook authorizer version {version:?}, supported versions are \"v1\", \"v1beta1\""
                )
            })?,
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl.unwrap_or(Duration::from_secs(300)),
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl.unwrap_or(Duration::from_secs(30)),
        })
    }
}
