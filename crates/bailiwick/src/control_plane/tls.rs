//! How connections are protected: the options, and the TLS configuration they make.

use std::path::PathBuf;
use std::sync::Arc;

use bailiwick_auth::pki::Pki;
use bailiwick_auth::tls;
use rustls::{RootCertStore, ServerConfig};

use super::{Error, read};

/// What is served with.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificate and key to serve with, instead of our own.
    pub serving_certificate: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// The configuration of the listener; clients may show a certificate that `client_roots` vouch for.
    pub(super) fn build(&self, pki: &Pki, client_roots: &RootCertStore) -> Result<Arc<ServerConfig>, Error> {
        let (certificate, key) = match &self.serving_certificate {
            Some((certificate, key)) => (read(certificate)?, read(key)?),
            None => (pki.serving.certificate_pem.clone(), pki.serving.key_pem.clone()),
        };
        Ok(Arc::new(tls::server_config(&certificate, &key, client_roots)?))
    }
}
