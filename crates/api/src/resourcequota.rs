//! ResourceQuotas: ceilings on what a namespace may hold, and in their status what it holds now.

use std::collections::BTreeSet;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use bailiwick_schema::quantity::Quantity;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::columns::{Printer, age, age_column, name_column};
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::field_errors::{IMMUTABLE, invalid_each};
use crate::fields::{carry_over, list, map, present, put, set_default, texts};

mod names_and_scopes;
use names_and_scopes::{is_integer_resource, is_standard_quota_resource, is_standard_resource};

/// `resourcequotas` with `status`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "", version: "v1", kind: "ResourceQuota", plural: "resourcequotas" };
    vec![Resource {
        short_names: vec!["quota".to_owned()],
        subresources: vec![subresource("status", STATUS_VERBS, Status)],
        ..named.stored(Scope::Namespaced, ResourceQuota, Printer::new(columns, cells))
    }]
}

struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
        set_default(object, "status", || json!({}));
        for (section, field) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            let quantities = object.get_mut(section).and_then(|section| section.get_mut(field)?.as_object_mut());
            for quantity in quantities.into_iter().flat_map(Map::values_mut) {
                round_up_to_milli(quantity);
            }
        }
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        put(object, "status", json!({}));
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        errors.extend(validate_spec(object));
        errors
    }

    /// A quota above its own limit can never be reached.
    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        let Some(hard) = present(object, "spec").and_then(|spec| map(spec, "hard")) else { return Vec::new() };
        ["cpu", "memory", "storage", "ephemeral-storage"]
            .into_iter()
            .filter_map(|resource| {
                let mut request_name = format!("requests.{resource}");
                if !hard.contains_key(&request_name) && matches!(resource, "cpu" | "memory") {
                    request_name = resource.to_owned();
                }
                let limit_name = format!("limits.{resource}");
                let (request, limit) = (quantity(hard.get(&request_name)?)?, quantity(hard.get(&limit_name)?)?);
                (request > limit).then(|| {
                    format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})")
                })
            })
            .collect()
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "status");
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(cx, object);
        let scopes = |quota| -> BTreeSet<&str> { spec_scopes(quota).into_iter().collect() };
        if scopes(object) != scopes(old) {
            let shown = object::at(object, &["spec", "scopes"]).cloned().unwrap_or_default();
            errors.push(Error::invalid(&Path::new("spec").child("scopes"), shown, IMMUTABLE));
        }
        errors
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

struct Status;

impl Strategy for Status {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["spec"]]
    }

    fn default(&self, object: &mut Value) {
        ResourceQuota.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        let status = object.get("status").unwrap_or(&Value::Null);
        for field in ["hard", "used"] {
            errors.extend(validate_quantities(map(status, field), &Path::new("status").child(field)));
        }
        errors
    }
}

fn validate_spec(object: &Value) -> ErrorList {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = validate_quantities(map(spec, "hard"), &path.child("hard"));
    let hard: Vec<&str> = map(spec, "hard").into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let scopes = list(spec, "scopes");
    if !scopes.is_empty() {
        errors.extend(names_and_scopes::validate_scopes(&json!(scopes), &hard, &path.child("scopes")));
    }
    if let Some(selector) = present(spec, "scopeSelector") {
        let shown_scopes = spec.get("scopes").unwrap_or(&Value::Null);
        let path = path.child("scopeSelector").child("matchExpressions");
        errors.extend(names_and_scopes::validate_scope_selector(selector, shown_scopes, &hard, &path));
    }
    errors
}

fn validate_quantities(quantities: Option<&Map<String, Value>>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, value) in quantities.into_iter().flatten() {
        let path = path.key(name);
        errors.extend(validate_resource_name(name, &path));
        let Some(quantity) = quantity(value) else { continue };
        if quantity.sign() < 0 {
            errors.push(Error::invalid(&path, quantity.to_string(), "must be greater than or equal to 0"));
        }
        if is_integer_resource(name) && quantity != Quantity::from_integer(quantity.value()) {
            errors.push(Error::invalid(&path, quantity.to_string(), "must be an integer"));
        }
    }
    errors
}

fn validate_resource_name(name: &str, path: &Path) -> ErrorList {
    let mut errors = invalid_each(path, name, names::qualified_name(name));
    if name.contains('/') {
        return errors;
    }
    if errors.is_empty() && !is_standard_resource(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    if !is_standard_quota_resource(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource for quota"));
    }
    errors
}

fn spec_scopes(quota: &Value) -> Vec<&str> {
    present(quota, "spec").map(|spec| texts(spec, "scopes")).unwrap_or_default()
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Upstream counts in thousandths: anything finer is rounded up when it is read.
fn round_up_to_milli(value: &mut Value) {
    if let Some(quantity) = quantity(value) {
        *value = json!(quantity.rounded_up_to_milli().to_string());
    }
}

fn columns() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("Request", "string", "Used and allowed amounts of what may be requested or counted."),
        Column::new("Limit", "string", "Used and allowed amounts of what limits may add up to."),
        age_column(),
    ]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = object.get("status").unwrap_or(&Value::Null);
    let used = map(status, "used");
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in map(status, "hard").into_iter().flatten() {
        let used = used.and_then(|used| used.get(name)).and_then(Value::as_str).unwrap_or("0");
        let shown = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![json!(object::name(object)), json!(requests.join(", ")), json!(limits.join(", ")), age(object, now)]
}

#[cfg(test)]
mod tests;
