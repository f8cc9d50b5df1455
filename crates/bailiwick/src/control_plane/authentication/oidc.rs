//! Issuers of OpenID Connect tokens, by flags or from a configuration file that is followed as it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_auth::authn::oidc::config::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator,
    PrefixedClaimOrExpression,
};
use bailiwick_auth::authn::oidc::{self, Issuers, OidcTokens, signing_algorithms};
use bailiwick_auth::authn::{Anonymous, RemoteAuthenticator};
use bailiwick_auth::keys::Algorithm;

use super::super::{Error, read};
use super::AuthenticationOptions;
use crate::background::{Background, ChangedFiles};

/// One issuer, as kube-apiserver's `--oidc-*` flags describe it.
#[derive(Clone, Debug, Default)]
pub struct OidcOptions {
    pub issuer_url: String,
    pub client_id: String,
    /// `sub` by default.
    pub username_claim: String,
    /// By default the issuer's URL and `#`, but nothing for the claim `email`; `-` for nothing.
    pub username_prefix: String,
    pub groups_claim: String,
    pub groups_prefix: String,
    /// `claim=value` pairs that a token must have.
    pub required_claims: Vec<(String, String)>,
    /// Only RS256 if empty.
    pub signing_algorithms: Vec<String>,
    /// A PEM bundle that vouches for the provider, instead of what this machine trusts.
    pub ca_file: Option<PathBuf>,
}

impl OidcOptions {
    fn configuration(&self) -> Result<AuthenticationConfiguration, Error> {
        let username_prefix = match (self.username_prefix.as_str(), self.username_claim.as_str()) {
            ("-", _) | ("", "email") => String::new(),
            ("", _) => format!("{}#", self.issuer_url),
            (prefix, _) => prefix.to_owned(),
        };
        let certificate_authority = self.ca_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let groups = match self.groups_claim.as_str() {
            "" => PrefixedClaimOrExpression::default(),
            claim => PrefixedClaimOrExpression {
                claim: claim.to_owned(),
                prefix: Some(self.groups_prefix.clone()),
                ..PrefixedClaimOrExpression::default()
            },
        };
        let rules = self.required_claims.iter().map(|(claim, value)| ClaimValidationRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimValidationRule::default()
        });
        let jwt = JwtAuthenticator {
            issuer: Issuer {
                url: self.issuer_url.clone(),
                audiences: vec![self.client_id.clone()],
                certificate_authority,
                ..Issuer::default()
            },
            claim_mappings: ClaimMappings {
                username: PrefixedClaimOrExpression {
                    claim: self.username_claim.clone(),
                    prefix: Some(username_prefix),
                    ..PrefixedClaimOrExpression::default()
                },
                groups,
                ..ClaimMappings::default()
            },
            claim_validation_rules: rules.collect(),
            ..JwtAuthenticator::default()
        };
        Ok(AuthenticationConfiguration { jwt: vec![jwt], anonymous: None })
    }

    fn algorithms(&self) -> Result<Vec<Algorithm>, Error> {
        match self.signing_algorithms.as_slice() {
            [] => Ok(vec![Algorithm::Rs256]),
            names => signing_algorithms(names).map_err(|error| Error::Authentication(error.to_string())),
        }
    }
}

impl AuthenticationOptions {
    /// Adds the configured issuers, and says what becomes of requests without credentials. `own_issuers` are those of
    /// service-account tokens.
    pub(super) fn issuers_and_anonymous(
        &self,
        own_issuers: &[String],
        audiences: &Arc<[String]>,
        remote: &mut Vec<Arc<dyn RemoteAuthenticator>>,
        background: &mut Vec<Background>,
    ) -> Result<Anonymous, Error> {
        let by_flag = || self.anonymous.clone().unwrap_or(Anonymous::Allowed);
        let invalid = |error: oidc::OidcError| Error::Authentication(error.to_string());
        match (&self.configuration, &self.oidc) {
            (None, None) => Ok(by_flag()),
            (Some(_), Some(_)) => {
                Err(Error::Authentication("authentication-config file and oidc-* flags are mutually exclusive".into()))
            }
            (None, Some(options)) => {
                let config = options.configuration()?;
                let issuers = Issuers::start(&config, options.algorithms()?, own_issuers).map_err(invalid)?;
                remote.push(Arc::new(OidcTokens::new(issuers, audiences.clone())));
                Ok(by_flag())
            }
            (Some(path), None) => {
                let config = load(path)?;
                if config.anonymous.is_some() && self.anonymous.is_some() {
                    return Err(Error::Authentication(
                        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file".into(),
                    ));
                }
                let issuers = Issuers::start(&config, Algorithm::ALL.to_vec(), own_issuers).map_err(invalid)?;
                let tokens = Arc::new(OidcTokens::new(issuers, audiences.clone()));
                remote.push(tokens.clone());
                let followed = Followed {
                    path: path.clone(),
                    anonymous: config.anonymous.clone(),
                    own_issuers: own_issuers.to_vec(),
                    tokens,
                };
                background.push(Background::spawn(followed.follow()));
                Ok(config.anonymous.as_ref().map_or_else(by_flag, anonymous))
            }
        }
    }
}

fn anonymous(config: &AnonymousConfig) -> Anonymous {
    match (config.enabled, config.conditions.as_slice()) {
        (false, _) => Anonymous::Refused,
        (true, []) => Anonymous::Allowed,
        (true, conditions) => Anonymous::Paths(conditions.iter().map(|condition| condition.path.clone()).collect()),
    }
}

fn load(path: &Path) -> Result<AuthenticationConfiguration, Error> {
    AuthenticationConfiguration::parse(&read(path)?).map_err(|error| {
        Error::Authentication(format!("failed to load authentication configuration from file {path:?}: {error}"))
    })
}

/// A configuration file and those who go by it.
struct Followed {
    path: PathBuf,
    /// As it was at the start: it takes a restart to change it, as upstream.
    anonymous: Option<AnonymousConfig>,
    own_issuers: Vec<String>,
    tokens: Arc<OidcTokens>,
}

/// What became of a changed file.
enum Taken {
    /// In use.
    Yes,
    /// It will never be right as it is.
    Never,
    /// It may work later: the file could not be read, or a provider does not answer.
    NotYet,
}

impl Followed {
    async fn follow(self) {
        let mut files = ChangedFiles::new(vec![self.path.clone()]);
        loop {
            files.changed().await;
            match self.reload().await {
                Taken::Yes => tracing::info!(path = %self.path.display(), "reloaded authentication config"),
                Taken::Never => {}
                Taken::NotYet => files.again(),
            }
        }
    }

    async fn reload(&self) -> Taken {
        let failed = |error: &dyn std::fmt::Display, what: &str| {
            tracing::error!(%error, path = %self.path.display(), "{what}; the configuration stays as it was");
        };
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) => {
                failed(&error, "failed to read authentication config file");
                return Taken::NotYet;
            }
        };
        let config = match AuthenticationConfiguration::parse(&text) {
            Ok(config) => config,
            Err(error) => {
                failed(&error, "failed to load authentication config");
                return Taken::Never;
            }
        };
        if config.anonymous != self.anonymous {
            let error = "anonymous: Forbidden: changed from initial configuration file";
            failed(&error, "failed to validate authentication config");
            return Taken::Never;
        }
        let issuers = match Issuers::start(&config, Algorithm::ALL.to_vec(), &self.own_issuers) {
            Ok(issuers) => issuers,
            Err(error) => {
                failed(&error, "failed to validate authentication config");
                return Taken::Never;
            }
        };
        if let Err(error) = issuers.ready().await {
            failed(&error, "failed to update authentication config");
            return Taken::NotYet;
        }
        self.tokens.replace(issuers);
        Taken::Yes
    }
}
