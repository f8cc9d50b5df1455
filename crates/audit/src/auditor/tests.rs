use std::sync::Mutex;

use super::*;
use crate::event::{Request, ResponseStatus};
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

    fn accept(&mut self, events: &[Encoded]) -> Result<(), SinkError> {
        let batch = events.iter().map(|event| serde_json::from_slice(&event.json).expect("JSON")).collect();
        self.0.lock().expect("unpoisoned").push(batch);
        Ok(())
    }
}

fn auditor(mode: Mode, truncation: Option<Truncation>) -> (Auditor, Kept) {
    let policy =
        Policy::parse("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]").expect("a policy");
    let kept = Kept::default();
    let backend = Backend { sink: Box::new(Memory(kept.clone())), mode, truncation };
    (Auditor::start(policy, vec![backend]).expect("started"), kept)
}

fn event(id: usize, body: &str) -> Event {
    let request = Request {
        level: Level::Request,
        audit_id: id.to_string(),
        uri: "/api/v1/namespaces".into(),
        verb: "create",
        user: None,
        source_ips: Vec::new(),
        user_agent: String::new(),
        object: None,
        received: jiff::Timestamp::UNIX_EPOCH,
        omit_managed_fields: false,
        sensitivity: Sensitivity::Nothing,
    };
    let notes = AuditNotes { request: Some(body.to_owned().into()), ..AuditNotes::default() };
    Event {
        request: Arc::new(request),
        stage: Stage::ResponseComplete,
        at: jiff::Timestamp::UNIX_EPOCH,
        status: Some(ResponseStatus::Code(201)),
        notes,
        response: None,
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
        auditor.record(event(id, "{}")).await.expect("taken");
    }
    tokio::task::spawn_blocking(move || auditor.stop()).await.expect("stopped");
    assert_eq!(ids(&kept), (0..3000).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_sink_has_the_event_when_the_request_goes_on() {
    let (auditor, kept) = auditor(Mode::Blocking, None);
    for id in 0..20 {
        auditor.record(event(id, "{}")).await.expect("taken");
        assert_eq!(ids(&kept).len(), id + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_events_lose_their_bodies_and_say_so() {
    let limits = Truncation { event_bytes_max: 600, batch_bytes_max: 600 };
    let (auditor, kept) = auditor(Mode::Blocking, Some(limits));
    auditor.record(event(1, "{\"small\":true}")).await.expect("taken");
    auditor.record(event(2, &format!("{{\"large\":\"{}\"}}", "x".repeat(1000)))).await.expect("taken");
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
    event(7, "{\n\"a\": 1\n}").encode(&mut line, Bodies::Kept);
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
