//! Informers: each lists once and then follows by watches, resuming at any server from the last version it has seen. They
//! keep what they believe to exist and note every event, and complain about those that cannot be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::client::{Attempt, Client, Request, resource_version};
use super::report::Findings;
use super::writer::Sort;

/// The name of the object whose arrival tells an informer that it has seen everything.
pub const FENCE: &str = "fence";
/// A watch ends by itself after this or up to twice it, so that resuming is part of ordinary life.
const WATCH_SECONDS: usize = 20;
/// Between attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(50);

/// Events between a list and the next: all there were after `from` up to `to`.
#[derive(Default)]
pub struct Segment {
    pub from: u64,
    pub to: u64,
    pub events: Vec<u64>,
}

/// What an informer has seen.
pub struct Seen {
    pub name: String,
    pub sort: Sort,
    /// Names and versions of what it believes to exist.
    pub objects: BTreeMap<String, u64>,
    pub segments: Vec<Segment>,
}

/// See the module.
pub struct Informer {
    client: Client,
    findings: Arc<Findings>,
    seen: Seen,
}

/// Why a watch is over.
enum End {
    Resume,
    /// The history is gone: list anew.
    Expired,
    Fence,
}

impl Informer {
    pub fn new(number: usize, client: Client, findings: Arc<Findings>) -> Self {
        let sort = Sort::ALL[number % Sort::ALL.len()];
        let (name, objects) = (format!("informer {number}"), BTreeMap::new());
        Self { client, findings, seen: Seen { name, sort, objects, segments: Vec::new() } }
    }

    /// Follows until the fence has been seen.
    pub async fn run(mut self) -> Seen {
        loop {
            self.list().await;
            if self.seen.objects.contains_key(FENCE) {
                return self.seen;
            }
            loop {
                match self.watch().await {
                    End::Resume => self.findings.count("watches resumed", 1),
                    End::Expired => break,
                    End::Fence => return self.seen,
                }
                tokio::time::sleep(PAUSE).await;
            }
            self.findings.count("lists because the history was gone", 1);
        }
    }

    async fn list(&mut self) {
        let from = loop {
            let server = self.client.any_server();
            let answer = self.client.attempt(&server, &Request::get(self.seen.sort.collection())).await;
            if let Attempt::Answered(200, body) = answer {
                let items = body.get("items").and_then(Value::as_array).into_iter().flatten();
                self.seen.objects = items.map(|item| (name_of(item).to_owned(), resource_version(item))).collect();
                break resource_version(&body);
            }
            tokio::time::sleep(PAUSE).await;
        };
        let last = self.seen.segments.last().map_or(0, |segment| segment.to);
        if from < last {
            self.findings.violation(format!("{}: a list is at {from}, older than {last}", self.seen.name));
        }
        self.seen.segments.push(Segment { from, to: from, events: Vec::new() });
    }

    async fn watch(&mut self) -> End {
        let Some(position) = self.seen.segments.last().map(|segment| segment.to) else { return End::Expired };
        let seconds = WATCH_SECONDS + self.client.random(WATCH_SECONDS);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={position}&timeoutSeconds={seconds}",
            self.seen.sort.collection()
        );
        let server = self.client.any_server();
        let Ok(mut answer) = self.client.stream(&server, &path).await else { return End::Resume };
        match answer.status().as_u16() {
            200 => {}
            410 => return End::Expired,
            status @ (401..=428) => {
                let text = answer.text().await.unwrap_or_default();
                self.findings.violation(format!("{}: a watch at {server} got {status} {text}", self.seen.name));
                return End::Resume;
            }
            _ => return End::Resume,
        }
        let mut buffer = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else {
                    self.findings.violation(format!("{}: an event is not JSON", self.seen.name));
                    continue;
                };
                if let Some(end) = self.event(&event, &server) {
                    return end;
                }
            }
        }
        End::Resume
    }

    fn event(&mut self, event: &Value, server: &str) -> Option<End> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let object = event.get("object").unwrap_or(&Value::Null);
        let Seen { name: informer, objects, segments, .. } = &mut self.seen;
        let segment = segments.last_mut()?;
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64);
            if code == Some(410) {
                return Some(End::Expired);
            }
            self.findings.count("watches that ended with an error", 1);
            return Some(End::Resume);
        }
        let (name, version) = (name_of(object).to_owned(), resource_version(object));
        let complain = |what: &str| {
            self.findings.violation(format!(
                "{informer} at {server}: {kind} {name} at {version}, {what} (position {}, known at {:?})",
                segment.to,
                objects.get(&name)
            ));
        };
        if kind == "BOOKMARK" {
            if version < segment.to {
                complain("a bookmark that goes back");
            }
            segment.to = segment.to.max(version);
            return None;
        }
        if version <= segment.to {
            complain("repeated or out of order");
            return None;
        }
        match (kind, objects.contains_key(&name)) {
            ("ADDED", false) | ("MODIFIED" | "DELETED", true) => {}
            _ => complain("an event must have been missed before it"),
        }
        segment.to = version;
        segment.events.push(version);
        if kind == "DELETED" {
            objects.remove(&name);
        } else {
            objects.insert(name.clone(), version);
        }
        self.findings.count("watch events seen by informers", 1);
        (name == FENCE).then_some(End::Fence)
    }
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
