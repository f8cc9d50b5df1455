//! Requests in situations that no recording of another server brings about: history that is gone, watches about to end,
//! names that are taken as soon as they are made, selectors that leave one object of many. In process, without a socket.

mod generated_names;
mod history;
mod selectors;

use bailiwick::{Builder, ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

/// A control plane, and its administrator.
struct Plane {
    running: Running,
    _dir: tempfile::TempDir,
}

/// A whole answer.
struct Answer {
    status: u16,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The events of a watch that is over.
    fn events(&self) -> Vec<Value> {
        serde_json::Deserializer::from_slice(&self.body).into_iter().map(Result::unwrap).collect()
    }

    /// The names of the objects in a list.
    fn names(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{:?}", self.body);
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        self.json()["items"].as_array().unwrap().iter().map(name).collect()
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

impl Plane {
    async fn start(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let running = configure(ControlPlane::builder(dir.path()).controllers(&[])).start().await.unwrap();
        Self { running, _dir: dir }
    }

    async fn send(&self, method: &str, path: &str, accept: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder().method(method).uri(path).header("accept", accept);
        let request = request.header("content-type", JSON).body(Full::new(Bytes::from(body))).unwrap();
        let user = UserInfo {
            name: "tester".to_owned(),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        let response = self.running.local_service(user).call(request).await.unwrap();
        let status = response.status().as_u16();
        Answer { status, body: response.into_body().collect().await.unwrap().to_bytes() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, JSON, Value::Null).await
    }

    /// Creates a ConfigMap and gives it as it was stored.
    async fn config_map(&self, namespace: &str, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"metadata": {"name": name, "labels": {"name": name}}});
        let created = self.send("POST", &path, JSON, object).await;
        assert_eq!(created.status, 201, "{:?}", created.body);
        created.json()
    }
}
