//! Mutated catalogs get the same verdict from us and from opm: thousands of small changes to a valid catalog, in the
//! fields that rules look at.

use std::process::Command;

use bailiwick_catalog::list;
use bailiwick_catalog::model::validate;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::paths;

/// How many catalogs one run compares; `CATALOG_CASES` changes it. opm needs a tenth of a second for each.
const CASES: usize = 200;

pub fn valid() -> Vec<Value> {
    let bundle = |version: &str| {
        json!({
            "schema": "olm.bundle", "package": "foo", "name": format!("foo.v{version}"),
            "image": format!("quay.io/test/foo:v{version}"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": "foo", "version": version}},
                {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
            ],
            "relatedImages": [{"name": "op", "image": "quay.io/test/op:v1"}],
        })
    };
    vec![
        json!({"schema": "olm.package", "name": "foo", "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": "foo", "name": "a", "entries": [
            {"name": "foo.v1.0.0"},
            {"name": "foo.v1.1.0", "replaces": "foo.v1.0.0", "skips": ["foo.v1.0.5"], "skipRange": "<1.1.0"},
            {"name": "foo.v1.2.0", "replaces": "foo.v1.1.0"},
        ]}),
        json!({"schema": "olm.channel", "package": "foo", "name": "b", "entries": [{"name": "foo.v1.2.0"}]}),
        bundle("1.0.0"),
        bundle("1.1.0"),
        bundle("1.2.0"),
        json!({"schema": "olm.deprecations", "package": "foo", "entries": [
            {"reference": {"schema": "olm.bundle", "name": "foo.v1.0.0"}, "message": "old"},
        ]}),
    ]
}

/// What a text may become.
const TEXTS: [&str; 16] = [
    "",
    "foo",
    "bar",
    "a",
    "b",
    "foo.v1.0.0",
    "foo.v1.1.0",
    "foo.v1.2.0",
    "1.0.0",
    "1.1.0",
    "01.0.0",
    "1.0.0-rc.1",
    ">=1.0.0 <",
    "olm.channel",
    "Foo_Bar",
    "quay.io/x y",
];

/// All places in a document.
fn places(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            out.push(format!("{path}/{key}"));
            places(value, format!("{path}/{key}"), out);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| {
            out.push(format!("{path}/{i}"));
            places(value, format!("{path}/{i}"), out);
        }),
        _ => {}
    }
}

pub fn mutate(documents: &mut Vec<Value>, rng: &mut StdRng) {
    let at = rng.random_range(0..documents.len());
    match rng.random_range(0..10) {
        0 => {
            documents.remove(at);
        }
        1 => {
            let copy = documents[at].clone();
            documents.push(copy);
        }
        _ => {
            let mut found = Vec::new();
            places(&documents[at], String::new(), &mut found);
            if found.is_empty() {
                return;
            }
            let place = found[rng.random_range(0..found.len())].clone();
            let (parent, key) = place.rsplit_once('/').unwrap();
            let choice = rng.random_range(0..8);
            match documents[at].pointer_mut(parent) {
                Some(Value::Object(fields)) if choice == 0 => {
                    fields.remove(key);
                }
                Some(Value::Array(items)) if choice == 0 => {
                    items.remove(key.parse().unwrap());
                }
                Some(Value::Array(items)) if choice == 1 => {
                    let copy = items[key.parse::<usize>().unwrap()].clone();
                    items.push(copy);
                }
                _ => {
                    let slot = documents[at].pointer_mut(&place).unwrap();
                    if slot.is_string() || choice > 5 {
                        *slot = json!(TEXTS[rng.random_range(0..TEXTS.len())]);
                    } else if choice == 2 {
                        *slot = json!(5);
                    }
                }
            }
        }
    }
}

/// Where upstream's order is random, or its words come from its parser.
fn comparable(message: &str) -> String {
    let mut lines: Vec<&str> = message.lines().map(|line| line.trim_start_matches(['│', '├', '└', '─', ' '])).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// How many cases to compare, and where the random numbers begin: `CATALOG_CASES` and `CATALOG_SEED` change them.
pub fn cases(default: usize) -> (usize, StdRng) {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let cases = number("CATALOG_CASES").map_or(default, |it| usize::try_from(it).unwrap());
    (cases, StdRng::seed_from_u64(number("CATALOG_SEED").unwrap_or(7)))
}

#[test]
fn verdicts_on_mutated_catalogs_are_opm_s() {
    let Some(opm) = paths::opm() else { return };
    let (cases, mut rng) = cases(CASES);
    let mut refused = 0;
    for number in 0..cases {
        let mut documents = valid();
        for _ in 0..rng.random_range(1..4) {
            if !documents.is_empty() {
                mutate(&mut documents, &mut rng);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let text: String = documents.iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(dir.path().join("catalog.json"), &text).unwrap();
        let ours = validate(dir.path()).map(|_| ()).map_err(|error| error.to_string());
        let output = Command::new(&opm).args(["validate", "-o", "json"]).arg(dir.path()).output().unwrap();
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let theirs = verdict["error"]["message"].as_str().map(str::to_owned);
        refused += usize::from(theirs.is_some());
        let ours = ours.err();
        assert_eq!(
            ours.as_deref().map(comparable),
            theirs.as_deref().map(comparable),
            "catalog {number}:\n{text}\nours: {ours:?}\nopm: {theirs:?}"
        );
    }
    assert!(refused > cases / 4, "only {refused} of {cases} were refused");
}

/// Lists are made of catalogs that are valid, so most changes here are to the graph.
#[test]
fn lists_of_mutated_catalogs_are_opm_s() {
    let Some(opm) = paths::opm() else { return };
    let (cases, mut rng) = cases(CASES / 4);
    let mut listed = 0;
    for number in 0..cases {
        let mut documents = valid();
        mutate(&mut documents, &mut rng);
        let dir = tempfile::tempdir().unwrap();
        let text: String = documents.iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(dir.path().join("catalog.json"), &text).unwrap();
        let model = validate(dir.path()).map_err(|error| error.to_string());
        for what in ["packages", "channels", "bundles"] {
            let ours = model.clone().and_then(|model| match what {
                "packages" => Ok(list::packages(&model)),
                "channels" => list::channels(&model, None),
                _ => list::bundles(&model, None),
            });
            let output = Command::new(&opm).args(["alpha", "list", what]).arg(dir.path()).output().unwrap();
            let theirs = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.success(), ours.is_ok(), "catalog {number}, {what}:\n{text}\nours: {ours:?}");
            if let Ok(ours) = ours {
                listed += 1;
                assert_eq!(sorted(&ours), sorted(&theirs), "catalog {number}, {what}:\n{text}");
            }
        }
    }
    assert!(listed > cases / 4, "only {listed} lists were made of {cases} catalogs");
}

/// opm's rows come from maps.
fn sorted(table: &str) -> Vec<&str> {
    let mut rows: Vec<&str> = table.lines().map(str::trim_end).collect();
    rows.sort_unstable();
    rows
}
