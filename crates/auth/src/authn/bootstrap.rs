//! Bootstrap tokens: `<id>.<secret>`, kept in Secrets of type `bootstrap.kubernetes.io/token` in kube-system, for machines
//! that have nothing else to show yet. Good for as long as their Secret says, and gone with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::{AuthRequest, Authentication, Authenticator, audiences_of_agnostic};

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Where the Secrets are.
pub const NAMESPACE: &str = "kube-system";
/// Before the id in a Secret's name.
const NAME_PREFIX: &str = "bootstrap-token-";
const USER_PREFIX: &str = "system:bootstrap:";
/// Everybody who comes with such a token is in it; further groups begin with it and a colon.
const GROUP: &str = "system:bootstrappers";
const ID_CHARS: usize = 6;
const SECRET_CHARS: usize = 16;
/// The longest name of a further group after its prefix.
const GROUP_CHARS_MAX: usize = 256;

/// Reads stored Secrets. The server implements it over its cache.
pub trait SecretGetter: Send + Sync {
    /// The JSON of a Secret.
    fn secret_json(&self, namespace: &str, name: &str) -> Option<Vec<u8>>;
}

/// Knows the bearers of bootstrap tokens.
pub struct BootstrapTokens {
    secrets: Arc<dyn SecretGetter>,
    audiences: Arc<[String]>,
}

#[derive(Deserialize)]
struct Secret {
    metadata: Metadata,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

/// Values are in base64.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Data {
    token_id: String,
    token_secret: String,
    expiration: String,
    usage_bootstrap_authentication: String,
    auth_extra_groups: String,
}

impl BootstrapTokens {
    /// `audiences` are the server's own.
    pub fn new(secrets: Arc<dyn SecretGetter>, audiences: Arc<[String]>) -> Self {
        Self { secrets, audiences }
    }

    /// The user a token stands for; why not goes to the log, never with what the Secret holds.
    fn user(&self, id: &str, secret: &str, now: Timestamp) -> Option<UserInfo> {
        let name = format!("{NAME_PREFIX}{id}");
        let json = self.secrets.secret_json(NAMESPACE, &name)?;
        let stored: Secret = serde_json::from_slice(&json).ok()?;
        match stored.user(id, secret, now) {
            Ok(user) => Some(user),
            Err(reason) => {
                tracing::debug!(secret = name, reason, "a bootstrap token is refused");
                None
            }
        }
    }
}

impl Authenticator for BootstrapTokens {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let Some((id, secret)) = request.bearer_token.and_then(parse) else { return Ok(None) };
        let Some(audiences) = audiences_of_agnostic(&self.audiences, request.audiences) else { return Ok(None) };
        let user = self.user(id, secret, request.now);
        Ok(user.map(|user| Authentication { user: Arc::new(user), audiences }))
    }
}

impl Secret {
    fn user(self, id: &str, secret: &str, now: Timestamp) -> Result<UserInfo, &'static str> {
        if self.metadata.deletion_timestamp.is_some() {
            return Err("the Secret is being deleted");
        }
        let data = self.data.filter(|_| self.kind == SECRET_TYPE).ok_or("the Secret is of another type")?;
        // Compared by hash, so that time tells nothing of how much of it was right.
        let hash = |text: &str| digest(&SHA256, text.as_bytes());
        if hash(&text(&data.token_secret)).as_ref() != hash(secret).as_ref() {
            return Err("token-secret is another");
        }
        if text(&data.token_id) != id {
            return Err("token-id is another");
        }
        if has_expired(&text(&data.expiration), now) {
            return Err("it has expired");
        }
        if text(&data.usage_bootstrap_authentication) != "true" {
            return Err("usage-bootstrap-authentication is not true");
        }
        let groups = groups(&text(&data.auth_extra_groups)).ok_or("auth-extra-groups has no group of bootstrappers")?;
        Ok(UserInfo { name: format!("{USER_PREFIX}{id}"), groups, ..UserInfo::default() })
    }
}

/// Id and secret of what looks like a bootstrap token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let is_part = |text: &str, chars: usize| {
        text.len() == chars && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    token.split_once('.').filter(|(id, secret)| is_part(id, ID_CHARS) && is_part(secret, SECRET_CHARS))
}

fn text(base64: &str) -> String {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Whether a Secret's `expiration` is over; a time that cannot be read is. None holds for ever.
fn has_expired(expiration: &str, now: Timestamp) -> bool {
    !expiration.is_empty() && expiration.parse::<Timestamp>().map_or(true, |end| end <= now)
}

/// All groups, sorted; `None` if one has no right to be named.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let rest = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b':' | b'-');
        let ends_well = rest.bytes().last().is_some_and(|last| last.is_ascii_lowercase() || last.is_ascii_digit());
        if rest.len() > GROUP_CHARS_MAX || !rest.bytes().all(is_allowed) || !ends_well {
            return None;
        }
        groups.insert(group);
    }
    Some(groups.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
