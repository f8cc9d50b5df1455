//! Sends a case's requests to one server and turns each answer into its comparable, masked form.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use reqwest::Method;
use reqwest::blocking::{Client, RequestBuilder};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::case::{Case, ManagedFields, Part, Step, User, identity};
use super::mask::Masker;
use super::{hook_server, select, template, wire};

/// Longer than any bounded watch of a case plus a server under load.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take for what a step waits for. A loaded kube-apiserver needs seconds to serve a new type.
const UNTIL_DEADLINE: Duration = Duration::from_secs(45);
/// How often a step that waits asks.
const UNTIL_INTERVAL: Duration = Duration::from_millis(100);

/// Written instead of a method: a PATCH whose body, unless said otherwise, is to be applied.
const APPLY: &str = "APPLY";

/// Names the manager of what a request without a `fieldManager` writes, so it must not change.
const USER_AGENT: &str = "conformance/1.0";

/// The tokens that both servers are started with, in the form of `--token-auth-file`.
pub const TOKEN_FILE: &str = "admin-token,admin,admin,\"system:masters\"\nalice-token,alice,alice-uid,\"dev,qa\"\n";

/// Where CustomResourceDefinitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// One answer as it is compared and recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The status code; absent when it is not compared, 0 when there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The `Content-Type` header.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The `Warning` headers, and others that the case names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body: JSON as it is, YAML as JSON, a stream as a list, protobuf as a tree, anything else as text.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
}

/// A running server and how to reach it.
pub struct Server {
    client: Client,
    base: String,
}

impl Server {
    /// A client for the server at `base` (scheme, host and port). Its certificate is not checked: it is ours, on loopback.
    pub fn new(base: &str) -> Result<Self> {
        let client = Client::builder()
            .danger_accept_invalid_certs(true)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .user_agent(USER_AGENT)
            .build()?;
        Ok(Self { client, base: base.trim_end_matches('/').to_owned() })
    }

    /// Scheme, host and port.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// How many objects a collection has, read page by page as clients with a limit do.
    pub fn count_by_pages(&self, path: &str, limit: u32) -> Result<u64> {
        let (mut count, mut token) = (0, String::new());
        loop {
            let url = format!("{}{path}?limit={limit}&continue={token}", self.base);
            let page: Value = self.client.get(url).header("Authorization", "Bearer admin-token").send()?.json()?;
            count += page.pointer("/items").and_then(Value::as_array).context("not a list")?.len() as u64;
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => return Ok(count),
            }
        }
    }

    /// Creates an object as an administrator; gives the status code.
    pub fn post(&self, path: &str, object: &Value) -> Result<u16> {
        let request = self.client.post(format!("{}{path}", self.base)).header("Authorization", "Bearer admin-token");
        Ok(request.json(object).send()?.status().as_u16())
    }

    /// Runs a whole case; one answer for each compared step.
    pub fn run(&self, subject: &str, case: &Case) -> Result<Vec<Answer>> {
        let id = identity(subject, &case.name);
        let sent = serde_json::to_string(&[&case.setup, &case.steps])?;
        let managed_fields = case.managed_fields;
        let mut saved = Saved { id: id.clone(), answers: BTreeMap::new(), prefixes: vec![], managed_fields };
        if sent.contains("{{ns}}") || sent.contains("{{things}}") {
            let namespace = json!({"request": "POST /api/v1/namespaces", "json": {"metadata": {"name": id}}});
            self.prepare(&namespace, &mut saved, &sent)?;
        }
        for step in &case.setup {
            self.prepare(step, &mut saved, &sent)?;
        }
        case.steps.iter().map(|step| self.step(step, &mut saved, &sent)).collect()
    }

    /// A step that the case relies on; it must succeed.
    fn prepare(&self, step: &Value, saved: &mut Saved, sent: &str) -> Result<()> {
        let answer = self.step(step, saved, sent)?;
        if step.get("until").is_none() && answer.status.is_some_and(|status| status >= 400) {
            bail!("set-up {} was answered {}", step["request"], answer.body);
        }
        Ok(())
    }

    fn step(&self, raw: &Value, saved: &mut Saved, sent: &str) -> Result<Answer> {
        let mut n = 0;
        loop {
            let lookup = |name: &str| if name == "n" { Some(json!(n)) } else { saved.lookup(name) };
            let filled = template::fill(raw, &lookup, template::Unknown::Refuse)?;
            let step: Step = serde_json::from_value(filled)?;
            saved.prefixes.extend(generate_name(&step));
            let received = self.send_until(&step, saved).with_context(|| step.request.clone())?;
            let last = comparable(&step, &received, Masker::new(sent, &saved.prefixes), saved.managed_fields);
            let times = step.repeat.unwrap_or(1);
            saved.keep(&step, received);
            n += 1;
            if n >= times {
                return Ok(last);
            }
        }
    }

    /// Sends the request until the answer is what the step waits for; once when it waits for nothing.
    fn send_until(&self, step: &Step, saved: &Saved) -> Result<Received> {
        let deadline = Instant::now() + UNTIL_DEADLINE;
        loop {
            let received = self.send(step, saved)?;
            if step.until.iter().all(|(pointer, value)| received.has(pointer, value)) {
                return Ok(received);
            }
            if Instant::now() > deadline {
                bail!("never became {:?}: {}", step.until, String::from_utf8_lossy(&received.body));
            }
            std::thread::sleep(UNTIL_INTERVAL);
        }
    }

    fn send(&self, step: &Step, saved: &Saved) -> Result<Received> {
        let (method, path) = step.request.split_once(' ').context("a request is `METHOD /path`")?;
        let url = reqwest::Url::parse(&format!("{}{path}", self.base))?;
        let method = if method == APPLY { "PATCH" } else { method };
        let mut request = self.client.request(Method::from_bytes(method.as_bytes())?, url);
        request = match step.user {
            User::Admin => request.header(AUTHORIZATION, "Bearer admin-token"),
            User::Alice => request.header(AUTHORIZATION, "Bearer alice-token"),
            User::Stranger => request.header(AUTHORIZATION, "Bearer unknown-token"),
            User::Anonymous => request,
        };
        if let Some(accept) = &step.accept {
            request = request.header(ACCEPT, accept);
        }
        for (name, value) in &step.headers {
            request = request.header(name, value);
        }
        let request = with_body(request, step, saved)?;
        let response = request.send()?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes()?.to_vec();
        Ok(Received { status, headers, body })
    }
}

fn comparable(step: &Step, received: &Received, masker: Masker<'_>, managed_fields: ManagedFields) -> Answer {
    let masker = masker.with_managed_fields(managed_fields);
    let compares = |part| step.compare.contains(&part);
    let mut answer = Answer::default();
    if compares(Part::Status) {
        answer.status = Some(received.status);
    }
    if compares(Part::Type) {
        answer.content_type = Some(received.header("content-type").join(", "));
    }
    let further = step.compare_headers.iter().map(String::as_str);
    for name in compares(Part::Warning).then_some("warning").into_iter().chain(further) {
        let values: Vec<String> = received.header(name).iter().map(|value| masker.text(value)).collect();
        if !values.is_empty() {
            answer.headers.insert(name.to_owned(), values);
        }
    }
    if compares(Part::Body) {
        let mut body = select::narrow(received.parsed(&step.request, managed_fields), step);
        masker.mask(&mut body);
        answer.body = body;
    }
    answer
}
/// The `generateName` that a request sends, if any.
fn generate_name(step: &Step) -> Option<String> {
    Some(step.json.as_ref()?.pointer("/metadata/generateName")?.as_str()?.to_owned())
}

fn with_body(request: RequestBuilder, step: &Step, saved: &Saved) -> Result<RequestBuilder> {
    let (body, usual_type) = if let Some(json) = &step.json {
        (serde_json::to_vec(json)?, "application/json")
    } else if let Some(text) = &step.text {
        (text.clone().into_bytes(), "application/json")
    } else if let Some(message) = &step.proto {
        (wire::encode_enveloped(message)?, "application/vnd.kubernetes.protobuf")
    } else if let Some(name) = &step.body_of {
        let Some(answer) = saved.answers.get(name) else { bail!("no answer was saved as {name}") };
        (answer.body.clone(), "application/json")
    } else {
        return Ok(match &step.content_type {
            Some(content_type) => request.header(CONTENT_TYPE, content_type),
            None => request,
        });
    };
    let usual_type = if step.request.starts_with(APPLY) { "application/apply-patch+yaml" } else { usual_type };
    let content_type = step.content_type.as_deref().unwrap_or(usual_type);
    // An empty type means that the header is left out.
    let request = if content_type.is_empty() { request } else { request.header(CONTENT_TYPE, content_type) };
    Ok(request.body(body))
}

struct Received {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Vec<String> {
        self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// Whether the answer has `value` at `pointer`; a value that is null waits for absence.
    fn has(&self, pointer: &str, value: &Value) -> bool {
        if pointer == "@status" {
            return *value == json!(self.status);
        }
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body.pointer(pointer).unwrap_or(&Value::Null) == value
    }

    fn parsed(&self, request: &str, managed_fields: ManagedFields) -> Value {
        let content_type = self.header("content-type").join(", ");
        if self.body.is_empty() {
            return Value::Null;
        }
        if content_type.starts_with("application/vnd.kubernetes.protobuf") {
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
            return wire::dump_answer(&self.body, wire::Masks { now_s, managed_fields });
        }
        let text = String::from_utf8_lossy(&self.body).into_owned();
        if content_type.starts_with("application/yaml") {
            return serde_saphyr::from_str(&text).unwrap_or(Value::String(text));
        }
        if content_type.starts_with("application/json") {
            let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
            return match documents {
                Ok(mut documents) if documents.len() == 1 && !is_watch(request) => documents.remove(0),
                Ok(documents) => Value::Array(documents.into_iter().filter(|event| !is_idle_bookmark(event)).collect()),
                Err(_) => Value::String(text),
            };
        }
        Value::String(text)
    }
}

fn is_watch(request: &str) -> bool {
    request.contains("watch=true") || request.contains("watch=1") || request.contains("/watch/")
}

/// When bookmarks come is up to the server, except the one that ends the initial events.
fn is_idle_bookmark(event: &Value) -> bool {
    event.get("type").and_then(Value::as_str) == Some("BOOKMARK")
        && event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_none()
}

/// An answer as `{{name.path}}`, `{{name.@header}}` and `body_of` see it.
#[derive(Clone)]
struct SavedAnswer {
    body: Vec<u8>,
    headers: reqwest::header::HeaderMap,
    json: Value,
}

/// What later requests of a case may refer to.
struct Saved {
    id: String,
    answers: BTreeMap<String, SavedAnswer>,
    prefixes: Vec<String>,
    managed_fields: ManagedFields,
}

impl Saved {
    fn lookup(&self, name: &str) -> Option<Value> {
        if name == "id" || name == "ns" {
            return Some(json!(self.id));
        }
        let group = format!("{}.example.com", self.id);
        match name {
            "hook" => return Some(json!(hook_server::get().ok()?.url)),
            "hook_ca" => return Some(json!(hook_server::get().ok()?.ca_bundle)),
            "group" => return Some(json!(group)),
            "gv" => return Some(json!(format!("{group}/v1"))),
            "crds" => return Some(json!(DEFINITIONS)),
            "crd" => return Some(json!(format!("{DEFINITIONS}/things.{group}"))),
            "things" => return Some(json!(format!("/apis/{group}/v1/namespaces/{}/things", self.id))),
            _ => {}
        }
        let (answer, path) = name.split_once('.')?;
        let answer = self.answers.get(answer)?;
        match path.strip_prefix('@') {
            Some(header) => Some(json!(answer.headers.get(header)?.to_str().ok()?)),
            None => template::member(&answer.json, path),
        }
    }

    fn keep(&mut self, step: &Step, received: Received) {
        let json = serde_json::from_slice(&received.body).unwrap_or(Value::Null);
        let answer = SavedAnswer { body: received.body, headers: received.headers, json };
        if let Some(name) = &step.save {
            self.answers.insert(name.clone(), answer.clone());
        }
        self.answers.insert("last".to_owned(), answer);
    }
}
