//! JSON merge patch (RFC 7386), with the reference's treatment of nulls inside lists.

use serde_json::{Map, Value};

use crate::error::PatchError;
use crate::go_format::json_type;

/// Merges `patch` into `target`. A null removes a field; lists and scalars replace.
pub fn merge_patch(target: &mut Value, patch: Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(patch) => {
            match target {
                Value::Object(target) => merge_fields(target, patch),
                other => *other = without_nulls(Value::Object(patch)),
            }
            Ok(())
        }
        Value::Null => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        ))),
    }
}

fn merge_fields(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
            continue;
        }
        match (target.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(patch)) => merge_fields(inner, patch),
            // A list over an object is taken as it is; over anything else nulls inside it are dropped.
            (Some(current @ Value::Object(_)), value) => *current = value,
            (_, value) => {
                target.insert(key, without_nulls(value));
            }
        }
    }
}

/// Drops fields that are null; nulls that are list elements stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(mut target: Value, patch: Value) -> Value {
        merge_patch(&mut target, patch).unwrap();
        target
    }

    #[test]
    fn fields_are_set_and_removed() {
        let target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        let patch = json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [3], "gone": null});
        assert_eq!(merged(target, patch), json!({"a": {"c": 2, "x": {"z": 1}}, "d": [3]}));
    }

    #[test]
    fn nulls_in_lists_follow_the_reference() {
        assert_eq!(merged(json!({"a": [1]}), json!({"a": [{"b": null}, null]})), json!({"a": [{}, null]}));
        assert_eq!(merged(json!({"a": {}}), json!({"a": [{"b": null}]})), json!({"a": [{"b": null}]}));
        assert_eq!(merged(json!({"a": 1}), json!({"a": {"b": null, "c": 1}})), json!({"a": {"c": 1}}));
    }

    #[test]
    fn only_objects_are_patches() {
        let text = |patch| merge_patch(&mut json!({}), patch).unwrap_err().to_string();
        assert_eq!(text(json!(null)), "Invalid JSON Patch");
        assert_eq!(
            text(json!([])),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "[a-c]".prop_map(Value::from), Just(Value::Null)];
        let tree = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-c]", tree, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    /// Without lists: a list with nulls inside is taken differently the second time (see above).
    fn patch_without_lists() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof!["[a-c]".prop_map(Value::from), Just(Value::Null)];
        let tree = leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
        });
        prop::collection::btree_map("[a-c]", tree, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn applying_twice_changes_nothing_more(target in object(), patch in patch_without_lists()) {
            let once = merged(target, patch.clone());
            prop_assert_eq!(merged(once.clone(), patch), once);
        }

        #[test]
        fn an_empty_patch_is_the_identity(target in object()) {
            prop_assert_eq!(merged(target.clone(), json!({})), target);
        }
    }
}
