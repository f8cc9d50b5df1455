//! A control plane in this process, asked request by request.

use std::sync::Arc;
use std::time::Duration;

use bailiwick::{ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::Connection;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub struct Plane {
    running: Running,
    _dir: tempfile::TempDir,
}

impl Plane {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { running: ControlPlane::builder(dir.path()).start().await.unwrap(), _dir: dir }
    }

    /// One request of the administrator's. A hang is a failure.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, bytes) = self.bytes(method, path, body).await;
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub async fn bytes(&self, method: &str, path: &str, body: &Value) -> (u16, Bytes) {
        let patch = "application/merge-patch+json";
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", if method == "PATCH" { patch } else { "application/json" })
            .body(Full::new(Bytes::from(text)))
            .unwrap();
        let groups = vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()];
        let admin = UserInfo { name: "admin".into(), groups, ..UserInfo::default() };
        let asking = async {
            let answer = self.running.server.handle(request, Arc::new(Connection::in_process(admin))).await;
            (answer.status().as_u16(), answer.into_body().collect().await.expect("a whole answer").to_bytes())
        };
        tokio::time::timeout(DEADLINE, asking).await.unwrap_or_else(|_| panic!("no answer to {method} {path}"))
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &Value::Null).await
    }

    /// Creates a definition and waits until it says that it is established.
    pub async fn establish(&self, definition: &Value) {
        let name = definition["metadata"]["name"].as_str().expect("a name");
        let (status, answer) = self.send("POST", DEFINITIONS, definition).await;
        assert_eq!(status, 201, "{name}: {}", brief(&answer));
        self.until(&format!("{DEFINITIONS}/{name}"), |_, found| {
            let conditions = found["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
        })
        .await;
    }

    async fn until(&self, path: &str, good: impl Fn(u16, &Value) -> bool) {
        let asking = async {
            loop {
                let (status, found) = self.get(path).await;
                if good(status, &found) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, asking).await.unwrap_or_else(|_| panic!("{path} never became good"));
    }
}

/// The beginning of an answer that may be long.
pub fn brief(answer: &Value) -> String {
    answer["message"].as_str().unwrap_or_default().chars().take(300).collect()
}

/// A definition of namespaced `things` in a group, with one version per schema: v1, v2 and so on.
pub fn definition(group: &str, schemas: &[Value]) -> Value {
    let versions: Vec<Value> = schemas
        .iter()
        .enumerate()
        .map(|(at, schema)| {
            json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": schema}})
        })
        .collect();
    json!({
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": versions,
        },
    })
}

/// A thing of a group.
pub fn thing(group: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}
