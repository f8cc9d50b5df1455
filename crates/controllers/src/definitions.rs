//! CustomResourceDefinitions: gives them their names and conditions, empties those that are being deleted, and keeps the
//! records of the group versions they serve.
//!
//! Runs wherever the API is served, because without it no definition is ever established. What a definition serves is the
//! server's own business; it does so as soon as it sees the condition.

mod api_services;
mod conditions;
mod emptying;
mod instances;
mod naming;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use http::HeaderValue;
use http::header::ACCEPT;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, Object};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::api_services::ApiServices;
use self::conditions::{Condition, find, is_true, set};
use self::emptying::Emptying;
use self::naming::{Decision, Names, UsedNames};
use crate::discovery::ResourceType;
use crate::error::{Error, is_conflict, is_not_found};
use crate::header::Header;
use crate::work_queue::{Outcome, WorkQueue};

/// Kept on a definition until its instances are gone.
const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Definitions worked on at the same time. Emptying one may take long.
const WORKERS: usize = 16;
/// The name these writes go by in managedFields, as upstream.
pub(crate) const FIELD_MANAGER: &str = "kube-apiserver";

/// What is answered to a written status: the rest of a definition is long, and known.
const METADATA: HeaderValue = HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// A definition as far as it is looked at here. Schemas make up most of it and are skipped.
type Definition = Object<Spec, Value>;

/// What is read of a definition's spec.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec {
    group: String,
    names: Value,
    scope: String,
    versions: Vec<Version>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    conversion: Value,
}

/// What is read of a version.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
}

/// See the module.
pub(crate) struct Definitions {
    client: Client,
    queue: Arc<WorkQueue<String>>,
    known: Mutex<Known>,
    emptying: Emptying,
    api_services: ApiServices,
}

/// How far a definition has come.
#[derive(Debug)]
pub(crate) enum Settled {
    /// There is nothing left to do for it.
    Done,
    /// It goes as soon as its instances have gone, which wait for their finalizers.
    Emptying(ResourceType),
}

/// What is known of all definitions.
#[derive(Default)]
struct Known {
    used: UsedNames,
    /// Definitions whose names are not all accepted, with their groups: they wait for others to let go.
    waiting: HashMap<String, String>,
    /// For finding what a new list no longer has.
    listed: Option<Vec<String>>,
    /// Definitions in the queue as the watch told them, so that they need not be asked for. One that has changed since
    /// cannot be written and comes again.
    told: HashMap<String, Definition>,
}

impl Definitions {
    pub fn new(client: Client) -> Self {
        let queue = Arc::new(WorkQueue::new());
        Self {
            api_services: ApiServices::new(client.clone()),
            emptying: Emptying::new(client.clone(), queue.clone()),
            client,
            queue,
            known: Mutex::default(),
        }
    }

    /// Works forever.
    pub async fn run(&self) {
        let settling = self.queue.work("definitions", WORKERS, |name| async move {
            if let Settled::Emptying(instances) = self.settle(&name).await? {
                self.emptying.follow(name, instances);
            }
            Ok::<_, Error>(Outcome::Done)
        });
        tokio::join!(self.watch(), settling, self.api_services.run());
    }

    /// Settles every definition there is, once: for a control plane that is not followed on its own. If one waits for its
    /// instances to go, it is to be called again when some have gone.
    pub async fn settle_all(client: Client) -> Result<Settled, Error> {
        let definitions = Self::new(client);
        let all = definitions.api().list(&ListParams::default()).await?;
        for definition in &all {
            let accepted = Names::of(&status_of(definition)["acceptedNames"]);
            definitions.known().used.set(&definition.spec.group, &definition.name_any(), &accepted);
        }
        let mut settled = Settled::Done;
        for definition in all.iter().filter(|definition| !is_settled(definition)) {
            match definitions.settle(&definition.name_any()).await? {
                Settled::Done => {}
                waiting => settled = waiting,
            }
        }
        Ok(settled)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self) -> Api<Definition> {
        Api::all_with(self.client.clone(), &resource())
    }

    async fn watch(&self) {
        let mut events = watcher::watcher(self.api(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.known().listed = Some(Vec::new()),
                Ok(Event::InitApply(definition) | Event::Apply(definition)) => self.seen(definition),
                Ok(Event::Delete(definition)) => self.gone(&definition.name_any()),
                Ok(Event::InitDone) => self.listed(),
                Err(error) => tracing::debug!(%error, "watch of definitions interrupted"),
            }
        }
    }

    fn seen(&self, definition: Definition) {
        let name = definition.name_any();
        {
            let mut known = self.known();
            let accepted = Names::of(&status_of(&definition)["acceptedNames"]);
            known.used.set(&definition.spec.group, &name, &accepted);
            known.told.remove(&name);
            if let Some(listed) = &mut known.listed {
                listed.push(name.clone());
            }
        }
        self.api_services.seen(&name, &definition);
        let approval = conditions::api_approval(&definition.spec.group, definition.annotations());
        if approval.is_some() || !is_settled(&definition) {
            self.known().told.insert(name.clone(), definition);
            self.queue.add(name);
        }
    }

    fn listed(&self) {
        let missing = {
            let mut known = self.known();
            let listed = known.listed.take().unwrap_or_default();
            known.used.owners_besides(&listed)
        };
        missing.iter().for_each(|name| self.gone(name));
    }

    fn gone(&self, name: &str) {
        {
            let mut known = self.known();
            known.waiting.remove(name);
            known.told.remove(name);
        }
        self.api_services.gone(name);
        self.let_go(name, None);
    }

    /// Takes names from a definition and lets those try again that may have wanted them.
    fn let_go(&self, name: &str, keeps: Option<(&str, &Names)>) {
        let mut known = self.known();
        let group = match keeps {
            Some((group, names)) => {
                known.used.set(group, name, names);
                Some(group.to_owned())
            }
            None => known.used.remove(name),
        };
        let Some(group) = group else { return };
        for (other, _) in known.waiting.iter().filter(|(other, of)| **of == group && other.as_str() != name) {
            self.queue.add(other.clone());
        }
    }

    async fn settle(&self, name: &str) -> Result<Settled, Error> {
        let told = self.known().told.remove(name);
        let found = match told {
            Some(definition) => Some(definition),
            None => self.api().get_opt(name).await?,
        };
        let Some(definition) = found else { return Ok(Settled::Done) };
        if definition.metadata.deletion_timestamp.is_some() {
            return self.empty(definition).await;
        }
        let (group, wanted) = (definition.spec.group.clone(), Names::of(&definition.spec.names));
        let mut status = status_of(&definition).clone();
        let accepted = Names::of(&status["acceptedNames"]);
        let mut changed = false;
        if wanted != accepted || find(&status, "NamesAccepted").is_none() {
            let mut known = self.known();
            let Decision { names, condition } = known.used.decide(&group, name, &wanted, &accepted);
            // Held from now on, so that nobody else is given them before they are written.
            known.used.set(&group, name, &names);
            changed |= names != accepted;
            status["acceptedNames"] = names.to_json();
            changed |= set(&mut status, condition);
            if is_true(&status, "NamesAccepted") {
                known.waiting.remove(name);
            } else {
                known.waiting.insert(name.to_owned(), group.clone());
            }
        }
        if !is_true(&status, "Established") {
            let condition = match is_true(&status, "NamesAccepted") {
                true => conditions::established(&definition.spec.conversion),
                false => Condition::no("Established", "NotAccepted", "not all names are accepted"),
            };
            changed |= set(&mut status, condition);
        }
        if let Some(condition) = conditions::api_approval(&group, definition.annotations()) {
            changed |= set(&mut status, condition);
        }
        if !changed {
            return Ok(Settled::Done);
        }
        let names = Names::of(&status["acceptedNames"]);
        let mut settled = definition;
        settled.status = Some(status);
        if self.write_status(name, &settled).await?.is_some() {
            self.let_go(name, Some((&group, &names)));
        }
        Ok(Settled::Done)
    }

    /// Deletes what a definition defined, then lets the definition go.
    async fn empty(&self, definition: Definition) -> Result<Settled, Error> {
        if !definition.finalizers().iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
            return Ok(Settled::Done);
        }
        let name = definition.name_any();
        let mut definition = definition;
        let begun =
            Condition::yes("Terminating", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        if set(status_mut(&mut definition), begun) {
            match self.write_status(&name, &definition).await? {
                Some(version) => definition.metadata.resource_version = Some(version),
                None => return Ok(Settled::Done),
            }
        }
        let ended = if is_true(status_of(&definition), "Established") {
            match instances::delete_all(&self.client, &as_json(&definition)).await {
                Ok(None) => Condition::no("Terminating", "InstanceDeletionCompleted", "removed all instances"),
                Ok(Some(left)) => return Ok(Settled::Emptying(left)),
                Err(error) => {
                    let message = format!("could not list instances: {error}");
                    let failed = Condition::yes("Terminating", "InstanceDeletionFailed", &message);
                    if set(status_mut(&mut definition), failed) {
                        self.write_status(&name, &definition).await?;
                    }
                    return Err(error);
                }
            }
        } else {
            Condition::no("Terminating", "NeverEstablished", "resource was never established")
        };
        set(status_mut(&mut definition), ended);
        definition.finalizers_mut().retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        self.write_status(&name, &definition).await?;
        Ok(Settled::Done)
    }

    /// Writes the status and, as the subresource allows, the finalizers; gives the version written. `None` when the
    /// definition has changed or gone: then there is an event to come.
    async fn write_status(&self, name: &str, definition: &Definition) -> Result<Option<String>, Error> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let mut metadata = json!({"resourceVersion": definition.resource_version()});
        if definition.metadata.deletion_timestamp.is_some() {
            metadata["finalizers"] = definition.finalizers().into();
        }
        let patch = Patch::Merge(json!({"metadata": metadata, "status": definition.status}));
        let request = kube::core::Request::new(self.api().resource_url().to_owned());
        let mut request =
            request.patch_subresource("status", name, &params, &patch).map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, METADATA);
        match self.client.request::<Header>(request).await {
            Ok(written) => Ok(written.metadata.resource_version),
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    }
}

/// Whether a definition has the names it asks for and is served.
fn is_settled(definition: &Definition) -> bool {
    let status = status_of(definition);
    definition.metadata.deletion_timestamp.is_none()
        && is_true(status, "Established")
        && Names::of(&definition.spec.names) == Names::of(&status["acceptedNames"])
}

fn status_of(definition: &Definition) -> &Value {
    definition.status.as_ref().unwrap_or(&Value::Null)
}

fn status_mut(definition: &mut Definition) -> &mut Value {
    definition.status.get_or_insert_with(|| json!({}))
}

/// Spec and status, as others read them.
fn as_json(definition: &Definition) -> Value {
    json!({"spec": definition.spec, "status": definition.status})
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
