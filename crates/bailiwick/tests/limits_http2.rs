//! The limits of a control plane on HTTP/2 connections, tried with frames written by hand: what no library would send.
//!
//! No test measures time. The timeouts that are tried are small; everything else may take up to one deadline.

#[path = "limits/frames.rs"]
mod frames;

use std::future::Future;
use std::time::Duration;

use bailiwick::{AuthenticationOptions, ControlPlane, Running};
use bailiwick_server::http::Limits;
use frames::{DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, RST_STREAM};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);
const ENHANCE_YOUR_CALM: u32 = 11;
const REFUSED_STREAM: u32 = 7;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ADMIN: &[(&str, &str)] = &[("authorization", "Bearer admin-token")];

struct Plane {
    running: Running,
    dir: tempfile::TempDir,
}

impl Plane {
    async fn start(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens.csv");
        std::fs::write(&tokens, "admin-token,admin,admin,\"system:masters\"\n").unwrap();
        let authentication =
            AuthenticationOptions { token_auth_file: Some(tokens), ..AuthenticationOptions::default() };
        let builder = ControlPlane::builder(dir.path()).limits(limits).authentication(authentication).controllers(&[]);
        let running = builder.request_timeout(Duration::from_millis(500)).start().await.unwrap();
        Self { running, dir }
    }

    async fn connect(&self) -> Frames {
        let ca = std::fs::read_to_string(self.dir.path().join("pki/ca.crt")).unwrap();
        Frames::connect(self.running.address, &ca).await
    }

    async fn serves_others(&self) {
        let mut other = self.connect().await;
        other.send(HEADERS, END_HEADERS | END_STREAM, 1, &frames::head("GET", "/version", &[])).await;
        assert_eq!(other.status(1).await, Some(200));
    }
}

async fn within_deadline<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("ends before the deadline")
}

/// The reason for which the server ended the connection; 0 if it just closed it.
async fn goaway(frames: &mut Frames) -> u32 {
    while let Some(frame) = frames.next().await {
        if let Frame { kind: GOAWAY, payload, .. } = frame {
            let reason = payload.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
            if reason != Some(0) {
                return reason.unwrap();
            }
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_and_resetting_streams_without_end_ends_the_connection() {
    within_deadline(async {
        let plane = Plane::start(Limits::default()).await;
        let mut attacker = plane.connect().await;
        let mut burst = Vec::new();
        for stream in (1..4000).step_by(2) {
            let head = frames::head("GET", "/version", &[]);
            burst.extend(frames::encode(HEADERS, END_HEADERS | END_STREAM, stream, &head));
            burst.extend(frames::encode(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        attacker.write(&burst).await;
        assert_eq!(goaway(&mut attacker).await, ENHANCE_YOUR_CALM);
        plane.serves_others().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_go_on_for_ever_end_the_connection() {
    within_deadline(async {
        let plane = Plane::start(Limits { header_list_bytes_max: 16 * 1024, ..Limits::default() }).await;
        let mut attacker = plane.connect().await;
        attacker.send(HEADERS, 0, 1, &frames::head("GET", "/version", &[])).await;
        let filler = frames::literal("x-filler", &"y".repeat(8 * 1024));
        for _ in 0..10_000 {
            if !attacker.send(frames::CONTINUATION, 0, 1, &filler).await {
                break;
            }
        }
        assert_eq!(goaway(&mut attacker).await, ENHANCE_YOUR_CALM);
        plane.serves_others().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_over_the_limit_are_431_and_the_connection_goes_on() {
    within_deadline(async {
        let plane = Plane::start(Limits { header_list_bytes_max: 16 * 1024, ..Limits::default() }).await;
        let mut client = plane.connect().await;
        let large = "y".repeat(12 * 1024);
        let head = frames::head("GET", "/version", &[("x-one", &large)]);
        let more = frames::literal("x-two", &large);
        client.send(HEADERS, END_STREAM, 1, &head).await;
        client.send(frames::CONTINUATION, END_HEADERS, 1, &more).await;
        assert_eq!(client.status(1).await, Some(431));
        client.send(HEADERS, END_HEADERS | END_STREAM, 3, &frames::head("GET", "/version", &[])).await;
        assert_eq!(client.status(3).await, Some(200));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_limit_are_refused_and_the_others_served() {
    within_deadline(async {
        let plane = Plane::start(Limits { streams_per_connection_max: 4, ..Limits::default() }).await;
        let mut client = plane.connect().await;
        // Requests whose bodies do not come stay open.
        let open = |stream: u32| frames::encode(HEADERS, END_HEADERS, stream, &frames::head("POST", MAPS, ADMIN));
        client.write(&[1, 3, 5, 7, 9].map(open).concat()).await;
        let refused = loop {
            let frame = client.next().await.expect("the connection goes on");
            if frame.kind == RST_STREAM {
                break frame;
            }
        };
        assert_eq!(refused.stream, 9);
        assert_eq!(refused.payload, REFUSED_STREAM.to_be_bytes());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_requests_end_even_if_they_never_said_what_they_are() {
    within_deadline(async {
        let plane = Plane::start(Limits { idle_timeout: Duration::from_millis(200), ..Limits::default() }).await;
        let mut idle = plane.connect().await;
        while idle.next().await.is_some() {}
        let ca = std::fs::read_to_string(plane.dir.path().join("pki/ca.crt")).unwrap();
        let mut silent = Frames::handshake(plane.running.address, &ca).await;
        while silent.next().await.is_some() {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_watch_is_not_idle() {
    within_deadline(async {
        let plane = Plane::start(Limits { idle_timeout: Duration::from_millis(50), ..Limits::default() }).await;
        let mut client = plane.connect().await;
        let path = format!("{MAPS}?watch=true&timeoutSeconds=1");
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &frames::head("GET", &path, ADMIN)).await;
        loop {
            let frame = client.next().await.expect("the connection goes on");
            assert_ne!(frame.kind, GOAWAY, "before the watch is over");
            if frame.stream == 1 && frame.ends_stream() {
                break;
            }
        }
        while client.next().await.is_some() {}
    })
    .await;
}

/// Sends a request with a body on a stream of its own and gives the status of the answer.
async fn write(client: &mut Frames, stream: u32, method: &str, path: &str, body: &Value) -> Option<u16> {
    let kind = ("content-type", if method == "PATCH" { "application/merge-patch+json" } else { "application/json" });
    client.send(HEADERS, END_HEADERS, stream, &frames::head(method, path, &[ADMIN, &[kind]].concat())).await;
    client.send(DATA, END_STREAM, stream, body.to_string().as_bytes()).await;
    client.status(stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_opens_no_window_is_cut_off_by_bytes_where_it_can_resume() {
    const CHANGES: u32 = 200;
    within_deadline(async {
        let limits = Limits { watch_queue_bytes_max: 256 * 1024, ..Limits::default() };
        let plane = Plane::start(limits).await;
        let (mut stalled, mut writer) = (plane.connect().await, plane.connect().await);
        assert_eq!(write(&mut writer, 1, "POST", MAPS, &json!({"metadata": {"name": "m"}})).await, Some(201));
        let watch = frames::head("GET", &format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dm"), ADMIN);
        stalled.send(HEADERS, END_HEADERS | END_STREAM, 1, &watch).await;
        assert_eq!(stalled.status(1).await, Some(200));
        for number in 0..CHANGES {
            let change = json!({"data": {"number": number.to_string(), "filler": "x".repeat(8 * 1024)}});
            let patched = write(&mut writer, 3 + 2 * number, "PATCH", &format!("{MAPS}/m"), &change).await;
            assert_eq!(patched, Some(200), "{number}");
            writer.open_window(0, 16 * 1024).await;
        }

        // Now it reads all there is.
        stalled.open_window(0, 1 << 30).await;
        stalled.open_window(1, 1 << 30).await;
        let mut bytes = Vec::new();
        loop {
            let frame = stalled.next().await.expect("the connection goes on");
            let ended = frame.ends_stream();
            if frame.stream == 1 && frame.kind == DATA {
                bytes.extend(frame.payload);
            }
            if ended {
                break;
            }
        }
        let events: Vec<Value> = serde_json::Deserializer::from_slice(&bytes).into_iter().map(Result::unwrap).collect();
        let seen =
            events.iter().filter(|event| event["type"] == "MODIFIED").map(|event| &event["object"]["data"]["number"]);
        let expected = (0..CHANGES).map(|number| Value::from(number.to_string()));
        let seen: Vec<&Value> = seen.collect();
        assert!(
            seen.iter().copied().eq(expected.take(seen.len()).collect::<Vec<_>>().iter()),
            "without a gap: {seen:?}"
        );
        assert!(seen.len() < CHANGES as usize, "the watch should have ended early");
        plane.serves_others().await;
    })
    .await;
}
