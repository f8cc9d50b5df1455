//! One GET at a time, over TLS or not, through a [`Dialer`]: nothing is kept open, nothing is followed, and no more is read
//! than the caller allows. RDAP, files that prove ownership and settings of Domain Connect are read with it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, EXPIRES, HOST, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::dial::{DialError, Dialer};

/// Who asks, so that operators of servers can find us.
const AGENT: &str =
    concat!("bailiwick-domains/", env!("CARGO_PKG_VERSION"), " (+https://github.com/bailiwick/bailiwick)");

/// From the first packet to the last byte.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether plain HTTP will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    HttpsOnly,
    /// For files on a site that may not have a certificate yet.
    HttpAllowed,
}

/// What is asked for and how much of it is read.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub accept: &'static str,
    pub scheme: Scheme,
    pub bytes_max: usize,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// The address that answered.
    pub address: Option<IpAddr>,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<RetryAfter>,
    /// How long the answer may be kept.
    pub expires: Option<Timestamp>,
    pub body: Vec<u8>,
}

/// `Retry-After`, as a time of day or as a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    At(Timestamp),
    In(SignedDuration),
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{0:?} is no URL that is followed: {1}")]
    Url(String, &'static str),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no secure connection: {0}")]
    Tls(String),
    #[error("{0}")]
    Exchange(String),
    #[error("no answer within {} seconds", ANSWER_TIMEOUT.as_secs())]
    Timeout,
    #[error("the answer, with status {status}, is longer than {bytes_max} bytes")]
    TooLong { status: u16, bytes_max: usize },
    #[error("the certificate authorities in {file} cannot be used: {reason}")]
    Authorities { file: String, reason: String },
}

/// Gets documents.
#[derive(Clone)]
pub struct HttpClient {
    dialer: Dialer,
    tls: TlsConnector,
}

impl HttpClient {
    /// Trusts the authorities in `ca_file`, or those of this machine.
    pub fn new(dialer: Dialer, ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let roots = authorities(ca_file)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { dialer, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// The same from another vantage point.
    pub fn seen_from(&self, dialer: Dialer) -> Self {
        Self { dialer, tls: self.tls.clone() }
    }

    /// Gets one document. Redirects are answers.
    pub async fn get(&self, url: &str, ask: Ask) -> Result<Reply, HttpError> {
        let target = Target::parse(url, ask.scheme)?;
        tokio::time::timeout(ANSWER_TIMEOUT, self.exchange(&target, ask)).await.map_err(|_| HttpError::Timeout)?
    }

    async fn exchange(&self, target: &Target, ask: Ask) -> Result<Reply, HttpError> {
        let (stream, address) = self.dialer.connect(&target.host, target.port).await?;
        let reply = if target.secure {
            let name = ServerName::try_from(target.host.clone()).map_err(|error| HttpError::Tls(error.to_string()))?;
            let stream = self.tls.connect(name, stream).await.map_err(|error| HttpError::Tls(error.to_string()))?;
            send(stream, target, ask).await?
        } else {
            send(stream, target, ask).await?
        };
        Ok(Reply { address: Some(address), ..reply })
    }
}

fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, HttpError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unusable = |reason: String| HttpError::Authorities { file: path.display().to_string(), reason };
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    for certificate in rustls_pemfile::certs(&mut pem.as_slice()) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    Ok(roots)
}

/// A URL that may be followed.
struct Target {
    secure: bool,
    host: String,
    port: u16,
    /// As the `Host` header has it.
    authority: String,
    path: String,
}

impl Target {
    fn parse(url: &str, scheme: Scheme) -> Result<Self, HttpError> {
        let refused = |reason: &'static str| HttpError::Url(url.chars().take(URL_SHOWN_CHARS).collect(), reason);
        let uri: Uri = url.parse().map_err(|_| refused("it cannot be read"))?;
        let secure = match (uri.scheme_str(), scheme) {
            (Some("https"), _) => true,
            (Some("http"), Scheme::HttpAllowed) => false,
            _ => return Err(refused("it is not https")),
        };
        let authority = uri.authority().ok_or_else(|| refused("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it has a user"));
        }
        Ok(Self {
            secure,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

/// What messages repeat of a URL that a stranger sent.
const URL_SHOWN_CHARS: usize = 200;

async fn send<S>(stream: S, target: &Target, ask: Ask) -> Result<Reply, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: &dyn std::fmt::Display| HttpError::Exchange(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let request = Request::get(&target.path)
        .header(HOST, &target.authority)
        .header(ACCEPT, ask.accept)
        .header(USER_AGENT, AGENT)
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| failed(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let body = Limited::new(body, ask.bytes_max).collect().await.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                HttpError::TooLong { status, bytes_max: ask.bytes_max }
            } else {
                failed(&error)
            }
        })?;
        Ok(reply(status, &parts.headers, body.to_bytes().to_vec()))
    };
    // The connection is driven beside the exchange and dropped with it.
    let mut connection = std::pin::pin!(connection);
    let mut exchange = std::pin::pin!(exchange);
    let mut driven = false;
    loop {
        tokio::select! {
            biased;
            done = &mut exchange => return done,
            _ = &mut connection, if !driven => driven = true,
        }
    }
}

fn reply(status: u16, headers: &HeaderMap, body: Vec<u8>) -> Reply {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    Reply {
        status,
        address: None,
        location: text(LOCATION).map(str::to_owned),
        retry_after: text(RETRY_AFTER).and_then(retry_after),
        expires: text(EXPIRES).and_then(http_date),
        body,
    }
}

fn retry_after(text: &str) -> Option<RetryAfter> {
    match text.parse::<u32>() {
        Ok(seconds) => Some(RetryAfter::In(SignedDuration::from_secs(i64::from(seconds)))),
        Err(_) => http_date(text).map(RetryAfter::At),
    }
}

/// `Fri, 06 Jul 2029 13:58:57 GMT`
fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp())
}

/// Where a redirect from `base` leads: absolute, or a path on the same host.
pub fn join(base: &str, location: &str) -> Option<String> {
    if location.contains("://") {
        return Some(location.to_owned());
    }
    let uri: Uri = base.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    if let Some(other) = location.strip_prefix("//") {
        return Some(format!("{scheme}://{other}"));
    }
    if location.starts_with('/') {
        return Some(format!("{scheme}://{authority}{location}"));
    }
    let directory = uri.path().rsplit_once('/').map_or("", |(directory, _)| directory);
    Some(format!("{scheme}://{authority}{directory}/{location}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_without_tricks_are_followed() {
        let refusal = |url: &str, scheme| Target::parse(url, scheme).err().map(|error| error.to_string());
        assert_eq!(refusal("https://rdap.example/domain/x", Scheme::HttpsOnly), None);
        assert_eq!(
            refusal("http://rdap.example/", Scheme::HttpsOnly).as_deref(),
            Some("\"http://rdap.example/\" is no URL that is followed: it is not https")
        );
        assert_eq!(refusal("http://site.example/", Scheme::HttpAllowed), None);
        assert!(refusal("https://good.example@127.0.0.1/", Scheme::HttpsOnly).is_some());
        assert!(refusal("file:///etc/passwd", Scheme::HttpAllowed).is_some());
        assert!(refusal("gopher://x/", Scheme::HttpAllowed).is_some());
    }

    #[test]
    fn redirects_are_joined_to_where_they_come_from() {
        let base = "https://rdap.example/v1/domain/q7.io";
        assert_eq!(join(base, "https://other.example/x").as_deref(), Some("https://other.example/x"));
        assert_eq!(join(base, "/x").as_deref(), Some("https://rdap.example/x"));
        assert_eq!(join(base, "//other.example/x").as_deref(), Some("https://other.example/x"));
        assert_eq!(join(base, "q8.io").as_deref(), Some("https://rdap.example/v1/domain/q8.io"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("7"), Some(RetryAfter::In(SignedDuration::from_secs(7))));
        let at = "2029-07-06T13:58:57Z".parse().expect("a time");
        assert_eq!(retry_after("Fri, 06 Jul 2029 13:58:57 GMT"), Some(RetryAfter::At(at)));
        assert_eq!(retry_after("soon"), None);
    }
}
