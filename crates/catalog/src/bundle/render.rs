//! From a bundle's content to its object in a catalog.

use std::collections::{BTreeSet, HashSet};

use base64::Engine as _;
use serde_json::Value;

use super::apis::{provided, required};
use super::directory::BundleContent;
use crate::fbc::{Bundle, Fields, Property, RelatedImage};
use crate::go::{Dialect, append_json};
use crate::property::{self, Gvk, PackageProperty, package_required_json};

/// Renders a bundle whose image has a name, or none yet.
pub fn render(content: &BundleContent, image: &str) -> Result<Bundle, String> {
    let objects: Vec<String> = content.objects.iter().map(manifest).collect();
    let in_bundle = |error: String| format!("get properties for bundle {}: {error}", crate::go::quote(&content.name));
    let mut properties = properties(content, &objects).map_err(in_bundle)?;
    properties.sort_by(|a, b| (&a.kind, &a.value).cmp(&(&b.kind, &b.value)));
    let is_heavy =
        |property: &Property| matches!(property.kind.as_str(), property::BUNDLE_OBJECT | property::CSV_METADATA_TYPE);
    let (heavy, light): (Vec<_>, Vec<_>) = properties.into_iter().partition(is_heavy);
    let mut related_images = related_images(content, image);
    related_images.sort_by(|a, b| a.image.cmp(&b.image));
    let csv = content.objects.iter().position(|object| super::csv::Csv::new(object).is_some());
    Ok(Bundle {
        name: content.name.clone(),
        package: content.package.clone(),
        image: image.to_owned(),
        properties: light.into_iter().chain(heavy).collect(),
        related_images,
        csv_json: csv.and_then(|at| objects.get(at)).cloned().unwrap_or_default(),
        objects,
    })
}

fn manifest(object: &Value) -> String {
    let mut out = String::new();
    append_json(&mut out, object, Dialect::Manifest);
    out
}

fn gvk_of(value: &str) -> Result<Gvk, String> {
    let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let fields = Fields::of(&value);
    Ok(Gvk { group: fields.text("group"), kind: fields.text("kind"), version: fields.text("version") })
}

fn properties(content: &BundleContent, objects: &[String]) -> Result<Vec<Property>, String> {
    let property = |kind: &str, value: String| Property { kind: kind.to_owned(), value };
    let csv = content.csv().ok_or("no csv in bundle")?;
    let mut out = Vec::new();
    let mut provides = BTreeSet::new();
    let mut package = None;
    for item in &content.properties {
        match item.kind.as_str() {
            property::GVK => {
                provides.insert(gvk_of(&item.value)?);
            }
            property::PACKAGE => {
                let value: Value = serde_json::from_str(&item.value).map_err(|error| error.to_string())?;
                let fields = Fields::of(&value);
                package = Some(PackageProperty {
                    package_name: fields.text("packageName"),
                    version: fields.text("version"),
                    release: fields.text("release"),
                });
            }
            _ => out.push(item.clone()),
        }
    }
    let mut requires = BTreeSet::new();
    for item in &content.dependencies {
        match item.kind.as_str() {
            property::GVK => {
                requires.insert(gvk_of(&item.value)?);
            }
            property::PACKAGE => {
                let value: Value = serde_json::from_str(&item.value).map_err(|error| error.to_string())?;
                let fields = Fields::of(&value);
                let value = package_required_json(&fields.text("packageName"), &fields.text("version"));
                out.push(property(property::PACKAGE_REQUIRED, value));
            }
            _ => out.push(property(&item.kind, item.value.clone())),
        }
    }
    let version = csv.version().map_err(|error| format!("get version: {error}"))?;
    let release = csv.release().map_err(|error| format!("get release: {error}"))?;
    let gvk = |key: super::ApiKey| Gvk { group: key.group, kind: key.kind, version: key.version };
    provides.extend(provided(&content.objects, csv).into_iter().map(gvk));
    requires.extend(required(csv).map_err(|error| format!("get required apis: {error}"))?.into_iter().map(gvk));
    let package =
        package.unwrap_or_else(|| PackageProperty { package_name: content.package.clone(), version, release });
    out.push(property(property::PACKAGE, package.to_json()));
    out.extend(provides.iter().map(|gvk| property(property::GVK, gvk.to_json())));
    out.extend(requires.iter().map(|gvk| property(property::GVK_REQUIRED, gvk.to_json())));
    out.extend(objects.iter().map(|object| {
        let data = base64::engine::general_purpose::STANDARD.encode(object);
        property(property::BUNDLE_OBJECT, format!("{{\"data\":\"{data}\"}}"))
    }));
    Ok(out)
}

/// What the ClusterServiceVersion lists, the bundle's own image and those of its deployments, each once.
fn related_images(content: &BundleContent, image: &str) -> Vec<RelatedImage> {
    let Some(csv) = content.csv() else { return Vec::new() };
    let mut images = csv.related_images();
    let mut known: HashSet<String> = images.iter().map(|related| related.image.clone()).collect();
    let unnamed = |image: String| RelatedImage { name: String::new(), image };
    if !image.is_empty() && !known.contains(image) {
        images.push(unnamed(image.to_owned()));
    }
    for image in csv.operator_images() {
        if known.insert(image.clone()) {
            images.push(unnamed(image));
        }
    }
    images
}
