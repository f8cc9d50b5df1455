//! Whether one version requires another, as the properties of their bundles say.

use kube::api::DynamicObject;
use serde_json::Value;

use crate::bundles::PROPERTIES_ANNOTATION;
use crate::object::{annotation, list, text};

/// Whether a version asks for the package of another, or for a kind that it provides. Compound constraints count with
/// everything they name: what is asked here is who must be thought of together, not who would do.
pub(super) fn requires(csv: &DynamicObject, other: &DynamicObject) -> bool {
    let (own, provided) = (properties(csv), properties(other));
    let of_kind = |kind: &'static str| list(&provided, "/properties").iter().filter(move |it| it["type"] == kind);
    let packages: Vec<&str> = of_kind("olm.package").map(|it| text(it, "/value/packageName")).collect();
    let kinds: Vec<(&str, &str)> =
        of_kind("olm.gvk").map(|it| (text(it, "/value/group"), text(it, "/value/kind"))).collect();
    let is_asked_for = |package: &str, kind: (&str, &str)| packages.contains(&package) || kinds.contains(&kind);
    let requirements = list(&own, "/properties").iter().filter(|it| is_requirement(text(it, "/type")));
    requirements.into_iter().any(|it| names(&it["value"], &is_asked_for))
}

fn is_requirement(kind: &str) -> bool {
    kind.ends_with(".required") || kind == "olm.constraint"
}

/// Whether a constraint, or a part of it, names something.
fn names(constraint: &Value, is_it: &dyn Fn(&str, (&str, &str)) -> bool) -> bool {
    match constraint {
        Value::Object(fields) => {
            is_it(text(constraint, "/packageName"), (text(constraint, "/group"), text(constraint, "/kind")))
                || fields.values().any(|part| names(part, is_it))
        }
        Value::Array(parts) => parts.iter().any(|part| names(part, is_it)),
        _ => false,
    }
}

fn properties(csv: &DynamicObject) -> Value {
    annotation(csv, PROPERTIES_ANNOTATION).and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn csv(properties: &Value) -> DynamicObject {
        let annotations = json!({PROPERTIES_ANNOTATION: json!({"properties": properties}).to_string()});
        serde_json::from_value(json!({"metadata": {"name": "a", "annotations": annotations}})).unwrap()
    }

    #[test]
    fn packages_and_kinds_are_asked_for_also_within_constraints() {
        let base = csv(&json!([
            {"type": "olm.package", "value": {"packageName": "base", "version": "1.0.0"}},
            {"type": "olm.gvk", "value": {"group": "example.com", "kind": "Base", "version": "v1"}},
        ]));
        let asks = |kind: &str, value: Value| requires(&csv(&json!([{"type": kind, "value": value}])), &base);
        assert!(asks("olm.package.required", json!({"packageName": "base", "versionRange": ">1.0.0"})));
        assert!(asks("olm.gvk.required", json!({"group": "example.com", "kind": "Base", "version": "v2"})));
        assert!(asks("olm.constraint", json!({"any": {"constraints": [{"package": {"packageName": "base"}}]}})));
        assert!(!asks("olm.package.required", json!({"packageName": "other"})));
        assert!(!asks("olm.package", json!({"packageName": "base"})));
        assert!(!requires(&base, &base));
    }
}
