//! How requests are authenticated: the options, and the authenticators and the token issuer they make.

use std::path::PathBuf;
use std::sync::Arc;

use bailiwick_auth::authn::service_account::ServiceAccountTokens;
use bailiwick_auth::authn::token_file::TokenFile;
use bailiwick_auth::authn::x509::ClientCertificates;
use bailiwick_auth::authn::{Anonymous, Authenticator, RequestAuthenticator};
use bailiwick_auth::keys::{SigningKey, VerifyingKey};
use bailiwick_auth::pki::Pki;
use bailiwick_auth::service_account::TokenIssuer;
use bailiwick_auth::tls;
use bailiwick_server::StoredObjects;
use rustls::RootCertStore;

use super::{Error, read};

/// Who gets in.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// A CSV file of static tokens.
    pub token_auth_file: Option<PathBuf>,
    /// A PEM bundle of authorities for client certificates, besides our own.
    pub client_ca_file: Option<PathBuf>,
    /// The `iss` of tokens we issue; our own URL if not set.
    pub service_account_issuer: Option<String>,
    /// What becomes of requests without credentials.
    pub anonymous: Anonymous,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            token_auth_file: None,
            client_ca_file: None,
            service_account_issuer: None,
            anonymous: Anonymous::Allowed,
        }
    }
}

/// What the options make.
pub(super) struct Authentication {
    pub authenticator: RequestAuthenticator,
    pub issuer: Arc<TokenIssuer>,
    /// Keys that verify our tokens.
    pub token_keys: Vec<VerifyingKey>,
}

impl AuthenticationOptions {
    /// The authorities that may vouch for a client.
    pub(super) fn client_roots(&self, pki: &Pki) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        tls::add_roots(&mut roots, "own CA", &pki.ca_pem)?;
        if let Some(path) = &self.client_ca_file {
            tls::add_roots(&mut roots, "--client-ca-file", &read(path)?)?;
        }
        Ok(roots)
    }

    /// Puts the authenticators together, for a server that is reached at `url`.
    pub(super) fn build(
        &self,
        pki: &Pki,
        lookup: &Arc<StoredObjects>,
        roots: RootCertStore,
        url: &str,
    ) -> Result<Authentication, Error> {
        let issuer = self.service_account_issuer.clone().unwrap_or_else(|| url.to_owned());
        let audiences: Arc<[String]> = Arc::from(vec![issuer.clone()]);
        let signing = SigningKey::from_pem(&pki.service_account_key.0)?;
        let token_keys: Vec<VerifyingKey> = vec![signing.verifying_key()];
        let mut authenticators: Vec<Box<dyn Authenticator>> = vec![Box::new(ClientCertificates::new(Arc::new(roots))?)];
        if let Some(path) = &self.token_auth_file {
            authenticators.push(Box::new(TokenFile::load(path, audiences.to_vec())?));
        }
        authenticators.push(Box::new(ServiceAccountTokens::new(
            [issuer.clone()],
            token_keys.clone(),
            audiences.clone(),
            lookup.clone(),
        )));
        Ok(Authentication {
            authenticator: RequestAuthenticator::new(authenticators, self.anonymous),
            issuer: Arc::new(TokenIssuer::new(signing, issuer, audiences, None)),
            token_keys,
        })
    }
}
