//! Writers: each creates, replaces, patches and deletes objects that nobody else names, with a token in every write, and
//! remembers what was acknowledged. Replacements and patches name the version they are meant for, so that an attempt which
//! arrives late cannot undo a later write; names are never used twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Client, Request, resource_version};
use super::report::Findings;

/// Objects a writer keeps; with fewer it creates.
const KEPT: usize = 12;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    ConfigMap,
    Widget,
}

impl Sort {
    pub const ALL: [Sort; 2] = [Sort::ConfigMap, Sort::Widget];

    /// The path of all of them in the writers' namespace.
    pub fn collection(self) -> &'static str {
        match self {
            Sort::ConfigMap => "/api/v1/namespaces/chaos/configmaps",
            Sort::Widget => "/apis/chaos.example.com/v1/namespaces/chaos/widgets",
        }
    }

    fn object(self, name: &str, token: &str, writer: usize) -> Value {
        let metadata = json!({"name": name, "namespace": "chaos", "labels": {"writer": writer.to_string()}});
        match self {
            Sort::ConfigMap => {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"token": token}})
            }
            Sort::Widget => json!({
                "apiVersion": "chaos.example.com/v1", "kind": "Widget", "metadata": metadata, "data": {"token": token},
            }),
        }
    }
}

/// The token in an object of either sort.
pub fn token_of(object: &Value) -> &str {
    object.pointer("/data/token").and_then(Value::as_str).unwrap_or_default()
}

/// What is known of one object.
#[derive(Clone, Debug)]
pub enum Known {
    /// The last acknowledged write and its version.
    Is {
        token: String,
        version: u64,
    },
    Deleted,
    /// The last write was never answered: either state, or none.
    Either {
        before: Option<String>,
        after: Option<String>,
    },
}

/// What a writer has done.
pub struct Written {
    pub sort: Sort,
    pub objects: BTreeMap<String, Known>,
    /// The versions of all acknowledged creations and changes.
    pub versions: Vec<u64>,
}

/// See the module.
pub struct Writer {
    number: usize,
    sort: Sort,
    client: Client,
    findings: Arc<Findings>,
    next: usize,
    live: Vec<Live>,
    written: Written,
}

struct Live {
    name: String,
    uid: String,
    version: u64,
    token: String,
    /// Whether an attempt to create it may still be under way: it must not be deleted, or it could come back.
    keep: bool,
}

enum Change {
    Replace,
    Patch,
}

impl Writer {
    pub fn new(number: usize, client: Client, findings: Arc<Findings>) -> Self {
        let sort = Sort::ALL[number % Sort::ALL.len()];
        let written = Written { sort, objects: BTreeMap::new(), versions: Vec::new() };
        Self { number, sort, client, findings, next: 0, live: Vec::new(), written }
    }

    /// Writes until told to stop; what it was in the middle of is finished first.
    pub async fn run(mut self, stop: Arc<AtomicBool>) -> Written {
        while !stop.load(Ordering::Relaxed) {
            match self.client.random(10) {
                _ if self.live.len() < KEPT => self.create().await,
                0 => self.create().await,
                1..=2 => self.delete().await,
                3..=6 => self.change(Change::Patch).await,
                _ => self.change(Change::Replace).await,
            }
        }
        self.written
    }

    fn token(&mut self) -> String {
        self.next += 1;
        format!("{}-{}", self.number, self.next)
    }

    async fn create(&mut self) {
        let token = self.token();
        let name = format!("w{token}");
        let object = self.sort.object(&name, &token, self.number);
        let request = Request::with_body(Method::POST, self.sort.collection(), object);
        let Some(answer) = self.client.send(&request).await else {
            return self.unanswered(name, None, Some(token));
        };
        let keep = answer.uncertain;
        let Some((object, answer)) = self.settle(&name, &token, answer).await else {
            return self.unanswered(name, None, Some(token));
        };
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = self.acknowledged(&name, &token, &object, &answer);
        self.live.push(Live { name, uid, version, token, keep });
        self.read_back().await;
    }

    async fn change(&mut self, change: Change) {
        let token = self.token();
        let index = self.client.random(self.live.len());
        let Some(live) = self.live.get(index) else { return };
        let (name, before) = (live.name.clone(), live.token.clone());
        let path = format!("{}/{name}", self.sort.collection());
        let mut object = self.sort.object(&name, &token, self.number);
        object["metadata"]["resourceVersion"] = live.version.to_string().into();
        let mut request = Request::with_body(Method::PUT, path, object);
        if let Change::Patch = change {
            request.method = Method::PATCH;
            request.content_type = "application/merge-patch+json";
            let version = live.version.to_string();
            request.body = Some(json!({"metadata": {"resourceVersion": version}, "data": {"token": token}}));
        }
        let Some(answer) = self.client.send(&request).await else {
            self.live.swap_remove(index);
            return self.unanswered(name, Some(before), Some(token));
        };
        let Some((object, answer)) = self.settle(&name, &token, answer).await else {
            self.live.swap_remove(index);
            return self.unanswered(name, Some(before), Some(token));
        };
        let version = self.acknowledged(&name, &token, &object, &answer);
        if let Some(live) = self.live.get_mut(index) {
            (live.version, live.token) = (version, token);
        }
        self.read_back().await;
    }

    async fn delete(&mut self) {
        let index = self.client.random(self.live.len());
        if self.live.get(index).is_none_or(|live| live.keep) {
            return;
        }
        let live = self.live.swap_remove(index);
        let options = json!({"preconditions": {"uid": live.uid}});
        let path = format!("{}/{}", self.sort.collection(), live.name);
        let request = Request::with_body(Method::DELETE, path, options);
        match self.client.send(&request).await {
            None => self.unanswered(live.name, Some(live.token), None),
            Some(answer) if answer.status == 200 || (answer.status == 404 && answer.uncertain) => {
                self.findings.wrote(answer.took);
                self.written.objects.insert(live.name, Known::Deleted);
            }
            Some(answer) => self.unexpected("DELETE", &live.name, &answer),
        }
    }

    /// The object as written. An answer that says "already there" or "changed meanwhile" after an attempt of unknown fate
    /// is looked into: that attempt may have been ours.
    async fn settle(&mut self, name: &str, token: &str, answer: Answer) -> Option<(Value, Answer)> {
        if matches!(answer.status, 200 | 201) {
            return Some((answer.body.clone(), answer));
        }
        if answer.status == 409 && answer.uncertain {
            let path = format!("{}/{name}", self.sort.collection());
            let found = self.client.send(&Request::get(path)).await?;
            if found.status == 200 && token_of(&found.body) == token {
                self.findings.count("writes whose first attempt had succeeded unanswered", 1);
                return Some((found.body.clone(), answer));
            }
            self.unexpected("GET after an uncertain write of", name, &found);
            return None;
        }
        self.unexpected("writing", name, &answer);
        None
    }

    fn acknowledged(&mut self, name: &str, token: &str, object: &Value, answer: &Answer) -> u64 {
        self.findings.wrote(answer.took);
        if answer.uncertain {
            self.findings.count("writes with an attempt of unknown fate, settled", 1);
        }
        let version = resource_version(object);
        if token_of(object) != token {
            self.findings.violation(format!("{name}: wrote {token}, the answer has {object}"));
        }
        self.written.versions.push(version);
        self.written.objects.insert(name.to_owned(), Known::Is { token: token.to_owned(), version });
        version
    }

    /// What was acknowledged must be seen at once, at any server: by GET, and by LIST now and then.
    async fn read_back(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let Some(live) = self.live.get(self.client.random(self.live.len())) else { return };
        let server = self.client.any_server();
        let by_list = self.client.random(4) == 0;
        let path = match by_list {
            true => format!("{}?labelSelector=writer%3D{}", self.sort.collection(), self.number),
            false => format!("{}/{}", self.sort.collection(), live.name),
        };
        let super::client::Attempt::Answered(status, body) = self.client.attempt(&server, &Request::get(path)).await
        else {
            return;
        };
        if status >= 429 {
            return;
        }
        let is_it = |object: &&Value| object.pointer("/metadata/name").and_then(Value::as_str) == Some(&live.name);
        let found = match by_list {
            true => body.get("items").and_then(Value::as_array).and_then(|items| items.iter().find(is_it)),
            false => Some(&body),
        };
        self.findings.count("reads that had to show an acknowledged write", 1);
        if found.is_none_or(|found| resource_version(found) != live.version || token_of(found) != live.token) {
            let (name, token, version) = (&live.name, &live.token, live.version);
            let how = if by_list { "LIST" } else { "GET" };
            let seen = found.map(Value::to_string).unwrap_or_else(|| "nothing".to_owned());
            self.findings.violation(format!(
                "{how} of {name} at {server} ({status}) shows {seen}; {token} was acknowledged at {version}"
            ));
        }
    }

    fn unanswered(&mut self, name: String, before: Option<String>, after: Option<String>) {
        self.findings.violation(format!("a write of {name} was never answered"));
        self.written.objects.insert(name, Known::Either { before, after });
    }

    fn unexpected(&self, doing: &str, name: &str, answer: &Answer) {
        let Answer { status, body, uncertain, .. } = answer;
        self.findings.violation(format!("{doing} {name}: {status} (uncertain before: {uncertain}) {body}"));
    }
}
