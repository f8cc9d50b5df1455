//! Bundles and catalogs of our own, as image layouts.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use bailiwick_catalog::bundle::{BundleContent, Dependency, render};
use bailiwick_catalog::fbc::{Catalog, Channel, ChannelEntry, Output, Package, write_catalog};
use bailiwick_catalog::oci::{BuildOptions, Image, Layout, build_catalog};
use serde_json::{Value, json};

/// A bundle that defines `<package>s.example.com`.
#[derive(Clone)]
pub struct Made {
    pub package: String,
    pub version: String,
    pub csv: Value,
    pub objects: Vec<Value>,
    dependencies: Vec<Dependency>,
}

impl Made {
    pub fn new(package: &str, version: &str) -> Self {
        let kind = kind_of(package);
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{package}.v{version}"), "annotations": {"capabilities": "Basic Install"}},
            "spec": {
                "displayName": kind, "version": version, "installModes": modes, "provider": {"name": "Nobody"},
                "customresourcedefinitions": {"owned": [
                    {"name": format!("{package}s.example.com"), "version": "v1", "kind": kind}]},
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [{"name": format!("{package}-operator"), "spec": {
                        "selector": {"matchLabels": {"app": package}},
                        "template": {"metadata": {"labels": {"app": package}}, "spec": {
                            "serviceAccountName": package,
                            "containers": [{"name": "manager", "image": "example.com/manager:1"}]}}}}],
                    "permissions": [{"serviceAccountName": package, "rules": [
                        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}],
                    "clusterPermissions": [{"serviceAccountName": package, "rules": [
                        {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["*"]}]}]}},
            },
        });
        let objects = vec![definition(package, &["v1"])];
        Self { package: package.to_owned(), version: version.to_owned(), csv, objects, dependencies: Vec::new() }
    }

    pub fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    /// Needs a package in a range of versions.
    pub fn requires(mut self, package: &str, range: &str) -> Self {
        let value = json!({"packageName": package, "version": range}).to_string();
        self.dependencies.push(Dependency { kind: "olm.package".to_owned(), value });
        self
    }

    /// With another definition.
    pub fn defines(mut self, definition: Value) -> Self {
        self.objects[0] = definition;
        self
    }

    /// With samples of its kind.
    pub fn with_samples(mut self, samples: &Value) -> Self {
        self.csv["metadata"]["annotations"]["alm-examples"] = samples.to_string().into();
        self
    }

    /// With other facts in its ClusterServiceVersion's spec.
    pub fn says(mut self, field: &str, value: Value) -> Self {
        self.csv["spec"][field] = value;
        self
    }

    /// With an object more.
    pub fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    fn content(&self) -> BundleContent {
        BundleContent {
            name: self.name(),
            package: self.package.clone(),
            objects: std::iter::once(self.csv.clone()).chain(self.objects.iter().cloned()).collect(),
            dependencies: self.dependencies.clone(),
            ..BundleContent::default()
        }
    }
}

pub fn kind_of(package: &str) -> String {
    let mut kind = package.to_owned();
    if let Some(first) = kind.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    kind
}

/// The definition of a package's kind; the first version is the stored one.
pub fn definition(package: &str, versions: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}}}}});
    definition_with(package, versions, &schema)
}

pub fn definition_with(package: &str, versions: &[&str], schema: &Value) -> Value {
    let version = |(at, name): (usize, &&str)| json!({"name": name, "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{package}s.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": format!("{package}s"), "singular": package, "kind": kind_of(package),
                "listKind": format!("{}List", kind_of(package))},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

/// A catalog in which each bundle replaces the one before it of its package, in the channel `stable`.
pub fn catalog_text(bundles: &[Made]) -> Result<String> {
    let mut catalog = Catalog::default();
    for bundle in bundles {
        let known = catalog.channels.iter_mut().find(|channel| channel.package == bundle.package);
        let mut entry = ChannelEntry { name: bundle.name(), ..ChannelEntry::default() };
        match known {
            Some(channel) => {
                entry.replaces = channel.entries.last().map(|last| last.name.clone()).unwrap_or_default();
                channel.entries.push(entry);
            }
            None => {
                let (name, package) = ("stable".to_owned(), bundle.package.clone());
                catalog.packages.push(Package {
                    name: package.clone(),
                    default_channel: name.clone(),
                    ..Package::default()
                });
                catalog.channels.push(Channel { name, package, entries: vec![entry], ..Channel::default() });
            }
        }
        catalog.bundles.push(render(&bundle.content(), "").map_err(|error| anyhow!(error))?);
    }
    Ok(write_catalog(&catalog, Output::Json))
}

/// The image of a catalog.
pub fn catalog_image(bundles: &[Made]) -> Result<Image> {
    image_of(&catalog_text(bundles)?)
}

fn image_of(text: &str) -> Result<Image> {
    let source = tempfile::tempdir()?;
    std::fs::write(source.path().join("catalog.json"), text)?;
    build_catalog(source.path(), &BuildOptions::default()).context("building")
}

/// Puts a catalog image into a layout below `root` and gives its name.
pub fn publish(root: &Path, name: &str, bundles: &[Made]) -> Result<String> {
    publish_text(root, name, &catalog_text(bundles)?)
}

/// The same with the text of a catalog.
pub fn publish_text(root: &Path, name: &str, text: &str) -> Result<String> {
    let image = image_of(text)?;
    let layout = root.join(name);
    Layout::new(&layout).write(&image, &["latest".to_owned()]).context("writing")?;
    Ok(format!("oci:{}:latest", layout.display()))
}
