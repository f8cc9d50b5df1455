//! An OpenID provider: where its keys are, and the keys, kept fresh.
//!
//! Discovery is retried in the background until it succeeds, so that a provider may come up after us. Keys are fetched
//! again when a token names one we do not have, but not more often than every few seconds whatever strangers send, and
//! now and then in the background, so that withdrawn keys stop to count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bailiwick_webhook::dial::Origin;
use bailiwick_webhook::{Credentials, Endpoint, Fetcher, Transport, Trust};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::config::Issuer;
use crate::jwt::UnverifiedToken;
use crate::keys::VerifyingKey;

const WELL_KNOWN_PATH: &str = "/.well-known/openid-configuration";
/// How long one request to the provider may take; upstream's value.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest discovery document or key set that is read; real ones have a few kilobytes.
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// The most keys of a set that are kept; each bad token without a key id is tried against all.
const KEYS_MAX: usize = 100;
/// How soon discovery is tried again; upstream's value.
const DISCOVERY_RETRY: Duration = Duration::from_secs(10);
/// How soon after one fetch for an unknown key the next may follow: strangers can send any key id.
const UNKNOWN_KEY_REFETCH: Duration = Duration::from_secs(5);
/// How often keys are fetched without a reason.
const BACKGROUND_REFRESH: Duration = Duration::from_secs(10 * 60);

/// A provider and its keys.
pub(super) struct Provider {
    shared: Arc<Shared>,
    /// Ends the background work with the provider.
    background: AbortHandle,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.background.abort();
    }
}

struct Shared {
    issuer: String,
    discovery_url: String,
    fetcher: Fetcher,
    keys: ArcSwapOption<KeySet>,
    /// Held while fetching, so that many requests with a new key make one fetch.
    fetching: Mutex<Fetching>,
    problem: ArcSwapOption<String>,
}

#[derive(Default)]
struct Fetching {
    for_unknown_key: Option<Instant>,
}

struct KeySet {
    jwks_uri: String,
    keys: Vec<VerifyingKey>,
    /// Until when the provider said that its keys will not change.
    fresh_until: Instant,
}

impl Provider {
    /// Begins discovery in the background.
    pub(super) fn start(issuer: &Issuer) -> Result<Self, String> {
        let trust = match issuer.certificate_authority.as_str() {
            "" => Trust::System,
            pem => Trust::Bundle(pem.as_bytes().to_vec()),
        };
        let discovery_url = match issuer.discovery_url.as_deref() {
            Some(url) if !url.is_empty() => url.to_owned(),
            _ => format!("{}{WELL_KNOWN_PATH}", issuer.url.strip_suffix('/').unwrap_or(&issuer.url)),
        };
        let endpoint = Endpoint {
            url: discovery_url.clone(),
            trust,
            identity: None,
            credentials: Credentials::None,
            server_name: None,
            transport: Transport::HttpsOnly,
            origin: Origin::Operator,
            locations: None,
        };
        let fetcher = Fetcher::new(endpoint, FETCH_TIMEOUT, DOCUMENT_BYTES_MAX).map_err(|error| error.to_string())?;
        let not_yet = format!("oidc: authenticator for issuer {:?} is not initialized", issuer.url);
        let shared = Arc::new(Shared {
            issuer: issuer.url.clone(),
            discovery_url,
            fetcher,
            keys: ArcSwapOption::empty(),
            fetching: Mutex::default(),
            problem: ArcSwapOption::from_pointee(not_yet),
        });
        let background = tokio::spawn(keep_fresh(shared.clone())).abort_handle();
        Ok(Self { shared, background })
    }

    /// Why the provider cannot be used yet; `None` once its keys are there.
    pub(super) fn problem(&self) -> Option<String> {
        self.shared
            .problem
            .load_full()
            .map(|problem| format!("oidc: authenticator for issuer {:?} is not healthy: {problem}", self.shared.issuer))
    }

    /// The claims of a token that one of the provider's keys signed.
    pub(super) async fn verify<C: DeserializeOwned>(&self, token: &UnverifiedToken<'_>) -> Result<C, String> {
        let known = self.shared.keys.load_full();
        let Some(known) = known else { return Err("oidc: authenticator not initialized".into()) };
        if let Some(claims) = verified(&known, token) {
            return Ok(claims);
        }
        if Instant::now() < known.fresh_until {
            return Err(UNVERIFIED.into());
        }
        let fetched = self.shared.refetch(&known).await?;
        verified(&fetched, token).ok_or_else(|| UNVERIFIED.into())
    }
}

const UNVERIFIED: &str = "oidc: verify token: failed to verify signature: failed to verify id token signature";

fn verified<C: DeserializeOwned>(set: &KeySet, token: &UnverifiedToken<'_>) -> Option<C> {
    let wanted = token.claimed_key_id();
    set.keys.iter().filter(|key| wanted.is_empty() || key.key_id() == wanted).find_map(|key| token.verify_any(key))
}

async fn keep_fresh(shared: Arc<Shared>) {
    loop {
        match shared.discover().await {
            Ok(()) => break,
            Err(error) => {
                tracing::warn!(issuer = shared.issuer, %error, "OpenID discovery failed, will be tried again");
                shared.problem.store(Some(Arc::new(error)));
                tokio::time::sleep(DISCOVERY_RETRY).await;
            }
        }
    }
    loop {
        tokio::time::sleep(BACKGROUND_REFRESH).await;
        if let Err(error) = shared.discover().await {
            tracing::warn!(issuer = shared.issuer, %error, "refreshing the keys of an OpenID provider failed");
        }
    }
}

impl Shared {
    /// Reads the discovery document and then the keys.
    async fn discover(&self) -> Result<(), String> {
        let fetched = self.fetcher.get(&self.discovery_url).await.map_err(|error| error.to_string())?;
        let member = |name: &str| fetched.document.get(name).and_then(Value::as_str).unwrap_or_default();
        if member("issuer") != self.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.issuer,
                member("issuer")
            ));
        }
        if member("jwks_uri").is_empty() {
            return Err("provider did not return JWKS URL".into());
        }
        let keys = self.fetch_keys(member("jwks_uri")).await?;
        self.keys.store(Some(Arc::new(keys)));
        self.problem.store(None);
        Ok(())
    }

    /// The keys after one more look, or as they are if somebody has just looked.
    async fn refetch(&self, known: &Arc<KeySet>) -> Result<Arc<KeySet>, String> {
        let mut fetching = self.fetching.lock().await;
        let current = self.keys.load_full().unwrap_or_else(|| known.clone());
        if !Arc::ptr_eq(&current, known) {
            return Ok(current);
        }
        if fetching.for_unknown_key.is_some_and(|at| at.elapsed() < UNKNOWN_KEY_REFETCH) {
            return Ok(current);
        }
        fetching.for_unknown_key = Some(Instant::now());
        let keys = self
            .fetch_keys(&current.jwks_uri)
            .await
            .map_err(|error| format!("oidc: verify token: failed to verify signature: fetching keys {error}"))?;
        let keys = Arc::new(keys);
        self.keys.store(Some(keys.clone()));
        Ok(keys)
    }

    async fn fetch_keys(&self, jwks_uri: &str) -> Result<KeySet, String> {
        let fetched = self.fetcher.get(jwks_uri).await.map_err(|error| format!("oidc: get keys failed {error}"))?;
        let listed = fetched.document.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or("oidc: failed to decode keys: there is no list of keys")?;
        // Keys of other kinds and uses stand in the same set.
        let usable = listed.iter().filter(|key| key.get("use").and_then(Value::as_str) != Some("enc"));
        let keys = usable.filter_map(|key| VerifyingKey::from_jwk(key).ok()).take(KEYS_MAX).collect();
        let header = fetched.headers.get(http::header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
        let fresh_until = Instant::now() + header.map(max_age).unwrap_or_default();
        Ok(KeySet { jwks_uri: jwks_uri.to_owned(), keys, fresh_until })
    }
}

/// How long a `Cache-Control` header lets us keep the answer.
fn max_age(header: &str) -> Duration {
    let directives = || header.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives().any(|directive| directive == "no-store" || directive == "no-cache") {
        return Duration::ZERO;
    }
    let seconds = directives().find_map(|directive| directive.strip_prefix("max-age=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default()).min(BACKGROUND_REFRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_control_says_how_long() {
        assert_eq!(max_age("public, max-age=30"), Duration::from_secs(30));
        assert_eq!(max_age("Max-Age=999999999"), BACKGROUND_REFRESH);
        assert_eq!(max_age("no-cache, max-age=30"), Duration::ZERO);
        assert_eq!(max_age("max-age=x"), Duration::ZERO);
    }
}
