//! Does the catalog still serve those who installed from the one before: upgrade paths, defaults, nothing taken away.

use super::document::is_candidate;
use super::journeys::succeeds;
use super::report::{Check, Verdict};
use super::subject::Subject;
use crate::diff::{Change, Kind, diff};
use crate::model::{Channel, Entry, Model, Package};
use crate::version::Version;

const WITHOUT: &str = "there is no previous catalog to compare with (--previous)";

pub(super) fn run(subject: &mut Subject) -> Vec<Check> {
    let Some((previous, old)) = &subject.previous else { return skipped(subject, WITHOUT) };
    let Ok(new) = &subject.model else { return skipped(subject, "the catalog is not valid") };
    let changes = diff(previous, &subject.catalog);
    let mut checks = Vec::new();
    for operator in &subject.platform.operators {
        checks.extend(of_package(&operator.package, old, new, &changes));
    }
    // The catalog goes out as a whole: others use the rest of it. What is well there needs no line of its own.
    let is_of_platform = |name: &str| subject.platform.operators.iter().any(|it| it.package == name);
    let (mut looked_at, mut at_fault) = (0, 0);
    for package in old.packages.values().filter(|it| !is_of_platform(&it.name)) {
        looked_at += 1;
        let mut faults = of_package(&package.name, old, new, &changes);
        faults.retain(|check| matches!(check.verdict, Verdict::Failed(_)));
        at_fault += usize::from(!faults.is_empty());
        if package.default_channel.as_deref().is_some_and(is_candidate) {
            faults
                .iter_mut()
                .for_each(|check| check.verdict = warned(std::mem::replace(&mut check.verdict, Verdict::Passed)));
        }
        checks.extend(faults);
    }
    let name = subject.platform.name.as_str();
    checks.push(match (looked_at, at_fault) {
        (0, _) => Check::new(name, "rest-of-catalog", Verdict::Skipped("there are no other packages".to_owned())),
        (_, 0) => Check::new(name, "rest-of-catalog", Verdict::Passed),
        (all, some) => {
            let told = format!("{some} of {all} packages that are not of the platform, told above");
            Check::new(name, "rest-of-catalog", Verdict::Warned(vec![told]))
        }
    });
    checks
}

fn skipped(subject: &Subject, reason: &str) -> Vec<Check> {
    let operators = subject.platform.operators.iter();
    operators.map(|it| Check::new(&it.package, "upgrade-paths", Verdict::Skipped(reason.to_owned()))).collect()
}

fn warned(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Failed(mut details) => {
            details.insert(0, "(a candidate channel)".to_owned());
            Verdict::Warned(details)
        }
        other => other,
    }
}

/// What became of one package.
fn of_package(package: &str, old: &Model, new: &Model, changes: &[Change]) -> Vec<Check> {
    let Some(before) = old.packages.get(package) else {
        return vec![Check::new(package, "upgrade-paths", Verdict::Skipped("the operator is new".to_owned()))];
    };
    let mut checks = Vec::new();
    let mut add = |name, verdict| checks.push(Check::new(package, name, verdict));
    match new.packages.get(package) {
        None => add("upgrade-paths", Verdict::Failed(vec![format!("package {package} is gone")])),
        Some(after) => {
            add("upgrade-paths", Verdict::of(paths(old, new, before, after)));
            add("default-channel", default_channel(before, after));
        }
    }
    let gone = changes
        .iter()
        .filter(|change| change.package == package)
        .filter(|change| {
            change.kind == Kind::Removed || change.text.starts_with("bundle ") && change.text.contains(": image ")
        })
        .map(|change| {
            let verb = if change.kind == Kind::Removed { "is gone" } else { "was published again" };
            format!("{} {verb}", change.text)
        });
    add("graph", Verdict::of(gone.collect()));
    checks
}

fn default_channel(before: &Package, after: &Package) -> Verdict {
    if before.default_channel == after.default_channel {
        return Verdict::Passed;
    }
    let name = |package: &Package| package.default_channel.clone().unwrap_or_default();
    Verdict::Failed(vec![format!(
        "the default channel changes from {} to {}: who subscribes without a channel gets another one (accept it with \
         \"{}/default-channel\" in spec.accepted)",
        name(before),
        name(after),
        before.name
    )])
}

/// What was installed from a channel of the old catalog and is stuck in the new one.
fn paths(old: &Model, new: &Model, before: &Package, after: &Package) -> Vec<String> {
    let mut findings = Vec::new();
    for channel in before.channels.values() {
        let Some(now) = after.channels.get(&channel.name) else {
            findings.push(format!("channel {} is gone: its subscribers get no upgrades", channel.name));
            continue;
        };
        let Ok(head) = now.head() else { continue };
        for entry in channel.entries.values() {
            let version_in = |model: &Model, entry: &Entry| {
                let facts = model.bundles.get(entry.bundle?)?;
                facts.version.as_ref().ok().map(|it| it.version.clone())
            };
            let mut name = entry.name.clone();
            let mut version = version_in(old, entry);
            // Every hop leads to another entry, and there are only so many.
            for _ in 0..=now.entries.len() {
                if name == head.name {
                    break;
                }
                let Some(next) = next_hop(now, &name, version.as_ref()) else { break };
                name = next.name.clone();
                version = version_in(new, next);
            }
            if name != head.name {
                let stuck = if name == entry.name { String::new() } else { format!(" beyond {name}") };
                findings.push(format!(
                    "{} of channel {} has no upgrade path{stuck} to {}: let a bundle replace or skip it",
                    entry.name, channel.name, head.name
                ));
            }
        }
    }
    findings
}

/// The upgrade that OLM would choose: the nearest to the head.
fn next_hop<'c>(channel: &'c Channel, name: &str, version: Option<&Version>) -> Option<&'c Entry> {
    let mut at = channel.head().ok();
    let skipped = |name: &str| channel.entries.values().any(|entry| entry.skips.iter().any(|skip| skip == name));
    for _ in 0..channel.entries.len() {
        let entry = at?;
        if !skipped(&entry.name) && entry.name != name && succeeds(entry, name, version) {
            return Some(entry);
        }
        at = channel.entries.get(&entry.replaces);
    }
    None
}
