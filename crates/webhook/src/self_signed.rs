//! Servers that a CA bundle vouches for. As Go does, and unlike rustls alone, a certificate that stands in the bundle itself is
//! good for its own server although it calls itself an authority: `openssl req -x509` makes such certificates.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;
use crate::endpoint::bundle_roots;

/// Verifies servers by a bundle.
#[derive(Debug)]
pub(crate) struct SelfSigned {
    usual: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl SelfSigned {
    pub fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        let roots = Arc::new(bundle_roots(pem)?);
        let usual = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        let usual = usual.map_err(|error| Error::CaBundle(error.to_string()))?;
        let bundle: Result<_, _> = rustls_pemfile::certs(&mut &*pem).collect();
        Ok(Self { usual, bundle: bundle.map_err(|error| Error::CaBundle(error.to_string()))? })
    }

    /// Whether the bundle has this very certificate, now valid and for this name.
    fn vouches_for(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<bool, rustls::Error> {
        if !self.bundle.iter().any(|known| known == certificate) {
            return Ok(false);
        }
        let encoding = || rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| encoding())?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        if !(validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&seconds) {
            return Err(rustls::Error::InvalidCertificate(CertificateError::Expired));
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(true)
    }
}

impl ServerCertVerifier for SelfSigned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let usual = self.usual.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match usual {
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.vouches_for(certificate, name, now)? =>
            {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn authority(name: &str) -> (String, CertificateDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        (certificate.pem(), certificate.der().clone())
    }

    fn verdict(bundle: &str, shown: &CertificateDer<'_>, name: &'static str) -> Result<(), rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = SelfSigned::new(bundle.as_bytes(), provider).expect("a verifier");
        let name = ServerName::try_from(name).expect("a name");
        verifier.verify_server_cert(shown, &[], &name, &[], UnixTime::now()).map(drop)
    }

    #[test]
    fn an_authority_in_the_bundle_may_serve_itself_under_its_own_name() {
        let (pem, der) = authority("api.things.svc");
        assert_eq!(verdict(&pem, &der, "api.things.svc"), Ok(()));
        assert!(verdict(&pem, &der, "other.things.svc").is_err());
        let (_, stranger) = authority("api.things.svc");
        assert!(verdict(&pem, &stranger, "api.things.svc").is_err());
    }
}
