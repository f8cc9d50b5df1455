//! Client certificates: the common name is the user, the organizations are the groups.
//!
//! The chain is verified when a request is authenticated, not in the handshake. The verdict is kept with the
//! connection's certificates, so that one connection pays for it once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bailiwick_machinery::UserInfo;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::{Oid, oid};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use super::{AuthRequest, Authentication, Authenticator, CREDENTIAL_ID_KEY, ensure_authenticated_group};

/// The certificates a client showed in its handshake; lives as long as the connection.
#[derive(Debug, Default)]
pub struct PeerCertificates {
    /// The client's own first.
    chain: Vec<CertificateDer<'static>>,
    verdict: OnceLock<Verdict>,
}

impl PeerCertificates {
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain, verdict: OnceLock::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}

/// A successful verification and how long it holds.
#[derive(Debug)]
struct Verdict {
    /// Which authenticator verified: another has other roots.
    by: u64,
    user: Option<Arc<UserInfo>>,
    valid_seconds: std::ops::RangeInclusive<i64>,
}

/// Why client certificates cannot be checked.
#[derive(Debug, thiserror::Error)]
#[error("client certificate authorities: {0}")]
pub struct RootsError(#[from] rustls::server::VerifierBuilderError);

/// Knows holders of certificates that chain to the given roots.
pub struct ClientCertificates {
    verifier: ClientRoots,
}

/// The authorities of client certificates. Clones are of the same, so that others can replace them while requests are
/// served; certificates that were verified before are verified again.
#[derive(Clone)]
pub struct ClientRoots(Arc<ArcSwap<Verifier>>);

struct Verifier {
    id: u64,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    fn new(roots: Arc<RootCertStore>) -> Result<Self, RootsError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
        Ok(Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), verifier })
    }
}

impl ClientRoots {
    /// Trusts these from the next request on, and no others.
    pub fn replace(&self, roots: Arc<RootCertStore>) -> Result<(), RootsError> {
        self.0.store(Arc::new(Verifier::new(roots)?));
        Ok(())
    }
}

impl ClientCertificates {
    pub fn new(roots: Arc<RootCertStore>) -> Result<Self, RootsError> {
        Ok(Self { verifier: ClientRoots(Arc::new(ArcSwap::from_pointee(Verifier::new(roots)?))) })
    }

    /// The common name of a chain's leaf, if the chain leads to one of the roots.
    pub(super) fn verified_name(&self, chain: &[CertificateDer<'static>], now: Timestamp) -> Result<String, String> {
        self.verifier.0.load().verify(chain, now)?;
        let leaf = parse(chain.first().ok_or("no certificate")?)?;
        let name = leaf.subject().iter_common_name().last().and_then(|cn| cn.as_str().ok()).unwrap_or_default();
        Ok(name.to_owned())
    }

    /// What certificates are verified by, to replace it.
    pub fn roots(&self) -> ClientRoots {
        self.verifier.clone()
    }
}

impl Verifier {
    fn verify(&self, chain: &[CertificateDer<'static>], now: Timestamp) -> Result<Verdict, String> {
        let (leaf, intermediates) = chain.split_first().ok_or("no certificate")?;
        let parsed = parse(leaf)?;
        let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
        self.verifier
            .verify_client_cert(leaf, intermediates, UnixTime::since_unix_epoch(since_epoch))
            .map_err(|error| format!("verifying certificate {} failed: {error}", identifier(&parsed)))?;
        let mut valid_seconds = validity(&parsed);
        for intermediate in intermediates {
            let other = validity(&parse(intermediate)?);
            valid_seconds = *valid_seconds.start().max(other.start())..=*valid_seconds.end().min(other.end());
        }
        Ok(Verdict { by: self.id, user: user(&parsed, leaf)?, valid_seconds })
    }
}

impl Authenticator for ClientCertificates {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let Some(peer) = request.peer.filter(|peer| !peer.is_empty()) else { return Ok(None) };
        let verifier = self.verifier.0.load();
        let known =
            peer.verdict.get().filter(|v| v.by == verifier.id && v.valid_seconds.contains(&request.now.as_second()));
        let user = match known {
            Some(verdict) => verdict.user.clone(),
            None => {
                let verdict = verifier.verify(&peer.chain, request.now)?;
                let user = verdict.user.clone();
                // Losing a race only means that another request has kept the same verdict.
                let _ = peer.verdict.set(verdict);
                user
            }
        };
        Ok(user.map(|user| Authentication { user, audiences: Vec::new() }))
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    X509Certificate::from_der(der).map(|(_, certificate)| certificate).map_err(|error| error.to_string())
}

fn validity(certificate: &X509Certificate<'_>) -> std::ops::RangeInclusive<i64> {
    certificate.validity().not_before.timestamp()..=certificate.validity().not_after.timestamp()
}

/// The user a verified certificate names; none without a common name.
fn user(certificate: &X509Certificate<'_>, der: &[u8]) -> Result<Option<Arc<UserInfo>>, String> {
    let subject = certificate.subject();
    let Some(name) = subject.iter_common_name().last().and_then(|cn| cn.as_str().ok()).filter(|n| !n.is_empty()) else {
        return Ok(None);
    };
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    let credential_id = format!("X509SHA256={}", lower_hex(digest(&SHA256, der).as_ref()));
    let mut user = Arc::new(UserInfo {
        name: name.to_owned(),
        uid: uid(certificate)?,
        groups,
        extra: [(CREDENTIAL_ID_KEY.to_owned(), vec![credential_id])].into(),
    });
    ensure_authenticated_group(&mut user);
    Ok(Some(user))
}

/// The Kubernetes attribute of a distinguished name that carries a user's uid.
const UID_ATTRIBUTE: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

fn uid(certificate: &X509Certificate<'_>) -> Result<String, String> {
    let values: Vec<Option<&str>> =
        certificate.subject().iter_by_oid(&UID_ATTRIBUTE).map(|attribute| attribute.as_str().ok()).collect();
    match values.as_slice() {
        [] => Ok(String::new()),
        [Some("")] => Err("UID cannot be an empty string".into()),
        [Some(one)] => Ok((*one).to_owned()),
        many if many.contains(&None) => Err("unable to parse UID into a string".into()),
        many => {
            let listed: Vec<&str> = many.iter().flatten().copied().collect();
            Err(format!("expected 1 UID, but found multiple: [{}]", listed.join(" ")))
        }
    }
}

/// A certificate as a log names it: serial number and key ids.
fn identifier(certificate: &X509Certificate<'_>) -> String {
    let (mut subject, mut authority) = (String::new(), String::new());
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => subject = colon_hex(id.0),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                authority = id.key_identifier.as_ref().map(|k| colon_hex(k.0)).unwrap_or_default();
            }
            _ => {}
        }
    }
    format!("SN={}, SKID={subject}, AKID={authority}", certificate.tbs_certificate.serial)
}

fn lower_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn colon_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests;
