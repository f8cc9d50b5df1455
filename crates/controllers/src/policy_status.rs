//! The status of ValidatingAdmissionPolicies: what their expressions would get wrong about the types they match.
//!
//! Expressions see objects as they come, without types; this checks them against the published schemas of the resources
//! that the rules name, and leaves warnings in the status. They change nothing about what the policy does.

mod declare;
mod type_check;

use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::type_check::{CheckedType, Kind};
use crate::error::{Error, is_not_found};
use crate::work_queue::{Outcome, WorkQueue};

/// Policies worked on at the same time.
const WORKERS: usize = 2;
/// The name these writes go by in managedFields, as upstream.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";
/// More types than this are not looked at, as upstream.
const MAX_TYPES: usize = 10;

/// See the module.
pub(crate) struct PolicyStatus {
    client: Client,
    queue: WorkQueue<String>,
}

impl PolicyStatus {
    pub fn new(client: Client) -> Self {
        Self { client, queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let settling = self.queue.work("policy status", WORKERS, |name| async move { self.settle(&name).await });
        tokio::join!(self.watch(), settling);
    }

    fn api(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "admissionregistration.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "admissionregistration.k8s.io/v1".to_owned(),
            kind: "ValidatingAdmissionPolicy".to_owned(),
            plural: "validatingadmissionpolicies".to_owned(),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    async fn watch(&self) {
        let mut events = watcher::watcher(self.api(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(policy) | Event::Apply(policy)) => self.queue.add(policy.name_any()),
                Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                Err(error) => tracing::debug!(%error, "watch of policies interrupted"),
            }
        }
    }

    /// Checks one policy.
    pub async fn settle(&self, name: &str) -> Result<Outcome, Error> {
        let api = self.api();
        let Some(policy) = api.get_opt(name).await? else { return Ok(Outcome::Done) };
        let generation = policy.metadata.generation.unwrap_or_default();
        let observed = policy.data["status"]["observedGeneration"].as_i64().unwrap_or_default();
        if generation <= observed {
            return Ok(Outcome::Done);
        }
        let spec = &policy.data["spec"];
        let types = self.types(spec).await?;
        let params = match spec.get("paramKind").and_then(Kind::of_param) {
            Some(kind) => Some(self.declared(&kind).await?.and_then(|checked| checked.decl)),
            None => None,
        };
        let warnings = type_check::check(spec, &types, params.as_ref());
        let mut checking = json!({});
        if !warnings.is_empty() {
            checking["expressionWarnings"] = warnings.into();
        }
        let status = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        });
        match api.patch_status(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(status)).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }

    /// The types that the rules name, in the order of group, version and kind.
    async fn types(&self, spec: &Value) -> Result<Vec<CheckedType>, Error> {
        let mut kinds = Vec::new();
        for (group, version, resource) in type_check::named_resources(spec) {
            if kinds.len() == MAX_TYPES {
                break;
            }
            let Some(list) = self.document(&group_version_path(&group, &version)).await? else { continue };
            let found = list["resources"].as_array().into_iter().flatten().find(|known| known["name"] == *resource);
            let Some(kind) = found.and_then(|known| known["kind"].as_str()) else { continue };
            let kind = Kind { group, version, kind: kind.to_owned() };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds.sort();
        let mut types = Vec::new();
        for kind in kinds {
            types.extend(self.declared(&kind).await?);
        }
        Ok(types)
    }

    /// The published type of a kind; none if there is no such kind.
    async fn declared(&self, kind: &Kind) -> Result<Option<CheckedType>, Error> {
        let path = format!("/openapi/v3{}", group_version_path(&kind.group, &kind.version));
        let Some(document) = self.document(&path).await? else { return Ok(None) };
        let schemas = &document["components"]["schemas"];
        let wanted = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let is_wanted = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.contains(&wanted))
        };
        let found = schemas.as_object().into_iter().flat_map(|schemas| schemas.values()).find(is_wanted);
        Ok(found.map(|schema| CheckedType { kind: kind.clone(), decl: declare::declare(schema, schemas) }))
    }

    async fn document(&self, path: &str) -> Result<Option<Value>, Error> {
        let request = Request::get(path).body(Body::empty()).map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        match response.status() {
            // Not always a Status: paths of groups that do not exist are no part of the API.
            StatusCode::NOT_FOUND => return Ok(None),
            status if !status.is_success() => return Err(Error::Incomplete(format!("{path}: {status}"))),
            _ => {}
        }
        let body = response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).map(Some).map_err(|error| kube::Error::SerdeError(error).into())
    }
}

fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}
