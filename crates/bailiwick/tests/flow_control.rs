//! Flow control as clients see it: who is turned away, who is not, and what the answers say. No test measures time: levels
//! that have exactly one seat, or none, tell who holds one.

use std::sync::Arc;
use std::time::Duration;

use bailiwick::{AuthorizationMode, AuthorizationOptions, ControlPlane, Fairness, FlowControlOptions, Running};
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::http::ResponseBody;
use bailiwick_server::{ApiServer, Connection};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);

struct Plane {
    running: Running,
    _dir: tempfile::TempDir,
}

impl Plane {
    async fn start(options: FlowControlOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authorization = AuthorizationOptions::modes([AuthorizationMode::AlwaysAllow]);
        let builder = ControlPlane::builder(dir.path()).flow_control(options).authorization(authorization);
        Self { running: builder.controllers(&[]).start().await.unwrap(), _dir: dir }
    }

    fn client(&self, name: &str, group: &str) -> Client {
        let user = UserInfo { name: name.into(), groups: vec![group.into()], ..UserInfo::default() };
        Client { server: self.running.server.clone(), connection: Arc::new(Connection::in_process(user)) }
    }

    fn admin(&self) -> Client {
        self.client("admin", UserInfo::MASTERS)
    }

    fn alice(&self) -> Client {
        self.client("alice", UserInfo::AUTHENTICATED)
    }
}

struct Client {
    server: Arc<ApiServer>,
    connection: Arc<Connection>,
}

impl Client {
    async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Response<ResponseBody> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        self.server.handle(request.body(Full::<bytes::Bytes>::from(body)).unwrap(), self.connection.clone()).await
    }

    async fn get(&self, path: &str) -> Response<ResponseBody> {
        self.send("GET", path, "", &Value::Null).await
    }

    /// The object at `path`, after its body was read.
    async fn read(&self, path: &str) -> Value {
        let body = self.get(path).await.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    async fn create(&self, collection: &str, object: &Value) {
        let answer = self.send("POST", collection, "application/json", object).await;
        assert_eq!(answer.status(), 201, "{object}");
    }

    async fn patch(&self, path: &str, patch: &Value) {
        let answer = self.send("PATCH", path, "application/merge-patch+json", patch).await;
        assert_eq!(answer.status(), 200, "{path}");
    }

    async fn delete(&self, path: &str) {
        assert_eq!(self.send("DELETE", path, "", &Value::Null).await.status(), 200, "{path}");
    }
}

/// A level that rejects, with so many shares, which neither lends nor borrows: none is no seat, few are one.
fn rejecting(shares: u32) -> Value {
    json!({
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    })
}

/// Sends all of alice's requests to a level.
fn alices(level: &str) -> Value {
    json!({
        "metadata": {"name": "alices"},
        "spec": {
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 50,
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "alice"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    })
}

fn few_seats() -> FlowControlOptions {
    FlowControlOptions { max_requests_inflight: 5, max_mutating_requests_inflight: 5, ..FlowControlOptions::default() }
}

/// A plane on which alice's level has exactly one seat.
async fn one_seat() -> Plane {
    let plane = Plane::start(few_seats()).await;
    let admin = plane.admin();
    admin.create(&format!("{GROUP}/prioritylevelconfigurations"), &rejecting(1)).await;
    admin.create(&format!("{GROUP}/flowschemas"), &alices("narrow")).await;
    plane
}

fn header<'a>(answer: &'a Response<ResponseBody>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn answers_name_the_schema_and_the_level_that_decided() {
    let plane = Plane::start(FlowControlOptions::default()).await;
    let admin = plane.admin();
    let uid =
        async |path: &str| admin.read(&format!("{GROUP}/{path}")).await["metadata"]["uid"].as_str().unwrap().to_owned();
    let answer = plane.alice().get(MAPS).await;
    assert_eq!(header(&answer, "x-kubernetes-pf-flowschema-uid"), Some(&*uid("flowschemas/global-default").await));
    let level = uid("prioritylevelconfigurations/global-default").await;
    assert_eq!(header(&answer, "x-kubernetes-pf-prioritylevel-uid"), Some(&*level));
    let answer = admin.get(MAPS).await;
    assert_eq!(header(&answer, "x-kubernetes-pf-flowschema-uid"), Some(&*uid("flowschemas/exempt").await));
}

#[tokio::test]
async fn a_stored_schema_or_level_decides_over_the_very_next_request() {
    let plane = Plane::start(FlowControlOptions::default()).await;
    let (admin, alice) = (plane.admin(), plane.alice());
    admin.create(&format!("{GROUP}/prioritylevelconfigurations"), &rejecting(0)).await;
    for _ in 0..20 {
        assert_eq!(alice.get(MAPS).await.status(), 200);
        admin.create(&format!("{GROUP}/flowschemas"), &alices("narrow")).await;
        assert_eq!(alice.get(MAPS).await.status(), 429);
        admin.patch(&format!("{GROUP}/prioritylevelconfigurations/narrow"), &rejecting(30)).await;
        assert_eq!(alice.get(MAPS).await.status(), 200);
        admin.patch(&format!("{GROUP}/prioritylevelconfigurations/narrow"), &rejecting(0)).await;
        assert_eq!(alice.get(MAPS).await.status(), 429);
        admin.delete(&format!("{GROUP}/flowschemas/alices")).await;
    }
}

#[tokio::test]
async fn who_is_turned_away_is_told_when_to_come_back_and_others_are_served() {
    let plane = Plane::start(FlowControlOptions::default()).await;
    let admin = plane.admin();
    admin.create(&format!("{GROUP}/prioritylevelconfigurations"), &rejecting(0)).await;
    admin.create(&format!("{GROUP}/flowschemas"), &alices("narrow")).await;
    let answer = plane.alice().get(MAPS).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(header(&answer, "retry-after"), Some("1"));
    assert_eq!(header(&answer, "content-type"), Some("text/plain; charset=utf-8"));
    assert!(header(&answer, "x-kubernetes-pf-flowschema-uid").is_some());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    assert_eq!(plane.client("bob", UserInfo::AUTHENTICATED).get(MAPS).await.status(), 200);
    let metrics = admin.get("/metrics").await.into_body().collect().await.unwrap().to_bytes();
    let line = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"alices\",priority_level=\"narrow\",\
                reason=\"concurrency-limit\"} 1";
    assert!(String::from_utf8_lossy(&metrics).lines().any(|found| found == line));
}

#[tokio::test]
async fn a_list_holds_its_seat_until_it_is_read() {
    let plane = one_seat().await;
    let alice = plane.alice();
    let list = alice.get(MAPS).await;
    assert_eq!(list.status(), 200);
    assert_eq!(alice.get("/version").await.status(), 429);
    drop(list.into_body().collect().await.unwrap());
    assert_eq!(alice.get("/version").await.status(), 200);
    // And so does one that the client no longer wants.
    drop(alice.get(MAPS).await);
    assert_eq!(alice.get("/version").await.status(), 200);
}

#[tokio::test]
async fn a_watch_holds_a_seat_only_until_it_has_caught_up() {
    let plane = one_seat().await;
    plane.admin().create(MAPS, &json!({"metadata": {"name": "m"}})).await;
    let alice = plane.alice();
    let revision = plane.admin().read(MAPS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let _resumed = alice.get(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    let mut watch = alice.get(&format!("{MAPS}?watch=true")).await;
    assert_eq!(watch.status(), 200);
    assert_eq!(alice.get("/version").await.status(), 429, "the initial events are still to be sent");
    let first = watch.body_mut().frame().await.unwrap().unwrap();
    assert!(first.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    let _all = futures::FutureExt::now_or_never(watch.body_mut().frame());
    assert_eq!(alice.get("/version").await.status(), 200);
}

#[tokio::test]
async fn flow_schemas_say_whether_their_level_exists() {
    let plane = Plane::start(FlowControlOptions::default()).await;
    let admin = plane.admin();
    let until = async |status: &str, reason: &str| {
        tokio::time::timeout(DEADLINE, async {
            loop {
                let schema = admin.read(&format!("{GROUP}/flowschemas/alices")).await;
                let condition = &schema["status"]["conditions"][0];
                if condition["status"] == status && condition["reason"] == reason {
                    assert_eq!(condition["type"], "Dangling");
                    return;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the condition should come");
    };
    admin.create(&format!("{GROUP}/flowschemas"), &alices("narrow")).await;
    until("True", "NotFound").await;
    admin.create(&format!("{GROUP}/prioritylevelconfigurations"), &rejecting(1)).await;
    until("False", "Found").await;
    admin.delete(&format!("{GROUP}/prioritylevelconfigurations/narrow")).await;
    until("True", "NotFound").await;
}

#[tokio::test]
async fn suggested_objects_are_restored_at_a_start_until_somebody_says_otherwise() {
    let mut server = bailiwick_testkit::Server::start(env!("CARGO_BIN_EXE_bailiwick")).unwrap();
    let client = server.client().await.unwrap();
    let level = |name: &str| format!("{GROUP}/prioritylevelconfigurations/{name}");
    let send = async |client: &kube::Client, method: &str, path: &str, body: Value| -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request =
            Request::builder().method(method).uri(path).header("content-type", "application/merge-patch+json");
        client.request(request.body(body).unwrap()).await.unwrap()
    };
    let shares = json!({"spec": {"limited": {"nominalConcurrencyShares": 7}}});
    send(&client, "PATCH", &level("workload-low"), shares.clone()).await;
    send(&client, "PATCH", &level("workload-high"), shares).await;
    let kept = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}});
    send(&client, "PATCH", &level("workload-high"), kept).await;
    send(&client, "DELETE", &format!("{GROUP}/flowschemas/probes"), Value::Null).await;
    server.restart().unwrap();

    let client = server.client().await.unwrap();
    let shares = async |name: &str| {
        send(&client, "GET", &level(name), Value::Null).await["spec"]["limited"]["nominalConcurrencyShares"].clone()
    };
    assert_eq!(shares("workload-low").await, 100);
    assert_eq!(shares("workload-high").await, 7);
    let probes = send(&client, "GET", &format!("{GROUP}/flowschemas/probes"), Value::Null).await;
    assert_eq!(probes["spec"]["matchingPrecedence"], 2);
}

#[tokio::test]
async fn without_fairness_plain_limits_hold_for_reads_and_writes_apart_and_not_for_masters() {
    let options =
        FlowControlOptions { fairness: Fairness::Off, max_requests_inflight: 1, max_mutating_requests_inflight: 1 };
    let plane = Plane::start(options).await;
    let (admin, alice) = (plane.admin(), plane.alice());
    let list = alice.get(MAPS).await;
    let refused = alice.get("/version").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    assert_eq!(header(&refused, "x-kubernetes-pf-flowschema-uid"), None);
    alice.create(MAPS, &json!({"metadata": {"name": "m"}})).await;
    assert_eq!(admin.get("/version").await.status(), 200);
    drop(list);
    assert_eq!(alice.get("/version").await.status(), 200);
}

#[tokio::test]
async fn operators_can_look_at_levels_and_queues() {
    let plane = Plane::start(FlowControlOptions::default()).await;
    let answer = plane.admin().get("/debug/api_priority_and_fairness/dump_priority_levels").await;
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(
        names,
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low"
        ],
        "{text}"
    );
}
