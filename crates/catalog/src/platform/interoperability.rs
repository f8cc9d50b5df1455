//! Do the operators get along: dependencies, ownership of APIs, stored objects across upgrades, sample resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::crd::{Severity, crd_changes};
use super::document::Operator;
use super::journeys::journeys;
use super::report::{Check, Verdict};
use super::sample::{is_of, samples, try_sample};
use super::subject::{Subject, WithManifests};
use crate::property::{Gvk, Properties};
use crate::resolve::{Snapshot, resolve};

/// More findings of one check than this tell nobody anything.
const MAX_FINDINGS: usize = 50;

pub(super) fn run(subject: &mut Subject) -> Vec<Check> {
    let name = subject.platform.name.clone();
    let snapshot = match Snapshot::of_catalog(&subject.catalog) {
        Ok(snapshot) => Arc::new(snapshot),
        Err(_) => {
            return vec![Check::new(&name, "resolution", Verdict::Skipped("the catalog is not valid".to_owned()))];
        }
    };
    let operators = subject.platform.operators.clone();
    let all: Vec<&Operator> = operators.iter().collect();
    let mut checks = vec![Check::new(&name, "resolution", resolution(subject, &snapshot, &all))];
    let apis = apis(subject, &operators);
    for (i, a) in operators.iter().enumerate() {
        for b in operators.iter().skip(i + 1) {
            let both = format!("{}+{}", a.package, b.package);
            let shared = shared(&apis, &a.package, &b.package);
            if !shared.is_empty() {
                checks.push(Check::new(&both, "resolution", resolution(subject, &snapshot, &[a, b])));
            }
        }
    }
    checks.push(Check::new(&name, "api-ownership", ownership(&apis)));
    for operator in &operators {
        let package = operator.package.as_str();
        match subject.manifests_of(operator) {
            Err(error) => checks.push(Check::new(package, "crd-compatibility", Verdict::Failed(vec![error]))),
            Ok(bundles) => {
                checks.push(Check::new(package, "crd-compatibility", compatibility(subject, operator, &bundles)));
                checks.push(Check::new(package, "samples", tried(&bundles)));
            }
        }
    }
    checks
}

fn resolution(subject: &Subject, snapshot: &Arc<Snapshot>, operators: &[&Operator]) -> Verdict {
    match resolve(&subject.request(snapshot, operators)) {
        Ok(_) => Verdict::Passed,
        Err(refusal) => Verdict::Failed(vec![format!("cannot be installed together\n{refusal}")]),
    }
}

/// What the bundles of an operator provide and require.
#[derive(Default)]
struct Apis {
    provided: BTreeSet<Gvk>,
    required: BTreeSet<Gvk>,
}

fn apis(subject: &Subject, operators: &[Operator]) -> BTreeMap<String, Apis> {
    let mut out = BTreeMap::new();
    for operator in operators {
        let mut apis = Apis::default();
        for bundle in subject.bundles(operator).unwrap_or_default() {
            let properties = Properties::parse(&bundle.properties).unwrap_or_default();
            apis.provided.extend(properties.gvks);
            apis.required.extend(properties.gvks_required);
        }
        out.insert(operator.package.clone(), apis);
    }
    out
}

/// The APIs that one of two provides and the other one provides or requires.
fn shared(apis: &BTreeMap<String, Apis>, a: &str, b: &str) -> BTreeSet<Gvk> {
    let (Some(a), Some(b)) = (apis.get(a), apis.get(b)) else { return BTreeSet::new() };
    let touches = |x: &Apis, y: &Apis| -> BTreeSet<Gvk> {
        x.provided.iter().filter(|gvk| y.provided.contains(gvk) || y.required.contains(gvk)).cloned().collect()
    };
    touches(a, b).union(&touches(b, a)).cloned().collect()
}

/// Two operators may not define the same kind, in whatever version.
fn ownership(apis: &BTreeMap<String, Apis>) -> Verdict {
    let mut owners: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (package, apis) in apis {
        for gvk in &apis.provided {
            owners.entry((&gvk.group, &gvk.kind)).or_default().insert(package);
        }
    }
    let conflicts = owners.into_iter().filter(|(_, packages)| packages.len() > 1).map(|((group, kind), packages)| {
        let packages: Vec<&str> = packages.into_iter().collect();
        format!("{kind} of {group} is provided by {}", packages.join(" and "))
    });
    Verdict::of(conflicts.collect())
}

fn definitions(objects: &[Value]) -> BTreeMap<&str, &Value> {
    let crds = objects.iter().filter(|it| it.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition"));
    crds.filter_map(|crd| Some((crd.pointer("/metadata/name")?.as_str()?, crd))).collect()
}

/// Along every upgrade: what was stored stays valid.
fn compatibility(subject: &Subject, operator: &Operator, bundles: &[WithManifests]) -> Verdict {
    let hops = match journeys(subject) {
        Ok(journeys) => {
            journeys.into_iter().find(|it| it.package == operator.package).map(|it| it.hops).unwrap_or_default()
        }
        Err(error) => return Verdict::Failed(vec![error]),
    };
    let manifests = |name: &str| bundles.iter().find(|(bundle, _)| bundle.name == name).map(|(_, objects)| objects);
    let (mut breaks, mut loses) = (BTreeSet::new(), BTreeSet::new());
    for hop in hops {
        let (Some(old), Some(new)) = (manifests(&hop.from), manifests(&hop.to)) else { continue };
        let (old_crds, new_crds) = (definitions(old), definitions(new));
        for (name, before) in &old_crds {
            let Some(after) = new_crds.get(name) else {
                loses.insert(format!("{} no longer defines {name}, which {} does", hop.to, hop.from));
                continue;
            };
            for change in crd_changes(before, after) {
                let text = format!("{} -> {}: {name} {} {}", hop.from, hop.to, change.place, change.text);
                match change.severity {
                    Severity::Breaks => breaks.insert(text),
                    Severity::Loses => loses.insert(text),
                };
            }
            for sample in samples(old).unwrap_or_default().iter().filter(|it| is_of(before, it)) {
                if try_sample(before, sample).errors.is_empty() {
                    let errors = try_sample(after, sample).errors;
                    breaks.extend(errors.into_iter().map(|error| {
                        format!("{} -> {}: an object that was valid is refused: {error}", hop.from, hop.to)
                    }));
                }
            }
        }
    }
    Verdict::of_both(limited(breaks), limited(loses))
}

/// Samples are accepted by the definitions of their own bundle.
fn tried(bundles: &[WithManifests]) -> Verdict {
    let (mut errors, mut warnings) = (BTreeSet::new(), BTreeSet::new());
    let mut count = 0;
    for (bundle, objects) in bundles {
        let samples = match samples(objects) {
            Ok(samples) => samples,
            Err(error) => {
                errors.insert(format!("{}: {error}", bundle.name));
                continue;
            }
        };
        let crds = definitions(objects);
        for sample in &samples {
            let kind = sample.get("kind").and_then(Value::as_str).unwrap_or("an object without a kind");
            let place = format!("{}: sample {kind}", bundle.name);
            let Some(crd) = crds.values().find(|crd| is_of(crd, sample)) else {
                warnings.insert(format!("{place}: the bundle does not define its kind"));
                continue;
            };
            count += 1;
            let outcome = try_sample(crd, sample);
            errors.extend(outcome.errors.iter().map(|error| format!("{place}: {error}")));
            warnings.extend(outcome.dropped.iter().map(|field| format!("{place}: unknown field {field} is dropped")));
        }
    }
    if count == 0 && errors.is_empty() {
        return Verdict::Skipped("no bundle has samples (the annotation alm-examples)".to_owned());
    }
    Verdict::of_both(limited(errors), limited(warnings))
}

fn limited(findings: BTreeSet<String>) -> Vec<String> {
    let more = findings.len().saturating_sub(MAX_FINDINGS);
    let mut out: Vec<String> = findings.into_iter().take(MAX_FINDINGS).collect();
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    out
}
