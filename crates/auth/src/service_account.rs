//! Service-account identities: their user names, the claims of their tokens, and the issuer of those tokens.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bailiwick_machinery::UserInfo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::authn::CREDENTIAL_ID_KEY;
use crate::jwt;
use crate::keys::{KeyError, SigningKey, VerifyingKey};

const USERNAME_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts.
pub const ALL_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The user name of a service account.
pub fn username(namespace: &str, name: &str) -> String {
    format!("{USERNAME_PREFIX}{namespace}:{name}")
}

/// The groups every service account of a namespace is in.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL_SERVICE_ACCOUNTS.to_owned(), format!("{ALL_SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name, when a user name is that of a service account.
pub fn split_username(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USERNAME_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

fn is_dns_label(label: &str) -> bool {
    /// RFC 1123.
    const MAX_LENGTH: usize = 63;
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    label.len() <= MAX_LENGTH
        && label.bytes().next().is_some_and(alphanumeric)
        && label.bytes().last().is_some_and(alphanumeric)
        && label.bytes().all(|b| alphanumeric(b) || b == b'-')
}

fn is_dns_subdomain(name: &str) -> bool {
    /// RFC 1123; unlike in real DNS a label of a Kubernetes name may be as long as the whole.
    const MAX_LENGTH: usize = 253;
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= MAX_LENGTH
        && name.split('.').all(|label| {
            label.bytes().next().is_some_and(alphanumeric)
                && label.bytes().last().is_some_and(alphanumeric)
                && label.bytes().all(|b| alphanumeric(b) || b == b'-')
        })
}

/// What a token check needs to know of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIdentity {
    pub uid: String,
    /// When deletion was asked for, of an object still waiting for finalizers.
    pub deletion: Option<Timestamp>,
}

/// Gives the current state of what tokens are bound to. The server implements it over its cache.
pub trait ServiceAccountGetter: Send + Sync {
    fn service_account(&self, namespace: &str, name: &str) -> Option<StoredIdentity>;
    fn secret(&self, namespace: &str, name: &str) -> Option<StoredIdentity>;
}

/// A reference inside a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The `kubernetes.io` claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaim {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default)]
    pub serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
}

/// The claims of a service-account token, in the order upstream writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    #[serde(default, deserialize_with = "numeric_date", skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    #[serde(default, deserialize_with = "numeric_date", skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    #[serde(default)]
    pub iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    #[serde(rename = "kubernetes.io", default)]
    pub kubernetes: KubernetesClaim,
    #[serde(default, deserialize_with = "numeric_date", skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    #[serde(default)]
    pub sub: String,
}

/// RFC 7519: a single audience may stand without a list.
fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<Audience>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Audience::One(one)) => vec![one],
        Some(Audience::Many(many)) => many,
    })
}

/// RFC 7519: seconds, possibly with a fraction, which is dropped.
fn numeric_date<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    // A float out of range saturates, which is as good as for ever.
    Ok(number.and_then(|n| n.as_i64().or_else(|| n.as_f64().map(|f| f as i64))))
}

impl Claims {
    /// The user such a token stands for.
    pub fn user(&self) -> UserInfo {
        let claim = &self.kubernetes;
        let mut user = UserInfo {
            name: username(&claim.namespace, &claim.serviceaccount.name),
            uid: claim.serviceaccount.uid.clone(),
            groups: groups(&claim.namespace),
            ..UserInfo::default()
        };
        if !self.jti.is_empty() {
            user.extra.insert(CREDENTIAL_ID_KEY.to_owned(), vec![credential_id(&self.jti)]);
        }
        user
    }
}

/// How a token's credential is named in user extras and audit annotations.
pub fn credential_id(jti: &str) -> String {
    format!("JTI={jti}")
}

/// Makes service-account tokens.
#[derive(Debug)]
pub struct TokenIssuer {
    /// May be replaced while we run.
    key: Arc<ArcSwap<SigningKey>>,
    issuer: String,
    audiences: Arc<[String]>,
    /// `--service-account-max-token-expiration`; longer requests are cut with a warning.
    max_expiration_seconds: Option<i64>,
}

/// A service account as a token names it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl TokenIssuer {
    /// `audiences` are the server's own, given to tokens that ask for none.
    pub fn new(key: SigningKey, issuer: String, audiences: Arc<[String]>, max_expiration_seconds: Option<i64>) -> Self {
        Self { key: Arc::new(ArcSwap::from_pointee(key)), issuer, audiences, max_expiration_seconds }
    }

    /// The same key under another name: tokens of the one are none of the other's.
    pub fn renamed(&self, issuer: String, audiences: Arc<[String]>) -> Self {
        Self { key: self.key.clone(), issuer, audiences, max_expiration_seconds: self.max_expiration_seconds }
    }

    /// Signs with this key from now on.
    pub fn replace_key(&self, key: SigningKey) {
        self.key.store(Arc::new(key));
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    pub fn max_expiration_seconds(&self) -> Option<i64> {
        self.max_expiration_seconds
    }

    /// The key that checks what this issuer signs.
    pub fn verifying_key(&self) -> VerifyingKey {
        self.key.load().verifying_key()
    }

    /// Signs a token for `subject`, optionally bound to a secret whose deletion ends it.
    pub fn issue(
        &self,
        subject: Subject<'_>,
        audiences: &[String],
        expiration_seconds: i64,
        secret: Option<Reference>,
        now: Timestamp,
    ) -> Result<IssuedToken, KeyError> {
        let issued_at = now.as_second();
        let claims = Claims {
            aud: audiences.to_vec(),
            exp: Some(issued_at.saturating_add(expiration_seconds)),
            iat: Some(issued_at),
            iss: self.issuer.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            kubernetes: KubernetesClaim {
                namespace: subject.namespace.to_owned(),
                serviceaccount: Reference { name: subject.name.to_owned(), uid: subject.uid.to_owned() },
                secret,
                ..KubernetesClaim::default()
            },
            nbf: Some(issued_at),
            sub: username(subject.namespace, subject.name),
        };
        let token = jwt::sign(&self.key.load(), &claims)?;
        Ok(IssuedToken { token, credential_id: credential_id(&claims.jti) })
    }
}

/// A new token.
pub struct IssuedToken {
    pub token: String,
    /// For the audit annotation `authentication.kubernetes.io/issued-credential-id`.
    pub credential_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usernames_split_only_when_they_could_exist() {
        assert_eq!(split_username("system:serviceaccount:ns:a.b"), Some(("ns", "a.b")));
        for bad in ["system:serviceaccount:ns", "system:serviceaccount:n.s:a", "system:serviceaccount:ns:a:b", "ns:a"] {
            assert_eq!(split_username(bad), None, "{bad}");
        }
    }

    #[test]
    fn claims_accept_what_rfc_7519_allows() {
        let claims: Claims = serde_json::from_str(r#"{"aud":"one","exp":12.9,"iss":"i","sub":"s"}"#).expect("claims");
        assert_eq!((claims.aud, claims.exp), (vec!["one".to_owned()], Some(12)));
    }
}
