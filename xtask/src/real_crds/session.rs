//! What is asked of a server about one definition and its samples: create, wait until served, read; each sample created, read,
//! applied by another manager and deleted. The answers come masked.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::sources::{Revision, text_at};
use crate::conformance::exchange::{Answer, Server};
use crate::conformance::mask::Masker;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Namespaced samples go where everybody has a namespace.
const NAMESPACE: &str = "default";
/// Names the manager of what is created, so it is part of the recording.
const USER_AGENT: &str = "conformance/1.0";
/// A saturated kube-apiserver takes long to serve a new type.
const DEADLINE: Duration = Duration::from_secs(180);
/// How often a server is asked whether it has come so far.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How upstream's complaint about a field that the schema does not have ends.
const UNDECLARED: &str = ": field not declared in schema";

/// An answer, with the request that it is to.
pub type Exchange = (String, Answer);

/// A connection to one of the servers.
pub struct Session<'a> {
    client: Client,
    base: &'a str,
}

impl<'a> Session<'a> {
    /// Connects, and makes sure of the namespace.
    pub fn new(server: &'a Server) -> Result<Self> {
        let client =
            Client::builder().danger_accept_invalid_certs(true).timeout(DEADLINE).user_agent(USER_AGENT).build()?;
        let session = Self { client, base: server.base() };
        // Either answer will do: it was there, or is now.
        session.send(Method::POST, "/api/v1/namespaces", Some(&json!({"metadata": {"name": NAMESPACE}})))?;
        Ok(session)
    }

    /// Everything about one definition. It stays, so that a server has as many as a cluster with these projects.
    pub fn run(&self, revision: &Revision) -> Result<Vec<Exchange>> {
        let mut exchanges = Vec::new();
        let definition = &revision.definition;
        let path = format!("{DEFINITIONS}/{}", text_at(definition, "/metadata/name"));
        let strict = format!("{DEFINITIONS}?fieldValidation=Strict");
        let created = self.send(Method::POST, &strict, Some(definition))?;
        let is_created = created.status == Some(201);
        exchanges.push(("POST".to_owned(), mask_definition(created)));
        if is_created {
            self.wait_until_served(revision, &path)?;
            exchanges.push(("GET".to_owned(), mask_definition(self.send(Method::GET, &path, None)?)));
        }
        for (place, sample) in &revision.samples {
            self.round_trip(revision, place, sample, &mut exchanges).with_context(|| place.clone())?;
        }
        Ok(exchanges)
    }

    /// Makes room for another revision of the same definition.
    pub fn remove(&self, revision: &Revision) -> Result<()> {
        let path = format!("{DEFINITIONS}/{}", text_at(&revision.definition, "/metadata/name"));
        self.send(Method::DELETE, &path, None)?;
        self.wait_for("it to be gone", || Ok(self.send(Method::GET, &path, None)?.status == Some(404)))?;
        // kube-apiserver's controllers see it later; one that is created before that may never be established.
        for list in lists(revision) {
            self.wait_for("its list to be gone", || Ok(self.send(Method::GET, &list, None)?.status == Some(404)))?;
        }
        Ok(())
    }

    fn round_trip(
        &self,
        revision: &Revision,
        place: &str,
        sample: &Value,
        exchanges: &mut Vec<Exchange>,
    ) -> Result<()> {
        let (mut sample, collection) = (sample.clone(), self.collection(revision, sample));
        if let Some(metadata) = sample.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        let sent = sample.to_string();
        let prefixes: Vec<String> =
            sample.pointer("/metadata/generateName").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
        let mut keep = |request: &str, mut answer: Answer| {
            Masker::new(&sent, &prefixes).mask(&mut answer.body);
            forget_order(&mut answer.body);
            exchanges.push((format!("{request} {place}"), answer));
        };
        let created = self.send(Method::POST, &collection, Some(&sample))?;
        let name = [text_at(&created.body, "/metadata/name"), text_at(&sample, "/metadata/name")];
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned();
        keep("POST", created);
        if name.is_empty() {
            return Ok(());
        }
        let path = format!("{collection}/{name}");
        keep("GET", self.send(Method::GET, &path, None)?);
        if let Some(metadata) = sample.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), Value::String(name));
        }
        keep("APPLY", self.apply(&format!("{path}?fieldManager=other&force=true"), &sample)?);
        keep("DELETE", self.send(Method::DELETE, &path, None)?);
        if sample.pointer("/metadata/finalizers").is_some() {
            self.send(Method::PATCH, &path, Some(&json!({"metadata": {"finalizers": null}})))?;
        }
        Ok(())
    }

    fn collection(&self, revision: &Revision, sample: &Value) -> String {
        let plural = text_at(&revision.definition, "/spec/names/plural");
        let group_version = text_at(sample, "/apiVersion");
        match text_at(&revision.definition, "/spec/scope") {
            "Namespaced" => format!("/apis/{group_version}/namespaces/{NAMESPACE}/{plural}"),
            _ => format!("/apis/{group_version}/{plural}"),
        }
    }

    /// Established, judged, and listed. A definition may never be: then its state is what is compared.
    fn wait_until_served(&self, revision: &Revision, path: &str) -> Result<()> {
        let group = revision.group();
        let is_protected = group.ends_with(".k8s.io") || group == "k8s.io" || group.ends_with(".kubernetes.io");
        let mut is_established = false;
        self.wait_for("Established", || {
            let answer = self.send(Method::GET, path, None)?;
            let condition = |kind: &str, member: &str| {
                let conditions = answer.body.pointer("/status/conditions").and_then(Value::as_array)?;
                let condition = conditions.iter().find(|condition| text_at(condition, "/type") == kind)?;
                Some(text_at(condition, member))
            };
            is_established = condition("Established", "/status") == Some("True");
            let is_judged = !is_protected || condition("KubernetesAPIApprovalPolicyConformant", "/status").is_some();
            let is_refused = condition("NamesAccepted", "/status") == Some("False")
                || condition("Established", "/reason") == Some("InvalidCABundle");
            Ok(is_judged && (is_established || is_refused))
        })?;
        for list in lists(revision).iter().filter(|_| is_established) {
            self.wait_for("the list", || Ok(self.send(Method::GET, list, None)?.status != Some(404)))?;
        }
        Ok(())
    }

    fn wait_for(&self, what: &str, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while !is_done()? {
            if Instant::now() > deadline {
                bail!("waited in vain for {what}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn apply(&self, path: &str, body: &Value) -> Result<Answer> {
        self.exchange(Method::PATCH, path, "application/apply-patch+yaml", Some(body))
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.exchange(method, path, content_type, body)
    }

    fn exchange(&self, method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Result<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth("admin-token");
        if let Some(body) = body {
            request = request.header("Content-Type", content_type).body(serde_json::to_vec(body)?);
        }
        let response = request.send()?;
        let mut answer = Answer { status: Some(response.status().as_u16()), ..Answer::default() };
        let warnings: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        if !warnings.is_empty() {
            answer.headers.insert("warning".to_owned(), warnings);
        }
        let bytes = response.bytes()?;
        answer.body =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        Ok(answer)
    }
}

/// Where the objects of each served version are.
fn lists(revision: &Revision) -> Vec<String> {
    let versions = revision.definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let (group, plural) = (revision.group(), text_at(&revision.definition, "/spec/names/plural"));
    let served = versions.filter(|version| version["served"] == json!(true));
    served.map(|version| format!("/apis/{group}/{}/{plural}?limit=1", text_at(version, "/name"))).collect()
}

/// Upstream walks the members of an object in no particular order: so come several errors of a schema, and of several unknown
/// fields an apply names any one.
fn forget_order(status: &mut Value) {
    let causes = status.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    let has_many = causes.is_some_and(|causes| {
        causes.sort_by_cached_key(Value::to_string);
        causes.len() > 1
    });
    let Some(Value::String(message)) = status.get_mut("message") else { return };
    if has_many {
        *message = "<causes>".to_owned();
    } else if message.starts_with("failed to create typed patch object") {
        let mut lines: Vec<&str> = message.lines().collect();
        lines.sort_unstable();
        let sorted = lines.join("\n");
        *message = match (sorted.strip_suffix(UNDECLARED), sorted.rfind("): ")) {
            (Some(_), Some(end)) if lines.len() == 1 => format!("{}): <field>{UNDECLARED}", &sorted[..end]),
            _ => sorted,
        };
    }
}

/// Masks all but the spec: what a definition says is what was sent, and holds megabytes of prose.
fn mask_definition(mut answer: Answer) -> Answer {
    let is_definition = text_at(&answer.body, "/kind") == "CustomResourceDefinition";
    let spec = if is_definition { answer.body.get_mut("spec").map(Value::take) } else { None };
    // Several controllers add conditions, in no particular order.
    if let Some(conditions) = answer.body.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_cached_key(|condition| text_at(condition, "/type").to_owned());
    }
    Masker::new("", &[]).mask(&mut answer.body);
    if let (Some(spec), Some(body)) = (spec, answer.body.as_object_mut()) {
        body.insert("spec".to_owned(), spec);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_order(mut status: Value) -> Value {
        forget_order(&mut status);
        status
    }

    #[test]
    fn the_order_of_errors_is_forgotten_and_what_they_say_is_not() {
        let invalid = |fields: [&str; 2]| {
            let causes = fields.map(|field| json!({"field": field}));
            json!({"message": fields.join(", "), "details": {"causes": causes}})
        };
        assert_eq!(without_order(invalid(["a", "b"])), without_order(invalid(["b", "a"])));
        assert_ne!(without_order(invalid(["a", "b"])), without_order(invalid(["a", "c"])));
    }

    #[test]
    fn of_several_unknown_fields_any_may_be_named() {
        let refused = |field: &str| json!({"message": format!("failed to create typed patch object (/x; g/v1, Kind=K): {field}: field not declared in schema")});
        assert_eq!(without_order(refused(".spec.a")), without_order(refused(".spec.b")));
    }
}
