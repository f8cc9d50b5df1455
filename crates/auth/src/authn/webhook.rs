//! Tokens that somebody else knows: a TokenReview is sent to a webhook and the answer kept for a while.
//!
//! As upstream, a refusal is kept as long as a success, while a failure to answer is not kept at all; many requests with
//! one unknown token make one call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_machinery::UserInfo;
use bailiwick_webhook::Webhook;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

use super::token_memory::{TokenHash, TokenMemory, hash_of_parts};
use super::{AuthRequest, Authentication, RemoteAuthenticator, TargetAudiences, ensure_authenticated_group};
use crate::jwt::MAX_TOKEN_BYTES;

/// How long the webhook may take; upstream's value.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How many answers are remembered (twice this at most).
const REMEMBERED_ANSWERS: usize = 16 * 1024;
/// How often a call that failed in passing is made, and how long to wait in between at first; upstream's values.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const WAIT_FACTOR: f64 = 1.5;

/// The version of TokenReview that the webhook speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// The version a flag names.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            other => Err(format!(
                "unsupported authentication webhook version {other:?}, supported versions are \"v1\", \"v1beta1\""
            )),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authentication.k8s.io/v1",
            Self::V1beta1 => "authentication.k8s.io/v1beta1",
        }
    }
}

/// Asks a webhook about tokens.
pub struct TokenWebhook {
    webhook: Webhook,
    version: ReviewVersion,
    /// The server's own.
    audiences: Arc<[String]>,
    /// How long answers hold; not at all if zero.
    cache_ttl: Duration,
    answers: TokenMemory<Answer>,
    asking: Mutex<HashMap<TokenHash, Arc<OnceCell<Outcome>>>>,
}

/// `None` is a refusal, an error says why there is no answer.
type Outcome = Result<Option<Authentication>, String>;

struct Answer {
    authentication: Option<Authentication>,
    until: Instant,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: User,
    audiences: Vec<String>,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl TokenWebhook {
    pub fn new(webhook: Webhook, version: ReviewVersion, audiences: Arc<[String]>, cache_ttl: Duration) -> Self {
        Self {
            webhook,
            version,
            audiences,
            cache_ttl,
            answers: TokenMemory::new(REMEMBERED_ANSWERS),
            asking: Mutex::default(),
        }
    }

    async fn review(&self, token: &str, target: TargetAudiences<'_>) -> Outcome {
        let wanted = match target {
            TargetAudiences::Server => &*self.audiences,
            TargetAudiences::Named(named) => named,
        };
        let mut spec = json!({"token": token});
        if !wanted.is_empty() {
            spec["audiences"] = wanted.into();
        }
        let review = json!({
            "apiVersion": self.version.api_version(), "kind": "TokenReview",
            "metadata": {"creationTimestamp": null}, "spec": spec, "status": {"user": {}},
        });
        let answer = self.call(&review).await?;
        let Review { status } =
            serde_json::from_value(answer).map_err(|error| format!("webhook answer is no TokenReview: {error}"))?;
        let offered = if status.audiences.is_empty() { &*self.audiences } else { &status.audiences };
        let shared: Vec<String> = wanted.iter().filter(|audience| offered.contains(audience)).cloned().collect();
        if !wanted.is_empty() && shared.is_empty() {
            return Ok(None);
        }
        if !status.authenticated {
            return if status.error.is_empty() { Ok(None) } else { Err(status.error) };
        }
        let User { username: name, uid, groups, extra } = status.user;
        let mut user = Arc::new(UserInfo { name, uid, groups, extra });
        ensure_authenticated_group(&mut user);
        let audiences = match target {
            TargetAudiences::Server => Vec::new(),
            TargetAudiences::Named(_) => shared,
        };
        Ok(Some(Authentication { user, audiences }))
    }

    async fn call(&self, review: &serde_json::Value) -> Result<serde_json::Value, String> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            match self.webhook.call(review).await {
                Ok(answer) => return Ok(answer),
                Err(error) if attempt < ATTEMPTS && error.is_transient() => {
                    tracing::warn!(%error, attempt, "the authentication webhook failed, asking again");
                    tokio::time::sleep(wait).await;
                    wait = wait.mul_f64(WAIT_FACTOR);
                    attempt += 1;
                }
                Err(error) => {
                    tracing::error!(%error, "the authentication webhook failed");
                    return Err(error.to_string());
                }
            }
        }
    }

    async fn authenticate(&self, token: &str, target: TargetAudiences<'_>) -> Outcome {
        let hash = match target {
            TargetAudiences::Server => hash_of_parts(&[token]),
            TargetAudiences::Named(named) => {
                let parts: Vec<&str> = std::iter::once(token).chain(named.iter().map(String::as_str)).collect();
                hash_of_parts(&parts)
            }
        };
        if let Some(known) = self.answers.get(&hash).filter(|known| Instant::now() < known.until) {
            return Ok(known.authentication.clone());
        }
        let cell = self.asking().entry(hash).or_default().clone();
        let outcome = cell.get_or_init(|| self.review(token, target)).await.clone();
        self.asking().remove(&hash);
        if let Ok(authentication) = &outcome
            && !self.cache_ttl.is_zero()
        {
            let until = Instant::now() + self.cache_ttl;
            self.answers.put(hash, Arc::new(Answer { authentication: authentication.clone(), until }));
        }
        outcome
    }

    fn asking(&self) -> std::sync::MutexGuard<'_, HashMap<TokenHash, Arc<OnceCell<Outcome>>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteAuthenticator for TokenWebhook {
    fn authenticate<'a>(
        &'a self,
        request: &'a AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Authentication>, String>> {
        Box::pin(async move {
            match request.bearer_token {
                Some(token) if token.len() <= MAX_TOKEN_BYTES => self.authenticate(token, request.audiences).await,
                _ => Ok(None),
            }
        })
    }
}
