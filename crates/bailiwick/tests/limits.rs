//! The limits of a control plane, tried over real sockets with real TLS: whoever stalls, floods or dawdles is stopped and
//! told, and nobody else notices.
//!
//! No test measures time. The timeouts that are tried are small; everything else may take up to one deadline.

#[path = "limits/wire.rs"]
mod wire;

use std::future::Future;
use std::time::Duration;

use bailiwick::{AuthenticationOptions, Builder, ControlPlane, Running};
use bailiwick_server::http::Limits;
use futures::FutureExt;
use serde_json::{Value, json};
use wire::{Answer, Wire};

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Plane {
    running: Running,
    dir: tempfile::TempDir,
}

impl Plane {
    async fn start(limits: Limits, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens.csv");
        std::fs::write(&tokens, "admin-token,admin,admin,\"system:masters\"\n").unwrap();
        let builder = ControlPlane::builder(dir.path().join("data"));
        let builder = builder
            .limits(limits)
            .authentication(AuthenticationOptions { token_auth_file: Some(tokens), ..AuthenticationOptions::default() })
            .controllers(&[]);
        Self { running: configure(builder).start().await.unwrap(), dir }
    }

    fn ca(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("data/pki/ca.crt")).unwrap()
    }

    async fn connect(&self) -> Wire {
        Wire::connect(self.running.address, &self.ca()).await.unwrap()
    }
}

async fn within_deadline<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("ends before the deadline")
}

fn revision(event: &Value) -> u64 {
    event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// A change too large for many of them to fit into the buffers of sockets.
fn large_change(number: usize) -> Value {
    json!({"data": {"number": number.to_string(), "filler": "x".repeat(900_000)}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_watcher_is_cut_off_where_it_can_resume_and_others_go_on() {
    const CHANGES: usize = 40;
    within_deadline(async {
        let plane = Plane::start(Limits { watch_queue_len_max: 4, ..Limits::default() }, |builder| builder).await;
        let mut writer = plane.connect().await;
        let made = writer.request("POST", MAPS, &json!({"metadata": {"name": "m"}})).await;
        assert_eq!(made.status, 201);
        let start = made.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let path = format!("{MAPS}?watch=true&resourceVersion={start}");
        let (mut stalled, mut reading) = (plane.connect().await, plane.connect().await);
        assert_eq!(stalled.open("GET", &path).await, 200);
        assert_eq!(reading.open("GET", &path).await, 200);

        let mut last = 0;
        for number in 0..CHANGES {
            let patched = writer.patch(&format!("{MAPS}/m"), &large_change(number)).await;
            assert_eq!(patched.status, 200);
            let event = reading.next_event().await.expect("the other watch goes on");
            assert_eq!(event["object"]["data"]["number"], number.to_string());
            last = revision(&event);
        }

        let mut seen = Vec::new();
        while let Some(event) = stalled.next_event().await {
            assert_eq!(event["type"], "MODIFIED");
            seen.push(event);
        }
        let reached = seen.last().map(revision).unwrap_or_else(|| start.parse().unwrap());
        assert!(reached < last, "the stalled watch should have ended early");

        let mut resumed = plane.connect().await;
        assert_eq!(resumed.open("GET", &format!("{MAPS}?watch=true&resourceVersion={reached}")).await, 200);
        for number in seen.len()..CHANGES {
            let event = resumed.next_event().await.expect("what was missed");
            assert_eq!(event["object"]["data"]["number"], number.to_string());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_cap_wait_for_their_turn() {
    within_deadline(async {
        let plane = Plane::start(Limits { connections_max: 1, ..Limits::default() }, |builder| builder).await;
        let mut first = plane.connect().await;
        let ca = plane.ca();
        let mut second = Box::pin(Wire::connect(plane.running.address, &ca));
        for _ in 0..20 {
            assert_eq!(first.request("GET", "/version", &Value::Null).await.status, 200);
            assert!(second.as_mut().now_or_never().is_none(), "served beyond the cap");
        }
        drop(first);
        let mut second = second.await.unwrap();
        assert_eq!(second.request("GET", "/version", &Value::Null).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_all_its_connections_taken_still_stops() {
    within_deadline(async {
        let plane = Plane::start(Limits { connections_max: 2, ..Limits::default() }, |builder| builder).await;
        let (mut watching, mut asking) = (plane.connect().await, plane.connect().await);
        assert_eq!(watching.open("GET", &format!("{MAPS}?watch=true")).await, 200);
        let waiting = tokio::net::TcpStream::connect(plane.running.address).await.unwrap();
        // Whatever the listener does with one connection too many, it has done it when these are answered.
        for _ in 0..20 {
            assert_eq!(asking.request("GET", "/version", &Value::Null).await.status, 200);
        }
        plane.running.stop().await;
        drop(waiting);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_or_too_large_headers_are_refused() {
    within_deadline(async {
        let limits = Limits { header_list_bytes_max: 16 * 1024, ..Limits::default() };
        let plane = Plane::start(limits, |builder| builder).await;
        let many: String = (0..1000).map(|number| format!("x-{number}: y\r\n")).collect();
        let large = format!("x-large: {}\r\n", "y".repeat(32 * 1024));
        for headers in [many, large] {
            let mut wire = plane.connect().await;
            wire.send(&format!("GET /version HTTP/1.1\r\nhost: x\r\n{headers}\r\n")).await;
            assert_eq!(wire.head().await, 431);
        }
        assert_eq!(plane.connect().await.request("GET", "/version", &Value::Null).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_413() {
    within_deadline(async {
        let plane = Plane::start(Limits::default(), |builder| builder).await;
        let body = json!({"metadata": {"name": "m"}, "data": {"k": "x".repeat(4 * 1024 * 1024)}});
        let answer = plane.connect().await.request("POST", MAPS, &body).await;
        assert_eq!(answer.status, 413);
        assert_eq!(answer.json()["reason"], "RequestEntityTooLarge");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_head_that_does_not_end_and_an_idle_connection_are_closed() {
    within_deadline(async {
        let limits = Limits { header_read_timeout: Duration::from_millis(200), ..Limits::default() };
        let plane = Plane::start(limits, |builder| builder).await;
        let mut dawdler = plane.connect().await;
        dawdler.send("GET /version HTTP/1.1\r\nhost:").await;
        dawdler.closed().await;
        let mut idle = plane.connect().await;
        assert_eq!(idle.request("GET", "/version", &Value::Null).await.status, 200);
        idle.closed().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_begin_is_ended() {
    within_deadline(async {
        let limits = Limits { handshake_timeout: Duration::from_millis(200), ..Limits::default() };
        let plane = Plane::start(limits, |builder| builder).await;
        let mut silent = tokio::net::TcpStream::connect(plane.running.address).await.unwrap();
        let read = tokio::io::AsyncReadExt::read(&mut silent, &mut [0; 16]).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_504() {
    within_deadline(async {
        let plane =
            Plane::start(Limits::default(), |builder| builder.request_timeout(Duration::from_millis(500))).await;
        let mut wire = plane.connect().await;
        wire.send(&wire::head("POST", MAPS, "application/json", 100)).await;
        wire.send("{\"metadata\"").await;
        let status = wire.head().await;
        let answer = Answer { status, body: wire.body().await };
        assert_eq!(answer.status, 504);
        assert_eq!(answer.json()["reason"], "Timeout");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_watches_politely() {
    within_deadline(async {
        let plane = Plane::start(Limits::default(), |builder| builder).await;
        let mut wire = plane.connect().await;
        assert_eq!(wire.open("GET", &format!("{MAPS}?watch=true")).await, 200);
        let (stopped, ended) = tokio::join!(plane.running.stop(), async {
            while wire.next_event().await.is_some() {}
            wire.closed().await;
        });
        let ((), ()) = (stopped, ended);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_grants_a_right_sees_it_in_the_next_request() {
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    within_deadline(async {
        let plane = Plane::start(Limits::default(), |builder| builder).await;
        let mut wire = plane.connect().await;
        let role = json!({
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        });
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(wire.request("POST", roles, &role).await.status, 201);
        for number in 0..1000 {
            let (name, user) = (format!("b{number}"), format!("user-{number}"));
            let binding = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            });
            assert_eq!(wire.request("POST", BINDINGS, &binding).await.status, 201);
            assert_eq!(wire.request_as(&user, "GET", MAPS).await.status, 200, "granted {number}");
            assert_eq!(wire.request("DELETE", &format!("{BINDINGS}/{name}"), &Value::Null).await.status, 200);
            assert_eq!(wire.request_as(&user, "GET", MAPS).await.status, 403, "revoked {number}");
        }
    })
    .await;
}
