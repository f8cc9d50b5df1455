//! A certificate authority for the servers of the fake internet.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    /// The certificates between this authority and the one that is trusted.
    between: Vec<CertificateDer<'static>>,
}

/// A certificate with its key.
pub(crate) struct Certificate {
    pub(crate) chain_file: PathBuf,
    pub(crate) key_file: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        let params = authority_named("Fakenet CA")?;
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let file = directory.join("ca.pem");
        fs::write(&file, certificate.pem())?;
        Ok(Self { issuer: Issuer::new(params, key), file, between: Vec::new() })
    }

    /// An authority by another name, which is trusted because of this one.
    pub(crate) fn below(&self, name: &str) -> Result<Self> {
        let params = authority_named(name)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let between = std::iter::once(certificate.der().clone()).chain(self.between.iter().cloned()).collect();
        Ok(Self { issuer: Issuer::new(params, key), file: self.file.clone(), between })
    }

    /// The authority's certificate.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// A certificate for these names.
    pub(crate) fn issue(&self, directory: &Path, file: &str, names: &[&str]) -> Result<Certificate> {
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let (chain_file, key_file) = (directory.join(format!("{file}.pem")), directory.join(format!("{file}.key")));
        fs::write(&chain_file, certificate.pem())?;
        fs::write(&key_file, key.serialize_pem())?;
        let chain = std::iter::once(certificate.der().clone()).chain(self.between.iter().cloned()).collect();
        Ok(Certificate { chain_file, key_file, chain, key: key.serialize_der() })
    }

    /// The directory that certificates may be kept in.
    pub(crate) fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }
}

fn authority_named(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    Ok(params)
}

impl Certificate {
    /// For a TLS server.
    pub(crate) fn server_config(&self) -> Result<Arc<rustls::ServerConfig>> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), key)?;
        Ok(Arc::new(config))
    }
}
