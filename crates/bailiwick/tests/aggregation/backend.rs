//! A small extension API server for the group `things.example.com`: behaves, or does not, as a test wants it to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bailiwick_testkit::{HttpsBody as Body, HttpsOptions, HttpsServer, whole};
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The group it serves.
pub const GROUP: &str = "things.example.com";

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
        let asked: Arc<Mutex<VecDeque<Asked>>> = Arc::default();
        let (log, behaviour) = (asked.clone(), setup.behaviour);
        let options = HttpsOptions { name: setup.name, client_ca: setup.client_ca, alpn: setup.alpn };
        let server = HttpsServer::start(&options, move |request| {
            let asked = Asked {
                method: request.method().to_string(),
                uri: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
                headers: request.headers().clone(),
            };
            log.lock().expect("unpoisoned").push_back(asked.clone());
            let behaviour = behaviour.clone();
            async move { answer(&behaviour, &asked, request).await }
        })?;
        Ok(Self { address: server.address, ca_pem: server.ca_pem, asked })
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
    let body = whole(value.to_string());
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
        let response = Response::builder().status(101).header("connection", "Upgrade").header("upgrade", "shout/1");
        response.body(whole("")).ok()
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
