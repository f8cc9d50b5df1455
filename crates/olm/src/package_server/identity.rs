//! Who the package server is to the control plane, and whom it lets in. Its authority is kept in a Secret, so that the
//! package servers of several control-plane servers are one to their clients.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;

use super::SERVICE;
use crate::crds::dynamic;
use crate::error::{Error, is_already_there};
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::object::text;
use crate::target::{Target, decode_base64};

const TRUST_NAMESPACE: &str = "kube-system";
const TRUST_CONFIG_MAP: &str = "extension-apiserver-authentication";
/// The Secret, and its keys.
const AUTHORITY_SECRET: &str = "packageserver-service-cert";
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

pub(super) struct Identity {
    pub ca_pem: String,
    pub tls: ServerConfig,
    /// The names that the control plane's certificate may have; any if there are none.
    pub front_proxies: Arc<Vec<String>>,
}

pub(super) fn is_front_proxy(names: &[String], certificate: &CertificateDer) -> bool {
    if names.is_empty() {
        return true;
    }
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let mut common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    common.any(|name| names.iter().any(|allowed| allowed == name))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Other(format!("certificates of the package server: {error}"))
}

/// A certificate for the service by its authority, and whom to let in.
pub(super) async fn of(client: &Client, namespace: &str) -> Result<Identity, Error> {
    let trust = CONFIG_MAP.within(client, TRUST_NAMESPACE).get(TRUST_CONFIG_MAP).await?;
    let client_ca = text(&trust.data, "/data/requestheader-client-ca-file");
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut client_ca.as_bytes()) {
        roots.add(certificate.map_err(failed)?).map_err(failed)?;
    }
    let (ca_pem, ca_key) = authority(client, namespace).await?;
    let issuer = Issuer::new(authority_params()?, ca_key);
    let key = KeyPair::generate().map_err(failed)?;
    let name = format!("{SERVICE}.{namespace}.svc");
    let leaf = CertificateParams::new(vec![name]).and_then(|params| params.signed_by(&key, &issuer));
    let leaf = leaf.map_err(failed)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_client_cert_verifier(verifier.map_err(failed)?);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = config.with_single_cert(vec![leaf.der().clone()], key).map_err(failed)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let names = text(&trust.data, "/data/requestheader-allowed-names");
    let front_proxies = Arc::new(serde_json::from_str(names).unwrap_or_default());
    Ok(Identity { ca_pem, tls: config, front_proxies })
}

/// What the authority's certificate says of it, always the same, so that its key is all there is to keep.
fn authority_params() -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "bailiwick-packageserver-ca");
    Ok(params)
}

/// The authority's certificate and key: those that were kept, or new ones.
async fn authority(client: &Client, namespace: &str) -> Result<(String, KeyPair), Error> {
    let make = || {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = authority_params()?.self_signed(&key).map_err(failed)?;
        Ok::<_, Error>((certificate.pem(), key))
    };
    if !Target::here(client).serves("", "v1", "Secret").await? {
        return make();
    }
    let api = SECRET.within(client, namespace);
    if let Some(kept) = api.get_opt(AUTHORITY_SECRET).await? {
        return kept_authority(&kept);
    }
    let (certificate, key) = make()?;
    let secret = dynamic(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": AUTHORITY_SECRET, "namespace": namespace},
        "data": {CA_CERTIFICATE: STANDARD.encode(&certificate), CA_KEY: STANDARD.encode(key.serialize_pem())},
    }))?;
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => Ok((certificate, key)),
        // Another server was faster.
        Err(error) if is_already_there(&error) => kept_authority(&api.get(AUTHORITY_SECRET).await?),
        Err(error) => Err(error.into()),
    }
}

fn kept_authority(secret: &DynamicObject) -> Result<(String, KeyPair), Error> {
    let part = |key: &str| {
        let data = decode_base64(secret.data.get("data").and_then(|data| data.get(key)?.as_str()).unwrap_or_default());
        data.and_then(|data| String::from_utf8(data).ok())
    };
    let (Some(certificate), Some(key)) = (part(CA_CERTIFICATE), part(CA_KEY)) else {
        return Err(failed(format!("the Secret {AUTHORITY_SECRET} holds no authority; remove it")));
    };
    let key = KeyPair::from_pem(&key);
    let key = key.map_err(|_| failed(format!("the key in the Secret {AUTHORITY_SECRET} is none; remove it")))?;
    Ok((certificate, key))
}
