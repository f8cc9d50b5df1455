//! Work for the controllers: owners with dependants, deleted in each of the three ways, and namespaces with things in
//! them. What must be gone in the end and what must have stayed is remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, Request};
use super::report::Findings;

/// Where families live.
const FAMILIES: &str = "/api/v1/namespaces/chaos-families/configmaps";
const NAMESPACES: &str = "/api/v1/namespaces";
/// Dependants of one owner.
pub const CHILDREN: usize = 5;
/// Objects in a namespace.
const CONTENTS: usize = 5;
/// Between two rounds, so that the writers have the machine.
const PAUSE: Duration = Duration::from_millis(300);

/// What the controllers must have made of it.
#[derive(Default)]
pub struct Expected {
    /// Paths that must not exist.
    pub gone: Vec<String>,
    /// Paths that must exist, and whether with an owner.
    pub kept: Vec<(String, Ownership)>,
    pub families: usize,
    pub namespaces: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    Owned,
    /// Its owner was deleted and left it behind.
    Orphaned,
}

/// See the module.
pub struct Families {
    client: Client,
    findings: Arc<Findings>,
    expected: Expected,
}

/// Something that was created.
struct Created {
    uid: String,
    /// An attempt to create it may still be under way: deleted, it could come back.
    uncertain: bool,
}

impl Families {
    pub fn new(client: Client, findings: Arc<Findings>) -> Self {
        Self { client, findings, expected: Expected::default() }
    }

    /// Makes and deletes until told to stop.
    pub async fn run(mut self, stop: Arc<AtomicBool>) -> Expected {
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            // A round that finds no answer has been reported.
            let _ = if round % 4 == 3 { self.namespace(round).await } else { self.family(round).await };
            tokio::time::sleep(PAUSE).await;
        }
        self.expected
    }

    async fn family(&mut self, round: usize) -> Option<()> {
        let owner = format!("f{round}");
        let created = self.create(FAMILIES, config_map(&owner, &[])).await?;
        let mut children = Vec::new();
        for child in 0..CHILDREN {
            let name = format!("{owner}-c{child}");
            let references = [json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": created.uid, "blockOwnerDeletion": true,
            })];
            self.create(FAMILIES, config_map(&name, &references)).await?;
            children.push(format!("{FAMILIES}/{name}"));
        }
        // Every fourth family stays together.
        if created.uncertain || self.client.random(4) == 0 {
            self.expected.kept.extend(children.into_iter().map(|path| (path, Ownership::Owned)));
            return Some(());
        }
        let policy = ["Background", "Foreground", "Orphan"][self.client.random(3)];
        self.delete(&format!("{FAMILIES}/{owner}"), policy).await?;
        self.expected.families += 1;
        self.expected.gone.push(format!("{FAMILIES}/{owner}"));
        if policy == "Orphan" {
            self.expected.kept.extend(children.into_iter().map(|path| (path, Ownership::Orphaned)));
        } else {
            self.expected.gone.extend(children);
        }
        Some(())
    }

    async fn namespace(&mut self, round: usize) -> Option<()> {
        let name = format!("chaos-n{round}");
        let path = format!("{NAMESPACES}/{name}");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let created = self.create(NAMESPACES, namespace).await?;
        for item in 0..CONTENTS {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{item}")},
                "stringData": {"password": "hunter2"},
            });
            self.create(&format!("{path}/configmaps"), config_map(&format!("c{item}"), &[])).await?;
            self.create(&format!("{path}/secrets"), secret).await?;
        }
        if !created.uncertain {
            self.delete(&path, "Background").await?;
            self.expected.namespaces += 1;
            self.expected.gone.push(path);
        }
        Some(())
    }

    async fn create(&mut self, collection: &str, object: Value) -> Option<Created> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = self.client.send(&Request::with_body(Method::POST, collection, object)).await;
        let Some(mut answer) = answer else {
            self.findings.violation(format!("creating {collection}/{name} was never answered"));
            return None;
        };
        let uncertain = answer.uncertain;
        if answer.status == 409 && uncertain {
            answer = self.client.send(&Request::get(format!("{collection}/{name}"))).await?;
        }
        if !matches!(answer.status, 200 | 201) {
            let what = format!("creating {collection}/{name}: {} {}", answer.status, answer.body);
            self.findings.violation(what);
            return None;
        }
        let uid = answer.body.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Created { uid, uncertain })
    }

    async fn delete(&mut self, path: &str, policy: &str) -> Option<()> {
        let request = Request::with_body(Method::DELETE, path, json!({"propagationPolicy": policy}));
        let answer = self.client.send(&request).await;
        match answer {
            Some(answer) if matches!(answer.status, 200 | 202) => Some(()),
            Some(answer) if answer.uncertain && matches!(answer.status, 404 | 409) => Some(()),
            other => {
                self.findings.violation(format!("deleting {path}: {other:?}"));
                None
            }
        }
    }
}

fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners},
        "data": {"of": "a family"},
    })
}
