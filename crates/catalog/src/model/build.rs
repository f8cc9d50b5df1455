//! The rules that stop at the first breach, in opm's order: packages, channels, bundles, deprecations.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::facts::{BundleFacts, Fact};
use super::rules;
use super::{Channel, Entry, Model, Package};
use crate::fbc::{self, schema};
use crate::go::quote;

/// A lowercase RFC 1123 label, as the API server words it.
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const MAX_LABEL_LENGTH: usize = 63;

/// Builds the graph of a catalog, or says why it is not valid.
pub fn build(facts: Vec<Fact>) -> Result<Model, String> {
    let mut builder = Builder::default();
    let (mut channels, mut bundles, mut deprecations) = (Vec::new(), Vec::new(), Vec::new());
    for fact in facts {
        match fact {
            Fact::Package(package) => builder.package(package)?,
            Fact::Channel(channel) => channels.push(channel),
            Fact::Bundle(bundle) => bundles.push(bundle),
            Fact::Deprecation(deprecation) => deprecations.push(deprecation),
            Fact::Other => {}
        }
    }
    channels.into_iter().try_for_each(|channel| builder.channel(channel))?;
    bundles.into_iter().try_for_each(|bundle| builder.bundle(bundle))?;
    builder.entries_have_bundles()?;
    builder.add_missing_default_channels();
    for (i, deprecation) in deprecations.into_iter().enumerate() {
        builder.deprecation(i, deprecation)?;
    }
    match rules::check(&builder.model) {
        None => Ok(builder.model),
        Some(problem) => Err(problem.draw()),
    }
}

#[derive(Default)]
struct Builder {
    model: Model,
    default_channels: BTreeMap<String, String>,
    /// Entries that no bundle has been found for, of the last channel of each package: upstream overwrites those of the
    /// channels before, and the tree of problems catches them.
    open_entries: BTreeMap<String, BTreeSet<String>>,
    package_bundles: BTreeMap<String, HashSet<String>>,
    deprecated: HashSet<String>,
}

impl Builder {
    fn package(&mut self, package: fbc::Package) -> Result<(), String> {
        if package.name.is_empty() {
            return Err("config contains package with no name".to_owned());
        }
        let name = quote(&package.name);
        if self.model.packages.contains_key(&package.name) {
            return Err(format!("duplicate package {name}"));
        }
        let errors = label_errors(&package.name);
        if !errors.is_empty() {
            return Err(format!("invalid package name {name}: [{}]", errors.join(" ")));
        }
        self.default_channels.insert(package.name.clone(), package.default_channel);
        let model = Package {
            name: package.name.clone(),
            description: package.description,
            icon: package.icon,
            ..Package::default()
        };
        self.model.packages.insert(package.name, model);
        Ok(())
    }

    fn channel(&mut self, channel: fbc::Channel) -> Result<(), String> {
        let (package_name, name) = (quote(&channel.package), quote(&channel.name));
        let Some(package) = self.model.packages.get_mut(&channel.package) else {
            return Err(format!("unknown package {package_name} for channel {name}"));
        };
        if channel.name.is_empty() {
            return Err(format!("package {package_name} contains channel with no name"));
        }
        if package.channels.contains_key(&channel.name) {
            return Err(format!("package {package_name} has duplicate channel {name}"));
        }
        let mut entries = BTreeMap::new();
        for entry in channel.entries {
            if entries.contains_key(&entry.name) {
                let entry = quote(&entry.name);
                return Err(format!("invalid package {package_name}, channel {name}: duplicate entry {entry}"));
            }
            let model = Entry {
                name: entry.name.clone(),
                replaces: entry.replaces,
                skips: entry.skips,
                skip_range: entry.skip_range,
                ..Entry::default()
            };
            entries.insert(entry.name, model);
        }
        self.open_entries.insert(channel.package.clone(), entries.keys().cloned().collect());
        if self.default_channels.get(&channel.package) == Some(&channel.name) {
            package.default_channel = Some(channel.name.clone());
        }
        let model = Channel { name: channel.name.clone(), entries, deprecation: None };
        package.channels.insert(channel.name, model);
        Ok(())
    }

    fn bundle(&mut self, bundle: BundleFacts) -> Result<(), String> {
        let (package_name, name) = (quote(&bundle.package), quote(&bundle.name));
        if bundle.package.is_empty() {
            return Err(format!("package name must be set for bundle {name}"));
        }
        let Some(package) = self.model.packages.get_mut(&bundle.package) else {
            return Err(format!("unknown package {package_name} for bundle {name}"));
        };
        if !self.package_bundles.entry(bundle.package.clone()).or_default().insert(bundle.name.clone()) {
            return Err(format!("package {package_name} has duplicate bundle {name}"));
        }
        bundle.version.as_ref().map_err(Clone::clone)?;
        if let Some(open) = self.open_entries.get_mut(&bundle.package) {
            open.remove(&bundle.name);
        }
        let mut found = false;
        for channel in package.channels.values_mut() {
            if let Some(entry) = channel.entries.get_mut(&bundle.name) {
                entry.bundle = Some(self.model.bundles.len());
                found = true;
            }
        }
        if !found {
            return Err(format!("package {package_name}, bundle {name} not found in any channel entries"));
        }
        self.model.bundles.push(bundle);
        Ok(())
    }

    fn entries_have_bundles(&self) -> Result<(), String> {
        match self.open_entries.iter().find(|(_, open)| !open.is_empty()) {
            None => Ok(()),
            Some((package, open)) => {
                let names: Vec<&str> = open.iter().map(String::as_str).collect();
                Err(format!(
                    "no olm.bundle blobs found in package {} for olm.channel entries [{}]",
                    quote(package),
                    names.join(" ")
                ))
            }
        }
    }

    /// A default channel that does not exist is reported as one without bundles.
    fn add_missing_default_channels(&mut self) {
        for package in self.model.packages.values_mut() {
            let default = self.default_channels.get(&package.name).cloned().unwrap_or_default();
            if !default.is_empty() && package.default_channel.is_none() {
                package.channels.insert(default.clone(), Channel { name: default.clone(), ..Channel::default() });
                package.default_channel = Some(default);
            }
        }
    }

    fn deprecation(&mut self, number: usize, deprecation: fbc::Deprecation) -> Result<(), String> {
        let package_name = quote(&deprecation.package);
        if deprecation.package.is_empty() {
            return Err(format!("package name must be set for deprecation item {number}"));
        }
        let Some(package) = self.model.packages.get_mut(&deprecation.package) else {
            return Err(format!("cannot apply deprecations to an unknown package {package_name}"));
        };
        if !self.deprecated.insert(deprecation.package.clone()) {
            return Err(format!("expected a maximum of one deprecation per package: {package_name}"));
        }
        let mut seen = HashSet::new();
        for (i, entry) in deprecation.entries.into_iter().enumerate() {
            let name = quote(&entry.name);
            let reference = format!("declcfg.PackageScopedReference{{Schema:{}, Name:{name}}}", quote(&entry.schema));
            if entry.schema.is_empty() {
                return Err(format!("schema must be set for deprecation entry [{i}] for package {package_name}"));
            }
            if !seen.insert((entry.schema.clone(), entry.name.clone())) {
                return Err(format!("duplicate deprecation entry {reference} for package {package_name}"));
            }
            match entry.schema.as_str() {
                schema::BUNDLE => {
                    let known = self.package_bundles.get(&deprecation.package);
                    if !known.is_some_and(|known| known.contains(&entry.name)) {
                        return Err(format!(
                            "cannot deprecate bundle {name} for package {package_name}: bundle not found"
                        ));
                    }
                    let entries = package.channels.values_mut().filter_map(|it| it.entries.get_mut(&entry.name));
                    entries.for_each(|found| found.deprecation = Some(entry.message.clone()));
                }
                schema::CHANNEL => match package.channels.get_mut(&entry.name) {
                    Some(channel) => channel.deprecation = Some(entry.message),
                    None => {
                        return Err(format!(
                            "cannot deprecate channel {name} for package {package_name}: channel not found"
                        ));
                    }
                },
                schema::PACKAGE if entry.name.is_empty() => package.deprecation = Some(entry.message),
                schema::PACKAGE => {
                    return Err(format!(
                        "package name must be empty for deprecated package {package_name} (specified {name})"
                    ));
                }
                _ => {
                    return Err(format!(
                        "cannot deprecate object {reference} referenced by entry {i} for package {package_name}: \
                         object schema unknown"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn label_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL_LENGTH {
        errors.push(format!("must be no more than {MAX_LABEL_LENGTH} characters"));
    }
    if !is_label(name) {
        // A name of several labels only has dots too many.
        let dotted = name.split('.').all(is_label);
        errors.push(if dotted { "must not contain dots".to_owned() } else { LABEL_MESSAGE.to_owned() });
    }
    errors
}

fn is_label(name: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inside = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    inside && is_end(name.chars().next()) && is_end(name.chars().next_back())
}
