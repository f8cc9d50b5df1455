//! What is behind an address: the certificate that a name gets there, whether it is the right one, and whether the service
//! answers. Only public addresses are called; a wrong certificate is looked at but nothing is sent over its connection. What
//! several places see of one address is put together in [`places`].

pub mod places;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use ring::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsConnector;
use x509_parser::extensions::GeneralName;

use crate::engine::Engine;
use crate::transport::Failure;

/// A handshake or a first byte that takes longer is a failure to a user too.
const PATIENCE: Duration = Duration::from_secs(4);
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;
/// Names of a certificate that are kept.
const MAX_NAMES: usize = 100;
/// Names of a certificate that a sentence repeats.
const NAMES_TOLD: usize = 4;

/// A certificate as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The names it is for.
    pub names: Vec<String>,
    /// What tells it apart from another one for the same names.
    pub sha256: String,
    /// Who issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Why a browser would refuse it; nothing when it would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What is behind one address, as one place sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The certificate, if a handshake got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// The status of `GET /`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// How long the whole took, in milliseconds.
    pub elapsed_ms: f64,
    /// In a sentence.
    pub verdict: String,
    /// Whether a visitor would be served.
    pub is_ready: bool,
}

/// Calls an address as a browser that wants `host` would.
pub async fn look(engine: &Engine, host: &str, address: IpAddr) -> Endpoint {
    let begin = tokio::time::Instant::now();
    let mut endpoint = Endpoint {
        address,
        certificate: None,
        http_status: None,
        elapsed_ms: 0.0,
        verdict: String::new(),
        is_ready: false,
    };
    if !engine.may_ask(address) {
        endpoint.verdict = "not called: not a public address".to_owned();
        return endpoint;
    }
    let called = tokio::time::timeout(PATIENCE, call(engine, host, address, &mut endpoint)).await;
    let outcome = called.unwrap_or_else(|_| Err("does not answer in time".to_owned()));
    endpoint.elapsed_ms = begin.elapsed().as_secs_f64() * 1000.0;
    endpoint.verdict = match (outcome, endpoint.http_status) {
        (Err(problem), _) => problem,
        (Ok(()), Some(status)) if status < 500 => {
            endpoint.is_ready = true;
            format!("TLS ok, HTTP {status}")
        }
        (Ok(()), Some(status)) => format!("TLS ok, but the service answers {status}"),
        (Ok(()), None) => "TLS ok, but no HTTP answer".to_owned(),
    };
    endpoint
}

async fn call(engine: &Engine, host: &str, address: IpAddr, endpoint: &mut Endpoint) -> Result<(), String> {
    let stream =
        engine.transport().connect(SocketAddr::new(address, HTTPS_PORT)).await.map_err(|failure| match failure {
            Failure::PortClosed => "nothing listens on port 443".to_owned(),
            other => format!("cannot be reached: {other}"),
        })?;
    let verifier = Arc::new(Witness::new(engine)?);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    endpoint.certificate = verifier.seen();
    let stream = stream.map_err(|error| format!("TLS fails: {error}"))?;
    if let Some(Certificate { problem: Some(problem), .. }) = &endpoint.certificate {
        return Err(problem.clone());
    }
    let http = |error: hyper::Error| format!("HTTP fails: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let request =
        Request::get("/").header("host", host).header("user-agent", "bailiwick-dns").body(Empty::<bytes::Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let response = sender.send_request(request);
    tokio::pin!(connection, response);
    let response = tokio::select! {
        response = &mut response => response,
        // A server may close as soon as it has answered; the answer has been taken in by then.
        _ = &mut connection => response.await,
    };
    let response = response.map_err(http)?;
    endpoint.http_status = Some(response.status().as_u16());
    Ok(())
}

/// Lets every certificate pass and remembers what a strict client would have said.
#[derive(Debug)]
struct Witness {
    strict: Arc<WebPkiServerVerifier>,
    seen: Mutex<Option<Certificate>>,
}

impl Witness {
    fn new(engine: &Engine) -> Result<Self, String> {
        let roots = Arc::new(engine.transport().authorities()?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let strict = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        Ok(Self { strict: strict.map_err(|error| error.to_string())?, seen: Mutex::new(None) })
    }

    fn seen(&self) -> Option<Certificate> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.strict.verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        let (names, issuer, expires) = read(end_entity);
        let problem = judged.err().map(|error| explain(&error, server_name, &names, expires));
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Certificate { names, sha256: fingerprint(end_entity), issuer, expires, problem });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.strict.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.strict.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

fn explain(error: &rustls::Error, host: &ServerName<'_>, names: &[String], expires: Option<Timestamp>) -> String {
    use rustls::CertificateError;
    let rustls::Error::InvalidCertificate(reason) = error else {
        return format!("the certificate is refused: {error}");
    };
    match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is for {}, not for {}", names_text(names), host.to_str())
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => match expires {
            Some(expires) => format!("the certificate ended on {}", expires.strftime("%F")),
            None => "the certificate has ended".to_owned(),
        },
        CertificateError::UnknownIssuer => "the certificate is from nobody whom browsers trust".to_owned(),
        other => format!("the certificate is refused: {other}"),
    }
}

/// The first names of a certificate, and how many more there are.
pub(crate) fn names_text(names: &[String]) -> String {
    if names.is_empty() {
        return "no names".to_owned();
    }
    let more = names.len().saturating_sub(NAMES_TOLD);
    let told = names.iter().take(NAMES_TOLD).cloned();
    told.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>().join(", ")
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    digest::digest(&digest::SHA256, certificate).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(certificate: &CertificateDer<'_>) -> (Vec<String>, Option<String>, Option<Timestamp>) {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return (Vec::new(), None, None) };
    let issuer = parsed.issuer();
    let issuer = issuer.iter_organization().chain(issuer.iter_common_name()).find_map(|name| name.as_str().ok());
    let issuer = issuer.map(str::to_owned);
    let expires = Timestamp::from_second(parsed.validity().not_after.timestamp()).ok();
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| names.value.general_names.iter());
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    (names.take(MAX_NAMES).collect(), issuer, expires)
}
