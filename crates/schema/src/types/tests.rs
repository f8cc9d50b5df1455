use super::*;

fn ty(name: &str) -> &'static Type {
    Types::native().by_name(name).unwrap_or_else(|| panic!("no type {name}"))
}

#[test]
fn kinds_are_found_by_group_version_and_kind() {
    let types = Types::native();
    for (gvk, found) in types.kinds() {
        let looked_up = types.by_gvk(gvk.group, gvk.version, gvk.kind).map(|t| t.name);
        assert_eq!(looked_up, Some(found.name), "{gvk:?}");
    }
    assert!(types.by_gvk("", "v1", "Pod").is_none());
    assert_eq!(types.by_gvk("", "v1", "ConfigMap").map(|t| t.name), Some("io.k8s.api.core.v1.ConfigMap"));
    assert_eq!(
        types.by_gvk("rbac.authorization.k8s.io", "v1", "RoleList").and_then(|t| t.item_type()).map(|t| t.name),
        Some("io.k8s.api.rbac.v1.Role")
    );
}

#[test]
fn names_are_sorted_for_searching() {
    for found in Types::native().iter() {
        assert_eq!(ty(found.name).name, found.name);
    }
}

#[test]
fn embedded_structs_lend_their_fields_to_the_outer_object() {
    let names: Vec<_> =
        ty("io.k8s.api.admissionregistration.v1.NamedRuleWithOperations").json_fields().map(|f| f.name).collect();
    assert_eq!(names, ["resourceNames", "operations", "apiGroups", "apiVersions", "resources", "scope"]);
    let config_map = ty("io.k8s.api.core.v1.ConfigMap");
    assert!(config_map.field("kind").is_some());
    assert!(config_map.field("TypeMeta").is_none());
}

#[test]
fn every_type_fits_the_decoder_s_set_of_seen_fields_and_embeds_two_levels_at_most() {
    fn depth(ty: &Type) -> usize {
        let inner = ty.fields.iter().filter(|f| f.is_inline()).filter_map(|f| f.ty.reached_struct()).map(depth);
        inner.max().map_or(0, |d| d + 1)
    }
    for ty in Types::native().iter() {
        assert!(ty.json_fields().count() <= 64, "{ty:?}");
        assert!(depth(ty) <= 2, "{ty:?}");
    }
}

#[test]
fn merge_facts_are_there() {
    let secrets = ty("io.k8s.api.core.v1.ServiceAccount").field("secrets").expect("secrets");
    assert_eq!(secrets.patch_merge_key(), Some("name"));
    assert!(secrets.merges_in_patch());
    assert_eq!(secrets.list_type(), Some(ListType::Map(&["name"])));
    let finalizers = Types::native().object_meta().field("finalizers").expect("finalizers");
    assert!(finalizers.merges_in_patch());
    assert_eq!(finalizers.list_type(), Some(ListType::Set));
}

#[test]
fn go_types_read_like_go_prints_them() {
    let shown = |ty_name: &str, field: &str| ty(ty_name).field(field).expect("field").go_type().to_string();
    assert_eq!(shown("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "uid"), "types.UID");
    assert_eq!(shown("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels"), "map[string]string");
    assert_eq!(shown("io.k8s.api.core.v1.NamespaceSpec", "finalizers"), "[]v1.FinalizerName");
    let element = ty("io.k8s.api.core.v1.NamespaceSpec").field("finalizers").expect("field").go_type().element();
    assert_eq!(element.to_string(), "v1.FinalizerName");
}
