//! What a test is about: a platform, the catalog it comes from and the one before.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::document::{Operator, Platform};
use super::manifests::Manifests;
use crate::fbc::{Bundle, Catalog};
use crate::model::{self, Model, validate_catalog};
use crate::property;
use crate::resolve::{Choice, Request, Snapshot, Source, SourceKey, Want};

/// A bundle, without what it carries, and its manifests.
pub(super) type WithManifests = (Bundle, Rc<Vec<Value>>);

/// Everything that the layers look at.
pub struct Subject {
    pub platform: Platform,
    pub(super) catalog: Catalog,
    /// Why the catalog is not valid, or its graph.
    pub(super) model: Result<Model, String>,
    pub(super) previous: Option<(Catalog, Model)>,
    /// The directory of the catalog, if it is one.
    pub(super) directory: Option<PathBuf>,
    pub(super) manifests: Manifests,
}

impl Subject {
    /// The previous catalog is the last released one; without it there is nothing to integrate with.
    pub fn new(
        mut platform: Platform,
        catalog: Catalog,
        previous: Option<Catalog>,
        directory: Option<PathBuf>,
        manifests: Manifests,
    ) -> Result<Self, String> {
        let model = validate_catalog(&catalog);
        for operator in &mut platform.operators {
            let package = model.as_ref().ok().and_then(|model| model.packages.get(&operator.package));
            operator.default_channel = package.and_then(|package| package.default_channel.clone());
        }
        let previous = match previous {
            None => None,
            Some(catalog) => {
                let model = validate_catalog(&catalog).map_err(|error| format!("the previous catalog: {error}"))?;
                Some((catalog, model))
            }
        };
        Ok(Subject { platform, catalog, model, previous, directory, manifests })
    }

    pub(super) fn package(&self, name: &str) -> Option<&model::Package> {
        self.model.as_ref().ok()?.packages.get(name)
    }

    /// The channel of an operator: the one that it names, or the default one.
    pub(super) fn channel(&self, operator: &Operator) -> Result<&model::Channel, String> {
        let package = self
            .package(&operator.package)
            .ok_or_else(|| format!("the catalog has no package {}", operator.package))?;
        let name = operator.channel.as_deref().or(package.default_channel.as_deref()).unwrap_or_default();
        package.channels.get(name).ok_or_else(|| {
            let known: Vec<&str> = package.channels.keys().map(String::as_str).collect();
            format!("package {} has no channel {name}; there are {}", operator.package, known.join(", "))
        })
    }

    /// The bundles that the platform may install for an operator, by version.
    pub(super) fn bundles(&self, operator: &Operator) -> Result<Vec<&Bundle>, String> {
        let channel = self.channel(operator)?;
        let mut found: Vec<(_, &Bundle)> = Vec::new();
        for bundle in self.catalog.bundles.iter().filter(|it| it.package == operator.package) {
            if !channel.entries.contains_key(&bundle.name) {
                continue;
            }
            let version = property::version_release(bundle)?;
            if operator.versions.as_ref().is_none_or(|range| range.contains(&version.version)) {
                found.push((version, bundle));
            }
        }
        found.sort_by(|a, b| a.0.compare(&b.0));
        if found.is_empty() {
            return Err(format!("no bundle of channel {} is in the range {}", channel.name, operator.versions_text));
        }
        Ok(found.into_iter().map(|(_, bundle)| bundle).collect())
    }

    /// Bundles with their manifests; the error is of the first that cannot be read.
    pub(super) fn manifests_of(&mut self, operator: &Operator) -> Result<Vec<WithManifests>, String> {
        let bundles: Vec<Bundle> = self.bundles(operator)?.into_iter().map(light).collect();
        let read = bundles.into_iter().map(|bundle| {
            let full = self.catalog.bundles.iter().find(|it| it.package == bundle.package && it.name == bundle.name);
            let manifests = self.manifests.of(full.unwrap_or(&bundle))?;
            Ok((bundle, manifests))
        });
        read.collect()
    }

    /// The request that installs some operators of the platform on an empty cluster.
    pub(super) fn request(&self, snapshot: &Arc<Snapshot>, operators: &[&Operator]) -> Request {
        let key = SourceKey::new("", "catalog");
        let wants = operators.iter().map(|operator| Want {
            name: operator.package.clone(),
            package: operator.package.clone(),
            installed: None,
            choice: Choice::Subscription {
                source: key.clone(),
                channel: operator.channel.clone().unwrap_or_default(),
                starting_csv: String::new(),
                versions: operator.versions.clone(),
            },
        });
        let source = Source { key: key.clone(), priority: 0, snapshot: snapshot.clone() };
        Request { sources: vec![source], wants: wants.collect(), ..Request::default() }
    }
}

/// A bundle without what it carries.
fn light(bundle: &Bundle) -> Bundle {
    Bundle {
        name: bundle.name.clone(),
        package: bundle.package.clone(),
        image: bundle.image.clone(),
        properties: bundle.properties.iter().filter(|it| !property::is_heavy(&it.kind)).cloned().collect(),
        related_images: bundle.related_images.clone(),
        ..Bundle::default()
    }
}
