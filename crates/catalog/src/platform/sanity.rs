//! Is every operator sound by itself: template, catalog, manifests, ClusterServiceVersion, images, Kubernetes versions.

use std::collections::BTreeSet;

use bailiwick_schema::decode::decode_value;
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::crd::check_definition;
use super::document::{Images, Platform};
use super::removed_apis::removed_in;
use super::report::{Check, Verdict};
use super::subject::Subject;
use super::template;
use crate::bundle::Csv;
use crate::fbc::{Bundle, Fields};
use crate::property;
use crate::reference::ImageReference;
use crate::version::Version;

const CRD_KIND: &str = "CustomResourceDefinition";

pub(super) fn run(subject: &mut Subject) -> Vec<Check> {
    let name = subject.platform.name.clone();
    let valid = subject.model.as_ref().err().cloned();
    let mut checks = vec![Check::new(&name, "validate", Verdict::of(valid.into_iter().collect()))];
    if subject.model.is_err() {
        return checks;
    }
    for operator in subject.platform.operators.clone() {
        let package = operator.package.as_str();
        checks.push(Check::new(package, "template", template::check(subject, &operator)));
        let platform = subject.platform.clone();
        match subject.manifests_of(&operator) {
            Err(error) => checks.push(Check::new(package, "bundles", Verdict::Failed(vec![error]))),
            Ok(bundles) => {
                let mut found = Findings::default();
                for (bundle, objects) in &bundles {
                    found.manifests.extend_from_slice(subject.manifests.faults_of(bundle));
                    found.look(&platform, bundle, objects);
                }
                checks.push(Check::new(package, "manifests", Verdict::of_both(found.manifests, found.unknown_fields)));
                checks.push(Check::new(package, "csv", Verdict::of_both(found.csv, found.cosmetic)));
                checks.push(Check::new(package, "images", Verdict::of(found.images)));
                checks.push(Check::new(package, "kubernetes", Verdict::of(found.kubernetes)));
            }
        }
    }
    checks
}

#[derive(Default)]
struct Findings {
    manifests: Vec<String>,
    unknown_fields: Vec<String>,
    csv: Vec<String>,
    cosmetic: Vec<String>,
    images: Vec<String>,
    kubernetes: Vec<String>,
}

impl Findings {
    fn look(&mut self, platform: &Platform, bundle: &Bundle, objects: &[Value]) {
        for object in objects {
            self.manifest(platform, bundle, object);
        }
        match objects.iter().find_map(Csv::new) {
            None => self.csv.push(format!("{}: there is no ClusterServiceVersion", bundle.name)),
            Some(csv) => {
                self.csv(bundle, csv, objects);
                self.images(platform.images, bundle, csv);
                self.versions(platform, bundle, csv);
            }
        }
    }

    fn manifest(&mut self, platform: &Platform, bundle: &Bundle, object: &Value) {
        let fields = Fields::of(object);
        let (api_version, kind) = (fields.text("apiVersion"), fields.text("kind"));
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let place = format!("{}: {kind} {name}", bundle.name);
        if name.is_empty() {
            self.manifests.push(format!("{place}: metadata.name is missing"));
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        if let Some(minor) = removed_in(group, version, &kind, &platform.kubernetes) {
            self.kubernetes.push(format!("{place}: Kubernetes 1.{minor} and later do not serve {api_version}"));
        } else if let Some(ty) = Types::native().by_gvk(group, version, &kind) {
            match decode_value(ty, object) {
                Err(error) => self.manifests.push(format!("{place}: {error}")),
                Ok(decoded) => {
                    self.unknown_fields.extend(decoded.strict.iter().map(|fault| format!("{place}: {fault}")));
                }
            }
        }
        if kind == CRD_KIND {
            self.manifests.extend(check_definition(object).into_iter().map(|fault| format!("{place}: {fault}")));
        }
    }

    fn csv(&mut self, bundle: &Bundle, csv: Csv, objects: &[Value]) {
        let place = &bundle.name;
        let mut missing = |field: &str| self.csv.push(format!("{place}: spec.{field} is missing"));
        if csv.spec("displayName").as_str().is_none_or(str::is_empty) {
            missing("displayName");
        }
        let modes = csv.spec("installModes").as_array().map_or(&[][..], Vec::as_slice);
        if !modes.iter().any(|mode| mode.get("supported") == Some(&Value::Bool(true))) {
            missing("installModes with a supported one");
        }
        let install = Fields::of(csv.spec("install"));
        let strategy = Fields::of(install.get("spec"));
        if install.text("strategy") != "deployment" {
            self.csv.push(format!("{place}: spec.install.strategy must be \"deployment\""));
        }
        let owned = Fields::of(csv.spec("customresourcedefinitions")).list("owned");
        if strategy.list("deployments").is_empty() && owned.is_empty() {
            self.csv.push(format!("{place}: it installs nothing: neither deployments nor owned definitions"));
        }
        let version = csv.version().unwrap_or_default();
        let package = property::version_release(bundle).map(|it| it.version.to_string()).unwrap_or_default();
        if version != package && !version.is_empty() {
            self.csv.push(format!("{place}: spec.version is {version}, its olm.package says {package}"));
        }
        self.cosmetics(place, csv, owned);
        self.install_parts(place, &strategy);
        self.owned(place, owned, objects);
    }

    fn cosmetics(&mut self, place: &str, csv: Csv, owned: &[Value]) {
        for field in ["description", "icon", "provider", "maintainers"] {
            let value = csv.spec(field);
            let is_empty = match value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if is_empty {
                self.cosmetic.push(format!("{place}: spec.{field} is empty"));
            }
        }
        for definition in owned {
            let fields = Fields::of(definition);
            if fields.text("displayName").is_empty() || fields.text("description").is_empty() {
                let name = fields.text("name");
                self.cosmetic.push(format!("{place}: the owned {name} lacks a displayName or description"));
            }
        }
    }

    /// Deployments and rules of the install strategy, as the objects that they become.
    fn install_parts(&mut self, place: &str, strategy: &Fields) {
        let deployment = |it: &Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": Fields::of(it).text("name")}, "spec": Fields::of(it).get("spec")});
        let role = |it: &Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "rules"}, "rules": Fields::of(it).get("rules")});
        let deployments = strategy.list("deployments").iter().map(|it| ("apps", "v1", "Deployment", deployment(it)));
        let rules = strategy.list("permissions").iter().chain(strategy.list("clusterPermissions"));
        let rules = rules.map(|it| ("rbac.authorization.k8s.io", "v1", "ClusterRole", role(it)));
        for (group, version, kind, object) in deployments.chain(rules) {
            let Some(ty) = Types::native().by_gvk(group, version, kind) else { continue };
            match decode_value(ty, &object) {
                Err(error) => self.csv.push(format!("{place}: spec.install: {kind}: {error}")),
                Ok(decoded) => {
                    self.cosmetic
                        .extend(decoded.strict.iter().map(|fault| format!("{place}: spec.install: {kind}: {fault}")));
                }
            }
        }
    }

    /// Owned definitions are in the bundle, with the version that the CSV names.
    fn owned(&mut self, place: &str, owned: &[Value], objects: &[Value]) {
        for definition in owned {
            let fields = Fields::of(definition);
            let (name, version) = (fields.text("name"), fields.text("version"));
            let crd = objects.iter().find(|object| {
                object.get("kind").and_then(Value::as_str) == Some(CRD_KIND)
                    && object.pointer("/metadata/name").and_then(Value::as_str) == Some(&name)
            });
            let versions = crd.map(|crd| crd.pointer("/spec/versions").and_then(Value::as_array));
            match versions {
                None => self.csv.push(format!("{place}: owns {name}, which is not in the bundle")),
                // The old form of definitions has one version and no list.
                Some(None) => {}
                Some(Some(versions)) if !versions.iter().any(|it| Fields::of(it).text("name") == version) => {
                    self.csv
                        .push(format!("{place}: owns {name} in version {version}, which the definition does not have"));
                }
                Some(_) => {}
            }
        }
    }

    fn images(&mut self, wanted: Images, bundle: &Bundle, csv: Csv) {
        let related = bundle.related_images.iter().map(|it| it.image.clone());
        let all: BTreeSet<String> =
            related.chain(csv.operator_images()).chain([bundle.image.clone()]).filter(|it| !it.is_empty()).collect();
        for image in all {
            let place = &bundle.name;
            match ImageReference::parse(&image) {
                Err(error) => self.images.push(format!("{place}: {image:?} is no image: {error}")),
                Ok(reference) if reference.digest.is_some() => {}
                Ok(_) if wanted == Images::Digests => {
                    self.images.push(format!("{place}: {image} is not pinned by digest"));
                }
                Ok(reference) => match reference.tag.as_deref() {
                    None => self.images.push(format!("{place}: {image} has no tag, so it moves")),
                    Some("latest" | "main" | "master" | "nightly") => {
                        self.images.push(format!("{place}: the tag of {image} moves"));
                    }
                    Some(_) => {}
                },
            }
        }
    }

    fn versions(&mut self, platform: &Platform, bundle: &Bundle, csv: Csv) {
        let text = csv.spec("minKubeVersion").as_str().unwrap_or_default();
        if text.is_empty() {
            return;
        }
        match Version::parse_tolerant(text) {
            Err(error) => self.csv.push(format!("{}: spec.minKubeVersion {text:?}: {error}", bundle.name)),
            Ok(least) => {
                let too_old = platform.kubernetes.iter().filter(|it| it.compare(&least) == std::cmp::Ordering::Less);
                self.kubernetes.extend(too_old.map(|version| {
                    format!("{} needs Kubernetes {least}, the platform is for {version} too", bundle.name)
                }));
            }
        }
    }
}
