//! On random catalogs the answer is the one that trying every set of bundles in OLM's order of preference gives.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::version::Range;

/// A bundle of package `p<package>` in version `<version>.0.0`, with what it provides and requires.
#[derive(Clone, Debug)]
struct Drawn {
    provides: Vec<u8>,
    needs_api: Vec<u8>,
    needs: Vec<(u8, u8)>,
}

const PACKAGES: u8 = 4;
const VERSIONS: u8 = 3;
const APIS: u8 = 3;

/// Bundles by package and version.
fn drawn() -> impl Strategy<Value = Vec<Vec<Drawn>>> {
    let bundle = (
        proptest::collection::vec(0..APIS, 0..2),
        proptest::collection::vec(0..APIS, 0..2),
        proptest::collection::vec((0..PACKAGES, 1..=VERSIONS), 0..2),
    );
    let bundle = bundle.prop_map(|(provides, needs_api, needs)| Drawn { provides, needs_api, needs });
    let package = proptest::collection::vec(bundle, 1..=usize::from(VERSIONS));
    proptest::collection::vec(package, usize::from(PACKAGES))
}

fn made(packages: &[Vec<Drawn>]) -> Vec<Made> {
    let mut all = Vec::new();
    for (package, versions) in packages.iter().enumerate() {
        let name = format!("p{package}");
        for (at, drawn) in versions.iter().enumerate() {
            let replaces = if at == 0 { String::new() } else { format!("{name}.v{at}.0.0") };
            let mut made = bundle(&name, &format!("{}.0.0", at + 1)).channel("stable", &replaces);
            made = drawn.provides.iter().fold(made, |it, api| it.provides(&format!("K{api}")));
            made = drawn.needs_api.iter().fold(made, |it, api| it.needs_api(&format!("K{api}")));
            made = drawn
                .needs
                .iter()
                .fold(made, |it, (package, version)| it.needs(&format!("p{package}"), &format!(">={version}.0.0")));
            all.push(made);
        }
    }
    all
}

type Id = (usize, usize);

/// Whether a set of bundles holds together: one of each package, one provider of each API, everything required there.
fn holds(packages: &[Vec<Drawn>], set: &BTreeSet<Id>) -> bool {
    let of = |id: &Id| &packages[id.0][id.1];
    let provided = |api: u8| set.iter().filter(|id| of(id).provides.contains(&api)).count();
    let packages_once = set.iter().map(|id| id.0).collect::<BTreeSet<_>>().len() == set.len();
    packages_once
        && (0..APIS).all(|api| provided(api) <= 1)
        && set.iter().all(|id| {
            of(id).needs_api.iter().all(|api| provided(*api) > 0)
                && of(id).needs.iter().all(|(package, version)| {
                    set.iter().any(|it| it.0 == usize::from(*package) && it.1 + 1 >= usize::from(*version))
                })
        })
}

/// All sets that meet the wants.
fn answers(packages: &[Vec<Drawn>], wants: &[usize]) -> Vec<BTreeSet<Id>> {
    let mut sets = vec![BTreeSet::new()];
    for (package, versions) in packages.iter().enumerate() {
        let mut next = Vec::new();
        for set in &sets {
            if !wants.contains(&package) {
                next.push(set.clone());
            }
            next.extend((0..versions.len()).map(|version| set.iter().copied().chain([(package, version)]).collect()));
        }
        sets = next;
    }
    sets.retain(|set| holds(packages, set));
    sets
}

/// The answer by OLM's procedure, with the list of all answers as the oracle of what is possible.
fn preferred(packages: &[Vec<Drawn>], wants: &[usize]) -> Option<BTreeSet<Id>> {
    let answers = answers(packages, wants);
    let possible = |chosen: &BTreeSet<Id>| answers.iter().any(|answer| chosen.is_subset(answer));
    let mut chosen = BTreeSet::new();
    possible(&chosen).then_some(())?;
    let newest_first = |package: usize, from: usize| (from..packages[package].len()).rev().map(move |it| (package, it));
    let mut queue: std::collections::VecDeque<Vec<Id>> =
        wants.iter().map(|it| newest_first(*it, 0).collect()).collect();
    while let Some(candidates) = queue.pop_front() {
        if candidates.iter().any(|id| chosen.contains(id)) {
            continue;
        }
        let with = |id: &Id| chosen.iter().copied().chain([*id]).collect::<BTreeSet<Id>>();
        let id = *candidates.iter().find(|id| possible(&with(id)))?;
        chosen.insert(id);
        let drawn = &packages[id.0][id.1];
        // Properties are in the order of `made`: APIs first.
        for api in &drawn.needs_api {
            let all = (0..packages.len()).flat_map(|package| newest_first(package, 0));
            queue.push_back(all.filter(|it| packages[it.0][it.1].provides.contains(api)).collect());
        }
        for (package, version) in &drawn.needs {
            queue.push_back(newest_first(usize::from(*package), usize::from(*version) - 1).collect());
        }
    }
    Some(chosen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_answer_is_the_preferred_one(packages in drawn(), first in 0..4usize, second in 0..4usize) {
        let mut wants = vec![first, second];
        wants.dedup();
        let subscriptions = wants.iter().map(|it| subscription(&format!("p{it}"))).collect();
        let request = request(&made(&packages), subscriptions);
        match (resolve(&request), preferred(&packages, &wants)) {
            (Ok(resolution), Some(expected)) => {
                let expected: BTreeSet<String> = expected.iter().map(|(p, v)| format!("p{p}.v{}.0.0", v + 1)).collect();
                let ours: BTreeSet<String> = resolution.steps.iter().map(|step| step.bundle.clone()).collect();
                prop_assert_eq!(ours, expected);
            }
            (Err(refusal), None) => {
                prop_assert!(!refusal.wants.is_empty());
                // Without one of the wants it names, this contradiction is gone.
                let again = resolve(&request.without(&refusal.wants));
                prop_assert!(again.as_ref().err() != Some(&refusal));
            }
            (ours, expected) => prop_assert!(false, "{ours:?} but {expected:?}"),
        }
    }

    #[test]
    fn ranges_and_constraints_never_panic(text in "[0-9xX*.<>=!~^, |v-]{0,24}") {
        let _ = Range::parse(&text);
        let _ = crate::version::Constraint::parse(&text);
    }
}
