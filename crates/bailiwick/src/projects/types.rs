//! Organization and Project as the server knows them: written down like definitions of custom resources, served like
//! native types, so that no definition has to be stored and nobody can define them away.

use std::sync::Arc;

use bailiwick_apiextensions::Definition;
use bailiwick_apiextensions::definition::{ClientConfig, Conversion, Converters};
use bailiwick_machinery::custom::{Converter, Declaration};
use bailiwick_machinery::resource::Resource;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{GROUP, VERSION};

/// The descriptors of both types.
pub(crate) fn resources() -> Vec<Resource> {
    [organization(), project()].iter().flat_map(descriptors).collect()
}

fn descriptors(definition: &Value) -> Vec<Resource> {
    let definition = Definition::parse(&Bytes::from(definition.to_string()));
    let mut definition = definition.expect("invariant: the definition is part of the program and tested");
    definition.declaration = Declaration::Compiled;
    definition.resources(0, &NoConversion)
}

/// There is one version of each.
struct NoConversion;

impl Converters for NoConversion {
    fn converter(&self, definition: &str, conversion: &Conversion) -> Arc<dyn Converter> {
        let Conversion { client_config: ClientConfig { .. }, .. } = conversion;
        unreachable!("invariant: {definition} has no conversion")
    }
}

fn conditions() -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "maxItems": 32,
        "description": "What is known of it.",
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object", "description": "What the server observes.",
        "properties": {"conditions": conditions(), "observedGeneration": {"type": "integer", "format": "int64"}},
    })
}

fn ready_column() -> Value {
    json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"})
}

fn age_column() -> Value {
    json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

fn definition(kind: &str, singular: &str, short: &str, columns: Value, schema: Value) -> Value {
    let plural = format!("{singular}s");
    let names = json!({
        "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
        "shortNames": [short], "categories": ["resourcemanager"],
    });
    json!({
        "metadata": {"name": format!("{plural}.{GROUP}"), "generation": 1},
        "spec": {
            "group": GROUP, "scope": "Cluster", "names": names,
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": columns, "schema": {"openAPIV3Schema": schema},
            }],
        },
        "status": {
            "acceptedNames": names,
            "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}],
        },
    })
}

fn organization() -> Value {
    let text = |description: &str, max: u32| json!({"type": "string", "maxLength": max, "description": description});
    let contact = json!({
        "type": "object", "description": "Whom to ask about it.",
        "properties": {
            "name": text("A person.", 256),
            "email": text("Where to write to.", 320),
            "businessName": text("The legal name.", 256),
            "address": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let schema = json!({
        "type": "object", "description": "Organization owns projects.",
        "properties": {
            "spec": {
                "type": "object", "description": "What is wanted.",
                "properties": {
                    "type": {
                        "type": "string", "enum": ["Personal", "Standard"],
                        "description": "What kind of organization it is.",
                        "x-kubernetes-validations": [
                            {"rule": "self == oldSelf", "message": "organization type is immutable"},
                        ],
                    },
                    "contactInfo": contact,
                },
            },
            "status": status(),
        },
    });
    let columns = json!([
        {"name": "Display Name", "type": "string", "jsonPath": ".metadata.annotations.kubernetes\\.io/display-name"},
        {"name": "Type", "type": "string", "jsonPath": ".spec.type"},
        age_column(),
        ready_column(),
    ]);
    definition("Organization", "organization", "org", columns, schema)
}

fn project() -> Value {
    let owner = json!({
        "type": "object", "description": "Who owns the project. Cannot be changed.",
        "required": ["kind", "name"],
        "properties": {
            "kind": {"type": "string", "enum": ["Organization"], "description": "The kind of the owner."},
            "name": {"type": "string", "minLength": 1, "maxLength": 253, "description": "The name of the owner."},
        },
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "ownerRef is immutable"}],
    });
    let schema = json!({
        "type": "object", "description": "Project is a control plane of its own, owned by an organization.",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object", "required": ["ownerRef"], "properties": {"ownerRef": owner},
                "description": "What is wanted.",
            },
            "status": status(),
        },
    });
    let columns = json!([
        {"name": "Organization", "type": "string", "jsonPath": ".spec.ownerRef.name"},
        age_column(),
        ready_column(),
    ]);
    definition("Project", "project", "proj", columns, schema)
}

#[cfg(test)]
mod tests {
    use super::resources;

    #[test]
    fn both_types_are_cluster_scoped_and_have_a_status() {
        let resources = resources();
        let kinds: Vec<&str> = resources.iter().map(|resource| resource.kind.as_str()).collect();
        assert_eq!(kinds, ["Organization", "Project"]);
        assert!(resources.iter().all(|resource| !resource.namespaced() && resource.subresource("status").is_some()));
    }
}
