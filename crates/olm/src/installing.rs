//! Applying objects to a target so that it can be undone: when one of them is refused, those before it go back to what
//! they were.

use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::bundles::is_definition;
use crate::crds::{MANAGER, is_established};
use crate::error::{Error, is_not_found, is_passing, plain};
use crate::kinds::CRD;
use crate::object::text;
use crate::target::Target;

/// How long a definition may take to be served by the target.
const ESTABLISH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);
const ESTABLISH_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// What became of an object, in the words of InstallPlans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Created,
    Present,
    /// The target does not serve its kind.
    Unsupported,
}

impl Applied {
    pub fn as_str(self) -> &'static str {
        match self {
            Applied::Created => "Created",
            Applied::Present => "Present",
            Applied::Unsupported => "UnsupportedResource",
        }
    }
}

/// Why an object was not applied: what was refused, and why.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotApplied {
    /// It would be refused again.
    #[error("{0}")]
    Refused(String),
    /// It may well be applied later.
    #[error("{0}")]
    ForNow(String),
}

impl NotApplied {
    /// Of what was asked for `what`.
    pub fn new(what: &str, error: &Error) -> Self {
        match error {
            Error::Request(error) if is_passing(error) => NotApplied::ForNow(format!("{what}: {}", plain(error))),
            Error::Request(error) => NotApplied::Refused(format!("{what}: {}", plain(error))),
            other => NotApplied::Refused(format!("{what}: {other}")),
        }
    }
}

/// Applies objects one after the other.
pub(crate) struct Installer<'t> {
    target: &'t Target,
    /// Where objects without a namespace go.
    namespace: String,
    done: Vec<Undo>,
}

struct Undo {
    api: Api<DynamicObject>,
    name: String,
    kind: String,
    /// `None` if it was not there.
    before: Option<DynamicObject>,
}

impl<'t> Installer<'t> {
    pub fn new(target: &'t Target, namespace: &str) -> Self {
        Self { target, namespace: namespace.to_owned(), done: Vec::new() }
    }

    /// Applies an object.
    pub async fn apply(&mut self, object: &Value) -> Result<Applied, NotApplied> {
        let (kind, name) = (text(object, "/kind").to_owned(), text(object, "/metadata/name").to_owned());
        let failed = |error: Error| NotApplied::new(&format!("{kind} {name}"), &error);
        let api = self.target.api_of(object, &self.namespace).await.map_err(failed)?;
        let Some(api) = api else {
            // Without its definitions there is nothing of an operator.
            return match is_definition(object) {
                true => {
                    Err(NotApplied::Refused(format!("{kind} {name}: {} is not served", text(object, "/apiVersion"))))
                }
                false => Ok(Applied::Unsupported),
            };
        };
        let before = self.target.present(object, &self.namespace).await.map_err(failed)?;
        let is_new = before.is_none();
        // Whoever may not finish may not be able to undo either. A namespace stays: others may have put something there.
        let own = self.target.own_api_of(object, &self.namespace).await.map_err(failed)?;
        if let Some(api) = own.filter(|_| kind != "Namespace") {
            self.done.push(Undo { api, name: name.clone(), kind: kind.clone(), before });
        }
        let mut wanted = object.clone();
        if let Some(fields) = wanted.as_object_mut() {
            // Only their owners write statuses.
            fields.remove("status");
        }
        if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("creationTimestamp");
        }
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(&name, &parameters, &Patch::Apply(&wanted)).await.map_err(|error| failed(error.into()))?;
        if is_definition(object) {
            self.established(&name).await.map_err(failed)?;
            self.target.look_again();
        }
        Ok(if is_new { Applied::Created } else { Applied::Present })
    }

    async fn established(&self, name: &str) -> Result<(), Error> {
        let api = CRD.all(&self.target.own);
        let deadline = tokio::time::Instant::now() + ESTABLISH_TIMEOUT;
        loop {
            let definition = api.get(name).await?;
            if is_established(&definition) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let conditions = crate::object::list(&definition.data, "/status/conditions");
                let messages: Vec<&str> = conditions.iter().map(|condition| text(condition, "/message")).collect();
                return Err(Error::Other(format!("it is not established: {}", messages.join("; "))));
            }
            tokio::time::sleep(ESTABLISH_INTERVAL).await;
        }
    }

    /// Puts everything back, last first. What cannot be put back is logged: there is nobody to tell but the message of
    /// the failure that led here.
    pub async fn roll_back(self) -> Vec<String> {
        let mut faults = Vec::new();
        for undo in self.done.into_iter().rev() {
            let result = match undo.before {
                None => undo.api.delete(&undo.name, &DeleteParams::background()).await.map(|_| ()),
                Some(before) => restore(&undo.api, before).await,
            };
            if let Err(error) = result
                && !is_not_found(&error)
            {
                let fault = format!("{} {}: {}", undo.kind, undo.name, plain(&error));
                tracing::warn!(fault, "could not be put back");
                faults.push(fault);
            }
        }
        faults
    }
}

/// Applies an object that is no part of a bundle, in this service's name and for good. What the target does not serve is
/// passed over.
pub(crate) async fn apply_in_own_name(target: &Target, object: &Value, namespace: &str) -> Result<(), Error> {
    let Some(api) = target.own_api_of(object, namespace).await? else { return Ok(()) };
    api.patch(text(object, "/metadata/name"), &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// Puts an object back to what it was.
pub(crate) async fn restore(api: &Api<DynamicObject>, mut before: DynamicObject) -> Result<(), kube::Error> {
    let name = before.name_any();
    match api.get_opt(&name).await? {
        Some(now) if now.resource_version() == before.resource_version() => Ok(()),
        Some(now) => {
            before.metadata.resource_version = now.metadata.resource_version;
            api.replace(&name, &PostParams::default(), &before).await.map(|_| ())
        }
        None => {
            before.metadata.resource_version = None;
            before.metadata.uid = None;
            api.create(&PostParams::default(), &before).await.map(|_| ())
        }
    }
}

/// A kind by group, version and name.
type NamedKind = (&'static str, &'static str, &'static str);

/// Kinds that bundles install or that are made for them, which are found again by their labels.
pub(crate) const OWNED_KINDS: [NamedKind; 16] = [
    ("apiregistration.k8s.io", "v1", "APIService"),
    ("apps", "v1", "Deployment"),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"),
    ("", "v1", "Service"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "v1", "PriorityClass"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
];

/// Permissions in namespaces.
pub(crate) const ROLE_KINDS: [NamedKind; 2] =
    [("rbac.authorization.k8s.io", "v1", "RoleBinding"), ("rbac.authorization.k8s.io", "v1", "Role")];

/// Deletes what is of these kinds, carries these labels and is not among `keep`, given as kind, namespace and name.
pub(crate) async fn sweep(
    target: &Target,
    kinds: &[NamedKind],
    selector: &str,
    keep: &(dyn Fn(&str, Option<&str>, &str) -> bool + Sync),
) -> Result<(), Error> {
    for (group, version, kind) in kinds.iter().copied() {
        let gvk = kube::api::GroupVersionKind::gvk(group, version, kind);
        let Some((resource, scope)) = target.kind(gvk).await? else { continue };
        let all: Api<DynamicObject> = Api::all_with(target.own.clone(), &resource);
        for object in all.list(&ListParams::default().labels(selector)).await?.items {
            let (name, namespace) = (object.name_any(), object.namespace());
            if keep(kind, namespace.as_deref(), &name) {
                continue;
            }
            let api: Api<DynamicObject> = match (&scope, &namespace) {
                (kube::discovery::Scope::Namespaced, Some(namespace)) => {
                    Api::namespaced_with(target.own.clone(), namespace, &resource)
                }
                _ => all.clone(),
            };
            match api.delete(&name, &DeleteParams::background()).await {
                Err(error) if !is_not_found(&error) => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Adds labels to an object.
pub(crate) fn add_labels<'l>(object: &mut Value, labels: impl IntoIterator<Item = (&'l str, String)>) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    for (key, value) in labels {
        object["metadata"]["labels"][key] = value.into();
    }
}

/// Adds an owner to an object.
pub(crate) fn add_owner(object: &mut Value, owner: Value) {
    match object["metadata"]["ownerReferences"].as_array_mut() {
        Some(owners) => owners.push(owner),
        None => object["metadata"]["ownerReferences"] = json!([owner]),
    }
}

/// A value for a label: names that are too long are cut, with a hash of the whole.
pub(crate) fn label_value(name: &str) -> String {
    use sha2::{Digest as _, Sha256};
    const MAX: usize = 63;
    const HASH: usize = 9;
    if name.len() <= MAX {
        return name.to_owned();
    }
    let hash: String = Sha256::digest(name.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = name.chars().take(MAX - HASH).collect();
    format!("{}-{hash}", kept.trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_become_labels_that_differ() {
        let (a, b) = (format!("{}a", "x".repeat(80)), format!("{}b", "x".repeat(80)));
        assert_eq!(label_value("short.v1.0.0"), "short.v1.0.0");
        assert!(label_value(&a).len() <= 63);
        assert_ne!(label_value(&a), label_value(&b));
    }
}
