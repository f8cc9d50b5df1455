//! The audit log of a whole control plane: requests through the server, events as they are written.

#[path = "audit/differences.rs"]
mod differences;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick::audit::{AuditLog, AuditOptions, AuditStream};
use bailiwick::{AuthenticationOptions, ControlPlane, Running};
use bailiwick_audit::stream::StreamOptions;
use bailiwick_audit::{AuditSink, Batch, Compress, LogFormat, LogOptions, Mode, SinkError};
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::strategy::Strategy;
use bailiwick_server::Connection;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const EVERYTHING: &str = include_str!("audit/policy.yaml");
const NS: &str = "/api/v1/namespaces/default";

struct Plane {
    running: Running,
    dir: tempfile::TempDir,
}

impl Plane {
    async fn start(policy: &str, configure: impl FnOnce(&Path, AuditOptions) -> AuditOptions) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), policy, configure, bailiwick_api::native_resources()).await
    }

    async fn start_in(
        dir: tempfile::TempDir,
        policy: &str,
        configure: impl FnOnce(&Path, AuditOptions) -> AuditOptions,
        resources: Vec<Resource>,
    ) -> Self {
        let (tokens, policy_file) = (dir.path().join("tokens.csv"), dir.path().join("policy.yaml"));
        std::fs::write(&tokens, "admin-token,admin,admin,\"system:masters\"\nalice-token,alice,alice-uid,\"dev,qa\"\n")
            .unwrap();
        std::fs::write(&policy_file, policy).unwrap();
        let options = AuditOptions {
            policy_file: Some(policy_file),
            log: Some(AuditLog {
                file: log_options(dir.path().join("audit.log")),
                mode: Mode::Batch,
                buffering: None,
                truncation: None,
            }),
            ..AuditOptions::default()
        };
        let running = ControlPlane::builder(dir.path().join("data"))
            .authentication(AuthenticationOptions { token_auth_file: Some(tokens), ..AuthenticationOptions::default() })
            .controllers(&[])
            .resources(resources)
            .audit(configure(dir.path(), options))
            .start()
            .await
            .unwrap();
        Self { running, dir }
    }

    /// Sends a request and reads the whole answer.
    async fn send(&self, id: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        let peer: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in [("audit-id", id), ("user-agent", "audit-test/1")].iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let response = self.running.server.handle(request, Arc::new(Connection::new(Some(peer), Vec::new()))).await;
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    }

    async fn admin(&self, id: &str, method: &str, path: &str, body: &Value) -> u16 {
        let headers = [("authorization", "Bearer admin-token"), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(id, method, path, &headers, &body).await
    }

    /// Stops the server and gives the events of the request `id`.
    async fn events_of(self, id: &str) -> Vec<Value> {
        self.events().await.into_iter().filter(|event| event["auditID"] == id).collect()
    }

    async fn events(self) -> Vec<Value> {
        self.running.stop().await;
        let text = std::fs::read_to_string(self.dir.path().join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}

fn log_options(path: PathBuf) -> LogOptions {
    LogOptions {
        path,
        format: LogFormat::Json,
        bytes_max: 0,
        backups_max: 0,
        age_max: Duration::ZERO,
        compress: Compress::No,
    }
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_kube_apiservers() {
    let plane = Plane::start(EVERYTHING, |_, options| options).await;
    let scenario: Vec<Value> = serde_json::from_str(include_str!("audit/scenario.json")).unwrap();
    for step in &scenario {
        let text = |field: &str| step[field].as_str().unwrap_or_default();
        let headers: Vec<(&str, &str)> = step["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (&**name, value.as_str().unwrap()))
            .collect();
        plane.send(text("id"), text("method"), text("path"), &headers, text("body")).await;
    }
    let ids: Vec<&Value> = scenario.iter().map(|step| &step["id"]).collect();
    let ours: Vec<Value> = plane.events().await.into_iter().filter(|event| ids.contains(&&event["auditID"])).collect();
    let theirs: Vec<Value> =
        include_str!("audit/golden.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    differences::assert_same(&ours, &theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_secret_or_token_is_recorded() {
    let plane = Plane::start(EVERYTHING, |_, options| options).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations":
        {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}, "stringData": {"password": "hunter2"}});
    assert_eq!(plane.admin("1", "POST", &format!("{NS}/secrets"), &secret).await, 201);
    let patch = [("authorization", "Bearer admin-token"), ("content-type", "application/json-patch+json")];
    let body = r#"[{"op":"add","path":"/data/more","value":"aHVudGVyMg=="}]"#;
    assert_eq!(plane.send("2", "PATCH", &format!("{NS}/secrets/s"), &patch, body).await, 200);
    let apply = [("authorization", "Bearer admin-token"), ("content-type", "application/apply-patch+yaml")];
    let body = "apiVersion: v1\nkind: Secret\nmetadata: {name: t}\nstringData: {password: hunter2}\n";
    assert_eq!(plane.send("3", "PATCH", &format!("{NS}/secrets/t?fieldManager=m"), &apply, body).await, 201);
    let refused = [
        ("json-patch+json", r#"[{"op":"add","path":"/data/more","value":7}]"#),
        ("merge-patch+json", r#"{"data":{"more":"!"}}"#),
        ("strategic-merge-patch+json", r#"{"data":{"more":"hunter2!"}}"#),
        ("apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {more: [hunter2]}\n"),
        ("json", r#"{"password":"hunter2"#),
    ];
    for (kind, body) in refused {
        let headers = [("authorization", "Bearer admin-token"), ("content-type", &*format!("application/{kind}"))];
        let (method, path) = if kind == "json" { ("POST", "secrets") } else { ("PATCH", "secrets/s?fieldManager=m") };
        let code = plane.send(kind, method, &format!("{NS}/{path}"), &headers, body).await;
        assert!(code >= 400, "{kind}: {code}");
    }
    plane.admin("4", "GET", &format!("{NS}/secrets"), &Value::Null).await;
    let table = [("authorization", "Bearer admin-token"), ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    plane.send("5", "GET", &format!("{NS}/secrets?includeObject=Object"), &table, "").await;
    let yaml = [("authorization", "Bearer admin-token"), ("accept", "application/yaml")];
    plane.send("6", "GET", &format!("{NS}/secrets/s"), &yaml, "").await;
    plane.admin("7", "DELETE", &format!("{NS}/secrets"), &Value::Null).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "hunter2"}});
    plane.admin("8", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    let events = plane.events().await;
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    let bodies = |id: &str| {
        let event = events.iter().find(|e| e["auditID"] == id && e["stage"] == "ResponseComplete").unwrap();
        (event["requestObject"].clone(), event["responseObject"].clone())
    };
    let message = bodies("merge-patch+json").1["message"].clone();
    assert!(message.as_str().is_some_and(|message| message.contains("<secret contents redacted>")), "{message}");
    assert_eq!(bodies("1").0["stringData"], json!({"password": "REDACTED"}));
    assert_eq!(bodies("1").1["data"], json!({"password": "REDACTED"}));
    assert_eq!(bodies("3").0["stringData"], json!({"password": "REDACTED"}));
    assert_eq!(bodies("4").1["items"][0]["data"]["password"], "REDACTED");
    assert_eq!(bodies("6").1["data"]["password"], "REDACTED");
    assert_eq!(bodies("8").0["spec"]["token"], "REDACTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_and_stages_are_the_policys() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
                  - {level: None, users: [alice]}\n- {level: Metadata, verbs: [get]}\n- {level: Request, verbs: [update]}\n\
                  - {level: RequestResponse, verbs: [create]}\n";
    let plane = Plane::start(policy, |_, options| options).await;
    plane.admin("create", "POST", &format!("{NS}/configmaps"), &config_map("a")).await;
    plane.admin("update", "PUT", &format!("{NS}/configmaps/a"), &config_map("a")).await;
    plane.admin("get", "GET", &format!("{NS}/configmaps/a"), &Value::Null).await;
    plane.admin("list", "GET", &format!("{NS}/configmaps"), &Value::Null).await;
    plane.send("alice", "GET", &format!("{NS}/configmaps/a"), &[("authorization", "Bearer alice-token")], "").await;
    let events = plane.events().await;
    let of = |id: &str| events.iter().filter(|event| event["auditID"] == id).collect::<Vec<_>>();
    assert!(of("list").is_empty() && of("alice").is_empty());
    let [create] = of("create")[..] else { panic!("one stage") };
    assert_eq!(create["requestObject"]["data"]["a"], "b");
    assert_eq!(create["responseObject"]["metadata"]["name"], "a");
    assert_eq!(create["responseObject"]["metadata"]["managedFields"], Value::Null, "omitted");
    let [update] = of("update")[..] else { panic!("one stage") };
    assert!(update["requestObject"].is_object() && update["responseObject"].is_null());
    let [get] = of("get")[..] else { panic!("one stage") };
    assert!(get["responseObject"].is_null() && get["responseStatus"]["code"] == 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_selects_one_name_is_recorded_as_about_that_object() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n\
                  - {level: Metadata, resources: [{group: \"\", resources: [configmaps], resourceNames: [a]}]}\n- {level: None}\n";
    let plane = Plane::start(policy, |_, options| options).await;
    for (id, selector) in
        [("one", "?fieldSelector=metadata.name%3Da"), ("all", ""), ("other", "?fieldSelector=metadata.name%3Db")]
    {
        assert_eq!(plane.admin(id, "GET", &format!("{NS}/configmaps{selector}"), &Value::Null).await, 200);
    }
    let events = plane.events().await;
    assert!(!events.is_empty() && events.iter().all(|event| event["auditID"] == "one"), "{events:?}");
    assert!(events.iter().all(|event| event["objectRef"]["name"] == "a"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_dropped_is_complete() {
    let plane = Plane::start(EVERYTHING, |_, options| options).await;
    let request = http::Request::get(format!("{NS}/configmaps?watch=1"))
        .header("authorization", "Bearer admin-token")
        .header("audit-id", "watch")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = plane.running.server.handle(request, Arc::new(Connection::new(None, Vec::new()))).await;
    drop(response);
    let events = plane.events_of("watch").await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
}

/// Rules that panic.
struct Panics;

impl Strategy for Panics {
    fn default(&self, _: &mut Value) {
        panic!("a bug")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_the_last_event_of_its_request() {
    let mut resources = bailiwick_api::native_resources();
    for resource in resources.iter_mut().filter(|resource| resource.plural == "leases") {
        resource.strategy = Arc::new(Panics);
    }
    let plane = Plane::start_in(tempfile::tempdir().unwrap(), EVERYTHING, |_, options| options, resources).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(plane.admin("panic", "POST", path, &lease).await, 500);
    let events = plane.events_of("panic").await;
    assert_eq!(stages(&events), ["RequestReceived", "Panic"]);
    assert_eq!(events[1]["responseStatus"]["code"], 500);
    assert_eq!(events[1]["responseStatus"]["reason"], "InternalError");
}

/// Keeps what it gets.
struct Memory(Arc<Mutex<Vec<Bytes>>>);

impl AuditSink for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        self.0.lock().unwrap().extend(events.iter().map(Bytes::copy_from_slice));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_compiled_in_gets_the_same_events() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Memory(kept.clone());
    let plane = Plane::start(EVERYTHING, |_, options| AuditOptions { sinks: vec![Box::new(sink)], ..options }).await;
    plane.admin("get", "GET", "/version", &Value::Null).await;
    let logged = plane.events().await;
    let kept: Vec<Value> = kept.lock().unwrap().iter().map(|json| serde_json::from_slice(json).unwrap()).collect();
    assert_eq!(kept, logged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_was_away_gets_every_event() {
    let stream = |dir: &Path, options| AuditOptions {
        stream: Some(AuditStream { options: StreamOptions::new(dir.join("stream")), mode: Mode::Blocking }),
        log: None,
        ..options
    };
    let plane = Plane::start(EVERYTHING, stream).await;
    {
        let mut subscription = plane.running.audit_stream().unwrap().subscribe("store").unwrap();
        plane.admin("first", "GET", "/version", &Value::Null).await;
        // Answered means recorded: the event is there without waiting.
        let events = subscription.read(10_000).unwrap();
        assert!(events.iter().any(|item| serde_json::from_slice::<Value>(&item.json).unwrap()["auditID"] == "first"));
        subscription.acknowledge(events.last().unwrap().sequence).unwrap();
    }
    for number in 0..50 {
        plane.admin(&format!("away-{number}"), "GET", "/version", &Value::Null).await;
    }
    let dir = plane.dir;
    plane.running.stop().await;
    let plane = Plane::start_in(dir, EVERYTHING, stream, bailiwick_api::native_resources()).await;
    let mut subscription = plane.running.audit_stream().unwrap().subscribe("store").unwrap();
    let missed: Vec<Value> =
        subscription.read(10_000).unwrap().iter().map(|item| serde_json::from_slice(&item.json).unwrap()).collect();
    for number in 0..50 {
        let id = format!("away-{number}");
        let seen: Vec<Value> = missed.iter().filter(|event| event["auditID"] == *id).cloned().collect();
        assert_eq!(stages(&seen), ["RequestReceived", "ResponseComplete"], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_recorded_is_refused_in_strict_mode() {
    struct Broken;
    impl AuditSink for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn accept(&mut self, _: &Batch) -> Result<(), SinkError> {
            Err(SinkError::Io(std::io::Error::other("the disk is gone")))
        }
    }
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, users: [admin]}]\n";
    let policy = bailiwick_audit::Policy::parse(policy).unwrap();
    let backend = bailiwick_audit::Backend { sink: Box::new(Broken), mode: Mode::BlockingStrict, truncation: None };
    let auditor = Arc::new(bailiwick_audit::Auditor::start(policy, vec![backend]).unwrap());
    let request = bailiwick_audit::Heading::new(&bailiwick_audit::Request {
        level: bailiwick_audit::Level::Metadata,
        audit_id: "a",
        uri: "/",
        verb: "get",
        user: None,
        source_ips: &[],
        user_agent: "",
        object: None,
        received: jiff::Timestamp::now(),
        omit_managed_fields: false,
        sensitivity: bailiwick_audit::Sensitivity::Nothing,
    });
    let waiting = auditor.record(&bailiwick_audit::Event::received(&request)).unwrap();
    let refusal = waiting.recorded().await.unwrap_err();
    assert_eq!(refusal.to_string(), "failed to store audit event");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_has_streamed_every_request_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, EVERYTHING).unwrap();
    let arguments = ["--audit-stream", "--audit-policy-file", policy.to_str().unwrap()];
    let mut server = bailiwick_testkit::Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), &arguments).unwrap();
    for round in 0..2 {
        let client = server.client().await.unwrap();
        for number in 0..30 {
            let request = http::Request::get("/version").header("audit-id", format!("{round}-{number}"));
            client.request::<Value>(request.body(Vec::new()).unwrap()).await.unwrap();
        }
        server.kill();
        if round == 0 {
            server.restart().unwrap();
        }
    }
    let (_sink, stream) =
        bailiwick_audit::stream::open(StreamOptions::new(server.data_dir().join("audit-stream"))).unwrap();
    let mut subscription = stream.subscribe("store").unwrap();
    let items = subscription.read(100_000).unwrap();
    for (index, item) in items.iter().enumerate() {
        assert_eq!(item.sequence, index as u64 + 1, "no number is missing");
    }
    let events: Vec<Value> = items.iter().map(|item| serde_json::from_slice(&item.json).unwrap()).collect();
    for round in 0..2 {
        for number in 0..30 {
            let id = format!("{round}-{number}");
            let seen: Vec<Value> = events.iter().filter(|event| event["auditID"] == *id).cloned().collect();
            assert_eq!(stages(&seen), ["RequestReceived", "ResponseComplete"], "{id}");
        }
    }
}
