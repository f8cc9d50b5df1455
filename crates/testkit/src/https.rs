//! An HTTPS server for tests, on a thread of its own, so that tests with and without an async runtime can use it. It has an
//! authority and a certificate of its own, and answers each request as the test says; [`crate::Webhook`] and the servers
//! behind APIServices are made of it.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The body of an answer, whole or streamed.
pub type HttpsBody = UnsyncBoxBody<Bytes, io::Error>;

/// How it proves itself and what it speaks.
#[derive(Clone, Debug)]
pub struct HttpsOptions {
    /// The name in its certificate.
    pub name: &'static str,
    /// Authorities that must vouch for clients, PEM.
    pub client_ca: Option<String>,
    /// Versions of HTTP, the preferred one first.
    pub alpn: &'static [&'static [u8]],
}

impl Default for HttpsOptions {
    fn default() -> Self {
        Self { name: "localhost", client_ca: None, alpn: &[b"h2", b"http/1.1"] }
    }
}

/// A server that serves until the process ends.
pub struct HttpsServer {
    pub address: SocketAddr,
    /// The authority to trust.
    pub ca_pem: String,
}

impl HttpsServer {
    /// Serves on a free port of loopback. An answer that is an error breaks the connection off.
    pub fn start<F, A>(options: &HttpsOptions, answer: F) -> Result<Self>
    where
        F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
        A: Future<Output = io::Result<Response<HttpsBody>>> + Send + 'static,
    {
        let (ca_pem, tls) = tls(options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (acceptor, answer) = (TlsAcceptor::from(Arc::new(tls)), Arc::new(answer));
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("invariant: within a runtime");
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, answer) = (acceptor.clone(), answer.clone());
                    tokio::spawn(async move {
                        // A client that does not trust us is part of some tests.
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let service = service_fn(move |request| answer(request));
                        let builder = auto::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Ok(Self { address, ca_pem })
    }
}

/// A body that is sent at once.
pub fn whole(text: impl Into<Bytes>) -> HttpsBody {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A certificate of an authority of its own.
fn tls(options: &HttpsOptions) -> Result<(String, ServerConfig)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("authority of {}", options.name));
    let ca_key = KeyPair::generate()?;
    let ca_pem = params.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![options.name.to_owned()])?.signed_by(&key, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate?)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut tls = builder.with_single_cert(vec![leaf.der().clone()], key)?;
    tls.alpn_protocols = options.alpn.iter().map(|name| name.to_vec()).collect();
    Ok((ca_pem, tls))
}
