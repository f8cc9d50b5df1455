//! Certificate signing requests: signs those that somebody approved, and removes those that have had their time.
//!
//! Approval is a human's (`kubectl certificate approve`). Signers are upstream's for clients of the API server, with
//! upstream's rules about what each may sign, and custom ones with authorities of their own.

mod lifetime;
mod signers;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::lifetime::remaining;
pub use self::signers::Signing;
use crate::error::{Error, is_conflict};
use crate::requests::{delete_as_seen, ignore_not_found};
use crate::work_queue::{Outcome, WorkQueue};

/// Requests worked on at the same time.
const WORKERS: usize = 4;
/// The name these writes go by in managedFields, as upstream.
const FIELD_MANAGER: &str = "kube-controller-manager";

type Request = Object<Spec, Status>;

/// What is read of a request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    /// PEM, in base64.
    request: String,
    signer_name: String,
    usages: Vec<String>,
    expiration_seconds: Option<i64>,
}

/// What has become of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    /// PEM, in base64.
    certificate: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_update_time: Option<Timestamp>,
    #[serde(flatten)]
    other: serde_json::Map<String, Value>,
}

impl Status {
    fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind)
    }

    fn has_failed(&self) -> bool {
        self.conditions.iter().any(|c| c.kind == "Failed" && matches!(c.status.as_str(), "" | "True"))
    }

    /// Whether it waits for a signature and nothing else.
    fn awaits_signature(&self) -> bool {
        self.has("Approved") && !self.has("Denied") && !self.has_failed() && self.certificate.is_empty()
    }
}

/// See the module.
pub(crate) struct Certificates {
    api: Api<Request>,
    signing: Option<Signing>,
    queue: WorkQueue<String>,
}

impl Certificates {
    /// Without `signing`, requests are cleaned up and nothing else.
    pub fn new(client: Client, signing: Option<Signing>) -> Self {
        let kind = GroupVersionKind::gvk("certificates.k8s.io", "v1", "CertificateSigningRequest");
        let api = Api::all_with(client, &ApiResource::from_gvk(&kind));
        Self { api, signing, queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let work = self.queue.work("certificates", WORKERS, |name| async move { self.reconcile(&name).await });
        tokio::join!(self.watch(), work);
    }

    async fn watch(&self) {
        let mut events = watcher::watcher(self.api.clone(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(request) | Event::Apply(request)) => self.queue.add(request.name_any()),
                Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                Err(error) => tracing::debug!(%error, "watch of certificate signing requests interrupted"),
            }
        }
    }

    async fn reconcile(&self, name: &str) -> Result<Outcome, Error> {
        let Some(request) = self.api.get_opt(name).await? else { return Ok(Outcome::Done) };
        let status = request.status.clone().unwrap_or_default();
        let now = Timestamp::now();
        let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let remaining = remaining(created, &status, now);
        if remaining.is_zero() {
            tracing::info!(name, "removing a certificate signing request that has had its time");
            return delete_as_seen(&self.api, &request).await.map(|()| Outcome::Done);
        }
        if status.awaits_signature()
            && let Some(signing) = &self.signing
        {
            self.sign(&request, &status, signing, now).await?;
        }
        Ok(Outcome::After(remaining))
    }

    async fn sign(&self, request: &Request, status: &Status, signing: &Signing, now: Timestamp) -> Result<(), Error> {
        let change = match signing.sign(&request.spec, now) {
            Ok(None) => return Ok(()),
            Ok(Some(certificate)) => json!({"certificate": certificate}),
            Err(reason) => {
                let mut conditions: Vec<Value> = status.conditions.iter().map(|c| json!(c)).collect();
                conditions.push(json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": reason,
                    "lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                }));
                json!({"conditions": conditions})
            }
        };
        let name = request.name_any();
        let patch = json!({"metadata": {"resourceVersion": request.resource_version()}, "status": change});
        match self.api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await {
            Err(error) if is_conflict(&error) => Err(Error::Changed(name)),
            result => ignore_not_found(result),
        }
    }
}
