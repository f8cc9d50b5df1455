//! Catalogs in ConfigMaps: lists of packages, ClusterServiceVersions and definitions, as OLM had them before there were
//! catalog images. They are turned into documents like every other catalog.

use bailiwick_catalog::bundle::{BundleContent, render};
use bailiwick_catalog::fbc::{Catalog, Channel, ChannelEntry, Output, Package, Property, write_catalog};
use bailiwick_catalog::property::{PACKAGE, PackageProperty};
use serde_json::Value;

use crate::object::{list, text, texts};

/// The keys of the ConfigMap's data.
const PACKAGES: &str = "packages";
const CSVS: &str = "clusterServiceVersions";
const CRDS: &str = "customResourceDefinitions";

/// The catalog in a ConfigMap, as documents.
pub(crate) fn read(config_map: &Value) -> Result<String, String> {
    let part = |key: &str| -> Result<Vec<Value>, String> {
        let Some(data) = config_map.pointer(&format!("/data/{key}")).and_then(Value::as_str) else {
            return Ok(Vec::new());
        };
        let decoded = bailiwick_machinery::yaml::decode(data).map_err(|error| format!("data.{key}: {error}"))?;
        match decoded.value {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            _ => Err(format!("data.{key} is no list")),
        }
    };
    let (packages, csvs, crds) = (part(PACKAGES)?, part(CSVS)?, part(CRDS)?);
    if packages.is_empty() {
        return Err(format!("data.{PACKAGES} names no package"));
    }
    let csv = |name: &str| csvs.iter().find(|csv| text(csv, "/metadata/name") == name);
    let mut catalog = Catalog::default();
    for package in &packages {
        let name = text(package, "/packageName");
        let channels = list(package, "/channels");
        let default_channel = match text(package, "/defaultChannel") {
            "" => channels.first().map(|channel| text(channel, "/name")).unwrap_or_default(),
            named => named,
        };
        for channel in channels {
            let mut entries: Vec<ChannelEntry> = Vec::new();
            let mut current = text(channel, "/currentCSV");
            // Along `replaces`; one that comes back to itself ends it.
            while let Some(found) = csv(current).filter(|_| !entries.iter().any(|known| known.name == current)) {
                entries.push(ChannelEntry {
                    name: current.to_owned(),
                    replaces: text(found, "/spec/replaces").to_owned(),
                    skips: texts(found, "/spec/skips"),
                    skip_range: text(found, "/metadata/annotations/olm.skipRange").to_owned(),
                });
                if !catalog.bundles.iter().any(|known| known.name == current && known.package == name) {
                    catalog.bundles.push(render(&content(found, name, &crds), "")?);
                }
                current = text(found, "/spec/replaces");
            }
            if entries.is_empty() {
                let (channel, wanted) = (text(channel, "/name"), text(channel, "/currentCSV"));
                return Err(format!("channel {channel:?} of package {name:?}: there is no {wanted:?} in data.{CSVS}"));
            }
            let channel = text(channel, "/name").to_owned();
            catalog.channels.push(Channel { name: channel, package: name.to_owned(), entries, ..Channel::default() });
        }
        let (name, default_channel) = (name.to_owned(), default_channel.to_owned());
        catalog.packages.push(Package { name, default_channel, ..Package::default() });
    }
    Ok(write_catalog(&catalog, Output::Json))
}

/// A bundle of a ClusterServiceVersion and the definitions it owns.
fn content(csv: &Value, package: &str, crds: &[Value]) -> BundleContent {
    let owned: Vec<&str> =
        list(csv, "/spec/customresourcedefinitions/owned").iter().map(|it| text(it, "/name")).collect();
    let definitions = crds.iter().filter(|crd| owned.contains(&text(crd, "/metadata/name"))).cloned();
    let version = text(csv, "/spec/version").to_owned();
    let property = PackageProperty { package_name: package.to_owned(), version, release: String::new() };
    BundleContent {
        name: text(csv, "/metadata/name").to_owned(),
        package: package.to_owned(),
        objects: std::iter::once(csv.clone()).chain(definitions).collect(),
        properties: vec![Property { kind: PACKAGE.to_owned(), value: property.to_json() }],
        ..BundleContent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chain_of_versions_becomes_a_channel() {
        let csvs = "- {kind: ClusterServiceVersion, metadata: {name: a.v2}, spec: {version: 2.0.0, replaces: a.v1}}\n\
                    - {kind: ClusterServiceVersion, metadata: {name: a.v1}, spec: {version: 1.0.0}}\n";
        let packages = "- {packageName: a, channels: [{name: stable, currentCSV: a.v2}]}\n";
        let map = json!({"data": {"clusterServiceVersions": csvs, "packages": packages}});
        let catalog = bailiwick_catalog::fbc::load_text(&read(&map).unwrap()).unwrap();
        assert_eq!(catalog.packages[0].default_channel, "stable");
        let entries: Vec<&str> = catalog.channels[0].entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(entries, ["a.v2", "a.v1"]);
        assert_eq!(catalog.bundles.len(), 2);
        assert!(bailiwick_catalog::model::validate_catalog(&catalog).is_ok());
    }

    #[test]
    fn what_is_missing_is_named() {
        let map = json!({"data": {"packages": "- {packageName: a, channels: [{name: stable, currentCSV: a.v2}]}"}});
        let error = read(&map).unwrap_err();
        assert!(error.contains("a.v2") && error.contains("stable"), "{error}");
        assert!(read(&json!({"data": {"packages": "{"}})).is_err());
    }
}
