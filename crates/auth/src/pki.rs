//! The certificates and keys a server makes for itself on first start and keeps under `<data-dir>/pki`.
//!
//! [`Pki::ensure`] makes what is missing and renews what nears its end; it never replaces a key that exists. Every file
//! is written whole or not at all, keys are readable by their owner only. A CA certificate without its key is an error:
//! making another CA would silently lock out everybody who trusts the first. Several servers may share the directory.

mod certificates;
mod files;
mod kubeconfig;
mod names;
mod signing;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rcgen::{Issuer, KeyPair};

pub use kubeconfig::admin_kubeconfig;
pub use names::{NotAServingName, ServingName, ServingNames, default_route_addresses};
pub use signing::{CertificateAuthority, CertificateRequest, SigningError};

/// Something about our own keys and certificates that stops the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} exists but its key {key} does not; restore the key, or remove both to start a new CA")]
    CaKeyMissing { path: PathBuf, key: PathBuf },
    #[error("{path}: not a usable key or certificate: {reason}")]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct KeyedCertificate {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// Not derived: a key must not reach a log.
impl std::fmt::Debug for KeyedCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedCertificate").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// All a server needs to serve TLS, let its administrator in and sign service-account tokens.
#[derive(Clone, Debug)]
pub struct Pki {
    pub ca_pem: String,
    /// Signs certificates that others ask for.
    pub authority: CertificateAuthority,
    /// Presented to clients.
    pub serving: KeyedCertificate,
    /// The administrator's client certificate, in group `system:masters`.
    pub admin: KeyedCertificate,
    pub service_account_key: ServiceAccountKeyPem,
}

/// The PKCS #8 PEM of the key that signs service-account tokens.
#[derive(Clone)]
pub struct ServiceAccountKeyPem(pub String);

impl std::fmt::Debug for ServiceAccountKeyPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServiceAccountKeyPem(..)")
    }
}

impl Pki {
    /// Makes or loads everything under `directory`.
    pub fn ensure(directory: &Path, names: &ServingNames, now: Timestamp) -> Result<Self, PkiError> {
        files::ensure_directory(directory)?;
        let _alone = files::DirectoryLock::take(directory)?;
        let (ca_pem, ca) = ensure_ca(directory, "ca", &certificates::authority("bailiwick-ca", now), now)?;
        let serving = ensure_leaf(directory, "apiserver", &certificates::serving(names, now)?, &ca_pem, &ca, now)?;
        let admin = ensure_leaf(directory, "admin", &certificates::admin(now), &ca_pem, &ca, now)?;
        let key_path = directory.join("service-account.key");
        let service_account_key = ServiceAccountKeyPem(ensure_key(&key_path)?.serialize_pem());
        let authority = CertificateAuthority::from_pem(&ca_pem, &ca.key().serialize_pem())
            .map_err(|error| malformed(&directory.join("ca.key"), error.to_string()))?;
        Ok(Self { ca_pem, authority, serving, admin, service_account_key })
    }

    /// Writes the administrator's kubeconfig, readable by its owner only.
    pub fn write_admin_kubeconfig(&self, path: &Path, server_url: &str) -> Result<(), PkiError> {
        if let Some(directory) = path.parent() {
            files::ensure_directory(directory)?;
        }
        files::write_secret(path, &admin_kubeconfig(server_url, &self.ca_pem, &self.admin))
    }
}

/// When a certificate, PEM, stops to be valid, in seconds since 1970; `None` if it is none.
pub fn certificate_end_seconds(pem: &str) -> Option<i64> {
    certificates::inspect(pem).ok().map(|facts| facts.not_after)
}

/// What the server proves itself with to servers behind it, with an authority of its own: whoever that authority vouches for
/// may say who others are, and must not be taken for a client.
#[derive(Clone, Debug)]
pub struct FrontProxyPki {
    pub ca_pem: String,
    pub client: KeyedCertificate,
}

impl FrontProxyPki {
    /// The name in the certificate, kubeadm's.
    pub const CLIENT_NAME: &'static str = "front-proxy-client";

    /// Makes or loads the authority and the certificate under `directory`.
    pub fn ensure(directory: &Path, now: Timestamp) -> Result<Self, PkiError> {
        files::ensure_directory(directory)?;
        let _alone = files::DirectoryLock::take(directory)?;
        let authority = certificates::authority("front-proxy-ca", now);
        let (ca_pem, ca) = ensure_ca(directory, "front-proxy-ca", &authority, now)?;
        let params = certificates::client(Self::CLIENT_NAME, now);
        let client = ensure_leaf(directory, Self::CLIENT_NAME, &params, &ca_pem, &ca, now)?;
        Ok(Self { ca_pem, client })
    }
}

fn ensure_ca(
    directory: &Path,
    name: &str,
    params: &rcgen::CertificateParams,
    now: Timestamp,
) -> Result<(String, Issuer<'static, KeyPair>), PkiError> {
    let (certificate_path, key_path) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    let existing = files::read(&certificate_path)?;
    if existing.is_some() && !key_path.exists() {
        return Err(PkiError::CaKeyMissing { path: certificate_path, key: key_path });
    }
    let key = ensure_key(&key_path)?;
    if let Some(pem) = existing {
        let facts = certificates::inspect(&pem).map_err(|reason| malformed(&certificate_path, reason))?;
        if facts.not_after > certificates::ca_renewal_threshold(now) {
            let issuer = Issuer::from_ca_cert_pem(&pem, key)?;
            return Ok((pem, issuer));
        }
    }
    // The same key and subject again: what was signed before stays valid.
    let pem = params.self_signed(&key)?.pem();
    files::write_public(&certificate_path, &pem)?;
    Ok((pem, Issuer::new(params.clone(), key)))
}

fn ensure_leaf(
    directory: &Path,
    name: &str,
    params: &rcgen::CertificateParams,
    ca_pem: &str,
    ca: &Issuer<'static, KeyPair>,
    now: Timestamp,
) -> Result<KeyedCertificate, PkiError> {
    let certificate_path = directory.join(format!("{name}.crt"));
    let key_path = directory.join(format!("{name}.key"));
    let key_existed = key_path.exists();
    let key = ensure_key(&key_path)?;
    let key_pem = key.serialize_pem();
    if key_existed
        && let Some(pem) = files::read(&certificate_path)?
        && certificates::is_current(&pem, params, &key, ca_pem, now)
    {
        return Ok(KeyedCertificate { certificate_pem: pem, key_pem });
    }
    let certificate_pem = params.signed_by(&key, ca)?.pem();
    files::write_public(&certificate_path, &certificate_pem)?;
    Ok(KeyedCertificate { certificate_pem, key_pem })
}

fn ensure_key(path: &Path) -> Result<KeyPair, PkiError> {
    if let Some(pem) = files::read(path)? {
        return KeyPair::from_pem(&pem).map_err(|error| malformed(path, error.to_string()));
    }
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    files::write_secret(path, &key.serialize_pem())?;
    Ok(key)
}

fn malformed(path: &Path, reason: String) -> PkiError {
    PkiError::Malformed { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests;
