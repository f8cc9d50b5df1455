//! Tokens of other issuers: OpenID Connect, by flags or by a structured configuration that may change while we run.
//!
//! A token counts if its issuer is configured, one of the issuer's keys signed it with an allowed algorithm, it is
//! meant for one of the issuer's audiences and in time, and the mapped claims pass every rule. Answers are kept for a few
//! seconds, as upstream keeps them.

mod claims;
pub mod config;
mod expressions;
mod provider;
mod validation;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bailiwick_machinery::UserInfo;
use bailiwick_machinery::field::ErrorList;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Map as JsonMap, Value};

use self::config::{AuthenticationConfiguration, JwtAuthenticator};
use self::provider::Provider;
use self::validation::Compiled;
use super::token_memory::{TokenHash, TokenMemory, hash_of};
use super::{AuthRequest, Authentication, RemoteAuthenticator, audiences_of_agnostic, ensure_authenticated_group};
use crate::go_format::{aggregate, quoted_list};
use crate::jwt::UnverifiedToken;
use crate::keys::Algorithm;

/// How far a token's `nbf` may be ahead of our clock; upstream's value. Expiry has no leeway.
const NOT_BEFORE_LEEWAY_SECONDS: i64 = 60;
/// How long an answer holds without looking again; upstream's cache of successful token authentication.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many answers are remembered (twice this at most).
const REMEMBERED_TOKENS: usize = 4096;
/// How long a changed configuration may take until all its providers answer; upstream's value.
pub const UPDATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a configuration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error("invalid authentication configuration: {}", aggregate(&.0.iter().map(ToString::to_string).collect::<Vec<_>>()))]
    Invalid(ErrorList),
    #[error("{0}")]
    Provider(String),
    #[error("oidc: unsupported signing alg: {0:?}")]
    Algorithm(String),
}

/// The issuers of one configuration.
pub struct Issuers {
    issuers: Vec<IssuerAuthenticator>,
    algorithms: Vec<Algorithm>,
    remembered: TokenMemory<Remembered>,
}

struct IssuerAuthenticator {
    config: JwtAuthenticator,
    compiled: Compiled,
    provider: Provider,
}

struct Remembered {
    user: Arc<UserInfo>,
    until: Timestamp,
}

/// The algorithms `--oidc-signing-algs` names; all we know if it names none.
pub fn signing_algorithms(names: &[String]) -> Result<Vec<Algorithm>, OidcError> {
    if names.is_empty() {
        return Ok(Algorithm::ALL.to_vec());
    }
    names.iter().map(|name| Algorithm::from_name(name).ok_or_else(|| OidcError::Algorithm(name.clone()))).collect()
}

/// Checks a configuration without using it. `disallowed` are issuers that are our own.
pub fn validate(config: &AuthenticationConfiguration, disallowed: &[String]) -> Result<(), OidcError> {
    validation::validate(config, disallowed).map(|_| ()).map_err(OidcError::Invalid)
}

impl Issuers {
    /// Begins to use a configuration: discovery of each provider goes on in the background. Needs a tokio runtime.
    pub fn start(
        config: &AuthenticationConfiguration,
        algorithms: Vec<Algorithm>,
        disallowed: &[String],
    ) -> Result<Self, OidcError> {
        let compiled = validation::validate(config, disallowed).map_err(OidcError::Invalid)?;
        let mut issuers = Vec::with_capacity(config.jwt.len());
        for (config, compiled) in config.jwt.iter().zip(compiled) {
            let provider = Provider::start(&config.issuer).map_err(OidcError::Provider)?;
            issuers.push(IssuerAuthenticator { config: config.clone(), compiled, provider });
        }
        Ok(Self { issuers, algorithms, remembered: TokenMemory::new(REMEMBERED_TOKENS) })
    }

    /// Returns once every provider has given its keys, or after [`UPDATE_TIMEOUT`] with what is missing.
    pub async fn ready(&self) -> Result<(), OidcError> {
        /// How often we look.
        const INTERVAL: Duration = Duration::from_millis(100);
        let deadline = tokio::time::Instant::now() + UPDATE_TIMEOUT;
        loop {
            let problems: Vec<String> = self.issuers.iter().filter_map(|issuer| issuer.provider.problem()).collect();
            if problems.is_empty() {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(OidcError::Provider(aggregate(&problems)));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn authenticate(&self, token: &str, now: Timestamp) -> Result<Option<Arc<UserInfo>>, String> {
        if self.issuers.is_empty() {
            return Ok(None);
        }
        let hash: TokenHash = hash_of(token);
        if let Some(known) = self.remembered.get(&hash)
            && now < known.until
        {
            return Ok(Some(known.user.clone()));
        }
        let Some(parsed) = UnverifiedToken::parse(token) else { return Ok(None) };
        // Google once named itself without the scheme.
        let claimed = match parsed.claimed_issuer() {
            "accounts.google.com" => "https://accounts.google.com",
            other => other,
        };
        let Some(issuer) = self.issuers.iter().find(|issuer| issuer.config.issuer.url == claimed) else {
            return Ok(None);
        };
        let algorithm = parsed.claimed_algorithm();
        if !algorithm.is_some_and(|algorithm| self.algorithms.contains(&algorithm)) {
            let expected: Vec<&str> = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
            return Err(format!(
                "oidc: verify token: oidc: id token signed with unsupported algorithm, expected {} got {:?}",
                quoted_list(&expected),
                parsed.claimed_algorithm_name()
            ));
        }
        let claims: JsonMap<String, Value> = issuer.provider.verify(&parsed).await?;
        let expires = issuer.check(&claims, now)?;
        let mut user = Arc::new(claims::user(&issuer.config, &issuer.compiled, &claims)?);
        ensure_authenticated_group(&mut user);
        let until = now.saturating_add(REMEMBERED).map_or(expires, |until| until.min(expires));
        self.remembered.put(hash, Arc::new(Remembered { user: user.clone(), until }));
        Ok(Some(user))
    }
}

impl IssuerAuthenticator {
    /// Audience and time; gives when the token ends.
    fn check(&self, claims: &JsonMap<String, Value>, now: Timestamp) -> Result<Timestamp, String> {
        let offered: Vec<&str> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let wanted = &self.config.issuer.audiences;
        if !wanted.iter().any(|audience| offered.contains(&audience.as_str())) {
            let offered = quoted_list(&offered);
            return Err(match wanted.as_slice() {
                [one] => format!("oidc: verify token: oidc: expected audience {one:?} got {offered}"),
                many => {
                    let mut sorted = many.to_vec();
                    sorted.sort();
                    format!("oidc: verify token: oidc: expected audience in {} got {offered}", quoted_list(&sorted))
                }
            });
        }
        // A token without an expiry ended at the beginning of time.
        let expires = numeric_date(claims.get("exp")).unwrap_or(Timestamp::UNIX_EPOCH);
        if expires < now {
            return Err(format!(
                "oidc: verify token: oidc: token is expired (Token Expiry: {})",
                expires.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
            ));
        }
        if let Some(not_before) = numeric_date(claims.get("nbf"))
            && now.as_second().saturating_add(NOT_BEFORE_LEEWAY_SECONDS) < not_before.as_second()
        {
            let shown = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string();
            return Err(format!(
                "oidc: verify token: oidc: current time {} before the nbf (not before) time: {}",
                shown(now),
                shown(not_before)
            ));
        }
        Ok(expires)
    }
}

/// Seconds since 1970; a fraction is dropped, what is out of range is as good as for ever.
fn numeric_date(claim: Option<&Value>) -> Option<Timestamp> {
    let number = claim?;
    let seconds = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64))?;
    Some(Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX }))
}

/// Knows the bearers of tokens of whatever issuers are configured at the moment.
pub struct OidcTokens {
    issuers: ArcSwap<Issuers>,
    /// The server's own.
    audiences: Arc<[String]>,
}

impl OidcTokens {
    pub fn new(issuers: Issuers, audiences: Arc<[String]>) -> Self {
        Self { issuers: ArcSwap::from_pointee(issuers), audiences }
    }

    /// Believes these issuers from the next request on, instead of those before.
    pub fn replace(&self, issuers: Issuers) {
        self.issuers.store(Arc::new(issuers));
    }
}

impl RemoteAuthenticator for OidcTokens {
    fn authenticate<'a>(
        &'a self,
        request: &'a AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Authentication>, String>> {
        Box::pin(async move {
            let Some(token) = request.bearer_token else { return Ok(None) };
            let Some(audiences) = audiences_of_agnostic(&self.audiences, request.audiences) else { return Ok(None) };
            let issuers = self.issuers.load_full();
            let user = issuers.authenticate(token, request.now).await?;
            Ok(user.map(|user| Authentication { user, audiences }))
        })
    }
}

#[cfg(test)]
mod tests;
