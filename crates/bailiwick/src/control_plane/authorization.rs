//! Who may do what: the options, the authorizers they make, and the file that can change them while the server runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_auth::authz::config::{self, AuthorizerConfig, ConfigError, WebhookConfig};
use bailiwick_auth::authz::rbac::Rbac;
use bailiwick_auth::authz::webhook::{Options, Version, WebhookAuthorizer};
use bailiwick_auth::authz::{
    AlwaysAllow, AlwaysDeny, AnyAuthenticated, Authorizer, Authorizers, BasicAccess, Link, OnError, SystemMasters,
};
use bailiwick_webhook::{Endpoint, KubeconfigError, Webhook};

use crate::background::Background;
use crate::rbac_feed::StoredRoles;

/// How often the configuration file is looked at, as upstream.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// Why authorization cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Config { path: PathBuf, source: ConfigError },
    #[error("authorization webhook: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("authorization webhook: {0}")]
    Webhook(#[from] bailiwick_webhook::Error),
    #[error("authorization webhook: {0}")]
    Conditions(ConfigError),
}

/// Who may do what, besides members of `system:masters`.
#[derive(Clone, Debug)]
pub struct AuthorizationOptions {
    pub authorizers: AuthorizerOptions,
    /// How often a configuration file is read again.
    pub reload_interval: Duration,
}

/// Which authorizers are asked, in order.
#[derive(Clone, Debug)]
pub enum AuthorizerOptions {
    Modes(Vec<AuthorizationMode>),
    /// An AuthorizationConfiguration, read again when it changes.
    ConfigFile(PathBuf),
}

/// One authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// What stored roles and bindings grant.
    Rbac,
    /// Everybody may do everything.
    AlwaysAllow,
    /// Nobody may do anything.
    AlwaysDeny,
    /// Whoever has credentials may do everything.
    Authenticated,
    /// Somebody else is asked.
    Webhook(WebhookOptions),
}

/// A webhook as flags describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    pub kubeconfig: PathBuf,
    pub version: Version,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self::modes([AuthorizationMode::Rbac])
    }
}

/// Authorizers, and what keeps them up to date.
pub(super) struct Authorization {
    pub authorizers: Authorizers,
    /// Looks at the configuration file, if there is one.
    pub background: Option<Background>,
}

impl AuthorizationOptions {
    /// These authorizers.
    pub fn modes(modes: impl Into<Vec<AuthorizationMode>>) -> Self {
        Self { authorizers: AuthorizerOptions::Modes(modes.into()), reload_interval: RELOAD_INTERVAL }
    }

    /// Those of an AuthorizationConfiguration.
    pub fn config_file(path: impl Into<PathBuf>) -> Self {
        Self { authorizers: AuthorizerOptions::ConfigFile(path.into()), reload_interval: RELOAD_INTERVAL }
    }

    /// Puts the authorizers together; `rbac` is fed with the stored roles and bindings.
    /// `own` are the caller's authorizers, asked first.
    pub(super) fn build(
        &self,
        rbac: Rbac,
        stored: StoredRoles,
        mut own: Vec<Arc<dyn Authorizer>>,
    ) -> Result<Authorization, AuthorizationError> {
        if let AuthorizerOptions::Modes(modes) = &self.authorizers
            && modes.contains(&AuthorizationMode::Authenticated)
        {
            own.push(Arc::new(AnyAuthenticated));
        }
        let parts = Parts { rbac, stored, own };
        match &self.authorizers {
            AuthorizerOptions::Modes(modes) => {
                let chain = parts.chain(modes.iter().filter_map(AuthorizationMode::config))?;
                Ok(Authorization { authorizers: Authorizers::with_roles(chain, parts.rbac), background: None })
            }
            AuthorizerOptions::ConfigFile(path) => self.build_from(path.clone(), parts),
        }
    }

    /// The authorizers of a project, with its own roles. Webhooks are not asked: they could not tell one project from
    /// another, and what they grant would hold in all.
    pub(crate) fn for_project(&self, rbac: Rbac) -> Authorizers {
        let mut chain = vec![Link::Local(Box::new(SystemMasters))];
        match &self.authorizers {
            AuthorizerOptions::ConfigFile(_) => chain.push(Link::Local(Box::new(rbac.clone()))),
            AuthorizerOptions::Modes(modes) => chain.extend(modes.iter().filter_map(|mode| match mode {
                AuthorizationMode::Rbac => Some(Link::Local(Box::new(rbac.clone()))),
                AuthorizationMode::AlwaysAllow => Some(Link::Local(Box::new(AlwaysAllow))),
                AuthorizationMode::AlwaysDeny => Some(Link::Local(Box::new(AlwaysDeny))),
                AuthorizationMode::Authenticated => Some(Link::Local(Box::new(AnyAuthenticated))),
                AuthorizationMode::Webhook(_) => None,
            })),
        }
        Authorizers::with_roles(chain, rbac)
    }

    fn build_from(&self, path: PathBuf, parts: Parts) -> Result<Authorization, AuthorizationError> {
        let text = read(&path)?;
        let configured = parse(&path, &text, &BTreeSet::new())?;
        let required = configured.iter().map(AuthorizerConfig::type_name).filter(|kind| *kind == "RBAC").collect();
        let authorizers = Authorizers::with_roles(parts.chain(configured)?, parts.rbac.clone());
        let watched = Watched { path, text, required, parts, authorizers: authorizers.clone() };
        let background = Some(Background::spawn(watched.follow(self.reload_interval)));
        Ok(Authorization { authorizers, background })
    }
}

impl AuthorizationMode {
    /// As a configuration file would say it; `None` for what upstream's files cannot say.
    fn config(&self) -> Option<AuthorizerConfig> {
        Some(match self {
            Self::Rbac => AuthorizerConfig::Rbac,
            Self::AlwaysAllow => AuthorizerConfig::AlwaysAllow,
            Self::AlwaysDeny => AuthorizerConfig::AlwaysDeny,
            Self::Authenticated => return None,
            Self::Webhook(options) => AuthorizerConfig::Webhook(WebhookConfig {
                name: "default".to_owned(),
                kubeconfig: options.kubeconfig.clone(),
                version: options.version,
                timeout: Duration::from_secs(30),
                authorized_ttl: options.authorized_ttl,
                unauthorized_ttl: options.unauthorized_ttl,
                on_error: OnError::NoOpinion,
                match_conditions: Vec::new(),
            }),
        })
    }
}

/// What authorizers are made of.
struct Parts {
    rbac: Rbac,
    stored: StoredRoles,
    /// Asked before those configured.
    own: Vec<Arc<dyn Authorizer>>,
}

impl Parts {
    fn chain(&self, configured: impl IntoIterator<Item = AuthorizerConfig>) -> Result<Vec<Link>, AuthorizationError> {
        let mut chain = vec![Link::Local(Box::new(SystemMasters))];
        // Where no roles can be stored, somebody must still be able to ask for the version.
        if self.stored == StoredRoles::Absent {
            chain.push(Link::Local(Box::new(BasicAccess)));
        }
        chain.extend(self.own.iter().map(|authorizer| Link::Local(Box::new(authorizer.clone()))));
        for authorizer in configured {
            chain.push(match authorizer {
                AuthorizerConfig::Rbac => Link::Local(Box::new(self.rbac.clone())),
                AuthorizerConfig::AlwaysAllow => Link::Local(Box::new(AlwaysAllow)),
                AuthorizerConfig::AlwaysDeny => Link::Local(Box::new(AlwaysDeny)),
                AuthorizerConfig::Webhook(config) => Link::Remote(Arc::new(webhook(config)?)),
            });
        }
        Ok(chain)
    }
}

fn webhook(config: WebhookConfig) -> Result<WebhookAuthorizer, AuthorizationError> {
    let endpoint = Endpoint::from_kubeconfig(&config.kubeconfig)?;
    let conditions = config.conditions().map_err(AuthorizationError::Conditions)?;
    let options = Options {
        name: config.name,
        version: config.version,
        authorized_ttl: config.authorized_ttl,
        unauthorized_ttl: config.unauthorized_ttl,
        on_error: config.on_error,
        conditions,
    };
    Ok(WebhookAuthorizer::new(Webhook::at(endpoint, config.timeout)?, options))
}

/// A configuration file and what it was made into.
struct Watched {
    path: PathBuf,
    text: String,
    required: BTreeSet<&'static str>,
    parts: Parts,
    authorizers: Authorizers,
}

impl Watched {
    /// Looks at the file forever. What cannot be used leaves everything as it is.
    async fn follow(mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            match self.reload() {
                Ok(Reloaded::Changed) => {
                    tracing::info!(path = %self.path.display(), "authorization configuration taken over")
                }
                Ok(Reloaded::Unchanged) => {}
                Err(error) => tracing::error!(%error, "authorization configuration cannot be used; the old one stays"),
            }
        }
    }

    fn reload(&mut self) -> Result<Reloaded, AuthorizationError> {
        let text = read(&self.path)?;
        if text == self.text {
            return Ok(Reloaded::Unchanged);
        }
        // Complaining once about a bad file is enough.
        self.text = text;
        let configured = parse(&self.path, &self.text, &self.required)?;
        self.authorizers.replace(self.parts.chain(configured)?);
        Ok(Reloaded::Changed)
    }
}

enum Reloaded {
    Changed,
    Unchanged,
}

fn read(path: &Path) -> Result<String, AuthorizationError> {
    std::fs::read_to_string(path).map_err(|source| AuthorizationError::Read { path: path.to_owned(), source })
}

fn parse(
    path: &Path,
    text: &str,
    required: &BTreeSet<&'static str>,
) -> Result<Vec<AuthorizerConfig>, AuthorizationError> {
    config::parse(text, required).map_err(|source| AuthorizationError::Config { path: path.to_owned(), source })
}
