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
    use sha2::{Digest, Sha256};

    use super::*;

    /// Columns whose description upstream wrote for its table alone; ours say it in other words.
    const IN_OUR_OWN_WORDS: [&str; 18] = [
        "resourcequotas Request",
        "resourcequotas Limit",
        "mutatingadmissionpolicies Mutations",
        "mutatingadmissionpolicies ParamKind",
        "mutatingadmissionpolicybindings PolicyName",
        "mutatingadmissionpolicybindings ParamRef",
        "mutatingwebhookconfigurations Webhooks",
        "validatingadmissionpolicies Validations",
        "validatingadmissionpolicies ParamKind",
        "validatingadmissionpolicybindings PolicyName",
        "validatingadmissionpolicybindings ParamRef",
        "validatingwebhookconfigurations Webhooks",
        "apiservices Service",
        "apiservices Available",
        "certificatesigningrequests SignerName",
        "certificatesigningrequests Requestor",
        "certificatesigningrequests Condition",
        "flowschemas MissingPL",
    ];

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

    /// Recorded with hashes of the descriptions, most of which are upstream's API documentation.
    #[test]
    fn tables_have_upstreams_columns() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../testdata/tables.recorded.json")).expect("recorded tables");
        let mut reworded = Vec::new();
        for expected in &recorded {
            let resource = native_resources()
                .into_iter()
                .find(|resource| {
                    resource.api_version() == expected["groupVersion"] && resource.plural == expected["name"]
                })
                .expect("a native resource");
            let columns = resource.table.columns();
            let facts = columns.iter().map(|c| json!([c.name, c.kind, c.format, c.priority])).collect::<Vec<_>>();
            let recorded = expected["columns"].as_array().expect("columns").iter();
            let (recorded, hashes): (Vec<Value>, Vec<&Value>) =
                recorded.map(|c| (json!([c[0], c[1], c[2], c[3]]), &c[4])).unzip();
            assert_eq!(facts, recorded, "{resource:?}");
            for (column, hash) in columns.iter().zip(hashes) {
                let ours: String = Sha256::digest(&column.description).iter().map(|b| format!("{b:02x}")).collect();
                if !hash.as_str().is_some_and(|hash| ours.starts_with(hash)) {
                    reworded.push(format!("{} {}", resource.plural, column.name));
                }
            }
        }
        assert_eq!(reworded, IN_OUR_OWN_WORDS);
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
