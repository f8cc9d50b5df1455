//! The TLS side of the server: who we are, and asking clients who they are.
//!
//! As upstream, the handshake takes any client certificate whose holder proves possession of its key, or none; whether
//! the certificate is trusted is decided per request by [`crate::authn::x509`], which answers 401 where a refused
//! handshake would only look like a broken connection.

mod protocol;

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

pub use protocol::{Protocols, TlsVersion};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{0}: no certificate found")]
    NoCertificate(String),
    #[error("{name:?} is no cipher suite that is served with; those are: {known}")]
    CipherSuite { name: String, known: String },
    #[error("{0}: no private key found")]
    NoKey(String),
    #[error("{what}: {source}")]
    Pem { what: String, source: std::io::Error },
    #[error("{what}: {source}")]
    Rustls { what: String, source: rustls::Error },
}

/// HTTP/2 first, as clients with many watches want it.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Builds the server's configuration from PEM texts. `client_roots` are only announced to clients, so that those with
/// several certificates choose well.
pub fn server_config(
    certificate_pem: &str,
    key_pem: &str,
    client_roots: &RootCertStore,
    protocols: &Protocols,
) -> Result<ServerConfig, TlsError> {
    let what = "serving certificate";
    let chain = certificates_from_pem(what, certificate_pem)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(what.into()));
    }
    let key = private_key_from_pem(what, key_pem)?;
    let mut provider = rustls::crypto::ring::default_provider();
    // AES-128 first, as Go's servers choose: ten rounds per block, not the fourteen of the AES-256 that rustls clients prefer.
    provider.cipher_suites.retain(|suite| protocols.has(suite));
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let provider = Arc::new(provider);
    let fail = |source| TlsError::Rustls { what: what.into(), source };
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(protocols.versions())
        .map_err(fail)?
        .with_client_cert_verifier(Arc::new(AnyClientCertificate::new(&provider, client_roots)))
        .with_single_cert(chain, key)
        .map_err(fail)?;
    config.ignore_client_order = true;
    config.alpn_protocols = ALPN.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// The certificates of a PEM file, in order; other blocks are skipped.
pub fn certificates_from_pem(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    rustls_pemfile::certs(&mut pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::Pem { what: what.into(), source })
}

/// The trust anchors of a PEM bundle, such as `--client-ca-file`.
pub fn add_roots(roots: &mut RootCertStore, what: &str, pem: &str) -> Result<(), TlsError> {
    let certificates = certificates_from_pem(what, pem)?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(what.into()));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|source| TlsError::Rustls { what: what.into(), source })?;
    }
    Ok(())
}

fn private_key_from_pem(what: &str, pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    rustls_pemfile::private_key(&mut pem.as_bytes())
        .map_err(|source| TlsError::Pem { what: what.into(), source })?
        .ok_or_else(|| TlsError::NoKey(what.into()))
}

/// Takes every certificate whose key the client holds.
#[derive(Debug)]
struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    hints: Vec<DistinguishedName>,
}

impl AnyClientCertificate {
    fn new(provider: &CryptoProvider, roots: &RootCertStore) -> Self {
        Self { algorithms: provider.signature_verification_algorithms, hints: roots.subjects() }
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
