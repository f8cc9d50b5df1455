//! Mutated catalogs get the same verdict and the same lists from us and from opm, in the same words.

use std::process::Command;

use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Output, write_catalog};
use bailiwick_catalog::graph::{GraphOptions, SkippedEdges, mermaid};
use bailiwick_catalog::list;
use bailiwick_catalog::model::validate;
use bailiwick_catalog::render::{Allowed, NoImages, Renderer};
use rand::Rng as _;
use serde_json::Value;

use crate::batch::{self, CRASHED, Verdict, ask, refusal, unordered};
use crate::{mutation, paths};

/// opm needs a tenth of a second for each.
const CASES: u64 = 150;

#[test]
fn verdicts_on_mutated_catalogs_are_opm_s() {
    let Some(opm) = paths::opm() else { return };
    batch::run("validate", CASES, |rng| {
        let documents = mutation::mutated_catalog(rng);
        let dir = tempfile::tempdir().unwrap();
        let text = mutation::write(&documents, dir.path(), rng);
        let ours = validate(dir.path()).err().map(|error| error.to_string());
        let command = || {
            let mut command = Command::new(&opm);
            command.args(["validate", "-o", "json"]).arg(dir.path());
            command
        };
        let comparable = ours.as_deref().map(unordered);
        let theirs = ask(command, &comparable, |output| {
            let verdict: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let message = verdict["error"]["message"].as_str().map(unordered);
            assert_eq!(output.status.success(), message.is_none(), "{}", refusal(&output.stderr));
            message
        });
        match comparable {
            ours if ours != theirs => {
                Verdict::Different(format!("ours: {}\nopm:  {}\n{text}", shown(&ours), shown(&theirs)))
            }
            None => Verdict::Accepted,
            Some(_) => Verdict::Refused,
        }
    });
}

fn shown(message: &Option<String>) -> &str {
    message.as_deref().unwrap_or("valid")
}

#[test]
fn lists_of_mutated_catalogs_are_opm_s() {
    let Some(opm) = paths::opm() else { return };
    batch::run("list", CASES / 2, |rng| {
        let documents = mutation::mutated_catalog(rng);
        let dir = tempfile::tempdir().unwrap();
        let text = mutation::write(&documents, dir.path(), rng);
        let what = ["packages", "channels", "bundles"][rng.random_range(0..3)];
        let package = [None, Some("foo"), Some("nobody")][rng.random_range(0..3)].filter(|_| what != "packages");
        let ours = list::load(dir.path()).map_err(|error| error.to_string()).and_then(|model| match what {
            "packages" => Ok(list::packages(&model)),
            "channels" => list::channels(&model, package),
            _ => list::bundles(&model, package),
        });
        let command = || {
            let mut command = Command::new(&opm);
            command.args(["alpha", "list", what]).arg(dir.path()).args(package);
            command
        };
        let comparable = ours.map(|table| sorted(&table)).map_err(|message| unordered(&message));
        let theirs = ask(command, &comparable, |output| {
            let table = String::from_utf8(output.stdout).unwrap();
            if output.status.success() { Ok(sorted(&table)) } else { Err(unordered(&refusal(&output.stderr))) }
        });
        match &comparable {
            ours if ours != &theirs => {
                Verdict::Different(format!("list {what} {package:?}\nours: {ours:?}\nopm:  {theirs:?}\n{text}"))
            }
            Ok(_) => Verdict::Accepted,
            Err(_) => Verdict::Refused,
        }
    });
}

/// What `render` prints and `render-graph` draws.
#[test]
fn mutated_catalogs_are_rendered_and_drawn_as_opm_does() {
    let Some(opm) = paths::opm() else { return };
    batch::run("render", CASES / 2, |rng| {
        let documents = mutation::mutated_catalog(rng);
        let dir = tempfile::tempdir().unwrap();
        let text = mutation::write(&documents, dir.path(), rng);
        let reference = dir.path().to_str().unwrap().to_owned();
        let (arguments, how): (&[&str], _) = match rng.random_range(0..7) {
            0 | 1 => (&["render"], How::Render(Output::Json, Migration::None)),
            2 => (&["render", "-o", "yaml"], How::Render(Output::Yaml, Migration::None)),
            3 => (&["render", "--migrate"], How::Render(Output::Json, Migration::BundleObjectToCsvMetadata)),
            4 => (&["alpha", "render-graph"], How::Draw(GraphOptions::default())),
            5 => (
                &["alpha", "render-graph", "--draw-v0-semantics", "-p", "foo"],
                How::Draw(GraphOptions {
                    package: Some("foo".to_owned()),
                    skipped: SkippedEdges::Marked,
                    ..GraphOptions::default()
                }),
            ),
            _ => (
                &["alpha", "render-graph", "--minimum-edge", "foo.v1.1.0"],
                How::Draw(GraphOptions { minimum_edge: Some("foo.v1.1.0".to_owned()), ..GraphOptions::default() }),
            ),
        };
        let migration = if let How::Render(_, migration) = &how { *migration } else { Migration::None };
        let mut renderer = Renderer {
            images: &mut NoImages,
            allowed: Allowed::Everything,
            migration,
            image_template: None,
            warnings: Vec::new(),
        };
        let ours = renderer.render(&[reference]).and_then(|catalog| match &how {
            How::Render(output, _) => Ok(write_catalog(&catalog, *output)),
            How::Draw(options) => mermaid(&catalog, options),
        });
        let ours = ours.map_err(|message| unordered(message.split("\n  in /").next().unwrap_or_default()));
        let command = || {
            let mut command = Command::new(&opm);
            command.args(arguments).arg(dir.path());
            command
        };
        let theirs = ask(command, &ours, |output| {
            let printed = String::from_utf8(output.stdout).unwrap();
            // A list that a channel does not have is no list for opm, and an empty one for us.
            let printed = printed.replace("\nentries: null\n", "\nentries: []\n");
            let printed = printed.replace("\n    \"entries\": null", "\n    \"entries\": []");
            if output.status.success() { Ok(printed) } else { Err(unordered(&refusal(&output.stderr))) }
        });
        match &ours {
            Err(_) if theirs.as_ref().is_err_and(|it| it.trim_end() == CRASHED) => Verdict::Refused,
            ours if ours != &theirs => {
                let show = |it: &Result<String, String>| it.clone().unwrap_or_else(|error| error);
                Verdict::Different(format!("{arguments:?}\nours: {}\nopm:  {}\n{text}", show(ours), show(&theirs)))
            }
            Ok(_) => Verdict::Accepted,
            Err(_) => Verdict::Refused,
        }
    });
}

enum How {
    Render(Output, Migration),
    Draw(GraphOptions),
}

/// opm's rows come from maps.
fn sorted(table: &str) -> Vec<String> {
    let mut rows: Vec<String> = table.lines().map(|row| row.trim_end().to_owned()).collect();
    rows.sort_unstable();
    rows
}
