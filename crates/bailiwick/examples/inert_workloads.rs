//! A control plane that also serves Kubernetes' workload types (Pods, Deployments, Services, …), inert: they are stored,
//! checked against their published schema and nothing else. No controller and no kubelet acts on them. It is what
//! `cargo xtask conformance --e2e` uses for specs that need such objects only as something to write and read.
//!
//! The types come from the OpenAPI documents of a Kubernetes release (its `api/openapi-spec/v3`) at run time:
//!
//!     cargo run --example inert_workloads -- ./data ~/go/pkg/mod/k8s.io/kubernetes@v1.36.4/api/openapi-spec/v3

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use bailiwick::ControlPlane;
use bailiwick_apiextensions::Definition;
use bailiwick_apiextensions::definition::{Conversion, Converters};
use bailiwick_machinery::GroupVersion;
use bailiwick_machinery::custom::{Converted, Converter};
use bailiwick_machinery::resource::Resource;
use serde_json::{Map, Value, json};

/// Deeper schemas than those of pods are not expected.
const DEPTH_MAX: usize = 40;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data_dir, documents] = arguments.as_slice() else {
        bail!("usage: inert_workloads DATA_DIR OPENAPI_DIR");
    };
    let mut resources = bailiwick_api::native_resources();
    let known: BTreeSet<(String, String)> =
        resources.iter().map(|resource| (resource.group.clone(), resource.plural.clone())).collect();
    resources.extend(inert_types(Path::new(documents), &known)?);
    let running = ControlPlane::builder(data_dir).resources(resources).start().await?;
    println!("ready at {}", running.url);
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}

/// Every type of every stable version that the documents have, besides those known already (whose schemas may be endless).
fn inert_types(documents: &Path, known: &BTreeSet<(String, String)>) -> anyhow::Result<Vec<Resource>> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(documents)
        .with_context(|| documents.display().to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with("__v1_openapi.json"))
        .collect();
    names.sort();
    let mut resources = Vec::new();
    for path in names {
        let document: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        for definition in definitions(&document, known) {
            let json = serde_json::to_vec(&definition)?;
            resources.extend(Definition::parse(&json.into())?.resources(0, &OneVersion));
        }
    }
    Ok(resources)
}

/// What the document's paths say of the types that are stored, in the form of CustomResourceDefinitions.
fn definitions(document: &Value, known: &BTreeSet<(String, String)>) -> Vec<Value> {
    let Some(paths) = document["paths"].as_object() else { return Vec::new() };
    let stored = paths.iter().filter(|(_, item)| item["post"]["x-kubernetes-action"] == "post");
    let definition = |(path, item): (&String, &Value)| {
        let kind = &item["post"]["x-kubernetes-group-version-kind"];
        let (base, plural) = path.rsplit_once('/')?;
        // `/namespaces/{namespace}` is where namespaced types are; anything deeper is a subresource.
        let namespaced = base.ends_with("/namespaces/{namespace}");
        if plural.is_empty() || (base.contains('{') && !namespaced) {
            return None;
        }
        let (name, group) = (kind["kind"].as_str()?, kind["group"].as_str()?);
        if known.contains(&(group.to_owned(), plural.to_owned())) {
            return None;
        }
        let schemas = &document["components"]["schemas"];
        let is_it = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.len() == 1 && kinds.first() == Some(kind))
        };
        let schema = schemas.as_object()?.values().find(is_it)?;
        let has = |subresource: &str| paths.contains_key(&format!("{path}/{{name}}/{subresource}"));
        let mut subresources = Map::new();
        if has("status") {
            subresources.insert("status".into(), json!({}));
        }
        if has("scale") {
            let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
            subresources.insert("scale".into(), scale);
        }
        let names = json!({
            "plural": plural, "singular": name.to_ascii_lowercase(), "kind": name, "listKind": format!("{name}List"),
        });
        Some(json!({
            "metadata": {"name": plural, "generation": 1},
            "spec": {
                "group": kind["group"], "scope": if namespaced { "Namespaced" } else { "Cluster" }, "names": names,
                "versions": [{
                    "name": kind["version"], "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": root(schemas, schema)},
                }],
            },
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
        }))
    };
    stored.filter_map(definition).collect()
}

/// The schema of whole objects: their metadata is the server's own business.
fn root(schemas: &Value, schema: &Value) -> Value {
    let mut root = structural(schemas, schema, DEPTH_MAX);
    if let Some(properties) = root["properties"].as_object_mut() {
        properties.insert("metadata".into(), json!({"type": "object"}));
    }
    root
}

/// A published schema as a structural one: references filled in, what only clients read left out. Nothing is required:
/// types without their own rules cannot default either.
fn structural(schemas: &Value, schema: &Value, depth: usize) -> Value {
    let anything = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if depth == 0 {
        return anything();
    }
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
        let mut filled = match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" | "IntOrString" => json!({"x-kubernetes-int-or-string": true}),
            "ObjectMeta" | "FieldsV1" | "RawExtension" | "JSON" => anything(),
            _ => structural(schemas, &schemas[name], depth - 1),
        };
        copy(schema, &mut filled, &["x-kubernetes-map-type"]);
        return filled;
    }
    let mut made = json!({});
    let kept =
        ["type", "enum", "format", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];
    copy(schema, &mut made, &kept);
    let default = &schema["default"];
    if !matches!(default, Value::Null) && ![json!(""), json!(0), json!(false), json!({})].contains(default) {
        made["default"] = default.clone();
    }
    for nested in ["items", "additionalProperties"] {
        if schema[nested].is_object() {
            made[nested] = structural(schemas, &schema[nested], depth - 1);
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let filled = properties.iter().map(|(name, property)| (name.clone(), structural(schemas, property, depth - 1)));
        made["properties"] = Value::Object(filled.collect());
    } else if made["type"] == "object" && made.get("additionalProperties").is_none() {
        return anything();
    }
    made
}

fn copy(from: &Value, to: &mut Value, names: &[&str]) {
    for name in names {
        if let Some(value) = from.get(name) {
            to[*name] = value.clone();
        }
    }
}

/// Every type has one version, so nothing is ever converted.
struct OneVersion;

impl Converters for OneVersion {
    fn converter(&self, _definition: &str, _conversion: &Conversion) -> Arc<dyn Converter> {
        Arc::new(OneVersion)
    }
}

impl Converter for OneVersion {
    fn convert<'a>(&'a self, objects: Vec<Value>, _to: &'a GroupVersion) -> Converted<'a> {
        Box::pin(async move { Ok(objects) })
    }
}
