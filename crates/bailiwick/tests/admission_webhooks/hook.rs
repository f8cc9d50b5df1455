//! A webhook server over TLS that answers as a test tells it to and remembers what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// How many calls must be under way at once before any at `/together` is answered.
pub const TOGETHER: usize = 3;

pub struct Hook {
    url: String,
    ca_pem: String,
    asked: Arc<Asked>,
}

/// The questions so far, with the paths they came to.
struct Asked {
    questions: Mutex<Vec<(String, Value)>>,
    together: Barrier,
}

impl Hook {
    pub async fn start() -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let asked = Arc::new(Asked { questions: Mutex::default(), together: Barrier::new(TOGETHER) });
        let hook = Self { url, ca_pem: certified.cert.pem(), asked: asked.clone() };
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, asked) = (acceptor.clone(), asked.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request| answer(request, &asked));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        hook
    }

    /// A webhook of a configuration that calls this server at `path` about ConfigMaps.
    pub fn webhook(&self, name: &str, path: &str) -> Value {
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
        json!({
            "name": name, "clientConfig": {"url": format!("{}{path}", self.url), "caBundle": ca},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    }

    /// The questions asked so far, as `path name`.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.questions.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(|(path, question)| format!("{path} {}", question["name"].as_str().unwrap_or("-"))).collect()
    }

    /// The last question.
    pub fn last(&self) -> Value {
        self.asked.questions.lock().unwrap_or_else(PoisonError::into_inner).last().expect("a question").1.clone()
    }
}

async fn answer(request: Request<Incoming>, asked: &Asked) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let question = review["request"].clone();
    let uid = question["uid"].clone();
    let seen = question.pointer("/object/data/seen").and_then(Value::as_str).unwrap_or_default().to_owned();
    asked.questions.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), question));
    let response = match path.as_str() {
        "/deny" => json!({"uid": uid, "allowed": false, "status": {"message": "no", "code": 403}}),
        "/warn" => json!({"uid": uid, "allowed": true, "warnings": ["careful"]}),
        "/together" => {
            asked.together.wait().await;
            json!({"uid": uid, "allowed": true})
        }
        // Each notes that it has been here.
        path if path.starts_with("/mark/") => {
            let mark = format!("{seen}{}", path.trim_start_matches("/mark/"));
            let patch = json!([{"op": "add", "path": "/data", "value": {"seen": mark}}]).to_string();
            let patch = base64::engine::general_purpose::STANDARD.encode(patch);
            json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        _ => json!({"uid": uid, "allowed": true}),
    };
    let answer = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(Full::from(answer.to_string())))
}
