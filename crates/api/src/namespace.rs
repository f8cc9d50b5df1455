//! Namespaces: active until deleted, then terminating until `spec.finalizers` is empty and everything inside is gone.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::resource::SelectableField;
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, name_column};
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::field_errors::invalid_each;
use crate::fields::{carry_over, present, put, set_default, text, texts};

/// The label every namespace carries, so that selectors can name namespaces.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer that the namespace controller removes when the namespace is empty.
pub const KUBERNETES_FINALIZER: &str = "kubernetes";

/// Finalizer names that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = [KUBERNETES_FINALIZER, "orphan", "foregroundDeletion"];

/// `namespaces` with `status` and `finalize`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "", version: "v1", kind: "Namespace", plural: "namespaces" };
    vec![Resource {
        short_names: vec!["ns".to_owned()],
        verbs: vec!["create", "delete", "get", "list", "patch", "update", "watch"],
        selectable_fields: vec![SelectableField::at("status.phase")],
        subresources: vec![subresource("finalize", &["update"], Finalize), subresource("status", STATUS_VERBS, Status)],
        ..named.stored(Scope::Cluster, Namespace, Printer::new(columns, cells))
    }]
}

struct Namespace;

impl Strategy for Namespace {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        if !object::name(object).is_empty() {
            label_with_name(object);
        }
        set_default(object, "spec", || json!({}));
        set_default(object, "status", || json!({}));
        if let Some(status) = object.get_mut("status")
            && text(status, "phase").is_empty()
        {
            put(status, "phase", json!("Active"));
        }
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        put(object, "status", json!({"phase": "Active"}));
        set_default(object, "spec", || json!({}));
        if let Some(spec) = object.get_mut("spec") {
            let mut finalizers = texts(spec, "finalizers");
            if !finalizers.contains(&KUBERNETES_FINALIZER) {
                finalizers.push(KUBERNETES_FINALIZER);
            }
            let finalizers = json!(finalizers);
            put(spec, "finalizers", finalizers);
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let path = Path::new("spec").child("finalizers");
        let mut errors = validate_core_finalizers(object);
        errors.extend(spec_finalizers(object).into_iter().flat_map(|name| validate_finalizer(name, &path)));
        errors
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
        carry_over(object, old, "status");
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_label
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn canonicalize(&self, object: &mut Value) {
        label_with_name(object);
    }

    fn mark_deleting(&self, _cx: &Context<'_>, object: &mut Value) {
        // Namespaces have never had a grace period, not even the zero that other types show.
        if let Some(metadata) = object::metadata_mut(object) {
            metadata.remove("deletionGracePeriodSeconds");
        }
        set_default(object, "status", || json!({}));
        if let Some(status) = object.get_mut("status") {
            put(status, "phase", json!("Terminating"));
        }
    }

    fn removable(&self, object: &Value) -> bool {
        spec_finalizers(object).is_empty()
    }
}

/// Only the status may change, and the phase must agree with the deletion mark.
struct Status;

impl Strategy for Status {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["spec"]]
    }

    fn default(&self, object: &mut Value) {
        Namespace.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        let phase = object::str_at(object, &["status", "phase"]);
        let mut errors = validate_core_finalizers(object);
        let complaint = match (object::is_deleting(object), phase) {
            (false, "Active") | (true, "Terminating") => return errors,
            (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        };
        // The capital letter is upstream's.
        errors.push(Error::invalid(&Path::new("status").child("Phase"), phase, complaint));
        errors
    }

    fn canonicalize(&self, object: &mut Value) {
        label_with_name(object);
    }

    fn removable(&self, object: &Value) -> bool {
        Namespace.removable(object)
    }
}

/// The one way to change `spec.finalizers`.
struct Finalize;

impl Strategy for Finalize {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        Namespace.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "status");
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        let path = Path::new("spec").child("finalizers");
        let mut errors = validate_core_finalizers(object);
        for (index, name) in spec_finalizers(object).into_iter().enumerate() {
            errors.extend(validate_finalizer(name, &path.index(index)));
        }
        errors
    }

    fn canonicalize(&self, object: &mut Value) {
        label_with_name(object);
    }

    fn removable(&self, object: &Value) -> bool {
        Namespace.removable(object)
    }
}

fn label_with_name(object: &mut Value) {
    let name = json!(object::name(object));
    if let Some(metadata) = object::metadata_mut(object) {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if labels.is_null() {
            *labels = json!({});
        }
        put(labels, NAME_LABEL, name);
    }
}

fn spec_finalizers(object: &Value) -> Vec<&str> {
    present(object, "spec").map(|spec| texts(spec, "finalizers")).unwrap_or_default()
}

fn validate_finalizer(name: &str, path: &Path) -> ErrorList {
    let mut errors = invalid_each(path, name, names::qualified_name(name));
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let complaint = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(path, name, complaint));
    }
    errors
}

fn columns() -> Vec<Column> {
    vec![name_column(), Column::new("Status", "string", "The status of the namespace"), age_column()]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![json!(object::name(object)), json!(object::str_at(object, &["status", "phase"])), age(object, now)]
}

#[cfg(test)]
mod tests;
