//! A webhook server over TLS that answers as a test tells it to and remembers what it was asked.

use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_testkit::{Asked, Said, Webhook};
use base64::Engine;
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// How many calls must be under way at once before any at `/together` is answered.
pub const TOGETHER: usize = 3;

pub struct Hook {
    webhook: Webhook,
    seen: Arc<Seen>,
}

/// The questions so far, with the paths they came to.
struct Seen {
    questions: Mutex<Vec<(String, Value)>>,
    together: Barrier,
}

impl Hook {
    pub fn start() -> Self {
        let seen = Arc::new(Seen { questions: Mutex::default(), together: Barrier::new(TOGETHER) });
        let remembered = seen.clone();
        let webhook = Webhook::start(move |asked| answer(asked, remembered.clone()));
        Self { webhook: webhook.unwrap(), seen }
    }

    /// A webhook of a configuration that calls this server at `path` about ConfigMaps.
    pub fn webhook(&self, name: &str, path: &str) -> Value {
        json!({
            "name": name, "clientConfig": {"url": self.webhook.url(path), "caBundle": self.webhook.ca_bundle()},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    }

    /// The questions asked so far, as `path name`.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.seen.questions.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(|(path, question)| format!("{path} {}", question["name"].as_str().unwrap_or("-"))).collect()
    }

    /// The last question.
    pub fn last(&self) -> Value {
        self.seen.questions.lock().unwrap_or_else(PoisonError::into_inner).last().expect("a question").1.clone()
    }
}

async fn answer(asked: Asked, seen: Arc<Seen>) -> Said {
    let question = asked.body["request"].clone();
    let uid = question["uid"].clone();
    let marks = question.pointer("/object/data/seen").and_then(Value::as_str).unwrap_or_default().to_owned();
    seen.questions.lock().unwrap_or_else(PoisonError::into_inner).push((asked.path.clone(), question));
    let response = match asked.path.as_str() {
        "/deny" => json!({"uid": uid, "allowed": false, "status": {"message": "no", "code": 403}}),
        "/warn" => json!({"uid": uid, "allowed": true, "warnings": ["careful"]}),
        "/together" => {
            seen.together.wait().await;
            json!({"uid": uid, "allowed": true})
        }
        // Each notes that it has been here.
        path if path.starts_with("/mark/") => {
            let mark = format!("{marks}{}", path.trim_start_matches("/mark/"));
            let patch = json!([{"op": "add", "path": "/data", "value": {"seen": mark}}]).to_string();
            let patch = base64::engine::general_purpose::STANDARD.encode(patch);
            json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        _ => json!({"uid": uid, "allowed": true}),
    };
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).into()
}
