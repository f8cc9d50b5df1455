//! Admission as a user of the library meets it: real webhooks over TLS, plugins compiled in, plugins switched on and off.

mod hook;
mod plugins;

use std::sync::Arc;

use bailiwick::{Builder, ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use hook::{Hook, TOGETHER};
use kube::Client;
use serde_json::{Value, json};

pub(crate) struct Plane {
    pub running: Running,
    client: Client,
    _dir: tempfile::TempDir,
}

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

impl Plane {
    pub(crate) async fn start(options: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let running = options(ControlPlane::builder(dir.path()).controllers(&[])).start().await.unwrap();
        let user = UserInfo {
            name: "tester".to_owned(),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        let client = Client::new(running.local_service(user), "default");
        Self { running, client, _dir: dir }
    }

    /// Sends an object; the answer, or code and message of the refusal.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> Result<Value, (u16, String)> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap();
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(other) => panic!("{other}"),
        }
    }

    pub(crate) async fn config_map(&self, name: &str) -> Result<Value, (u16, String)> {
        let object = json!({"metadata": {"name": name}});
        self.send("POST", "/api/v1/namespaces/default/configmaps", object).await
    }

    async fn configure(&self, plural: &str, name: &str, webhooks: Vec<Value>) {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let object = json!({"metadata": {"name": name}, "webhooks": webhooks});
        self.send("POST", &path, object).await.unwrap();
    }

    async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        self.client.request_text(request).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_counts_from_the_next_request_until_it_is_gone() {
    let (plane, hook) = (Plane::start(|builder| builder).await, Hook::start());
    assert!(plane.config_map("before").await.is_ok());
    plane.configure(VALIDATING, "v", vec![hook.webhook("v.example.com", "/deny")]).await;
    let refused = plane.config_map("a").await.unwrap_err();
    assert_eq!(refused, (403, "admission webhook \"v.example.com\" denied the request: no".to_owned()));
    let gone = format!("/apis/admissionregistration.k8s.io/v1/{VALIDATING}/v");
    plane.send("DELETE", &gone, json!({})).await.unwrap();
    assert!(plane.config_map("a").await.is_ok());
    assert_eq!(hook.asked(), ["/deny a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_changes_what_is_stored() {
    let (plane, hook) = (Plane::start(|builder| builder).await, Hook::start());
    plane.configure(MUTATING, "m", vec![hook.webhook("m.example.com", "/mark/x")]).await;
    let created = plane.config_map("a").await.unwrap();
    assert_eq!(created["data"], json!({"seen": "x"}));
    let stored = plane.send("GET", "/api/v1/namespaces/default/configmaps/a", json!({})).await.unwrap();
    assert_eq!(stored["data"], created["data"]);
    let question = hook.last();
    assert_eq!(question["operation"], "CREATE");
    assert_eq!(question["userInfo"]["username"], "tester");
    assert_eq!(question["object"]["metadata"].get("uid"), None, "not stamped yet");
    assert_eq!(question["oldObject"], Value::Null);
    assert_eq!(question["options"]["kind"], "CreateOptions");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_ask_see_what_came_after_them_once() {
    let (plane, hook) = (Plane::start(|builder| builder).await, Hook::start());
    let mut first = hook.webhook("first.example.com", "/mark/a");
    first["reinvocationPolicy"] = "IfNeeded".into();
    let second = hook.webhook("second.example.com", "/mark/b");
    plane.configure(MUTATING, "m", vec![first, second]).await;
    let created = plane.config_map("x").await.unwrap();
    assert_eq!(created["data"]["seen"], "aba");
    assert_eq!(hook.asked(), ["/mark/a x", "/mark/b x", "/mark/a x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_webhooks_are_asked_at_the_same_time() {
    let (plane, hook) = (Plane::start(|builder| builder).await, Hook::start());
    let hooks = (0..TOGETHER).map(|n| hook.webhook(&format!("v{n}.example.com"), "/together")).collect();
    plane.configure(VALIDATING, "v", hooks).await;
    plane.config_map("a").await.expect("each is answered only while all are asked");
    assert_eq!(hook.asked().len(), TOGETHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_counted() {
    let (plane, hook) = (Plane::start(|builder| builder).await, Hook::start());
    plane.configure(VALIDATING, "v", vec![hook.webhook("v.example.com", "/deny")]).await;
    plane.config_map("a").await.unwrap_err();
    let metrics = plane.metrics().await;
    for line in [
        "apiserver_admission_webhook_request_total{name=\"v.example.com\",type=\"validating\",operation=\"CREATE\",code=\"403\",rejected=\"true\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"v.example.com\",type=\"validating\",operation=\"CREATE\",rejected=\"true\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_outlives_a_restart() {
    let hook = Hook::start();
    let dir = Arc::new(tempfile::tempdir().unwrap());
    for attempt in 0..2 {
        let running = ControlPlane::builder(dir.path()).controllers(&[]).start().await.unwrap();
        let user = UserInfo { groups: vec![UserInfo::MASTERS.to_owned()], ..UserInfo::default() };
        let client = Client::new(running.local_service(user), "default");
        let plane = Plane { running, client, _dir: tempfile::tempdir().unwrap() };
        if attempt == 0 {
            plane.configure(VALIDATING, "v", vec![hook.webhook("v.example.com", "/deny")]).await;
        }
        assert!(plane.config_map("a").await.is_err());
        plane.running.stop().await;
    }
}
