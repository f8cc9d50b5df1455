//! ConfigMaps: text and bytes by key, at most 1 MiB together, optionally frozen.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, description, name_column};
use crate::descriptor::Named;
use crate::field_errors::invalid_each;
use crate::fields::{flag, map, same};

/// Upstream's limit on the values of one ConfigMap or Secret: 1 MiB, so that nodes can hold many in memory.
pub(crate) const MAX_DATA_SIZE: usize = 1024 * 1024;

/// `configmaps`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" };
    vec![Resource {
        short_names: vec!["cm".to_owned()],
        ..named.stored(Scope::Namespaced, ConfigMap, Printer::new(columns, cells))
    }]
}

struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        let mut size = 0;
        let binary = map(object, "binaryData");
        for (key, value) in map(object, "data").into_iter().flatten() {
            let path = Path::new("data").key(key);
            errors.extend(invalid_each(&path, key, names::config_map_key(key)));
            if binary.is_some_and(|binary| binary.contains_key(key)) {
                errors.push(Error::invalid(&path, key.as_str(), "duplicate of key present in binaryData"));
            }
            size += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary.into_iter().flatten() {
            let path = Path::new("binaryData").key(key);
            errors.extend(invalid_each(&path, key, names::config_map_key(key)));
            size += decoded_size(value);
        }
        if size > MAX_DATA_SIZE {
            // Upstream means the whole object and writes its path this way.
            errors.push(Error::too_long(&Path::new("[]"), MAX_DATA_SIZE));
        }
        errors
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_frozen(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(cx, object));
        errors
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }
}

/// Errors for changes to what `immutable: true` froze.
pub(crate) fn validate_frozen(object: &Value, old: &Value, fields: &[&str]) -> ErrorList {
    const FROZEN: &str = "field is immutable when `immutable` is set";
    let mut errors = ErrorList::new();
    if flag(old, "immutable") {
        if !flag(object, "immutable") {
            errors.push(Error::forbidden(&Path::new("immutable"), FROZEN));
        }
        for field in fields {
            if !same(object.get(field), old.get(field)) {
                errors.push(Error::forbidden(&Path::new(field), FROZEN));
            }
        }
    }
    errors
}

/// How many bytes a base64 string stands for.
pub(crate) fn decoded_size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn columns() -> Vec<Column> {
    vec![name_column(), Column::new("Data", "string", &description::<core::ConfigMap>("data")), age_column()]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys =
        ["data", "binaryData"].iter().filter_map(|field| map(object, field)).map(|keys| keys.len()).sum::<usize>();
    vec![json!(object::name(object)), json!(keys), age(object, now)]
}

#[cfg(test)]
mod tests;
