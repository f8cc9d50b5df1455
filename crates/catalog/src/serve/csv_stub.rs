//! The ClusterServiceVersion that clients of the gRPC API expect, made from what a catalog has of it.

use serde_json::{Map, Value, json};

use crate::bundle::csv_shape::{CSV_STUB, SHOWN_SPEC_FIELDS};
use crate::fbc::{Fields, Meta, Object};
use crate::go::{Dialect, Shape, append_typed};
use crate::property;

/// The manifest and all objects of a bundle, from its document and that of its package.
pub(super) fn manifests(bundle: &str, package: &str) -> Result<(String, Vec<String>), String> {
    let document: Value = serde_json::from_str(bundle).map_err(|error| error.to_string())?;
    let fields = Fields::of(&document);
    let metadata = fields.list("properties").iter().find_map(|it| {
        let it = Fields::of(it);
        (it.get("type") == property::CSV_METADATA_TYPE).then(|| it.get("value"))
    });
    let has_objects = fields.list("properties").iter().any(|it| Fields::of(it).get("type") == property::BUNDLE_OBJECT);
    let (csv, objects) = if has_objects {
        match Object::new(Meta::new(document.clone())?)? {
            Object::Bundle(bundle) => (bundle.csv_json, bundle.objects),
            _ => Default::default(),
        }
    } else {
        Default::default()
    };
    match metadata {
        Some(metadata) if csv.is_empty() => {
            let package: Value = serde_json::from_str(package).unwrap_or_default();
            let stub = stub(metadata, &fields, &Fields::of(&package));
            let objects = if objects.is_empty() { vec![stub.clone()] } else { objects };
            Ok((stub, objects))
        }
        _ => Ok((csv, objects)),
    }
}

fn stub(metadata: &Value, bundle: &Fields, package: &Fields) -> String {
    let from = Fields::of(metadata);
    let mut spec = Map::new();
    for (name, source) in
        [("apiservicedefinitions", "apiServiceDefinitions"), ("customresourcedefinitions", "crdDescriptions")]
    {
        spec.insert(name.to_owned(), from.get(source).clone());
    }
    for name in SHOWN_SPEC_FIELDS {
        spec.insert(name.to_owned(), from.get(name).clone());
    }
    if from.text("description").is_empty() {
        spec.insert("description".to_owned(), package.get("description").clone());
    }
    // Without a strategy OLM's package server fails.
    spec.insert("install".to_owned(), json!({"strategy": "deployment"}));
    spec.insert("version".to_owned(), Value::String(version(bundle)));
    spec.insert("relatedImages".to_owned(), bundle.get("relatedImages").clone());
    let icon = Fields::of(package.get("icon"));
    if icon.is_some() {
        let data = icon.text("base64data").replace(['\n', '\r'], "");
        let icon = json!({"base64data": data, "mediatype": icon.text("mediatype")});
        spec.insert("icon".to_owned(), Value::Array(vec![icon]));
    }
    let csv = json!({
        "kind": "ClusterServiceVersion",
        "apiVersion": "operators.coreos.com/v1alpha1",
        "metadata": {
            "name": bundle.get("name"), "labels": from.get("labels"), "annotations": from.get("annotations"),
        },
        "spec": spec,
        "status": {},
    });
    let mut out = String::new();
    append_typed(&mut out, &csv, Shape::Struct(&CSV_STUB), Dialect::Manifest);
    out
}

fn version(bundle: &Fields) -> String {
    let package = bundle.list("properties").iter().map(Fields::of).find(|it| it.get("type") == property::PACKAGE);
    package.map(|it| Fields::of(it.get("value")).text("version")).unwrap_or_default()
}
