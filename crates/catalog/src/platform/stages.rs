//! Catalogs by which a control plane can go through the journeys of a platform. Bundles carry their manifests, so that
//! nothing has to be pulled from where only this machine can; a catalog with one bundle makes an upgrade take the one edge
//! that is to be tried.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::Value;

use super::journeys::Journey;
use super::sample::samples;
use super::subject::Subject;
use crate::fbc::{Bundle, Catalog, Channel, Property};
use crate::model::validate_catalog;
use crate::property::{self, BUNDLE_OBJECT, Properties};

/// See the module.
pub struct Stages {
    catalog: Catalog,
    /// Manifests by bundle.
    manifests: BTreeMap<String, Vec<Value>>,
    /// Why an operator cannot be installed at all, by package.
    pub faults: BTreeMap<String, String>,
}

impl Stages {
    /// Reads the manifests of everything that the platform may install.
    pub fn new(subject: &mut Subject, journeys: &[Journey]) -> Self {
        let mut stages = Stages { catalog: Catalog::default(), manifests: BTreeMap::new(), faults: BTreeMap::new() };
        for journey in journeys {
            if let Err(fault) = stages.add_operator(subject, journey) {
                stages.faults.insert(journey.package.clone(), fault);
            }
        }
        for package in required_packages(&subject.catalog, journeys) {
            stages.add_dependency(subject, &package);
        }
        stages
    }

    /// Everything that the platform may install.
    pub fn whole(&self) -> Catalog {
        self.catalog.clone()
    }

    /// Everything but one operator.
    pub fn without(&self, package: &str) -> Catalog {
        let mut rest = self.catalog.clone();
        rest.packages.retain(|it| it.name != package);
        rest.channels.retain(|it| it.package != package);
        rest.bundles.retain(|it| it.package != package);
        rest
    }

    /// One bundle of an operator and nothing else.
    pub fn only(&self, package: &str, bundle: &str) -> Catalog {
        let mut only = self.catalog.clone();
        only.packages.retain(|it| it.name == package);
        only.channels.retain(|it| it.package == package);
        only.channels.iter_mut().for_each(|channel| channel.entries.retain(|entry| entry.name == bundle));
        only.bundles.retain(|it| it.package == package && it.name == bundle);
        only
    }

    /// The ClusterServiceVersion of a bundle.
    pub fn csv(&self, bundle: &str) -> Option<&Value> {
        self.manifests.get(bundle)?.iter().find(|object| object["kind"] == "ClusterServiceVersion")
    }

    /// The sample objects that a bundle brings.
    pub fn samples(&self, bundle: &str) -> Result<Vec<Value>, String> {
        self.manifests.get(bundle).map_or(Ok(Vec::new()), |manifests| samples(manifests))
    }

    fn add_operator(&mut self, subject: &mut Subject, journey: &Journey) -> Result<(), String> {
        let operator = subject.platform.operators.iter().find(|it| it.package == journey.package).cloned();
        let operator = operator.ok_or_else(|| format!("{} is no operator of the platform", journey.package))?;
        let names: BTreeSet<String> = subject.bundles(&operator)?.iter().map(|bundle| bundle.name.clone()).collect();
        let mut part = Catalog::default();
        for (light, manifests) in subject.manifests_of(&operator)? {
            part.bundles.push(self_contained(light, &manifests)?);
            self.manifests.insert(
                part.bundles.last().map(|bundle| bundle.name.clone()).unwrap_or_default(),
                manifests.iter().cloned().collect(),
            );
        }
        let channels = subject.catalog.channels.iter();
        let channel = channels.clone().find(|it| it.package == journey.package && it.name == journey.channel);
        let mut channel: Channel = channel.cloned().unwrap_or_default();
        channel.entries.retain(|entry| names.contains(&entry.name));
        let package = subject.catalog.packages.iter().find(|it| it.name == journey.package);
        let mut package = package.cloned().unwrap_or_default();
        package.default_channel = channel.name.clone();
        part.packages.push(package);
        part.channels.push(channel);
        validate_catalog(&part).map_err(|error| {
            format!("the versions {:?} of channel {} are no catalog: {error}", operator.versions_text, journey.channel)
        })?;
        self.catalog.merge(part);
        Ok(())
    }

    /// What the platform does not name but operators of it require: as it stands, with manifests where they can be had.
    fn add_dependency(&mut self, subject: &mut Subject, package: &str) {
        let (catalog, manifests) = (&subject.catalog, &mut subject.manifests);
        self.catalog.packages.extend(catalog.packages.iter().filter(|it| it.name == package).cloned());
        self.catalog.channels.extend(catalog.channels.iter().filter(|it| it.package == package).cloned());
        for bundle in catalog.bundles.iter().filter(|it| it.package == package) {
            let read = manifests.of(bundle).and_then(|read| self_contained(bundle.clone(), &read));
            self.catalog.bundles.push(read.unwrap_or_else(|_| bundle.clone()));
        }
    }
}

/// A bundle that needs no image.
fn self_contained(mut bundle: Bundle, manifests: &[Value]) -> Result<Bundle, String> {
    bundle.image.clear();
    bundle.properties.retain(|it| !property::is_heavy(&it.kind));
    bundle.objects.clear();
    for object in manifests {
        let text = serde_json::to_string(object).map_err(|error| error.to_string())?;
        let data = base64::engine::general_purpose::STANDARD.encode(&text);
        bundle.objects.push(text);
        bundle.properties.push(Property { kind: BUNDLE_OBJECT.to_owned(), value: format!("{{\"data\":\"{data}\"}}") });
    }
    Ok(bundle)
}

/// The packages that bundles of the platform may need, and those that these need, without the platform's own.
fn required_packages(catalog: &Catalog, journeys: &[Journey]) -> BTreeSet<String> {
    let parsed: Vec<(&str, Properties)> = catalog
        .bundles
        .iter()
        .map(|bundle| (bundle.package.as_str(), Properties::parse(&bundle.properties).unwrap_or_default()))
        .collect();
    let mut found: BTreeSet<&str> = journeys.iter().map(|journey| journey.package.as_str()).collect();
    let own = found.clone();
    let mut todo: Vec<&str> = found.iter().copied().collect();
    while let Some(package) = todo.pop() {
        for (_, properties) in parsed.iter().filter(|(of, _)| *of == package) {
            let named = properties.packages_required.iter().map(|(name, _)| name.as_str());
            let known = named.filter_map(|name| catalog.packages.iter().find(|it| it.name == name));
            let providing = parsed
                .iter()
                .filter(|(_, other)| properties.gvks_required.iter().any(|required| other.gvks.contains(required)));
            let all = known.map(|it| it.name.as_str()).chain(providing.map(|(of, _)| *of));
            for name in all.collect::<Vec<_>>() {
                if found.insert(name) {
                    todo.push(name);
                }
            }
        }
    }
    found.difference(&own).map(|name| (*name).to_owned()).collect()
}
