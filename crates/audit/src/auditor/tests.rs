use std::sync::Mutex;

use super::*;
use crate::event::ResponseStatus;
use crate::heading::{Heading, Request};
use crate::sink::SinkError;
use crate::{Level, Sensitivity};
use bailiwick_machinery::audit::AuditNotes;
use serde_json::Value;

type Kept = Arc<Mutex<Vec<Vec<Value>>>>;

/// Keeps batches as it gets them.
struct Memory(Kept);

impl AuditSink for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        let batch = events.iter().map(|event| serde_json::from_slice(event).expect("JSON")).collect();
        self.0.lock().expect("unpoisoned").push(batch);
        Ok(())
    }
}

fn auditor(mode: Mode, truncation: Option<Truncation>) -> (Arc<Auditor>, Kept) {
    let policy =
        Policy::parse("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]").expect("a policy");
    let kept = Kept::default();
    let backend = Backend { sink: Box::new(Memory(kept.clone())), mode, truncation };
    (Arc::new(Auditor::start(policy, vec![backend]).expect("started")), kept)
}

/// Makes an event and does something with it.
fn with_event<T>(id: usize, body: &str, use_it: impl FnOnce(&Event<'_>) -> T) -> T {
    let request = Heading::new(&Request {
        level: Level::Request,
        audit_id: &id.to_string(),
        uri: "/api/v1/namespaces",
        verb: "create",
        user: None,
        source_ips: &[],
        user_agent: "",
        object: None,
        received: jiff::Timestamp::UNIX_EPOCH,
        omit_managed_fields: false,
        sensitivity: Sensitivity::Nothing,
    });
    let notes = AuditNotes { request: Some(body.to_owned().into()), ..AuditNotes::default() };
    use_it(&Event {
        request: &request,
        stage: Stage::ResponseComplete,
        at: jiff::Timestamp::UNIX_EPOCH,
        status: Some(&ResponseStatus::Code(201)),
        notes: &notes,
        response: None,
    })
}

async fn record(auditor: &Arc<Auditor>, id: usize, body: &str) {
    if let Some(waiting) = with_event(id, body, |event| auditor.record(event)) {
        waiting.recorded().await.expect("recorded");
    }
}

fn ids(kept: &Kept) -> Vec<String> {
    let batches = kept.lock().expect("unpoisoned");
    batches.iter().flatten().map(|event| event["auditID"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_keep_their_order_and_stopping_hands_over_the_last() {
    let (auditor, kept) = auditor(Mode::Batch, None);
    for id in 0..3000 {
        record(&auditor, id, "{}").await;
    }
    tokio::task::spawn_blocking(move || auditor.stop()).await.expect("stopped");
    assert_eq!(ids(&kept), (0..3000).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_sink_has_the_event_when_the_request_goes_on() {
    let (auditor, kept) = auditor(Mode::Blocking, None);
    for id in 0..20 {
        record(&auditor, id, "{}").await;
        assert_eq!(ids(&kept).len(), id + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_events_lose_their_bodies_and_say_so() {
    let limits = Truncation { event_bytes_max: 600, batch_bytes_max: 600 };
    let (auditor, kept) = auditor(Mode::Blocking, Some(limits));
    record(&auditor, 1, "{\"small\":true}").await;
    record(&auditor, 2, &format!("{{\"large\":\"{}\"}}", "x".repeat(1000))).await;
    let kept: Vec<Value> = kept.lock().expect("unpoisoned").iter().flatten().cloned().collect();
    assert_eq!((&kept[0]["requestObject"]["small"], &kept[0]["annotations"]), (&true.into(), &Value::Null));
    assert_eq!(
        (&kept[1]["requestObject"], &kept[1]["annotations"]["audit.k8s.io/truncated"]),
        (&Value::Null, &"true".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_one_line_in_upstreams_order() {
    let mut line = Vec::new();
    with_event(7, "{\n\"a\": 1\n}", |event| event.encode(&mut line, Bodies::Kept));
    assert_eq!(
        String::from_utf8(line).expect("text"),
        concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"7","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces","verb":"create","user":{},"responseStatus":{"metadata":{},"code":201},"#,
            r#""requestObject":{ "a": 1 },"requestReceivedTimestamp":"1970-01-01T00:00:00.000000Z","#,
            r#""stageTimestamp":"1970-01-01T00:00:00.000000Z"}"#
        )
    );
}
