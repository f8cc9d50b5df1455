//! The rules of metadata that objects embedded in custom resources must keep, for
//! [`bailiwick_schema::structural::validate_embedded`].

use bailiwick_machinery::Scope;
use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::object;
use bailiwick_machinery::validation::metadata::validate_object_meta;
use bailiwick_machinery::validation::names::{dns1035_label, name_is_path_segment};
use bailiwick_schema::structural::EmbeddedRules;
use serde_json::Value;

/// Names must be path segments; whoever has a namespace is taken to be namespaced.
pub const EMBEDDED_RULES: EmbeddedRules = EmbeddedRules { object_meta, lower_kind: dns1035_label };

fn object_meta(object: &Value) -> ErrorList {
    let scope = if object::namespace(object).is_empty() { Scope::Cluster } else { Scope::Namespaced };
    validate_object_meta(object, scope, name_is_path_segment)
}
