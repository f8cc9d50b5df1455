//! From credentials to a user.
//!
//! [`RequestAuthenticator`] asks its authenticators in order and takes the first that knows the caller. A credential
//! that is shown but known to nobody is an error (401), never anonymity.

pub mod bearer;
pub mod bootstrap;
mod csv;
pub mod front_proxy;
pub mod oidc;
pub mod service_account;
pub mod token_file;
mod token_memory;
pub mod webhook;
pub mod x509;

use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use futures::future::BoxFuture;
use http::HeaderMap;
use jiff::Timestamp;

pub use x509::PeerCertificates;

use crate::go_format::aggregate;

/// The extra key under which a user's credential is identified.
pub const CREDENTIAL_ID_KEY: &str = "authentication.kubernetes.io/credential-id";

/// The audiences a token must be meant for.
#[derive(Clone, Copy, Debug)]
pub enum TargetAudiences<'a> {
    /// Ours: an ordinary request.
    Server,
    /// Somebody else's, named by a TokenReview.
    Named(&'a [String]),
}

/// What a request shows of its sender.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    pub bearer_token: Option<&'a str>,
    pub peer: Option<&'a PeerCertificates>,
    /// For the names a front proxy gives; `None` where a token alone is looked at.
    pub headers: Option<&'a HeaderMap>,
    /// What is asked for: some paths are open to everybody.
    pub path: &'a str,
    pub audiences: TargetAudiences<'a>,
    pub now: Timestamp,
}

/// A successful authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    pub user: Arc<UserInfo>,
    /// Those of the [`TargetAudiences::Named`] audiences the credential is good for; empty where audiences mean nothing.
    pub audiences: Vec<String>,
}

/// Why nobody was authenticated. The text is for logs and TokenReviews; the caller of a request sees 401 only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("no credentials provided")]
    NoCredentials,
    #[error("{}", aggregate(.0))]
    Refused(Vec<String>),
}

/// One way of recognising callers, answered from memory. `Ok(None)` is for credentials of another kind or of another
/// issuer; an error is for a credential of this kind that is bad, with what is wrong with it.
pub trait Authenticator: Send + Sync {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String>;
}

/// One way of recognising callers that may have to ask somebody else. Asked after all [`Authenticator`]s.
pub trait RemoteAuthenticator: Send + Sync {
    fn authenticate<'a>(
        &'a self,
        request: &'a AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Authentication>, String>>;
}

/// What becomes of requests without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// They come from `system:anonymous`.
    Allowed,
    /// They come from `system:anonymous` if they ask for one of these paths, and are refused elsewhere.
    Paths(Vec<String>),
    /// They are refused.
    Refused,
}

impl Anonymous {
    fn allows(&self, path: &str) -> bool {
        match self {
            Self::Allowed => true,
            Self::Paths(paths) => paths.iter().any(|allowed| allowed == path),
            Self::Refused => false,
        }
    }
}

/// The whole of authentication: local authenticators in order, then remote ones, then anonymity.
pub struct RequestAuthenticator {
    local: Vec<Box<dyn Authenticator>>,
    remote: Vec<Arc<dyn RemoteAuthenticator>>,
    anonymous: Anonymous,
    anonymous_user: Arc<UserInfo>,
}

impl RequestAuthenticator {
    pub fn new(local: Vec<Box<dyn Authenticator>>, anonymous: Anonymous) -> Self {
        Self { local, remote: Vec::new(), anonymous, anonymous_user: Arc::new(UserInfo::anonymous()) }
    }

    /// Asks these too, in order, about bearer tokens that no local authenticator knows.
    #[must_use]
    pub fn with_remote(mut self, remote: Vec<Arc<dyn RemoteAuthenticator>>) -> Self {
        self.remote = remote;
        self
    }

    /// Who sent this request.
    pub async fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Authentication, AuthError> {
        let mut errors = Vec::new();
        for authenticator in &self.local {
            match authenticator.authenticate(request) {
                Ok(Some(mut authentication)) => {
                    ensure_authenticated_group(&mut authentication.user);
                    return Ok(authentication);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        let shows_token = request.bearer_token.is_some_and(|token| !token.is_empty());
        for authenticator in self.remote.iter().filter(|_| shows_token) {
            match authenticator.authenticate(request).await {
                Ok(Some(mut authentication)) => {
                    ensure_authenticated_group(&mut authentication.user);
                    return Ok(authentication);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if shows_token {
            errors.insert(0, "invalid bearer token".to_owned());
        }
        if !errors.is_empty() {
            return Err(AuthError::Refused(errors));
        }
        if self.anonymous.allows(request.path) {
            return Ok(Authentication { user: self.anonymous_user.clone(), audiences: Vec::new() });
        }
        Err(AuthError::NoCredentials)
    }
}

/// Adds `system:authenticated` unless the credential already speaks of being authenticated or not. Authenticators that
/// keep their users do this once, so that requests share one user.
pub(crate) fn ensure_authenticated_group(user: &mut Arc<UserInfo>) {
    let decided = |group: &String| group == UserInfo::AUTHENTICATED || group == UserInfo::UNAUTHENTICATED;
    if user.name != UserInfo::ANONYMOUS && !user.groups.iter().any(decided) {
        Arc::make_mut(user).groups.push(UserInfo::AUTHENTICATED.to_owned());
    }
}

/// For credentials that carry no audience: good for ours, and so for those named ones that are ours too.
pub(crate) fn audiences_of_agnostic(ours: &[String], target: TargetAudiences<'_>) -> Option<Vec<String>> {
    match target {
        TargetAudiences::Server => Some(Vec::new()),
        TargetAudiences::Named(named) => {
            let shared: Vec<String> = named.iter().filter(|audience| ours.contains(audience)).cloned().collect();
            (!shared.is_empty()).then_some(shared)
        }
    }
}

#[cfg(test)]
mod tests;
