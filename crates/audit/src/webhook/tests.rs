use super::*;
use bailiwick_webhook::dial::Origin;
use bailiwick_webhook::{Credentials, Transport, Trust};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A webhook that refuses the first `refusals` calls and keeps what it takes.
struct Server {
    url: String,
    refusals: AtomicU32,
    taken: Mutex<Vec<Value>>,
    called: Notify,
}

impl Server {
    async fn start(refusals: u32) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}/audit", listener.local_addr().expect("an address"));
        let server = Arc::new(Self { url, refusals: refusals.into(), taken: Mutex::default(), called: Notify::new() });
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        server
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        while let Some(body) = read_request(&mut stream).await {
            let refused =
                self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if !refused {
                let list: Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!((&list["kind"], &list["apiVersion"]), (&"EventList".into(), &"audit.k8s.io/v1".into()));
                self.taken.lock().expect("unpoisoned").extend(list["items"].as_array().expect("items").clone());
            }
            let head = if refused { "503 Service Unavailable" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\n{{}}");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            self.called.notify_waiters();
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            url: self.url.clone(),
            trust: Trust::Anybody,
            identity: None,
            credentials: Credentials::None,
            server_name: None,
            transport: Transport::HttpAllowed,
            origin: Origin::Operator,
            locations: None,
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.taken.lock().expect("unpoisoned").iter().filter_map(|event| event["n"].as_u64()).collect()
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap_or(0));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

fn events(range: std::ops::Range<u64>) -> Batch {
    range.map(|n| format!("{{\"n\":{n}}}")).collect()
}

fn options() -> WebhookOptions {
    WebhookOptions {
        batch_len_max: 7,
        batch_wait_max: Duration::from_millis(1),
        throttle: None,
        initial_backoff: Duration::from_millis(1),
        ..WebhookOptions::default()
    }
}

async fn closed(mut sink: WebhookSink) {
    tokio::task::spawn_blocking(move || sink.close()).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_was_down_gets_everything_in_order() {
    let server = Server::start(3).await;
    let mut sink = WebhookSink::new(server.endpoint(), options(), Handle::current()).expect("made");
    for start in [0, 10, 20] {
        sink.accept(&events(start..start + 10)).expect("buffered");
    }
    closed(sink).await;
    assert_eq!(server.numbers(), (0..30).collect::<Vec<_>>());
    assert_eq!(server.refusals.load(Ordering::Relaxed), 0, "it was down at first");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_does_not_fit_into_the_buffer_is_lost() {
    let server = Server::start(0).await;
    let options =
        WebhookOptions { buffer_len: 5, batch_len_max: 100, batch_wait_max: Duration::from_secs(3600), ..options() };
    let mut sink = WebhookSink::new(server.endpoint(), options, Handle::current()).expect("made");
    assert!(matches!(sink.accept(&events(0..8)), Err(SinkError::Full(3))));
    closed(sink).await;
    assert_eq!(server.numbers(), [0, 1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_webhook_has_the_events_when_it_returns() {
    let server = Server::start(2).await;
    let options = WebhookOptions { mode: Mode::Blocking, ..options() };
    let mut sink = WebhookSink::new(server.endpoint(), options, Handle::current()).expect("made");
    let accepted = tokio::task::spawn_blocking(move || sink.accept(&events(0..3))).await.expect("joined");
    accepted.expect("taken");
    assert_eq!(server.numbers(), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_webhook_that_stays_down_is_an_error() {
    let server = Server::start(u32::MAX).await;
    let options = WebhookOptions { mode: Mode::Blocking, ..options() };
    let mut sink = WebhookSink::new(server.endpoint(), options, Handle::current()).expect("made");
    let accepted = tokio::task::spawn_blocking(move || sink.accept(&events(0..3))).await.expect("joined");
    assert!(accepted.is_err());
}
