//! What operators answer themselves: admission webhooks, conversion webhooks and APIs of a ClusterServiceVersion are
//! registered where their server can be found, with a certificate that was made for it.

use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::made_up::{Made, definition};
use crate::plane::{offering, subscription};

const SERVICE: &str = "gadget-operator-service";

fn hook(kind: &str, name: &str) -> Value {
    json!({
        "type": kind, "generateName": name, "deploymentName": "gadget-operator", "containerPort": 443,
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "webhookPath": "/review", "failurePolicy": "Fail",
    })
}

fn bundle(version: &str) -> Made {
    let mut validating = hook("ValidatingAdmissionWebhook", "vgadget.example.com");
    validating["rules"] = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["gadgets"]}]);
    let mut converting = hook("ConversionWebhook", "cgadget.example.com");
    converting["conversionCRDs"] = json!(["gadgets.example.com"]);
    converting["webhookPath"] = json!("/convert");
    let api = json!({"owned": [{"name": "parts", "group": "parts.example.com", "version": "v1", "kind": "Part",
        "deploymentName": "gadget-operator", "containerPort": 443}]});
    Made::new("gadget", version)
        .defines(definition("gadget", &["v1", "v2"]))
        .says("webhookdefinitions", json!([validating, converting]))
        .says("apiservicedefinitions", api)
}

fn decoded(secret: &Value, key: &str) -> Result<Vec<u8>> {
    let text = secret["data"][key].as_str().with_context(|| format!("{key} is not there"))?;
    Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
}

/// A server with the certificate of a Secret that admits nothing.
fn refuse_with(secret: &Value, listener: std::net::TcpListener) -> Result<()> {
    let certificates: Vec<_> =
        rustls_pemfile::certs(&mut decoded(secret, "tls.crt")?.as_slice()).collect::<Result<_, _>>()?;
    let key = rustls_pemfile::private_key(&mut decoded(secret, "tls.key")?.as_slice())?.context("a key")?;
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || runtime.block_on(serve(listener, acceptor)));
    Ok(())
}

async fn serve(listener: std::net::TcpListener, acceptor: tokio_rustls::TlsAcceptor) {
    use http_body_util::{BodyExt, Full};
    let listener = tokio::net::TcpListener::from_std(listener).expect("invariant: within a runtime");
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = |request: hyper::Request<hyper::body::Incoming>| async move {
                let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let review: Value = serde_json::from_slice(&body).unwrap_or_default();
                let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                    "uid": review["request"]["uid"], "allowed": false, "status": {"message": "no gadgets today"}}});
                Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::<bytes::Bytes>::from(answer.to_string())))
            };
            let service = hyper::service::service_fn(answer);
            let stream = hyper_util::rt::TokioIo::new(stream);
            let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
            let _ = builder.serve_connection(stream, service).await;
        });
    }
}

#[test]
fn what_an_operator_answers_is_registered_where_it_can_be_found() -> Result<()> {
    let (plane, _images) = offering(&[bundle("1.0.0"), bundle("1.1.0")])?;
    // Nobody knows where it answers, and the version says so.
    plane.apply(&subscription(
        "operators",
        "gadget",
        "made-up",
        ", startingCSV: gadget.v1.0.0, installPlanApproval: Manual",
    ))?;
    let approve = |csv: &str| -> Result<()> {
        let mut name = String::new();
        plane.until(&format!("a plan for {csv}"), || {
            let plans = plane.list("operators", "installplan")?;
            let plan = plans.iter().find(|plan| plan["spec"]["clusterServiceVersionNames"] == json!([csv]));
            name = plan.and_then(|plan| plan["metadata"]["name"].as_str()).unwrap_or_default().to_owned();
            Ok(!name.is_empty())
        })?;
        let patch = r#"{"spec":{"approved":true}}"#;
        plane.kubectl(&["patch", "ip", &name, "-n", "operators", "--type=merge", "-p", patch])?;
        Ok(())
    };
    approve("gadget.v1.0.0")?;
    let csv = plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let message = csv["status"]["message"].as_str().unwrap_or_default();
    for text in ["webhooks (vgadget.example.com, cgadget.example.com)", "APIs (v1.parts.example.com)"] {
        assert!(message.contains(text), "{message}");
    }
    assert!(plane.get("", "apiservice", "v1.parts.example.com")?.is_none());
    assert_eq!(plane.get("", "crd", "gadgets.example.com")?.context("it")?["spec"]["conversion"]["strategy"], "None");

    // The next version finds its service.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    plane.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bailiwick-service-endpoints, namespace: operators}}\n\
         data: {{{SERVICE}: 'https://127.0.0.1:{port}'}}\n"
    ))?;
    approve("gadget.v1.1.0")?;
    plane.until_phase("operators", "gadget.v1.1.0", "Installing", "DeploymentsNotServed")?;
    plane.until("the first version is gone", || Ok(plane.get("operators", "csv", "gadget.v1.0.0")?.is_none()))?;
    let secret = plane.get("operators", "secret", &format!("{SERVICE}-cert"))?.context("a certificate")?;
    refuse_with(&secret, listener)?;
    let definition = plane.get("", "crd", "gadgets.example.com")?.context("the definition")?;
    let conversion = &definition["spec"]["conversion"];
    assert_eq!(conversion["webhook"]["clientConfig"]["service"]["name"], SERVICE);
    assert_eq!(conversion["webhook"]["clientConfig"]["service"]["path"], "/convert");
    let api = plane.get("", "apiservice", "v1.parts.example.com")?.context("the API")?;
    assert_eq!(api["spec"]["service"], json!({"name": SERVICE, "namespace": "operators", "port": 443}));
    plane.kubectl(&["get", "rolebinding", "-n", "kube-system", &format!("{SERVICE}.operators-auth-reader")])?;
    let gadget =
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: mine, namespace: default}\nspec: {size: 1}\n";
    let refused = plane.apply(gadget).err().context("it was admitted")?;
    assert!(format!("{refused:#}").contains("no gadgets today"), "{refused:#}");

    // All of it goes with the operator, and its definition can be used without.
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "operators"])?;
    plane.kubectl(&["delete", "csv", "gadget.v1.1.0", "-n", "operators", "--timeout=60s"])?;
    assert!(plane.get("", "apiservice", "v1.parts.example.com")?.is_none());
    let definition = plane.get("", "crd", "gadgets.example.com")?.context("the definition")?;
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    plane.until("objects are admitted again", || Ok(plane.apply(gadget).is_ok()))
}
