//! Why a connection failed, in the words of Go's network library, which operators of webhooks know from kube-apiserver.

use std::error::Error;
use std::io;

/// The innermost cause that says what happened.
pub(crate) fn of(error: &(dyn Error + 'static), url: &str) -> String {
    let mut innermost = error;
    loop {
        if let Some(tls) = innermost.downcast_ref::<rustls::Error>() {
            return tls_reason(tls);
        }
        if let Some(io) = innermost.downcast_ref::<io::Error>() {
            // An io::Error hides what it wraps from `source`.
            if let Some(tls) = wrapped_tls(io) {
                return tls_reason(tls);
            }
            match io.kind() {
                io::ErrorKind::ConnectionRefused => {
                    return format!("dial tcp {}: connect: connection refused", authority(url));
                }
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => return "EOF".to_owned(),
                _ => {}
            }
        }
        match innermost.source() {
            Some(source) => innermost = source,
            None => return innermost.to_string(),
        }
    }
}

fn wrapped_tls(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    inner.downcast_ref::<rustls::Error>().or_else(|| wrapped_tls(inner.downcast_ref::<io::Error>()?))
}

fn tls_reason(error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
    };
    match error {
        // A signature is bad where an authority of the same name has another key.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid".to_owned()
        }
        rustls::Error::InvalidCertificate(NotValidForNameContext { expected, presented }) => {
            format!("tls: failed to verify certificate: x509: {}", names_reason(presented, &expected.to_str()))
        }
        rustls::Error::InvalidCertificate(NotValidForName) => {
            "tls: failed to verify certificate: x509: certificate is not valid for this name".to_owned()
        }
        other => format!("tls: {other}"),
    }
}

/// What a certificate is good for instead; `presented` are names with their kinds around them.
fn names_reason(presented: &[String], wanted: &str) -> String {
    let dns = |name: &String| Some(name.strip_prefix("DnsName(\"")?.strip_suffix("\")")?.to_owned());
    let names: Vec<String> = presented.iter().filter_map(dns).collect();
    match names.is_empty() {
        true => format!("certificate is not valid for any names, but wanted to match {wanted}"),
        false => format!("certificate is valid for {}, not {wanted}", names.join(", ")),
    }
}

/// `host:port` of a URL.
fn authority(url: &str) -> String {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    format!("{host}:{}", uri.as_ref().and_then(http::Uri::port_u16).unwrap_or(443))
}
