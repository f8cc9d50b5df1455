//! An APIService for each group version that definitions serve, so that clients find custom groups where they find all
//! others.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::json;

use super::conditions::is_true;
use super::{Definition, FIELD_MANAGER, Version, status_of};
use crate::error::{Error, is_already_there, is_not_found};
use crate::work_queue::{Outcome, WorkQueue};

/// Marks records that come and go with what they record.
const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Where custom groups stand among all groups, as upstream.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;
/// Records written at the same time.
const WORKERS: usize = 4;

/// A group and a version.
type GroupVersion = (String, String);

/// See the module.
pub(super) struct ApiServices {
    client: Client,
    queue: WorkQueue<GroupVersion>,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    by_definition: HashMap<String, BTreeSet<GroupVersion>>,
    /// How many definitions serve each.
    counts: HashMap<GroupVersion, usize>,
}

impl ApiServices {
    pub fn new(client: Client) -> Self {
        Self { client, queue: WorkQueue::new(), served: Mutex::default() }
    }

    pub async fn run(&self) {
        self.queue.work("api-services", WORKERS, |version| async move { self.record(&version).await }).await;
    }

    /// Notes what a definition serves.
    pub fn seen(&self, name: &str, definition: &Definition) {
        let spec = &definition.spec;
        let versions: &[Version] = if is_true(status_of(definition), "Established") { &spec.versions } else { &[] };
        let served = versions.iter().filter(|version| version.served);
        self.replace(name, served.map(|version| (spec.group.clone(), version.name.clone())).collect());
    }

    pub fn gone(&self, name: &str) {
        self.replace(name, BTreeSet::new());
    }

    fn replace(&self, name: &str, now: BTreeSet<GroupVersion>) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let before = served.by_definition.remove(name).unwrap_or_default();
        for version in now.difference(&before) {
            let count = served.counts.entry(version.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                self.queue.add(version.clone());
            }
        }
        for version in before.difference(&now) {
            if let Some(count) = served.counts.get_mut(version) {
                *count -= 1;
                if *count == 0 {
                    served.counts.remove(version);
                    self.queue.add(version.clone());
                }
            }
        }
        if !now.is_empty() {
            served.by_definition.insert(name.to_owned(), now);
        }
    }

    fn is_served(&self, version: &GroupVersion) -> bool {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).counts.contains_key(version)
    }

    async fn record(&self, version: &GroupVersion) -> Result<Outcome, Error> {
        let resource = ApiResource {
            group: "apiregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "apiregistration.k8s.io/v1".into(),
            kind: "APIService".into(),
            plural: "apiservices".into(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let name = format!("{}.{}", version.1, version.0);
        match (api.get_opt(&name).await?, self.is_served(version)) {
            (None, true) => create(&api, &name, version).await?,
            (Some(record), false) if is_ours(&record) => match api.delete(&name, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => return Err(error.into()),
                _ => {}
            },
            _ => {}
        }
        Ok(Outcome::Done)
    }
}

/// Whether nobody but us made the record.
fn is_ours(record: &DynamicObject) -> bool {
    let labels = record.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(AUTOMANAGED_LABEL)).is_some_and(|mark| mark == "true")
}

async fn create(api: &Api<DynamicObject>, name: &str, (group, version): &GroupVersion) -> Result<(), Error> {
    let record = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {AUTOMANAGED_LABEL: "true"}},
        "spec": {
            "group": group, "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY, "versionPriority": VERSION_PRIORITY,
        },
    });
    let record: DynamicObject = serde_json::from_value(record).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&params, &record).await {
        // Another server was faster; it writes the status too.
        Err(error) if is_already_there(&error) => return Ok(()),
        // A server may do without such records.
        Err(error) if is_not_found(&error) => return Ok(()),
        other => drop(other?),
    }
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"status": {"conditions": [{
        "type": "Available", "status": "True", "reason": "Local",
        "message": "Local APIServices are always available", "lastTransitionTime": now,
    }]}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(name, &params, &Patch::Merge(&status)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
