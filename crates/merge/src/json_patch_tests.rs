//! JSON patches; the outcomes are those of kube-apiserver 1.36.4.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn patched(mut document: Value, patch: Value) -> Result<Value, PatchError> {
    JsonPatch::from_value(patch)?.apply(&mut document)?;
    Ok(document)
}

#[test]
fn operations_do_what_they_say() {
    let document = json!({"a": {"b": 1}, "l": [1, 2, 3]});
    for (patch, expected) in [
        (json!([{"op": "add", "path": "/a/c", "value": 2}]), json!({"a": {"b": 1, "c": 2}, "l": [1, 2, 3]})),
        (json!([{"op": "add", "path": "/l/-", "value": 4}]), json!({"a": {"b": 1}, "l": [1, 2, 3, 4]})),
        (json!([{"op": "add", "path": "/l/1", "value": 4}]), json!({"a": {"b": 1}, "l": [1, 4, 2, 3]})),
        (json!([{"op": "remove", "path": "/l/0"}]), json!({"a": {"b": 1}, "l": [2, 3]})),
        (json!([{"op": "move", "from": "/a/b", "path": "/l/0"}]), json!({"a": {}, "l": [1, 1, 2, 3]})),
        (json!([{"op": "copy", "from": "/a", "path": "/l/3"}]), json!({"a": {"b": 1}, "l": [1, 2, 3, {"b": 1}]})),
        (json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
        (
            json!([{"op": "test", "path": "/a/b", "value": 1.0}, {"op": "remove", "path": "/a"}]),
            json!({"l": [1, 2, 3]}),
        ),
    ] {
        assert_eq!(patched(document.clone(), patch.clone()), Ok(expected), "{patch}");
    }
    let escaped = json!([{"op": "add", "path": "/x~1y~0z", "value": 1}]);
    assert_eq!(patched(json!({}), escaped), Ok(json!({"x/y~z": 1})));
}

#[test]
fn the_reference_is_lax_here() {
    for (patch, expected) in [
        (json!([{"op": "replace", "path": "/z", "value": 1}]), json!({"l": [1, 2], "z": 1})),
        (json!([{"op": "copy", "from": "/gone", "path": "/z"}]), json!({"l": [1, 2], "z": null})),
        (json!([{"op": "test", "path": "/gone", "value": null}]), json!({"l": [1, 2]})),
        (json!([{"op": "add", "path": "/z"}]), json!({"l": [1, 2], "z": null})),
        (json!([{"op": "remove", "path": "/l/-1"}]), json!({"l": [1]})),
        (json!(null), json!({"l": [1, 2]})),
    ] {
        assert_eq!(patched(json!({"l": [1, 2]}), patch.clone()), Ok(expected), "{patch}");
    }
}

#[test]
fn what_does_not_fit_is_rejected() {
    for patch in [
        json!([{"op": "test", "path": "/a", "value": 2}]),
        json!([{"op": "remove", "path": "/gone"}]),
        json!([{"op": "add", "path": "/gone/x", "value": 1}]),
        json!([{"op": "add", "path": "/a/x", "value": 1}]),
        json!([{"op": "add", "path": "a", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "/l/9", "value": 1}]),
        json!([{"op": "replace", "path": "/l/-", "value": 1}]),
        json!([{"op": "remove", "path": "/l/x"}]),
        json!([{"op": "move", "from": "/gone", "path": "/z"}]),
        json!([{"op": "frobnicate", "path": "/a"}]),
        json!([{"path": "/a"}]),
        json!([{"op": "add"}]),
    ] {
        let outcome = patched(json!({"a": 1, "l": []}), patch.clone());
        assert!(matches!(outcome, Err(PatchError::Rejected(_))), "{patch}: {outcome:?}");
    }
}

#[test]
fn malformed_patches_fail_in_upstreams_words() {
    let text = |patch| JsonPatch::from_value(patch).unwrap_err().to_string();
    assert_eq!(
        text(json!({"a": 1})),
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    );
    assert_eq!(
        text(json!(["x"])),
        "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"
    );
    assert_eq!(
        text(json!([{"op": 1}])),
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
    );
    let many = Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); MAX_OPERATIONS + 1]);
    assert_eq!(
        text(many),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    let patch = JsonPatch::from_value(json!([{"op": "add", "path": "/x", "extra": 2}])).unwrap();
    assert_eq!(patch.unknown_fields(), ["json patch unknown field \"[0].extra\""]);
}

#[test]
fn copies_cannot_blow_up_the_object() {
    let doubling: Vec<Value> =
        (0..60).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a/x{i}")})).collect();
    let outcome = patched(json!({"a": {"seed": "0123456789"}}), Value::Array(doubling));
    assert!(matches!(outcome, Err(PatchError::Rejected(_))));
}

#[test]
fn moves_cannot_nest_without_end() {
    let mut operations = Vec::new();
    for _ in 0..2000 {
        operations.push(json!({"op": "add", "path": "/b", "value": {}}));
        operations.push(json!({"op": "move", "from": "/a", "path": "/b/x"}));
        operations.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    let outcome = patched(json!({"a": {}}), Value::Array(operations));
    assert!(matches!(outcome, Err(PatchError::Rejected(_))));
    let many: Vec<Value> = (0..3000)
        .map(|i| {
            let (from, path) = if i % 2 == 0 { ("/a", "/b/c") } else { ("/b/c", "/a") };
            json!({"op": "move", "from": from, "path": path})
        })
        .collect();
    assert!(patched(json!({"a": {"x": 1}, "b": {}}), Value::Array(many)).is_ok());
}

proptest! {
    #[test]
    fn no_patch_panics(op in "add|remove|replace|move|copy|test", path in "(/[a-c0-9~-]{0,2}){0,3}", from in "(/[a-c0-9-]{0,2}){0,3}") {
        let document = json!({"a": {"b": [1, {"c": null}]}, "b": [[]], "c": "x"});
        let _ = patched(document, json!([{"op": op, "path": path, "from": from, "value": {"q": 1}}]));
    }

    #[test]
    fn add_then_remove_is_the_identity(key in "[x-z]{1,3}", value in any::<i32>()) {
        let document = json!({"a": 1});
        let patch = json!([{"op": "add", "path": format!("/{key}"), "value": value}, {"op": "remove", "path": format!("/{key}")}]);
        prop_assert_eq!(patched(document.clone(), patch), Ok(document));
    }
}
