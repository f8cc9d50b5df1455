//! `apiextensions.k8s.io/v1`: CustomResourceDefinitions. They are stored and checked here; what they define is served
//! elsewhere, and a controller sets most of their conditions. Expressions in CEL are not compiled here.

mod conversion;
mod defaults;
mod embedded;
mod field_path;
mod names;
#[cfg(test)]
mod objects_tests;
mod schema;
mod selectable_fields;
mod shown;
mod spec;
mod structural;
mod versions;
mod walk;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::name_is_dns_subdomain;
use bailiwick_machinery::{Resource, Scope, object};
use serde_json::{Map, Value, json};

use crate::columns::default_table;
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::fields::{carry_over, flag, list, present, present_mut, put, set_default, text, texts};
use crate::go_url;
use crate::webhook_client::default_service_port;

pub use embedded::EMBEDDED_RULES;

/// Groups of the community need its approval, in this annotation.
const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE_APPROVAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Keeps a definition until its instances are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The descriptors of the group.
pub fn resources() -> Vec<Resource> {
    let mut definitions = Named {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
    }
    .stored(Scope::Cluster, Definition, default_table().with_null_rows());
    definitions.short_names = vec!["crd".to_owned(), "crds".to_owned()];
    definitions.categories = vec!["api-extensions".to_owned()];
    definitions.subresources.push(subresource("status", STATUS_VERBS, DefinitionStatus));
    vec![definitions]
}

#[derive(Debug)]
struct Definition;

impl Strategy for Definition {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = present_mut(object, "spec") else { return };
        if let Some(names) = present_mut(spec, "names") {
            let kind = text(names, "kind").to_owned();
            let fill = |names: &mut Value, field: &str, value: String| {
                if text(names, field).is_empty() && !value.is_empty() {
                    put(names, field, value.into());
                }
            };
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", if kind.is_empty() { String::new() } else { format!("{kind}List") });
        }
        set_default(spec, "conversion", || json!({"strategy": "None"}));
        let config = present_mut(spec, "conversion")
            .and_then(|conversion| present_mut(conversion, "webhook"))
            .and_then(|webhook| present_mut(webhook, "clientConfig"));
        if let Some(config) = config {
            default_service_port(config);
        }
        store_in_status(object, |stored| stored.is_empty());
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        put(object, "status", empty_status());
        store_in_status(object, |_| true);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_name(object);
        errors.extend(spec::validate(object, None));
        errors.extend(validate_rest(object, None));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        format_warnings(walk::unrecognized_formats(object))
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "status");
        store_in_status(object, |_| true);
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = spec::validate(object, Some(old));
        errors.extend(spec::validate_immutable(object, old));
        errors.extend(validate_rest(object, Some(old)));
        errors
    }

    fn warnings_on_update(&self, object: &Value, old: &Value) -> Vec<String> {
        let known = walk::unrecognized_formats(old);
        let new = walk::unrecognized_formats(object).into_iter().filter(|format| !known.contains(format));
        format_warnings(new.collect())
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// The first request to delete a definition is about what it defines; only later ones look at the policy.
    fn follows_propagation_policy(&self, object: &Value) -> bool {
        object::is_deleting(object)
    }

    /// The first request to delete a definition begins the deletion of what it defines.
    fn mark_deleting(&self, cx: &Context<'_>, object: &mut Value) {
        if object::finalizers(object).contains(&CLEANUP_FINALIZER) {
            return;
        }
        if let Some(metadata) = object::metadata_mut(object) {
            let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Some(finalizers) = finalizers.as_array_mut() {
                finalizers.push(CLEANUP_FINALIZER.into());
            }
            // Upstream marks definitions by itself and knows neither grace nor generation there.
            metadata.remove("deletionGracePeriodSeconds");
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 1) {
                metadata.insert("generation".to_owned(), (generation - 1).into());
            }
        }
        mark_terminating(cx, object);
    }

    fn removable(&self, object: &Value) -> bool {
        object::is_deleting(object)
    }
}

fn mark_terminating(cx: &Context<'_>, object: &mut Value) {
    set_default(object, "status", || json!({}));
    let Some(status) = present_mut(object, "status") else { return };
    if !status["conditions"].is_array() {
        put(status, "conditions", json!([]));
    }
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    conditions.retain(|condition| text(condition, "type") != "Terminating");
    conditions.push(json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }));
}

/// Nobody has looked at the definition yet: no conditions, no accepted names.
fn empty_status() -> Value {
    json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null})
}

/// Adds the storage version to the versions objects are stored in, if it is not there and `wanted` agrees.
fn store_in_status(object: &mut Value, wanted: impl Fn(&[Value]) -> bool) {
    let versions = present(object, "spec").map(|spec| list(spec, "versions")).unwrap_or_default();
    let Some(storage) = versions.iter().find(|version| flag(version, "storage")) else { return };
    let storage = text(storage, "name").to_owned();
    set_default(object, "status", || Value::Object(Map::new()));
    let Some(status) = present_mut(object, "status") else { return };
    set_default(status, "storedVersions", || Value::Array(Vec::new()));
    if let Some(stored) = status.get_mut("storedVersions").and_then(Value::as_array_mut)
        && wanted(stored)
        && !stored.iter().any(|version| *version == storage.as_str())
    {
        stored.push(storage.into());
    }
}

fn validate_name(object: &Value) -> ErrorList {
    let name = object::name(object);
    let spec = &object["spec"];
    let required = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if name.is_empty() || name == required {
        return ErrorList::new();
    }
    let detail = "must be spec.names.plural+\".\"+spec.group";
    vec![Error::invalid(&Path::new("metadata").child("name"), name, detail)]
}

/// What is checked besides the spec.
fn validate_rest(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = validate_status(object);
    errors.extend(validate_stored_versions(object));
    errors.extend(validate_approval(object, old));
    let preserves = |object: &Value| flag(&object["spec"], "preserveUnknownFields");
    if preserves(object) && !old.is_some_and(preserves) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(&Path::new("spec").child("preserveUnknownFields"), true, detail));
    }
    errors
}

fn validate_status(object: &Value) -> ErrorList {
    match present(object, "status").and_then(|status| present(status, "acceptedNames")) {
        Some(accepted) => names::validate(accepted, &Path::new("status").child("acceptedNames")),
        None => ErrorList::new(),
    }
}

fn validate_stored_versions(object: &Value) -> ErrorList {
    let path = Path::new("status").child("storedVersions");
    let stored = texts(&object["status"], "storedVersions");
    let shown = || Value::from(list(&object["status"], "storedVersions"));
    if stored.is_empty() {
        return vec![Error::invalid(&path, Value::Null, "must have at least one stored version")];
    }
    let versions = list(&object["spec"], "versions");
    let mut errors = ErrorList::new();
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        let name = text(version, "name");
        if !stored.contains(&name) {
            errors.push(Error::invalid(&path, shown(), format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| text(version, "name") == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), *name, detail));
        }
    }
    errors
}

/// Whether the community agreed to an API in one of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Approved,
    Bypassed,
    Missing,
    Invalid,
}

fn approval(object: &Value) -> Approval {
    match approval_annotation(object) {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if go_url::parse(text).is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty()) => {
            Approval::Approved
        }
        _ => Approval::Invalid,
    }
}

fn approval_annotation(object: &Value) -> &str {
    object["metadata"].get("annotations").map(|all| text(all, APPROVAL_ANNOTATION)).unwrap_or_default()
}

/// Whether a group belongs to the community.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn approval_missing() -> String {
    format!("protected groups must have approval annotation {APPROVAL_ANNOTATION:?}, {SEE_APPROVAL}")
}

fn approval_invalid() -> String {
    format!(
        "protected groups must have approval annotation {APPROVAL_ANNOTATION:?} with either a URL or a reason starting with \"unapproved\", {SEE_APPROVAL}"
    )
}

fn validate_approval(object: &Value, old: Option<&Value>) -> Option<Error> {
    let state = approval(object);
    let protected = is_protected(text(&object["spec"], "group"));
    if !protected || old.is_some_and(|old| approval(old) == state) {
        return None;
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL_ANNOTATION);
    match state {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(Error::required(&path, approval_missing())),
        Approval::Invalid => Some(Error::invalid(&path, approval_annotation(object), approval_invalid())),
    }
}

fn format_warnings(formats: Vec<&str>) -> Vec<String> {
    formats.into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
}

/// The rules of `customresourcedefinitions/status`. As upstream, metadata may change through it.
#[derive(Debug)]
struct DefinitionStatus;

impl Strategy for DefinitionStatus {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["spec"]]
    }

    fn default(&self, object: &mut Value) {
        Definition.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        validate_status(object)
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
