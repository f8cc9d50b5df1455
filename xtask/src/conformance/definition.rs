//! `crd: …` in a case: a CustomResourceDefinition of the case's own group, made before its other steps and waited for until
//! it is served. Most cases on custom resources say only what is special about theirs.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What a case says about its definition; the rest is a namespaced `Thing` with one version, v1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    /// The schema of v1.
    #[serde(default)]
    schema: Option<Value>,
    /// Further members of the version v1, such as subresources.
    #[serde(default)]
    version: Map<String, Value>,
    /// Further members of the spec; `versions` here replaces v1.
    #[serde(default)]
    spec: Map<String, Value>,
}

/// The set-up steps for a `crd`.
pub fn steps(raw: Value) -> Result<[Value; 2]> {
    let said: Definition = serde_json::from_value(raw).context("in crd")?;
    let schema = said.schema.unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let mut spec = json!({"group": "{{group}}", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}});
    extend(&mut version, said.version);
    extend(&mut spec, Map::from_iter([("versions".to_owned(), json!([version]))]));
    extend(&mut spec, said.spec);
    let is_served = |version: &&Value| version["served"] == json!(true);
    let served = spec["versions"].as_array().and_then(|versions| versions.iter().find(is_served));
    let served = served.and_then(|version| version["name"].as_str()).context("the crd has no served version")?;
    let plural = spec["names"]["plural"].as_str().context("the crd has no plural")?;
    let list = format!("GET /apis/{{{{group}}}}/{served}/{plural}");
    let name = format!("{plural}.{{{{group}}}}");
    Ok([
        json!({"request": "POST {{crds}}", "json": {"metadata": {"name": name}, "spec": spec}}),
        json!({"request": list, "until": {"@status": 200}}),
    ])
}

fn extend(value: &mut Value, members: Map<String, Value>) {
    if let Value::Object(object) = value {
        object.extend(members);
    }
}
