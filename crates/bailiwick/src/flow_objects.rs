//! Looks after the objects of flow control as kube-apiserver does: those it cannot do without are made again and kept as
//! they must be, suggested ones follow the suggestion until somebody edits them, and every FlowSchema says whether its
//! priority level exists.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_api::flowcontrol::{mandatory_objects, suggested_objects};
use bailiwick_flowcontrol::FlowControl;
use bailiwick_server::{ApiServer, Connection};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bootstrap;

const COLLECTIONS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
/// Whether the server itself may change an object's spec.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// Who makes the objects, by upstream's names, which clients see in managedFields.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
/// Who writes the status of flow schemas.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// How often the objects are looked at even if nothing seems to have changed, as upstream.
const PERIOD: Duration = Duration::from_secs(60);

/// Which rule an object of ours is kept by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// As it must be.
    Mandatory,
    /// As suggested, until somebody edits it.
    Suggested,
}

/// Looks after the objects for as long as it is polled; `changed` says that one was written.
pub(crate) async fn look_after(server: Arc<ApiServer>, control: Arc<FlowControl>, changed: Arc<Notify>) {
    let objects = Objects { server, connection: Arc::new(Connection::in_process(bootstrap::own_user())) };
    let mut period = tokio::time::interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let outcome = tokio::select! {
            () = changed.notified() => objects.mark_dangling(&control).await,
            _ = period.tick() => objects.ensure().await,
        };
        if let Err(error) = outcome {
            tracing::warn!(error, "objects of flow control could not be looked after; trying again later");
        }
    }
}

/// Makes the objects that are missing and corrects those that are not as they should be.
pub(crate) async fn ensure(server: &Arc<ApiServer>, connection: &Arc<Connection>) -> Result<(), String> {
    Objects { server: server.clone(), connection: connection.clone() }.ensure().await
}

struct Objects {
    server: Arc<ApiServer>,
    connection: Arc<Connection>,
}

impl Objects {
    async fn ensure(&self) -> Result<(), String> {
        let ours = |objects: Vec<Value>, kept| objects.into_iter().map(move |object| (object, kept));
        let mut wanted: Vec<(Value, Kept)> =
            ours(suggested_objects(), Kept::Suggested).chain(ours(mandatory_objects(), Kept::Mandatory)).collect();
        // Levels before the schemas that name them.
        wanted.sort_by_key(|(object, _)| object["kind"] == "FlowSchema");
        let stored = [self.list("prioritylevelconfigurations").await?, self.list("flowschemas").await?].concat();
        for (object, kept) in &mut wanted {
            let found = stored.iter().find(|found| same(found, object));
            self.keep(object, *kept, found).await?;
        }
        for unwanted in stored.iter().filter(|found| !wanted.iter().any(|(object, _)| same(found, object))) {
            if auto_update(unwanted) == Some(true) {
                self.send("DELETE", &path_of(unwanted), "", Value::Null, &[200, 404]).await?;
            }
        }
        Ok(())
    }

    async fn keep(&self, wanted: &mut Value, kept: Kept, found: Option<&Value>) -> Result<(), String> {
        let query = format!("?fieldManager={PRODUCER}");
        let Some(found) = found else {
            let collection = format!("{COLLECTIONS}/{}{query}", plural(wanted));
            return self.send("POST", &collection, "application/json", wanted.clone(), &[201, 409]).await.map(|_| ());
        };
        let ours = kept == Kept::Mandatory
            || auto_update(found).unwrap_or_else(|| found["metadata"]["generation"].as_i64() == Some(1));
        default(wanted);
        if wanted["metadata"]["name"] == "exempt" && wanted["spec"]["type"] == "Exempt" {
            // How much the exempt level counts for may be set by anybody.
            wanted["spec"]["exempt"] = found["spec"]["exempt"].clone();
        }
        let mut revised = found.clone();
        if ours && wanted["spec"] != found["spec"] {
            revised["spec"] = wanted["spec"].clone();
        }
        if auto_update(found) != Some(ours) {
            revised["metadata"]["annotations"][AUTO_UPDATE] = ours.to_string().into();
        }
        if revised == *found {
            return Ok(());
        }
        let path = format!("{}{query}", path_of(found));
        self.send("PUT", &path, "application/json", revised, &[200, 404, 409]).await.map(|_| ())
    }

    /// Writes into the status of each schema whether its level exists.
    async fn mark_dangling(&self, control: &FlowControl) -> Result<(), String> {
        for schema in self.list("flowschemas").await? {
            let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
            let condition = dangling(level, control.level_exists(level));
            let is_said = |present: &Value| {
                ["type", "status", "reason", "message"].iter().all(|field| present[field] == condition[field])
            };
            if schema["status"]["conditions"].as_array().is_some_and(|present| present.iter().any(is_said)) {
                continue;
            }
            let path = format!("{}/status?fieldManager={CONSUMER}&force=true", path_of(&schema));
            let patch = json!({
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
                "metadata": {"name": schema["metadata"]["name"]}, "status": {"conditions": [condition]},
            });
            self.send("PATCH", &path, "application/apply-patch+yaml", patch, &[200, 404]).await?;
        }
        Ok(())
    }

    async fn list(&self, plural: &str) -> Result<Vec<Value>, String> {
        let list = self.send("GET", &format!("{COLLECTIONS}/{plural}"), "", Value::Null, &[200, 404]).await?;
        let kind = if plural == "flowschemas" { "FlowSchema" } else { "PriorityLevelConfiguration" };
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter_mut().for_each(|item| item["kind"] = kind.into());
        Ok(items)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Value,
        expected: &[u16],
    ) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(http_body_util::Full::from(body));
        let (status, text) = bootstrap::send(&self.server, &self.connection, request).await?;
        // A control plane may be composed without these types.
        if !expected.contains(&status) && status != 404 {
            return Err(format!("{method} {path}: {status} {text}"));
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

fn same(a: &Value, b: &Value) -> bool {
    a["kind"] == b["kind"] && a["metadata"]["name"] == b["metadata"]["name"]
}

fn plural(object: &Value) -> &'static str {
    if object["kind"] == "FlowSchema" { "flowschemas" } else { "prioritylevelconfigurations" }
}

fn path_of(object: &Value) -> String {
    format!("{COLLECTIONS}/{}/{}", plural(object), object["metadata"]["name"].as_str().unwrap_or_default())
}

/// What the annotation says, if it says yes or no as Go spells them.
fn auto_update(object: &Value) -> Option<bool> {
    match object["metadata"]["annotations"][AUTO_UPDATE].as_str()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Fills in what the stored object has been filled in with.
fn default(object: &mut Value) {
    let plural = plural(object);
    if let Some(resource) = bailiwick_api::flowcontrol::resources().iter().find(|resource| resource.plural == plural) {
        resource.strategy.default(object);
    }
}

fn dangling(level: &str, exists: bool) -> Value {
    let (status, reason, what) =
        if exists { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    json!({
        "type": "Dangling", "status": status, "reason": reason,
        "message": format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {what}"),
        "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
