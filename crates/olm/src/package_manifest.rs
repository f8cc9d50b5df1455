//! PackageManifests: what catalogs offer, as OLM's package server tells it. Nothing is kept; an answer is made from the
//! indexes when somebody asks.

use std::collections::BTreeMap;

use bailiwick_catalog::serve::Index;
use serde_json::{Map, Value, json};

use crate::catalogs::{Catalog, CatalogKey};
use crate::object::{list, text};

/// What is added to the labels where the operator says nothing.
const DEFAULT_LABELS: [(&str, &str, &str); 2] = [
    ("operatorframework.io/os.", "operatorframework.io/os.linux", "supported"),
    ("operatorframework.io/arch.", "operatorframework.io/arch.amd64", "supported"),
];
/// Fields of a ClusterServiceVersion's spec that are shown as they are, under the same name.
const SHOWN: [&str; 8] = [
    "displayName",
    "version",
    "description",
    "installModes",
    "customresourcedefinitions",
    "apiservicedefinitions",
    "keywords",
    "maturity",
];

/// The PackageManifest of a package, as it looks from a namespace; `None` when no channel can be shown.
pub(crate) fn manifest(catalog: &Catalog, package: &str, namespace: Option<&str>) -> Option<Value> {
    let CatalogKey::Source { namespace: own, name } = &catalog.key else { return None };
    let described = catalog.index.describe_package(package)?;
    let mut labels: BTreeMap<String, String> = catalog.labels.clone();
    labels.insert("catalog".to_owned(), name.clone());
    labels.insert("catalog-namespace".to_owned(), own.clone());
    let mut default_channel = described.default_channel_name.clone();
    let mut channels: Vec<Value> = Vec::new();
    let mut provider = Value::Null;
    let mut shown_csv = Value::Null;
    for channel in &described.channels {
        let Ok(head) = catalog.index.describe_bundle(package, &channel.name, &channel.csv_name) else { continue };
        let Ok(csv) = serde_json::from_str::<Value>(&head.csv_json) else { continue };
        let is_default = channel.name == default_channel;
        if provider.is_null() || is_default {
            provider = link(&csv["spec"]["provider"]);
        }
        let mut entry = json!({
            "name": channel.name,
            "currentCSV": channel.csv_name,
            "currentCSVDesc": description(&csv),
            "entries": entries(&catalog.index, package, &channel.name),
        });
        if let Some(deprecation) = &channel.deprecation {
            entry["deprecation"] = json!({"message": deprecation.message});
        }
        if shown_csv.is_null() || is_default {
            shown_csv = csv;
        }
        channels.push(entry);
    }
    let first = channels.first()?;
    if !channels.iter().any(|channel| channel["name"] == default_channel.as_str()) {
        default_channel = text(first, "/name").to_owned();
    }
    labels.insert("provider".to_owned(), text(&provider, "/name").to_owned());
    labels.insert("provider-url".to_owned(), text(&provider, "/url").to_owned());
    for (key, value) in shown_csv["metadata"]["labels"].as_object().into_iter().flatten() {
        labels.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
    }
    for (prefix, key, value) in DEFAULT_LABELS {
        if !labels.keys().any(|label| label.starts_with(prefix)) {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    let mut status = json!({
        "catalogSource": name,
        "catalogSourceDisplayName": catalog.display_name,
        "catalogSourcePublisher": catalog.publisher,
        "catalogSourceNamespace": own,
        "provider": provider,
        "packageName": package,
        "channels": channels,
        "defaultChannel": default_channel,
    });
    if let Some(deprecation) = &described.deprecation {
        status["deprecation"] = json!({"message": deprecation.message});
    }
    Some(json!({
        "kind": "PackageManifest",
        "apiVersion": "packages.operators.coreos.com/v1",
        "metadata": {
            "name": package, "namespace": namespace.unwrap_or(own), "creationTimestamp": catalog.created,
            "labels": labels,
        },
        "spec": {},
        "status": status,
    }))
}

fn entries(index: &Index, package: &str, channel: &str) -> Vec<Value> {
    let versions = index.channel_versions(package, channel).into_iter();
    let entry = |version: bailiwick_catalog::serve::ChannelVersion| {
        let mut entry = json!({"name": version.name, "version": version.version});
        if let Some(message) = version.deprecation {
            entry["deprecation"] = json!({"message": message});
        }
        entry
    };
    versions.map(entry).collect()
}

fn link(value: &Value) -> Value {
    let mut out = Map::new();
    for key in ["name", "url"] {
        if let Some(text) = value[key].as_str().filter(|text| !text.is_empty()) {
            out.insert(key.to_owned(), text.into());
        }
    }
    Value::Object(out)
}

/// What users are shown of a version.
fn description(csv: &Value) -> Value {
    let spec = &csv["spec"];
    let mut out = Map::new();
    for key in SHOWN {
        if !spec[key].is_null() {
            out.insert(key.to_owned(), spec[key].clone());
        }
    }
    for (shown, key) in [("nativeApis", "nativeAPIs"), ("minKubeVersion", "minKubeVersion"), ("icon", "icon")] {
        if !spec[key].is_null() {
            out.insert(shown.to_owned(), spec[key].clone());
        }
    }
    out.insert("provider".to_owned(), link(&spec["provider"]));
    let annotations = &csv["metadata"]["annotations"];
    if annotations.is_object() {
        out.insert("annotations".to_owned(), annotations.clone());
    }
    for key in ["links", "maintainers"] {
        let items = list(csv, &format!("/spec/{key}"));
        if !items.is_empty() {
            out.insert(key.to_owned(), items.into());
        }
    }
    let images: std::collections::BTreeSet<&str> = images(csv).collect();
    if !images.is_empty() {
        out.insert("relatedImages".to_owned(), images.into_iter().collect());
    }
    Value::Object(out)
}

/// Images that a version lists, and those of its deployments.
fn images(csv: &Value) -> impl Iterator<Item = &str> {
    let related = list(csv, "/spec/relatedImages").iter().map(|related| text(related, "/image"));
    let deployments = list(csv, "/spec/install/spec/deployments").iter();
    let containers = deployments.flat_map(|deployment| list(deployment, "/spec/template/spec/containers"));
    related.chain(containers.map(|container| text(container, "/image"))).filter(|image| !image.is_empty())
}

/// The icon of a package: that of its default channel's head.
pub(crate) fn icon(manifest: &Value) -> Option<(String, Vec<u8>)> {
    let channels = list(manifest, "/status/channels");
    let default = text(manifest, "/status/defaultChannel");
    let channel = channels.iter().find(|channel| channel["name"] == default).or(channels.first())?;
    let icon = list(channel, "/currentCSVDesc/icon").first()?;
    let data = crate::target::decode_base64(text(icon, "/base64data"))?;
    Some((text(icon, "/mediatype").to_owned(), data))
}
