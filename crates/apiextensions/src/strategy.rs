//! The rules of custom resources: what the definition's schema says, and what the subresources it has keep apart.

use std::sync::Arc;

use bailiwick_api::apiextensions::EMBEDDED_RULES;
use bailiwick_machinery::custom::CustomType;
use bailiwick_machinery::field::{ErrorList, Path};
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::{name_is_dns_subdomain, qualified_name};
use bailiwick_machinery::{object, scale};
use bailiwick_schema::structural::rules::{OBJECT_COST_BUDGET, blocks_rules};
use bailiwick_schema::structural::{self, Root, Schema};
use serde_json::Value;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The rules of a resource's own path, and of its `scale`.
pub struct CustomResource {
    custom: Arc<CustomType>,
    has_status: bool,
}

impl CustomResource {
    pub fn new(custom: Arc<CustomType>, has_status: bool) -> Self {
        Self { custom, has_status }
    }
}

impl Strategy for CustomResource {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        if self.has_status { &[&["status"]] } else { &[] }
    }

    fn default(&self, object: &mut Value) {
        if let Some(schema) = self.custom.schema() {
            structural::default(object, schema);
        }
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        if let (true, Some(fields)) = (self.has_status, object.as_object_mut()) {
            fields.remove("status");
        }
    }

    fn validate(&self, cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let schema = self.custom.schema();
        if let Some(schema) = schema {
            errors.extend(structural::validate(object, schema, &Path::root()));
        }
        errors.extend(scale::validate_spec(&self.custom, object));
        errors.extend(scale::validate_status(&self.custom, object));
        if let Some(schema) = schema {
            errors.extend(structural::validate_embedded(object, schema, Root::Value, &Path::root(), EMBEDDED_RULES));
            errors.extend(structural::validate_list_types(object, schema, &Path::root()));
        }
        check_rules(cx, &self.custom, object, None, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        finalizer_warnings(object, None)
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        let (true, Some(fields)) = (self.has_status, object.as_object_mut()) else { return };
        match old.get("status") {
            Some(status) => fields.insert("status".into(), status.clone()),
            None => fields.remove("status"),
        };
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let schema = self.custom.schema();
        if let Some(schema) = schema {
            errors.extend(structural::validate_update(object, old, schema, &Path::root()));
        }
        errors.extend(scale::validate_spec(&self.custom, object));
        errors.extend(scale::validate_status(&self.custom, object));
        if let Some(schema) = schema {
            errors.extend(structural::validate_embedded(object, schema, Root::Value, &Path::root(), EMBEDDED_RULES));
            errors.extend(validate_lists_update(object, old, schema));
        }
        check_rules(cx, &self.custom, object, Some(old), &mut errors);
        errors
    }

    fn warnings_on_update(&self, object: &Value, old: &Value) -> Vec<String> {
        finalizer_warnings(object, Some(old))
    }

    /// A status that may not be given on creation still has its defaults, which no rule was to see before.
    fn canonicalize(&self, object: &mut Value) {
        if self.has_status {
            self.default(object);
        }
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn generation(&self) -> Generation {
        Generation::AllButMetadata
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The rules of `status`: nothing else changes through it.
pub struct CustomResourceStatus {
    custom: Arc<CustomType>,
}

impl CustomResourceStatus {
    pub fn new(custom: Arc<CustomType>) -> Self {
        Self { custom }
    }
}

impl Strategy for CustomResourceStatus {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["metadata"], &["spec"]]
    }

    fn default(&self, object: &mut Value) {
        if let Some(schema) = self.custom.schema() {
            structural::default(object, schema);
        }
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
        let managed = object::metadata_mut(object).and_then(|metadata| metadata.remove("managedFields"));
        *object = old.clone();
        if let Some(metadata) = object::metadata_mut(object) {
            match managed {
                Some(managed) => metadata.insert("managedFields".into(), managed),
                None => metadata.remove("managedFields"),
            };
        }
        if let Some(fields) = object.as_object_mut() {
            match status {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        }
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let schema = self.custom.schema();
        let status_schema = schema.and_then(|schema| schema.property("status"));
        if let (Some(schema), Some(status)) = (status_schema, object.get("status")) {
            let old = old.get("status").unwrap_or(&Value::Null);
            errors.extend(structural::validate_update(status, old, schema, &Path::new("status")));
        }
        errors.extend(scale::validate_status(&self.custom, object));
        if let Some(schema) = schema {
            errors.extend(validate_lists_update(object, old, schema));
        }
        check_rules(cx, &self.custom, object, Some(old), &mut errors);
        errors
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// List sets and maps must hold no duplicates, unless they did before.
fn validate_lists_update(object: &Value, old: &Value, schema: &Schema) -> ErrorList {
    let errors = structural::validate_list_types(object, schema, &Path::root());
    if errors.is_empty() || structural::validate_list_types(old, schema, &Path::root()).is_empty() {
        errors
    } else {
        ErrorList::new()
    }
}

/// Runs the CEL rules, unless what they would look at is not even of its type.
fn check_rules(cx: &Context<'_>, custom: &CustomType, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(rules) = custom.rules() else { return };
    if let Some(error) = blocks_rules(errors) {
        errors.push(error);
        return;
    }
    let mut budget = OBJECT_COST_BUDGET;
    let findings = rules.validate(&Path::root(), object, old, &mut budget);
    errors.extend(findings.errors);
    findings.warnings.into_iter().for_each(|warning| cx.warn(warning));
}

/// Advice about finalizers that are new and badly named.
fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(object::finalizers).unwrap_or_default();
    let mut new: Vec<&str> = object::finalizers(object).into_iter().filter(|name| !known.contains(name)).collect();
    new.sort_unstable();
    new.dedup();
    new.into_iter().flat_map(finalizer_warning).collect()
}

fn finalizer_warning(name: &str) -> Vec<String> {
    let warn = |text: String| format!("metadata.finalizers: {name:?}: {text}");
    let mut warnings: Vec<String> = qualified_name(name).into_iter().map(warn).collect();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(warn(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
