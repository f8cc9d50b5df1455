//! Definitions and objects that mean harm, sent to the real program: each gets a clear answer, and what they make the process
//! take of memory stays below a fixed bound, however often they are sent.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::Server;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::hostile::{Hostile, MIB, hostile};
use crate::plane::{DEFINITIONS, brief, definition, thing};

/// Some four times what it takes (this program is not optimized); whatever grows with the attempts is beyond it.
const MEMORY_BYTES_MAX: u64 = 512 * MIB;
/// The longest refusal of what is not long itself.
const ANSWER_BYTES_MAX: usize = MIB as usize;
/// A refusal shows the value it refuses in its message and in the cause, as upstream's do.
const VALUE_SHOWN_MAX: usize = 3;
/// How often everything is sent.
const ROUNDS: usize = 4;
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_definitions_and_objects_do_not_grow_the_process() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let sender = Sender { client: server.client().await? };
    for hostile in hostile() {
        sender.establish(&hostile).await?;
    }
    sender.establish(&costly()).await?;
    for round in 0..ROUNDS {
        for (what, path, body, expected) in refused() {
            sender.refused(&path, body, expected).await.with_context(|| format!("{what}, round {round}"))?;
        }
        for hostile in hostile().into_iter().chain([costly()]) {
            sender.use_it(&hostile, round).await.with_context(|| format!("{}, round {round}", hostile.group))?;
        }
    }
    let peak = server.peak_memory_bytes()?;
    ensure!(peak < MEMORY_BYTES_MAX, "{} MiB were resident", peak / MIB);
    let (status, answer) = sender.send("GET", "/api/v1/namespaces/default", Vec::new()).await?;
    ensure!(status == 200, "others are not served any more: {}", brief(&answer));
    Ok(())
}

/// Rules that pass the estimate, for objects that then cost too much.
fn costly() -> Hostile {
    let rules = json!([{"rule": "self.all(x, self.all(y, x == y || x != y))"}]);
    let list =
        json!({"type": "array", "maxItems": 500, "items": {"type": "integer"}, "x-kubernetes-validations": rules});
    let items = |n: usize| json!({"a": vec![1; n]});
    Hostile {
        group: "costly.example.com",
        spec: json!({"type": "object", "properties": {"a": list}}),
        good: items(3),
        bad: items(500),
    }
}

/// What is refused: what it is, where it is sent, the body and the status codes that are clear answers.
fn refused() -> Vec<(&'static str, String, Vec<u8>, &'static [u16])> {
    const GROUP: &str = "refused.example.com";
    let dry = format!("{DEFINITIONS}?dryRun=All");
    let of = |schema: Value| definition(GROUP, &[schema]).to_string().into_bytes();
    let property = |value: Value| of(json!({"type": "object", "properties": {"a": value}}));
    let rule = |rule: String| of(json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}));
    let nested = |depth: usize| {
        let text = definition(GROUP, &[json!("SCHEMA")]).to_string();
        let schema =
            r#"{"type":"object","properties":{"a":"#.repeat(depth) + r#"{"type":"object"}"# + &"}}".repeat(depth);
        text.replace(r#""SCHEMA""#, &schema).into_bytes()
    };
    let bomb = "self.all(a, self.all(b, self.all(c, self.all(d, self.all(e, a + b + c + d + e > 0)))))";
    let rules = json!([{"rule": bomb}]);
    let things = "/apis/enum.example.com/v1/namespaces/default/things".to_owned();
    let deep_object = |depth: usize| {
        let text = thing("enum.example.com", "deep", json!("SPEC")).to_string();
        text.replace(r#""SPEC""#, &("[".repeat(depth) + &"]".repeat(depth))).into_bytes()
    };
    let cyclic = json!({
        "type": "object", "definitions": {"x": {"$ref": "#/definitions/x"}},
        "properties": {"a": {"$ref": "#/definitions/x"}, "b": {"$ref": "#"}},
    });
    vec![
        ("a schema 100 deep", dry.clone(), nested(100), &[400]),
        ("a schema 20,000 deep", dry.clone(), nested(20_000), &[400]),
        ("an object 1,000 deep", things.clone(), deep_object(1_000), &[400]),
        ("an object 500,000 deep", things.clone(), deep_object(500_000), &[400]),
        ("three megabytes without an end", things, "[0,".repeat(1_000_000).into_bytes(), &[400]),
        ("references in a circle", dry.clone(), of(cyclic), &[422]),
        (
            "a pattern of a million states",
            dry.clone(),
            property(json!({"type": "string", "pattern": "^(a{1000}){1000}$"})),
            &[422],
        ),
        (
            "a pattern of more",
            dry.clone(),
            property(json!({"type": "string", "pattern": "(((a{100}){100}){100}){100}"})),
            &[422],
        ),
        (
            "a bomb of rules",
            dry.clone(),
            property(json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rules})),
            &[422],
        ),
        ("a rule 300 deep", dry.clone(), rule("(".repeat(300) + "true" + &")".repeat(300)), &[422]),
        ("a rule 100,000 deep", dry.clone(), rule("!".repeat(100_000) + "true"), &[422]),
        ("a rule of a megabyte", dry, rule("true || ".repeat(125_000) + "1"), &[422]),
    ]
}

/// Sends requests of the administrator's to the program.
struct Sender {
    client: Client,
}

impl Sender {
    /// A hang is a failure.
    async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(u16, Value)> {
        let (status, bytes) = self.bytes(method, path, body).await?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    async fn bytes(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>)> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body))?;
        let asking = async {
            let answer = self.client.send(request).await?;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await?.to_bytes().to_vec();
            anyhow::Ok((status, body))
        };
        tokio::time::timeout(DEADLINE, asking).await.with_context(|| format!("no answer to {method} {path}"))?
    }

    /// Sends what has to be refused with one of these codes, and a reason that can be read.
    async fn refused(&self, path: &str, body: Vec<u8>, expected: &[u16]) -> Result<()> {
        let answer_bytes_max = ANSWER_BYTES_MAX.max(VALUE_SHOWN_MAX * body.len());
        let (status, answer) = self.bytes("POST", path, body).await?;
        let told: Value = serde_json::from_slice(&answer).unwrap_or_default();
        ensure!(expected.contains(&status), "{status}: {}", brief(&told));
        ensure!(told["kind"] == "Status" && told["code"] == status, "no Status: {}", brief(&told));
        ensure!(told["reason"].is_string() && told["message"].as_str().is_some_and(|text| !text.is_empty()), "{told}");
        ensure!(answer.len() <= answer_bytes_max, "a refusal of {} bytes", answer.len());
        Ok(())
    }

    /// Creates a definition and waits until it is served.
    async fn establish(&self, hostile: &Hostile) -> Result<()> {
        let group = hostile.group;
        let schema = json!({"type": "object", "properties": {"spec": hostile.spec}});
        let whole = definition(group, &[schema]);
        let (status, answer) = self.send("POST", DEFINITIONS, whole.to_string().into_bytes()).await?;
        ensure!(status == 201, "{group}: {}", brief(&answer));
        let served = async {
            while self.send("GET", &format!("/apis/{group}/v1/things"), Vec::new()).await?.0 != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(DEADLINE, served).await.with_context(|| format!("{group} is never served"))?
    }

    /// Validates objects by a definition and reads its documents.
    async fn use_it(&self, hostile: &Hostile, round: usize) -> Result<()> {
        let group = hostile.group;
        let things = format!("/apis/{group}/v1/namespaces/default/things");
        let good = thing(group, &format!("good-{round}"), hostile.good.clone());
        let (status, made) = self.send("POST", &things, good.to_string().into_bytes()).await?;
        ensure!(status == 201, "{}", brief(&made));
        let bad = thing(group, "bad", hostile.bad.clone());
        self.refused(&things, bad.to_string().into_bytes(), &[422]).await?;
        for document in [format!("/openapi/v3/apis/{group}/v1"), "/openapi/v2".to_owned()] {
            let (status, _) = self.bytes("GET", &document, Vec::new()).await?;
            ensure!(status == 200, "{document} is answered with {status}");
        }
        Ok(())
    }
}
