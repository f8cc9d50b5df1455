//! A small extension API server for the group `things.example.com`: behaves, or does not, as a test wants it to.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The group it serves.
pub const GROUP: &str = "things.example.com";

pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub uri: String,
    pub headers: HeaderMap,
}

type Answer = Pin<Box<dyn Future<Output = Option<Response<Body>>> + Send>>;
/// Answers some requests; the others are answered as usual.
pub type Behaviour = Arc<dyn Fn(&Asked, Request<Incoming>) -> Result<Answer, Box<Request<Incoming>>> + Send + Sync>;

/// A server that runs as long as the process does.
pub struct Backend {
    pub address: SocketAddr,
    pub ca_pem: String,
    asked: Arc<Mutex<VecDeque<Asked>>>,
}

/// How it is set up.
pub struct Setup {
    /// The name in its certificate.
    pub name: &'static str,
    /// Authorities that must vouch for clients, PEM.
    pub client_ca: Option<String>,
    pub behaviour: Behaviour,
    pub alpn: &'static [&'static [u8]],
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            name: "api.things.svc",
            client_ca: None,
            behaviour: Arc::new(|_, request| Err(Box::new(request))),
            alpn: &[b"h2", b"http/1.1"],
        }
    }
}

impl Backend {
    /// Starts on a thread of its own.
    pub fn start(setup: Setup) -> Result<Self> {
        let (ca_pem, tls) = tls(&setup)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let asked: Arc<Mutex<VecDeque<Asked>>> = Arc::default();
        let (log, behaviour) = (asked.clone(), setup.behaviour);
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                loop {
                    let Ok((stream, _)) = listener.accept().await else { return };
                    let (acceptor, log, behaviour) = (acceptor.clone(), log.clone(), behaviour.clone());
                    tokio::spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let service = service_fn(move |request: Request<Incoming>| {
                            let asked = Asked {
                                method: request.method().to_string(),
                                uri: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
                                headers: request.headers().clone(),
                            };
                            log.lock().expect("unpoisoned").push_back(asked.clone());
                            let behaviour = behaviour.clone();
                            async move { answer(&behaviour, &asked, request).await }
                        });
                        let builder = auto::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Ok(Self { address, ca_pem, asked })
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What it was asked so far for paths that begin so.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().expect("unpoisoned");
        asked.iter().filter(|asked| asked.uri.starts_with(path)).cloned().collect()
    }
}

/// A certificate of an authority of its own for the setup's name.
fn tls(setup: &Setup) -> Result<(String, ServerConfig)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("ca-{}", rand::random::<u64>()));
    let ca_key = KeyPair::generate()?;
    let ca_pem = params.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![setup.name.to_owned()])?.signed_by(&key, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &setup.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in rustls_pemfile::certs(&mut pem.as_bytes()) {
                roots.add(certificate?)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut tls = builder.with_single_cert(vec![leaf.der().clone()], key)?;
    tls.alpn_protocols = setup.alpn.iter().map(|name| name.to_vec()).collect();
    Ok((ca_pem, tls))
}

async fn answer(
    behaviour: &Behaviour,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let path = request.uri().path().to_owned();
    match behaviour(asked, request) {
        // Nothing is answered any more.
        Ok(answer) => answer.await.ok_or_else(|| std::io::Error::other("broken off")),
        Err(_) => Ok(usual(&path)),
    }
}

/// What a server that works answers.
pub fn usual(path: &str) -> Response<Body> {
    let base = format!("/apis/{GROUP}/v1");
    let verbs = json!(["create", "delete", "get", "list", "watch"]);
    if path == base {
        return json_answer(
            200,
            &json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
                "resources": [{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": verbs}],
            }),
        );
    }
    match path {
        "/openapi/v2" => json_answer(
            200,
            &json!({
                "swagger": "2.0", "info": {"title": "Things", "version": "1"},
                "paths": {
                    format!("{base}/things"): {"get": {"operationId": "listThings", "responses": {"200": {
                        "description": "OK", "schema": {"$ref": "#/definitions/com.example.things.v1.Thing"}}}}},
                    "/apis/other.example.com/v1/secrets": {"get": {"responses": {}}},
                },
                "definitions": {
                    "com.example.things.v1.Thing": {"type": "object", "description": "A thing.", "properties": {
                        "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                        "spec": {"type": "object", "description": "What is wanted."}},
                        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": "v1", "kind": "Thing"}]},
                    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "Of another kind."},
                },
            }),
        ),
        path if path.starts_with(&format!("{base}/")) => json_answer(
            200,
            &json!({
                "kind": "ThingList", "apiVersion": format!("{GROUP}/v1"), "metadata": {"resourceVersion": "1"}, "items": [],
            }),
        ),
        _ => json_answer(404, &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})),
    }
}

pub fn json_answer(status: u16, value: &Value) -> Response<Body> {
    let body = Full::from(value.to_string()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let response = Response::builder().status(status).header("content-type", "application/json").body(body);
    response.expect("a response")
}

/// A body that is sent as a test says.
pub fn streamed() -> (mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, StreamBody::new(receiver).boxed_unsync())
}

/// Sends a text as a part of a streamed body.
pub async fn send(sender: &mut mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>, text: &str) {
    let _ = sender.send(Ok(Frame::data(Bytes::from(text.to_owned())))).await;
}

/// Agrees to another protocol and gives back what is sent, in capitals.
pub fn shouting(mut request: Request<Incoming>) -> Answer {
    Box::pin(async move {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let mut io = TokioIo::new(upgraded);
            let mut buffer = [0; 1024];
            while let Ok(read) = io.read(&mut buffer).await {
                let Some(heard) = buffer.get(..read).filter(|heard| !heard.is_empty()) else { return };
                if io.write_all(heard.to_ascii_uppercase().as_slice()).await.is_err() {
                    return;
                }
            }
        });
        let body = Full::default().map_err(|never: Infallible| match never {}).boxed_unsync();
        let response = Response::builder().status(101).header("connection", "Upgrade").header("upgrade", "shout/1");
        response.body(body).ok()
    })
}

/// A future of an answer.
pub fn answering(response: Response<Body>) -> Result<Answer, Box<Request<Incoming>>> {
    Ok(Box::pin(async move { Some(response) }))
}

/// The parts of a body, read as they come.
pub async fn next_text(stream: &mut (impl StreamExt<Item = reqwest::Result<Bytes>> + Unpin)) -> String {
    match stream.next().await {
        Some(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("no more text: {other:?}"),
    }
}
