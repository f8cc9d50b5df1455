//! Certificates for others: from a certificate request to a certificate, by upstream's permissive policy.
//!
//! Subject, public key and alternative names are the request's, byte for byte; everything else is ours. The request's own
//! signature is checked, so that nobody gets a certificate for a key they do not hold.

mod extensions;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{self, EcdsaKeyPair, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use self::extensions::{AUTHORITY_KEY_ID, BASIC_CONSTRAINTS, Critical, SUBJECT_ALT_NAME, extension, usage_extensions};
use super::certificates;
use crate::der::{self, bit_string, element, sequence, unsigned};

/// How far certificates begin in the past: clocks differ. Upstream's value.
const BACKDATE_SECONDS: i64 = 5 * 60;
/// Certificates that live shorter than this are not shortened by what they are backdated; upstream's value.
const SHORT_SECONDS: i64 = 8 * 60 * 60;
const SERIAL_BYTES: usize = 16;
/// A request has a key, a name and some alternative names: a few kilobytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("unable to parse certificate request: {0}")]
    Request(String),
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
    #[error("unrecognized usage values: {}", crate::go_format::quoted_list(.0))]
    Usages(Vec<String>),
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    #[error("certificate authority: {0}")]
    Authority(String),
}

/// A parsed request, for those who decide whether it may be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub email_addresses: Vec<String>,
    pub ip_addresses: usize,
    pub uris: usize,
}

/// Signs certificates.
#[derive(Clone)]
pub struct CertificateAuthority {
    inner: Arc<Inner>,
}

struct Inner {
    key: Key,
    subject: Vec<u8>,
    key_id: Vec<u8>,
    not_after: i64,
}

enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Not derived: a key must not reach a log.
impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").finish_non_exhaustive()
    }
}

impl CertificateRequest {
    /// Reads the first request of a PEM text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, SigningError> {
        let der = request_der(pem)?;
        let request = parse(&der)?;
        let subject = &request.certification_request_info.subject;
        let mut read = Self {
            common_name: subject.iter_common_name().last().and_then(|cn| cn.as_str().ok()).unwrap_or_default().into(),
            organizations: subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect(),
            ..Self::default()
        };
        for name in alternative_names(&request).iter().flat_map(|(_, names)| names) {
            match name {
                GeneralName::DNSName(name) => read.dns_names.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => read.email_addresses.push((*name).to_owned()),
                GeneralName::IPAddress(_) => read.ip_addresses += 1,
                GeneralName::URI(_) => read.uris += 1,
                _ => {}
            }
        }
        Ok(read)
    }
}

impl CertificateAuthority {
    /// From a CA's certificate and its key.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, SigningError> {
        let authority = |reason: String| SigningError::Authority(reason);
        let facts = certificates::inspect(certificate_pem).map_err(authority)?;
        let key = rustls_pemfile::private_key(&mut key_pem.as_bytes())
            .map_err(|error| authority(error.to_string()))?
            .ok_or_else(|| authority("no private key found".into()))?;
        let inner = Inner {
            key: signing_key(&key).ok_or_else(|| authority("the key is neither RSA nor ECDSA".into()))?,
            subject: facts.subject,
            key_id: facts.subject_key_id,
            not_after: facts.not_after,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The certificate, PEM, for a request, PEM.
    pub fn sign(
        &self,
        request_pem: &[u8],
        usages: &[String],
        lifetime_seconds: i64,
        now: Timestamp,
    ) -> Result<String, SigningError> {
        let der = request_der(request_pem)?;
        let request = parse(&der)?;
        request.verify_signature().map_err(|error| SigningError::Signature(error.to_string()))?;
        let mut extensions = usage_extensions(usages)?;
        extensions.push(extension(BASIC_CONSTRAINTS, Critical::Yes, &sequence(&[])));
        if !self.inner.key_id.is_empty() {
            const KEY_IDENTIFIER: u8 = 0x80;
            let id = sequence(&[&element(KEY_IDENTIFIER, &self.inner.key_id)]);
            extensions.push(extension(AUTHORITY_KEY_ID, Critical::No, &id));
        }
        for (value, _) in alternative_names(&request) {
            extensions.push(extension(SUBJECT_ALT_NAME, Critical::No, value));
        }
        let info = &request.certification_request_info;
        let (not_before, not_after) = self.validity(lifetime_seconds, now)?;
        let mut serial = [0; SERIAL_BYTES];
        SystemRandom::new().fill(&mut serial).map_err(|_| SigningError::Authority("no randomness".into()))?;
        let body = sequence(&[
            // version 3
            &element(0xa0, &unsigned(&[2])),
            &unsigned(&serial),
            self.inner.key.algorithm(),
            &self.inner.subject,
            &sequence(&[&time(not_before), &time(not_after)]),
            info.subject.as_raw(),
            info.subject_pki.raw,
            &element(0xa3, &element(der::SEQUENCE, &extensions.concat())),
        ]);
        let signature = self.inner.key.sign(&body)?;
        let certificate = sequence(&[&body, self.inner.key.algorithm(), &bit_string(&signature)]);
        Ok(pem("CERTIFICATE", &certificate))
    }

    fn validity(&self, lifetime_seconds: i64, now: Timestamp) -> Result<(i64, i64), SigningError> {
        let (now, signer_end) = (now.as_second(), self.inner.not_after);
        let backdated = if lifetime_seconds < SHORT_SECONDS { 0 } else { BACKDATE_SECONDS };
        if now >= signer_end {
            return Err(SigningError::Expired(Timestamp::from_second(signer_end).unwrap_or_default()));
        }
        Ok((now - BACKDATE_SECONDS, (now + lifetime_seconds - backdated).min(signer_end)))
    }
}

impl Key {
    fn algorithm(&self) -> &'static [u8] {
        match self {
            Self::P256(_) => ECDSA_SHA256,
            Self::P384(_) => ECDSA_SHA384,
            Self::Rsa(_) => RSA_SHA256,
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningError> {
        let failed = |_| SigningError::Authority("signing failed".into());
        let rng = SystemRandom::new();
        match self {
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&rng, message).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &rng, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

fn signing_key(key: &PrivateKeyDer<'_>) -> Option<Key> {
    let rng = SystemRandom::new();
    match key {
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, der, &rng) {
                return Some(Key::P256(pair));
            }
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P384_SHA384_ASN1_SIGNING, der, &rng) {
                return Some(Key::P384(pair));
            }
            RsaKeyPair::from_pkcs8(der).ok().map(Key::Rsa)
        }
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok().map(Key::Rsa),
        _ => None,
    }
}

fn request_der(pem: &[u8]) -> Result<Vec<u8>, SigningError> {
    if pem.len() > REQUEST_BYTES_MAX {
        return Err(SigningError::Request(format!("it has more than {REQUEST_BYTES_MAX} bytes")));
    }
    let block = rustls_pemfile::csr(&mut &*pem).map_err(|error| SigningError::Request(error.to_string()))?;
    let der = block.ok_or_else(|| SigningError::Request("PEM block type must be CERTIFICATE REQUEST".into()))?;
    Ok(der.as_ref().to_vec())
}

fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, SigningError> {
    X509CertificationRequest::from_der(der)
        .map(|(_, request)| request)
        .map_err(|error| SigningError::Request(error.to_string()))
}

/// The alternative names a request asks for, raw and parsed.
fn alternative_names<'a>(request: &'a X509CertificationRequest<'_>) -> Vec<(&'a [u8], Vec<GeneralName<'a>>)> {
    let mut found = Vec::new();
    for attribute in request.certification_request_info.attributes() {
        let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else { continue };
        for extension in &requested.extensions {
            if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                found.push((extension.value, names.general_names.clone()));
            }
        }
    }
    found
}

/// DER AlgorithmIdentifiers.
const ECDSA_SHA256: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ECDSA_SHA384: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const RSA_SHA256: &[u8] = &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00];

/// RFC 5280: years before 2050 with two digits.
fn time(second: i64) -> Vec<u8> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    /// 2050-01-01T00:00:00Z
    const YEAR_2050_SECONDS: i64 = 2_524_608_000;
    let at = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    let (tag, format) =
        if second < YEAR_2050_SECONDS { (UTC_TIME, "%y%m%d%H%M%SZ") } else { (GENERALIZED_TIME, "%Y%m%d%H%M%SZ") };
    element(tag, at.strftime(format).to_string().as_bytes())
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    const LINE_LENGTH: usize = 64;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(LINE_LENGTH) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::{AuthRequest, Authenticator, PeerCertificates, TargetAudiences, x509::ClientCertificates};
    use rcgen::{BasicConstraints, CertificateParams, DnType, DnValue, IsCa, KeyPair, SanType};
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;

    const NOW: i64 = 1_800_000_000;
    const YEAR: i64 = 365 * 86_400;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).expect("a time")
    }

    fn authority() -> (String, CertificateAuthority) {
        let key = KeyPair::generate().expect("a key");
        let params = certificates::authority("bailiwick-ca", now());
        assert_eq!(params.is_ca, IsCa::Ca(BasicConstraints::Unconstrained));
        let pem = params.self_signed(&key).expect("signed").pem();
        let authority = CertificateAuthority::from_pem(&pem, &key.serialize_pem()).expect("usable");
        (pem, authority)
    }

    fn request() -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.distinguished_name.push(DnType::OrganizationName, DnValue::Utf8String("dev".into()));
        params.subject_alt_names.push(SanType::DnsName("a.example".try_into().expect("a name")));
        let key = KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").pem().expect("PEM")
    }

    fn usages() -> Vec<String> {
        vec!["client auth".to_owned(), "digital signature".to_owned()]
    }

    #[test]
    fn what_is_signed_logs_its_holder_in() {
        let (ca_pem, authority) = authority();
        let pem = authority.sign(request().as_bytes(), &usages(), YEAR, now()).expect("signed");
        let leaf = rustls_pemfile::certs(&mut pem.as_bytes()).next().expect("one").expect("DER");
        let mut roots = RootCertStore::empty();
        crate::tls::add_roots(&mut roots, "ca", &ca_pem).expect("roots");
        let clients = ClientCertificates::new(Arc::new(roots)).expect("usable");
        let peer = PeerCertificates::new(vec![CertificateDer::from(leaf.to_vec())]);
        let ask = |second: i64| {
            clients.authenticate(&AuthRequest {
                bearer_token: None,
                peer: Some(&peer),
                headers: None,
                path: "",
                audiences: TargetAudiences::Server,
                now: Timestamp::from_second(second).expect("a time"),
            })
        };
        let user = ask(NOW).expect("verified").expect("known").user;
        assert_eq!((user.name.as_str(), user.groups.first().map(String::as_str)), ("alice", Some("dev")));
        assert!(ask(NOW + YEAR).is_err(), "backdated by five minutes, so over");
        let facts = certificates::inspect(&pem).expect("a certificate");
        assert_eq!(facts.not_after, NOW + YEAR - BACKDATE_SECONDS);
    }

    #[test]
    fn a_request_is_read_for_those_who_judge_it() {
        let read = CertificateRequest::from_pem(request().as_bytes()).expect("a request");
        assert_eq!(
            (read.common_name.as_str(), read.organizations.as_slice()),
            ("alice", ["dev".to_owned()].as_slice())
        );
        assert_eq!(read.dns_names, ["a.example"]);
    }

    #[test]
    fn changed_requests_and_unknown_usages_are_refused() {
        let (_, authority) = authority();
        let der = request_der(request().as_bytes()).expect("DER");
        let at = der.windows(5).position(|window| window == b"alice").expect("the name");
        let mut changed = der.clone();
        changed[at] = b'm';
        let changed = pem("CERTIFICATE REQUEST", &changed);
        let error = authority.sign(changed.as_bytes(), &usages(), YEAR, now()).expect_err("refused");
        assert!(matches!(error, SigningError::Signature(_)), "{error}");
        let error = authority.sign(request().as_bytes(), &["fly".into()], YEAR, now()).expect_err("refused");
        assert_eq!(error.to_string(), "unrecognized usage values: [\"fly\"]");
        assert!(authority.sign(b"hello", &usages(), YEAR, now()).is_err());
    }

    #[test]
    fn nothing_outlives_the_authority() {
        let (ca_pem, authority) = authority();
        let end = certificates::inspect(&ca_pem).expect("a certificate").not_after;
        let pem = authority.sign(request().as_bytes(), &usages(), 100 * YEAR, now()).expect("signed");
        assert_eq!(certificates::inspect(&pem).expect("a certificate").not_after, end);
        let later = Timestamp::from_second(end).expect("a time");
        assert!(matches!(authority.sign(request().as_bytes(), &usages(), YEAR, later), Err(SigningError::Expired(_))));
    }
}
