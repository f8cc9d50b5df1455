//! Where a webhook is and how both sides prove who they are: trusted authorities, our certificate, our token.

use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::Error;
use crate::dial::{Dialer, Origin};
use crate::self_signed::SelfSigned;
use crate::services::{Locations, ServiceRef};

/// Who may vouch for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities in this PEM text.
    Bundle(Vec<u8>),
    /// The authorities this machine trusts.
    System,
    /// Nobody needs to: `insecure-skip-tls-verify`.
    Anybody,
}

/// A certificate to show, with its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// What goes into the `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    None,
    Bearer(String),
    /// A bearer token that others may replace: read again for every call.
    BearerFile(PathBuf),
    Basic {
        username: String,
        password: String,
    },
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer(…)",
            Self::BearerFile(_) => "BearerFile(…)",
            Self::Basic { .. } => "Basic(…)",
        })
    }
}

/// Whether plain HTTP will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    HttpsOnly,
    /// As upstream takes it from an operator's own kubeconfig.
    HttpAllowed,
}

/// A server to talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    pub trust: Trust,
    pub identity: Option<Identity>,
    pub credentials: Credentials,
    /// The name its certificate must have, instead of the URL's host.
    pub server_name: Option<String>,
    pub transport: Transport,
    /// Who chose it, which decides where it may be.
    pub origin: Origin,
    /// Where to connect, instead of the URL's host; their own origin counts.
    pub locations: Option<Locations>,
}

/// The versions of HTTP that are spoken to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersions {
    /// Only HTTP/1.1, which alone can be upgraded.
    Http1,
    /// What the server prefers of 1.1 and 2.
    All,
}

impl Endpoint {
    /// A server at `url` whose certificate `ca_bundle` vouches for; it learns nothing of us.
    pub fn vouched(url: &str, ca_bundle: &[u8]) -> Self {
        Self {
            url: url.to_owned(),
            trust: Trust::Bundle(ca_bundle.to_vec()),
            identity: None,
            credentials: Credentials::None,
            server_name: None,
            transport: Transport::HttpsOnly,
            origin: Origin::Tenant,
            locations: None,
        }
    }

    /// A service that is really at `locations`; messages name it as a client within a cluster would.
    pub fn of_service(service: &ServiceRef, path: &str, locations: Locations, ca_bundle: &[u8]) -> Self {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("https://{}:{}{slash}{path}", service.server_name(), service.port);
        Self { locations: Some(locations), ..Self::vouched(&url, ca_bundle) }
    }

    pub(crate) fn connector(&self, versions: HttpVersions) -> Result<HttpsConnector<Dialer>, Error> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls()?);
        let builder = match self.transport {
            Transport::HttpsOnly => builder.https_only(),
            Transport::HttpAllowed => builder.https_or_http(),
        };
        let builder = match &self.server_name {
            None => builder,
            Some(name) => {
                let name = ServerName::try_from(name.clone()).map_err(|error| self.unusable(&error))?;
                builder.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
        };
        let dialer = Dialer::new(self.origin, self.locations.clone());
        Ok(match versions {
            HttpVersions::Http1 => builder.enable_http1().wrap_connector(dialer),
            HttpVersions::All => builder.enable_all_versions().wrap_connector(dialer),
        })
    }

    /// The value of the `Authorization` header, if there is to be one.
    pub async fn authorization(&self) -> Result<Option<HeaderValue>, Error> {
        use base64::Engine;
        let text = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Bearer(token) => format!("Bearer {token}"),
            Credentials::BearerFile(path) => {
                let unreadable = |error: std::io::Error| Error::Credentials(format!("{}: {error}", path.display()));
                let token = tokio::fs::read_to_string(path).await.map_err(unreadable)?;
                format!("Bearer {}", token.trim())
            }
            Credentials::Basic { username, password } => {
                let pair = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
                format!("Basic {pair}")
            }
        };
        let mut value =
            HeaderValue::try_from(text).map_err(|_| Error::Credentials("the token is no header value".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Url(self.url.clone(), error.to_string())
    }

    fn tls(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unusable(&error))?;
        let builder = match &self.trust {
            Trust::Bundle(pem) => {
                let verifier = SelfSigned::new(pem, provider)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Trust::System => builder.with_root_certificates(system_roots()),
            Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        };
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => {
                let chain: Result<Vec<_>, _> = rustls_pemfile::certs(&mut &*identity.certificate_pem).collect();
                let chain = chain.map_err(|error| Error::Credentials(format!("client certificate: {error}")))?;
                let key = rustls_pemfile::private_key(&mut &*identity.key_pem)
                    .map_err(|error| Error::Credentials(format!("client key: {error}")))?
                    .ok_or_else(|| Error::Credentials("client key: no private key found".into()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| Error::Credentials(format!("client certificate: {error}")))
            }
        }
    }
}

pub(crate) fn bundle_roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut &*pem) {
        let certificate = certificate.map_err(|error| Error::CaBundle(error.to_string()))?;
        roots.add(certificate).map_err(|error| Error::CaBundle(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(Error::CaBundle("nothing can vouch for the webhook".into()));
    }
    Ok(roots)
}

/// What the machine trusts; certificates that cannot be read vouch for nobody.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Takes any certificate whose key the server holds.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
