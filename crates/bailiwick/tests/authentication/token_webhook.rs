//! A token webhook over HTTPS: asked once about each token, believed, and shown our credentials.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Server};
use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::login::{client, known, who};

/// What the webhook was asked.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    last: Mutex<Option<(String, Value)>>,
}

async fn answer(request: Request<Incoming>, seen: &Seen) -> Result<Response<Full<Bytes>>, Infallible> {
    let shown = request.headers().get("authorization").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.calls.fetch_add(1, Ordering::SeqCst);
    let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
    if let Ok(mut last) = seen.last.lock() {
        *last = Some((shown, review.clone()));
    }
    review["status"] = match token.as_str() {
        "good" => json!({"authenticated": true, "user": {
            "username": "walter", "uid": "w", "groups": ["hooked"], "extra": {"acme.com/a": ["b"]}}}),
        "other-audience" => json!({"authenticated": true, "user": {"username": "o"}, "audiences": ["elsewhere"]}),
        "explained" => json!({"authenticated": false, "error": "token was revoked"}),
        "broken" => {
            let mut response = Response::new(Full::from("out of order"));
            *response.status_mut() = hyper::StatusCode::BAD_REQUEST;
            return Ok(response);
        }
        _ => json!({"authenticated": false}),
    };
    Ok(Response::new(Full::from(review.to_string())))
}

/// Serves on a thread of its own for the rest of the process; gives the URL and the certificate.
fn serve(seen: Arc<Seen>) -> Result<(String, String)> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let url = format!("https://localhost:{}/authenticate", listener.local_addr()?.port());
    std::thread::spawn(move || {
        runtime.block_on(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request| answer(request, &seen));
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
    Ok((url, certified.cert.pem()))
}

#[test]
fn a_webhook_knows_tokens_that_we_do_not() -> Result<()> {
    let seen = Arc::new(Seen::default());
    let (url, certificate) = serve(seen.clone())?;
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("webhook.kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hook",
        "clusters": [{"name": "hook", "cluster": {
            "server": url,
            "certificate-authority-data": base64::engine::general_purpose::STANDARD.encode(certificate)}}],
        "users": [{"name": "us", "user": {"tokenFile": "token"}}],
        "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "us"}}],
    });
    std::fs::write(&config, kubeconfig.to_string())?;
    std::fs::write(directory.path().join("token"), "our-own-token\n")?;
    let server = Server::start_with(
        env!("CARGO_BIN_EXE_bailiwick"),
        &[
            "--authentication-token-webhook-config-file",
            config.to_str().context("a path in UTF-8")?,
            "--authentication-token-webhook-version",
            "v1",
            "--api-audiences",
            "us",
        ],
    )?;
    let calls = || seen.calls.load(Ordering::SeqCst);

    let user = known(&server, "good")?;
    assert_eq!((&user["username"], &user["uid"]), (&json!("walter"), &json!("w")));
    assert_eq!(user["groups"], json!(["hooked", "system:authenticated"]));
    assert_eq!(user["extra"]["acme.com/a"], json!(["b"]));
    let (shown, review) = seen.last.lock().expect("not poisoned").clone().context("it was asked")?;
    assert_eq!(shown, "Bearer our-own-token");
    assert_eq!(review["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(review["spec"], json!({"token": "good", "audiences": ["us"]}));
    known(&server, "good")?;
    assert_eq!(calls(), 1, "the answer is remembered");

    for (token, calls_each) in [("bad", [1, 0]), ("other-audience", [1, 0]), ("explained", [1, 1]), ("broken", [1, 1])]
    {
        for more in calls_each {
            let before = calls();
            assert_eq!(who(&server, token)?, Err(401), "{token}");
            assert_eq!(calls() - before, more, "{token}: refusals are remembered, failures to answer are not");
        }
    }

    let before = calls();
    known(&server, ADMIN_TOKEN)?;
    assert_eq!(calls(), before, "nobody else is asked about a token we know");

    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "explained"}});
    let url = format!("{}/apis/authentication.k8s.io/v1/tokenreviews", server.url());
    let answer: Value = client(&server)?.post(url).bearer_auth(ADMIN_TOKEN).json(&review).send()?.json()?;
    let error = answer["status"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains("token was revoked"), "{answer}");
    Ok(())
}
