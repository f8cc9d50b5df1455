//! A small HTTPS server that answers AdmissionReviews, and ConversionReviews by [`conversions`](super::conversions), so that
//! webhooks can be compared: both servers call it, and the path says what it does. Plain threads and HTTP/1.1, one connection at a time each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::conversions;

/// Longer than any webhook of a case waits.
const SLOW: Duration = Duration::from_secs(4);
/// Requests are small.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where the server is and who vouches for it.
pub struct HookServer {
    /// `https://127.0.0.1:<port>/hook`.
    pub url: String,
    /// Base64 of the PEM certificate, as `caBundle` has it.
    pub ca_bundle: String,
}

/// The one server of this process, started when a case first needs it.
pub fn get() -> Result<&'static HookServer> {
    static SERVER: OnceLock<Result<HookServer, String>> = OnceLock::new();
    let started = SERVER.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow::anyhow!("the webhook server did not start: {error}"))
}

fn start() -> Result<HookServer> {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let config = Arc::new(config);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            // A client that goes away is its own affair.
            std::thread::spawn(move || serve(config, stream));
        }
    });
    Ok(HookServer { url: format!("https://127.0.0.1:{port}/hook"), ca_bundle: STANDARD.encode(certified.cert.pem()) })
}

fn serve(config: Arc<ServerConfig>, stream: TcpStream) -> Result<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    loop {
        let mut head = String::new();
        if stream.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((_, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; std::cmp::min(length, BODY_BYTES_MAX)];
        stream.read_exact(&mut body)?;
        let Some(answer) = answer(&path, &body)? else { return Ok(()) };
        let Answer { status, content_type, body } = answer;
        let head = format!(
            "HTTP/1.1 {status} Answer\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(body.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

struct Answer {
    status: u16,
    content_type: &'static str,
    body: String,
}

/// What the server says at a path; `None` closes the connection without a word.
fn answer(path: &str, body: &[u8]) -> Result<Option<Answer>> {
    let path = path.split('?').next().unwrap_or_default();
    let behaviour = path.strip_prefix("/hook/").unwrap_or_default();
    let json = |body: String| Some(Answer { status: 200, content_type: "application/json", body });
    let text = |status: u16, body: &str| Some(Answer { status, content_type: "text/plain", body: body.to_owned() });
    let review: Value = serde_json::from_slice(body).context("not a review")?;
    Ok(match behaviour {
        "500" => text(500, "out of order"),
        "404" => text(404, "nothing here"),
        "503" => text(503, "later"),
        "403" => text(403, "not you"),
        "500-json" => Some(Answer { status: 500, content_type: "application/json", body: "{\"a\":1}".to_owned() }),
        "500-status" => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "said in a Status",
                                "reason": "InternalError", "code": 500});
            Some(Answer { status: 500, content_type: "application/json", body: status.to_string() })
        }
        "garbage" => json("this is no JSON".to_owned()),
        "empty" => json(String::new()),
        "close" => None,
        "slow" => {
            std::thread::sleep(SLOW);
            json(reviewed(&review, json!({"allowed": true})))
        }
        "no-response" => json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"]}).to_string()),
        "no-kind" => json(json!({"response": {"uid": review["request"]["uid"], "allowed": true}}).to_string()),
        "wrong-version" => {
            let response = json!({"uid": review["request"]["uid"], "allowed": true});
            let version = "admission.k8s.io/v1beta1";
            json(json!({"kind": "AdmissionReview", "apiVersion": version, "response": response}).to_string())
        }
        "wrong-uid" => json(reviewed(&review, json!({"allowed": true, "uid": "another"}))),
        _ if review["kind"] == "ConversionReview" => json(conversions::answer(behaviour, &review)),
        other => json(reviewed(&review, response(other, &review))),
    })
}

/// A review of the version that was asked in.
fn reviewed(review: &Value, mut response: Value) -> String {
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}).to_string()
}

/// Managers are in the order of their times, to the second: whether two writes fell into the same second is luck.
fn order_managers(object: &mut Value) {
    let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    managers.into_iter().for_each(|managers| managers.sort_by_key(|manager| manager["manager"].to_string()));
}

fn response(behaviour: &str, review: &Value) -> Value {
    let denied = |status: Value| json!({"allowed": false, "status": status});
    let patch = |operations: Value| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())});
    let has_data = review.pointer("/request/object/data").is_some_and(Value::is_object);
    let count = review.pointer("/request/object/data/count").and_then(Value::as_str).unwrap_or_default();
    match behaviour {
        "deny" => json!({"allowed": false}),
        "teapot" => denied(json!({"message": "short and stout", "code": 418})),
        "deny-message" => denied(json!({"message": "not like this"})),
        "deny-reason" => denied(json!({"reason": "Forbidden"})),
        "deny-code" => denied(json!({"message": "gone away", "code": 410, "reason": "Gone"})),
        "deny-low-code" => denied(json!({"message": "low", "code": 200, "status": "Success"})),
        "deny-details" => denied(json!({
            "message": "see details", "code": 422, "reason": "Invalid", "status": "Odd",
            "details": {"name": "n", "kind": "k", "retryAfterSeconds": 7, "causes": [
                {"reason": "FieldValueInvalid", "message": "bad", "field": "data.x"}]},
        })),
        // The question itself, to be compared.
        "echo" => {
            let mut request = review["request"].clone();
            if let Value::Object(members) = &mut request {
                members.remove("uid");
                for name in ["object", "oldObject"] {
                    members.get_mut(name).into_iter().for_each(order_managers);
                }
            }
            denied(json!({"message": request.to_string()}))
        }
        "echo-version" => denied(json!({"message": review["apiVersion"]})),
        "warn" => json!({"allowed": true, "warnings": ["first warning", "second \"warning\"", ""]}),
        "warn-same" => json!({"allowed": true, "warnings": ["first warning"]}),
        "warn-long" => json!({"allowed": true, "warnings": [format!("{}é", "x".repeat(300)), "w".repeat(4000)]}),
        "warn-deny" => json!({"allowed": false, "warnings": ["this will fail"]}),
        "patch" if has_data => patch(json!([{"op": "add", "path": "/data/patched", "value": "yes"}])),
        "patch" => patch(json!([{"op": "add", "path": "/data", "value": {"patched": "yes"}}])),
        "patch-label" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"patched": "yes"}}])),
        "patch-count" if has_data => patch(json!([{"op": "add", "path": "/data/count", "value": format!("{count}i")}])),
        "patch-count" => patch(json!([{"op": "add", "path": "/data", "value": {"count": "i"}}])),
        "patch-unknown-field" => patch(json!([{"op": "add", "path": "/nobodyKnows", "value": 1}])),
        "patch-bad-type" => patch(json!([{"op": "add", "path": "/data", "value": {"n": 1}}])),
        "patch-invalid" => patch(json!([{"op": "add", "path": "/data", "value": {"not a key!": "x"}}])),
        "patch-missing" => patch(json!([{"op": "remove", "path": "/nothing/here"}])),
        "patch-test" => patch(json!([{"op": "test", "path": "/metadata/name", "value": "another"}])),
        "patch-bad-op" => patch(json!([{"op": "frobnicate", "path": "/data"}])),
        "patch-name" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "renamed"}])),
        "patch-namespace" => patch(json!([{"op": "replace", "path": "/metadata/namespace", "value": "elsewhere"}])),
        "patch-kind" => patch(json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
        "patch-unregistered-kind" => patch(json!([{"op": "replace", "path": "/kind", "value": "Nothing"}])),
        "patch-uid" => patch(json!([{"op": "add", "path": "/metadata/uid", "value": "0b0b"}])),
        "patch-managers" => patch(json!([{"op": "add", "path": "/metadata/managedFields", "value": [
            {"manager": "m", "operation": "Odd"}]}])),
        "patch-no-managers" => patch(json!([{"op": "remove", "path": "/metadata/managedFields"}])),
        "patch-spec" => patch(json!([{"op": "add", "path": "/spec/patched", "value": "yes"}])),
        "patch-spec-number" => patch(json!([{"op": "add", "path": "/spec/size", "value": "large"}])),
        "patch-bad-label" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"a": 1}}])),
        "patch-replicas" => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
        "patch-empty" => patch(json!([])),
        "patch-object" => patch(json!({"op": "add"})),
        "patch-no-json" => json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode("no JSON")}),
        "patch-no-base64" => json!({"allowed": true, "patchType": "JSONPatch", "patch": "***"}),
        "patch-no-type" => json!({"allowed": true, "patch": STANDARD.encode("[]")}),
        "patch-only-type" => json!({"allowed": true, "patchType": "JSONPatch"}),
        "patch-other-type" => json!({"allowed": true, "patchType": "MergePatch", "patch": STANDARD.encode("[{}]")}),
        "bad-allowed" => json!({"allowed": "yes"}),
        "annotate" => json!({"allowed": true, "auditAnnotations": {"key": "value"}}),
        _ => json!({"allowed": true}),
    }
}
