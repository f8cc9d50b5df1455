//! The list of all native resources, in the order discovery shows their groups.

use bailiwick_machinery::Resource;

use crate::{
    admissionregistration, apiextensions, apiregistration, certificates, configmap, event, flowcontrol, lease,
    namespace, rbac, resourcequota, review, secret, serviceaccount,
};

/// Descriptors of every built-in resource.
pub fn native_resources() -> Vec<Resource> {
    [
        configmap::resources(),
        event::resources(),
        namespace::resources(),
        resourcequota::resources(),
        secret::resources(),
        serviceaccount::resources(),
        review::resources(),
        lease::resources(),
        rbac::resources(),
        admissionregistration::resources(),
        apiextensions::resources(),
        apiregistration::resources(),
        certificates::resources(),
        flowcontrol::resources(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bailiwick_machinery::resource::Storage;
    use serde_json::{Value, json};

    use super::*;

    /// What discovery says of each resource and subresource, by group version and name.
    fn discovered(resources: &[Resource]) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        for resource in resources {
            let mut entry = json!({
                "groupVersion": resource.api_version(), "name": resource.plural, "singularName": resource.singular,
                "namespaced": resource.namespaced(), "kind": resource.kind, "verbs": resource.verbs,
            });
            for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
                if !names.is_empty() {
                    entry[field] = json!(names);
                }
            }
            found.insert(key(&entry), entry);
            for subresource in &resource.subresources {
                let mut entry = json!({
                    "groupVersion": resource.api_version(), "name": format!("{}/{}", resource.plural, subresource.name),
                    "singularName": "", "namespaced": resource.namespaced(), "kind": resource.kind,
                    "verbs": subresource.verbs,
                });
                if let Some(kind) = &subresource.kind {
                    entry["group"] = json!(kind.group);
                    entry["version"] = json!(kind.version);
                    entry["kind"] = json!(kind.kind);
                }
                found.insert(key(&entry), entry);
            }
        }
        found
    }

    fn key(entry: &Value) -> String {
        format!("{} {}", entry["groupVersion"], entry["name"])
    }

    #[test]
    fn discovery_says_what_upstreams_says() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../testdata/discovery.recorded.json")).expect("recorded discovery");
        let expected: BTreeMap<String, Value> = recorded.into_iter().map(|entry| (key(&entry), entry)).collect();
        let actual = discovered(&native_resources());
        let names = |map: &BTreeMap<String, Value>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&actual), names(&expected));
        for (name, entry) in &expected {
            assert_eq!(&actual[name], entry, "{name}");
        }
    }

    #[test]
    fn every_resource_has_a_type_and_fitting_cells() {
        for resource in native_resources() {
            assert!(resource.native.is_some(), "{resource:?}");
            let object = json!({"apiVersion": resource.api_version(), "metadata": {"name": "x"}});
            let cells = resource.table.cells(&object, crate::testing::now());
            let columns = resource.table.columns();
            assert_eq!(cells.len(), columns.len(), "{resource:?}");
            assert!(columns.iter().all(|column| !column.description.is_empty()), "{resource:?}");
            assert_eq!(resource.storage == Storage::Virtual, resource.verbs == ["create"], "{resource:?}");
        }
    }
}
