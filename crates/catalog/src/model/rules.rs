//! The rules about the graph itself; all breaches are collected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::problem::Problem;
use super::{Channel, Entry, Model, Package};
use crate::go::quote;
use crate::version::{Range, VersionRelease};

/// Everything that is wrong with a catalog.
pub(super) fn check(model: &Model) -> Option<Problem> {
    let mut problem = Problem::new("invalid index");
    problem.causes.extend(model.packages.values().filter_map(|package| check_package(model, package)));
    problem.or_none()
}

fn check_package(model: &Model, package: &Package) -> Option<Problem> {
    let mut problem = Problem::new(format!("invalid package {}", quote(&package.name)));
    if package.default_channel.is_none() {
        problem.push("default channel must be set");
    }
    if package.channels.is_empty() {
        problem.push("package must contain at least one channel");
    }
    problem.causes.extend(package.channels.values().filter_map(|channel| check_channel(model, package, channel)));
    if let Err(message) = check_versions(model, package) {
        problem.push(message);
    }
    check_deprecation(&mut problem, package.deprecation.as_deref());
    problem.or_none()
}

fn check_deprecation(problem: &mut Problem, deprecation: Option<&str>) {
    if deprecation == Some("") {
        problem.push("invalid deprecation: message must be set");
    }
}

fn version_of<'m>(model: &'m Model, entry: &Entry) -> Option<&'m VersionRelease> {
    model.bundles.get(entry.bundle?)?.version.as_ref().ok()
}

/// No version may be that of two bundles. Entries without a bundle count as 0.0.0.
fn check_versions(model: &Model, package: &Package) -> Result<(), String> {
    let mut bundles: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in package.channels.values().flat_map(|channel| channel.entries.values()) {
        let version = version_of(model, entry).map_or_else(|| "0.0.0".to_owned(), ToString::to_string);
        bundles.entry(version).or_default().insert(&entry.name);
    }
    let shared: Vec<String> = bundles
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(version, names)| format!("{{{version}: [{}]}}", names.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    if shared.is_empty() { Ok(()) } else { Err(format!("duplicate versions found in bundles: [{}]", shared.join(" "))) }
}

fn check_channel(model: &Model, package: &Package, channel: &Channel) -> Option<Problem> {
    let mut problem = Problem::new(format!("invalid channel {}", quote(&channel.name)));
    if channel.entries.is_empty() {
        problem.push("channel must contain at least one bundle");
    } else if let Err(message) = check_chain(channel) {
        problem.push(message);
    }
    problem.causes.extend(channel.entries.values().filter_map(|entry| check_entry(model, package, entry)));
    check_deprecation(&mut problem, channel.deprecation.as_deref());
    problem.or_none()
}

/// From the one head, `replaces` must reach every entry that nobody skips, without a cycle. The last one may replace
/// what is not in the channel.
fn check_chain(channel: &Channel) -> Result<(), String> {
    let head = channel.head()?;
    let skipped: HashSet<&str> = channel.entries.values().flat_map(|entry| &entry.skips).map(String::as_str).collect();
    let mut chain = vec![head.name.as_str()];
    let mut position: HashMap<&str, usize> = HashMap::from([(head.name.as_str(), 0)]);
    let mut current = Some(head);
    while let Some(entry) = current {
        let next = entry.replaces.as_str();
        if skipped.contains(next) {
            break;
        }
        if let Some(&at) = position.get(next) {
            let cycle: Vec<&str> = chain.iter().skip(at).copied().chain([next]).collect();
            return Err(format!("detected cycle in replaces chain of upgrade graph: {}", cycle.join(" -> ")));
        }
        position.insert(next, chain.len());
        chain.push(next);
        current = channel.entries.get(next);
    }
    let stranded: Vec<&str> = channel
        .entries
        .keys()
        .map(String::as_str)
        .filter(|name| !position.contains_key(name) && !skipped.contains(name))
        .collect();
    if stranded.is_empty() {
        return Ok(());
    }
    Err(format!("channel contains one or more stranded bundles: {}", stranded.join(", ")))
}

fn check_entry(model: &Model, package: &Package, entry: &Entry) -> Option<Problem> {
    let mut problem = Problem::new(format!("invalid bundle {}", quote(&entry.name)));
    if entry.name.is_empty() {
        problem.push("name must be set");
    }
    let bundle = entry.bundle.and_then(|at| model.bundles.get(at));
    let version = version_of(model, entry);
    if let Some(version) = version.filter(|version| !version.release.is_empty()) {
        let expected = format!("{}-v{version}", package.name);
        if entry.name != expected {
            problem.push(format!("name {} does not match normalized name {}", quote(&entry.name), quote(&expected)));
        }
    }
    for (i, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        problem.push(format!("skip[{i}] is empty"));
    }
    if !entry.skip_range.is_empty()
        && let Err(error) = Range::parse(&entry.skip_range)
    {
        problem.push(format!("invalid skipRange {}: {error}", quote(&entry.skip_range)));
    }
    if bundle.is_none() {
        problem.push("must be exactly one property with type \"olm.package\"");
    }
    if bundle.is_none_or(|bundle| bundle.image.is_empty() && !bundle.has_objects) {
        problem.push("bundle image must be set");
    }
    check_deprecation(&mut problem, entry.deprecation.as_deref());
    if version.is_some_and(|version| !version.version.build.is_empty() && !version.release.is_empty()) {
        problem.push("cannot use build metadata in version with a release version");
    }
    problem.or_none()
}
