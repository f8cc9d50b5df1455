//! The program beside opm on mutated catalogs: the same exit codes, the same output, and the same refusal on standard
//! error, to which ours adds the place.

use std::process::Command;

use bailiwick_testkit::tools;
use rand::Rng as _;

use crate::batch::{self, CRASHED, Verdict, ask, refusal, unordered};
use crate::mutation;
use crate::program::catalog;

/// Two programs are started for each.
const CASES: u64 = 40;

/// The commands that both have, without their last argument, the directory.
const COMMANDS: [&[&str]; 7] = [
    &["validate"],
    &["render"],
    &["render", "-o", "yaml"],
    &["alpha", "list", "channels"],
    &["alpha", "list", "bundles"],
    &["alpha", "render-graph"],
    &["alpha", "render-template", "basic"],
];

#[test]
fn commands_end_and_say_as_those_of_opm() {
    let Ok(opm) = tools::find("opm") else {
        bailiwick_testkit::skip("opm is not installed (cargo xtask setup)");
        return;
    };
    batch::run("program", CASES, |rng| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let documents = mutation::mutated_catalog(rng);
        let command = COMMANDS[rng.random_range(0..COMMANDS.len())];
        let mut text = String::new();
        let place = match command.last() {
            Some(&"basic") => {
                // Without bundles: images would be looked for.
                let entries: Vec<_> = documents.into_iter().filter(|it| !it.to_string().contains("image")).collect();
                let mut template = serde_json::json!({"schema": "olm.template.basic", "entries": entries});
                if rng.random_bool(0.3) {
                    mutation::change(&mut template, rng);
                }
                text = mutation::written(&template, rng);
                std::fs::write(dir.path().join("in/template.yaml"), &text).unwrap();
                "in/template.yaml"
            }
            _ => {
                text.push_str(&mutation::write(&documents, &dir.path().join("in"), rng));
                "in"
            }
        };
        let arguments = [command, &[place]].concat();
        let run = catalog(dir.path(), &arguments);
        let said = run.stderr.strip_prefix("error: ").unwrap_or(&run.stderr);
        // Where it is opm does not say.
        let said = said.split("\n  in in").next().unwrap_or_default();
        let is_table = command.contains(&"list");
        let ours = (run.code, output(&run.stdout, is_table), unordered(said.trim_end()));
        let asked = || {
            let mut asked = Command::new(&opm);
            asked.args(&arguments).current_dir(dir.path());
            asked
        };
        let theirs = ask(asked, &ours, |theirs| {
            let code = theirs.status.code().unwrap_or(-1);
            let said = if code == 0 { String::new() } else { unordered(refusal(&theirs.stderr).trim_end()) };
            let printed = String::from_utf8(theirs.stdout).unwrap();
            let printed = printed.replace("\nentries: null\n", "\nentries: []\n");
            let printed = printed.replace("\n    \"entries\": null", "\n    \"entries\": []");
            (code, output(&printed, is_table), said)
        });
        match (&ours, &theirs) {
            ((1, ..), (_, _, crash)) if crash.trim_end() == CRASHED => Verdict::Refused,
            _ if ours != theirs => {
                Verdict::Different(format!("{arguments:?}\nours: {ours:#?}\nopm:  {theirs:#?}\n{text}"))
            }
            ((0, ..), _) => Verdict::Accepted,
            _ => Verdict::Refused,
        }
    });
}

/// The rows of opm's tables come from maps.
fn output(printed: &str, is_table: bool) -> Vec<String> {
    let mut rows: Vec<String> = printed.lines().map(|row| row.trim_end().to_owned()).collect();
    if is_table {
        rows.sort_unstable();
    }
    rows
}
