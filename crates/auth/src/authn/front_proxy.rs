//! Users named by an authenticating proxy in front of us, as API aggregation does: headers that count only on a
//! connection whose client certificate one of the proxy's authorities vouches for.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use http::{HeaderMap, HeaderValue};
use rustls::RootCertStore;

use super::x509::{ClientCertificates, RootsError};
use super::{AuthRequest, Authentication, Authenticator, audiences_of_agnostic};
use crate::impersonation::unescaped;

/// `--requestheader-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxyHeaders {
    /// Common names a proxy's certificate may have; any if empty.
    pub allowed_names: Vec<String>,
    /// The first that is there and not empty names the user.
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    /// All values of all of them are groups.
    pub group_headers: Vec<String>,
    /// What follows the prefix is the key of an extra.
    pub extra_header_prefixes: Vec<String>,
}

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    #[error("empty value in {0:?}")]
    EmptyHeader(&'static str),
    #[error("requestheader-username-headers must be set when requestheader-client-ca-file is")]
    NoUsernameHeader,
    #[error(transparent)]
    Roots(#[from] RootsError),
}

/// Knows users by the word of a front proxy.
pub struct FrontProxy {
    headers: FrontProxyHeaders,
    proxies: ClientCertificates,
    audiences: Arc<[String]>,
}

impl FrontProxy {
    /// `roots` vouch for proxies; `audiences` are the server's own.
    pub fn new(
        headers: FrontProxyHeaders,
        roots: Arc<RootCertStore>,
        audiences: Arc<[String]>,
    ) -> Result<Self, FrontProxyError> {
        for (flag, names) in [
            ("requestheader-username-headers", &headers.username_headers),
            ("requestheader-uid-headers", &headers.uid_headers),
            ("requestheader-group-headers", &headers.group_headers),
            ("requestheader-extra-headers-prefix", &headers.extra_header_prefixes),
        ] {
            if names.iter().any(|name| name.trim().is_empty()) {
                return Err(FrontProxyError::EmptyHeader(flag));
            }
        }
        if headers.username_headers.is_empty() {
            return Err(FrontProxyError::NoUsernameHeader);
        }
        Ok(Self { headers, proxies: ClientCertificates::new(roots)?, audiences })
    }

    fn user(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name.trim()).map(text));
            values.find(|value| !value.is_empty())
        };
        let name = first(&self.headers.username_headers)?;
        let groups = self.headers.group_headers.iter().flat_map(|name| headers.get_all(name.trim()));
        Some(UserInfo {
            name,
            uid: first(&self.headers.uid_headers).unwrap_or_default(),
            groups: groups.map(text).filter(|group| !group.is_empty()).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.headers.extra_header_prefixes {
            let prefix = prefix.trim().to_ascii_lowercase();
            for (name, value) in headers {
                if let Some(key) = name.as_str().strip_prefix(&prefix) {
                    extra.entry(unescaped(key)).or_default().push(text(value));
                }
            }
        }
        extra
    }
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

impl Authenticator for FrontProxy {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let (Some(headers), Some(peer)) = (request.headers, request.peer.filter(|peer| !peer.is_empty())) else {
            return Ok(None);
        };
        // Most connections are not a proxy's: the headers are looked at before the certificate is.
        let Some(user) = self.user(headers) else { return Ok(None) };
        let name = self.proxies.verified_name(peer.chain(), request.now)?;
        if !self.headers.allowed_names.is_empty() && !self.headers.allowed_names.contains(&name) {
            return Err(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        let audiences = audiences_of_agnostic(&self.audiences, request.audiences);
        Ok(audiences.map(|audiences| Authentication { user: Arc::new(user), audiences }))
    }
}

#[cfg(test)]
mod tests;
