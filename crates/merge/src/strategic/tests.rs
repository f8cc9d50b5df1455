//! Strategic merge patches against the native types; error texts are those of kube-apiserver 1.36.4.

use bailiwick_schema::types::Types;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn native(group: &str, kind: &str) -> &'static Type {
    Types::native().by_gvk(group, "v1", kind).unwrap()
}

fn config_map(original: Value, patch: Value) -> Result<Value, PatchError> {
    strategic_merge_patch(original, patch, native("", "ConfigMap"))
}

fn webhooks(patch: Value) -> Result<Value, PatchError> {
    let original = json!({"webhooks": [
        {"name": "a", "timeoutSeconds": 1}, {"name": "b", "timeoutSeconds": 2}, {"name": "c", "timeoutSeconds": 3}]});
    let ty = native("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
    strategic_merge_patch(original, patch, ty).map(|mut patched| patched["webhooks"].take())
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn objects_merge_and_nulls_remove() {
    let original = json!({"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"x": "y"}}});
    let patch =
        json!({"data": {"a": null, "c": "3", "gone": null}, "metadata": {"annotations": {"q": null, "r": "s"}}});
    let expected = json!({"data": {"b": "2", "c": "3"}, "metadata": {"labels": {"x": "y"}, "annotations": {"r": "s"}}});
    assert_eq!(config_map(original, patch), Ok(expected));
}

#[test]
fn finalizers_merge_as_a_set() {
    let with = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let merged = config_map(with(json!(["a/a", "b/b"])), with(json!(["c/c", "a/a"])));
    assert_eq!(merged, Ok(with(json!(["c/c", "a/a", "b/b"]))));
    let removed = config_map(
        with(json!(["a/a", "b/b"])),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a", "z/z"]}}),
    );
    assert_eq!(removed, Ok(with(json!(["b/b"]))));
}

#[test]
fn owner_references_merge_by_uid() {
    let original = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}});
    let patch = json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "c"}, {"uid": "1", "$patch": "delete"}]}});
    let expected = json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "c"}]}});
    assert_eq!(config_map(original, patch), Ok(expected));
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let original = json!({"imagePullSecrets": [{"name": "a"}], "secrets": [{"name": "s"}]});
    let patch = json!({"imagePullSecrets": [{"name": "b"}], "secrets": [{"name": "t"}]});
    let patched = strategic_merge_patch(original, patch, native("", "ServiceAccount")).unwrap();
    assert_eq!(patched, json!({"imagePullSecrets": [{"name": "b"}], "secrets": [{"name": "t"}, {"name": "s"}]}));
}

#[test]
fn elements_merge_by_key_and_keep_their_places() {
    let merged = webhooks(json!({"webhooks": [{"name": "b", "matchPolicy": "Exact"}]})).unwrap();
    assert_eq!(names(&merged), ["a", "b", "c"]);
    assert_eq!(merged[1], json!({"name": "b", "timeoutSeconds": 2, "matchPolicy": "Exact"}));
    assert_eq!(names(&webhooks(json!({"webhooks": [{"name": "n"}]})).unwrap()), ["n", "a", "b", "c"]);
    assert_eq!(names(&webhooks(json!({"webhooks": [{"name": "b", "$patch": "delete"}]})).unwrap()), ["a", "c"]);
    assert_eq!(webhooks(json!({"webhooks": [{"$patch": "replace"}, {"name": "z"}]})), Ok(json!([{"name": "z"}])));
}

#[test]
fn orders_are_set() {
    let order = |names: &[&str]| json!(names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>());
    let merged = webhooks(json!({"$setElementOrder/webhooks": order(&["c", "a"])})).unwrap();
    assert_eq!(names(&merged), ["b", "c", "a"]);
    let merged = webhooks(json!({"$setElementOrder/webhooks": order(&["n", "c", "b", "a"]),
        "webhooks": [{"name": "n"}, {"name": "b", "timeoutSeconds": 9}]}))
    .unwrap();
    assert_eq!(names(&merged), ["n", "c", "b", "a"]);
    assert_eq!(merged[2]["timeoutSeconds"], 9);
}

#[test]
fn whole_objects_are_replaced_or_emptied() {
    let original = json!({"data": {"a": "1"}, "metadata": {"labels": {"x": "y"}}});
    assert_eq!(
        config_map(original.clone(), json!({"data": {"$patch": "replace", "z": "1"}})).unwrap()["data"],
        json!({"z": "1"})
    );
    assert_eq!(
        config_map(original.clone(), json!({"metadata": {"labels": {"$patch": "delete"}}})).unwrap()["metadata"],
        json!({"labels": {}})
    );
    assert_eq!(config_map(original.clone(), json!({"$patch": "delete"})), Ok(json!({})));
    // Where there is nothing to act on, a directive leaves nothing.
    assert_eq!(config_map(original.clone(), json!({"binaryData": {"$patch": "delete"}})), Ok(original));
}

#[test]
fn retain_keys_drops_the_rest() {
    let original = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "2"}, "immutable": true});
    let patch = json!({"$retainKeys": ["kind", "data"], "data": {"$retainKeys": ["b", "c"], "c": "3"}});
    assert_eq!(config_map(original, patch), Ok(json!({"kind": "ConfigMap", "data": {"b": "2", "c": "3"}})));
    let stray = json!({"$retainKeys": ["data"], "immutable": false});
    assert_eq!(
        config_map(json!({}), stray),
        Err(PatchError::BadRequest("invalid patch format of retainKeys".to_owned()))
    );
}

#[test]
fn errors_are_upstreams() {
    let unforeseen = |text: &str| Err(PatchError::Unforeseen(text.to_owned()));
    assert_eq!(
        config_map(json!({}), json!({"$patch": "foo"})),
        unforeseen("unknown patch type: foo in map: map[$patch:foo]")
    );
    assert_eq!(
        config_map(json!({}), json!({"$patch": 1})),
        unforeseen("unknown patch type: %!s(int64=1) in map: map[$patch:1]")
    );
    assert_eq!(
        config_map(json!({}), json!({"metadata": {"$setElementOrder/finalizers": "a"}})),
        Ok(json!({"metadata": {"$setElementOrder/finalizers": "a"}}))
    );
    assert_eq!(
        config_map(json!({"metadata": {}}), json!({"metadata": {"$setElementOrder/finalizers": "a"}})),
        unforeseen("expected a []interface {}, but received a string")
    );
    assert_eq!(
        config_map(
            json!({"metadata": {}}),
            json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b/c"]}})
        ),
        unforeseen("The order in patch list:\n[b/c]\n doesn't match $setElementOrder list:\n[a]\n")
    );
    for (patch, text) in [
        (
            json!({"webhooks": [{"clientConfig": {}}]}),
            "map: map[clientConfig:map[]] does not contain declared merge key: name",
        ),
        (json!({"webhooks": [{"$patch": "merge"}]}), "merging lists cannot yet be specified in the patch"),
        (
            json!({"webhooks": [{"$patch": "foo", "name": "b"}]}),
            "unknown patch type: foo in map: map[$patch:foo name:b]",
        ),
        (
            json!({"webhooks": [{"$patch": "delete"}]}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (json!({"$setElementOrder/webhooks": ["x"]}), "value for key 0 is not a map"),
        (
            json!({"$setElementOrder/foo": ["x"], "foo": ["x"]}),
            "unable to find api field in struct ValidatingWebhookConfiguration for the json field \"foo\"",
        ),
    ] {
        assert_eq!(webhooks(patch), unforeseen(text));
    }
    let text = webhooks(json!({"webhooks": ["x"]})).unwrap_err().to_string();
    assert!(text.starts_with("list element types are not identical: [[map[name:a timeoutSeconds:1]"), "{text}");
    assert_eq!(
        config_map(json!({}), json!([])),
        Err(PatchError::BadRequest(
            "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned()
        ))
    );
}

#[test]
fn conditions_merge_by_type() {
    let original = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let patch = json!({"status": {"conditions": [{"type": "Approved", "reason": "x"}, {"type": "Failed"}]}});
    let ty = native("certificates.k8s.io", "CertificateSigningRequest");
    // Declared as a map for server-side apply only: strategic merge replaces the list.
    let patched = strategic_merge_patch(original, patch.clone(), ty).unwrap();
    assert_eq!(patched, patch);
    let original = json!({"status": {"conditions": [{"type": "A", "status": "True"}]}});
    let patch = json!({"status": {"conditions": [{"type": "A", "reason": "x"}, {"type": "B"}]}});
    let patched = strategic_merge_patch(original, patch, native("", "Namespace")).unwrap();
    let expected = json!([{"type": "A", "status": "True", "reason": "x"}, {"type": "B"}]);
    assert_eq!(patched["status"]["conditions"], expected);
}

fn object() -> impl proptest::strategy::Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[a-c]", "[x-z]", 0..4);
    let finalizers = prop::sample::subsequence(vec!["a/a", "b/b", "c/c", "d/d"], 0..4).prop_shuffle();
    let owners = prop::sample::subsequence(vec!["1", "2", "3"], 0..3).prop_shuffle();
    (labels, finalizers, owners, "[p-q]").prop_map(|(labels, finalizers, owners, name)| {
        let owners: Vec<Value> = owners.into_iter().map(|uid| json!({"uid": uid, "name": name})).collect();
        json!({"data": labels, "metadata": {"finalizers": finalizers, "ownerReferences": owners}})
    })
}

proptest! {
    #[test]
    fn an_empty_patch_is_the_identity(original in object()) {
        prop_assert_eq!(config_map(original.clone(), json!({})), Ok(original));
    }

    #[test]
    fn patching_with_itself_is_the_identity(original in object()) {
        prop_assert_eq!(config_map(original.clone(), original.clone()), Ok(original));
    }

    #[test]
    fn applying_twice_changes_nothing_more(original in object(), patch in object()) {
        let once = config_map(original, patch.clone()).unwrap();
        prop_assert_eq!(config_map(once.clone(), patch), Ok(once));
    }

    #[test]
    fn nothing_of_the_patch_is_lost(original in object(), patch in object()) {
        let merged = config_map(original, patch.clone()).unwrap();
        for finalizer in patch["metadata"]["finalizers"].as_array().unwrap() {
            prop_assert!(merged["metadata"]["finalizers"].as_array().unwrap().contains(finalizer));
        }
    }
}
