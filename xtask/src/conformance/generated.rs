//! Random scripts of applies, updates and patches by several managers, sent to kube-apiserver and to us side by side: objects,
//! their managedFields and the errors must be equal after every request. The same seed makes the same scripts.

mod content;
pub(crate) mod random;
mod sample;

pub use sample::{record, replay};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::case::{Case, Controllers, ManagedFields, Suite};
use super::exchange::{Answer, Server};
use super::{Args, answers, diff, servers};
use content::Content;
use random::Random;

/// Requests in one script: enough for managers to meet several times.
const REQUESTS_PER_SCRIPT: usize = 14;
/// Who applies and who updates. Fewer managers meet more often.
const APPLIERS: [&str; 3] = ["one", "two", "three"];
const UPDATERS: [&str; 2] = ["one", "editor"];
/// Scripts that differ are printed whole; more of them say no more.
const MAX_REPORTED: usize = 20;

/// Starts both servers, runs the scripts and reports every one whose answers differ, up to the first difference.
pub fn run(count: usize, args: &Args) -> Result<()> {
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let suite = suite(args.seed, count);
    println!("{count} scripts of seed {}", args.seed);
    let (ours, theirs) = (servers::start_bailiwick(&binary)?, servers::start_kube_apiserver()?);
    let cases: Vec<(&Suite, &Case)> =
        suite.cases.iter().filter(|case| case.name.contains(&args.filter)).map(|case| (&suite, case)).collect();
    prepare(&ours.server)?;
    prepare(&theirs.server)?;
    let judged = answers(&ours.server, &cases).into_iter().zip(answers(&theirs.server, &cases));
    let mut different = 0;
    for ((_, case), (got, expected)) in cases.iter().zip(judged) {
        let lines = first_difference(case, &expected?, &got?);
        if !lines.is_empty() {
            different += 1;
            if different <= MAX_REPORTED {
                println!("--- {}", case.name);
                lines.iter().for_each(|line| println!("    {line}"));
            }
        }
    }
    println!("compared: {} equal, {different} different", cases.len() - different);
    if different > 0 {
        bail!("{different} of {} scripts differ; the seed was {}", cases.len(), args.seed);
    }
    Ok(())
}

fn suite(seed: u64, count: usize) -> Suite {
    Suite {
        subject: "generated".to_owned(),
        controllers: Controllers::Off,
        about: "scripts made by chance".to_owned(),
        cases: scripts(seed, count),
    }
}

/// Makes the definition that scripts on custom resources share.
fn prepare(server: &Server) -> Result<()> {
    let setup = vec![
        json!({"request": "POST {{crds}}", "json": content::definition()}),
        json!({"request": format!("GET /apis/{}/v2/things", content::GROUP), "until": {"@status": 200}}),
    ];
    let case = Case {
        name: "definition".to_owned(),
        differs: None,
        setup,
        steps: vec![],
        managed_fields: ManagedFields::Compare,
    };
    server.run("generated", &case)?;
    Ok(())
}

fn scripts(seed: u64, count: usize) -> Vec<Case> {
    (0..count)
        .map(|number| {
            // Each script has a random source of its own, so that one can be run alone.
            let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
            let content = random.pick(&Content::ALL);
            let steps = (0..REQUESTS_PER_SCRIPT).map(|_| step(content, &mut random)).collect();
            Case {
                name: format!("script {seed}/{number} on {}", content.resource().kind),
                differs: None,
                setup: vec![],
                steps,
                managed_fields: ManagedFields::Compare,
            }
        })
        .collect()
}

/// One request: mostly an apply, sometimes another kind of write.
fn step(content: Content, random: &mut Random) -> Value {
    let resource = content.resource();
    let path = random.pick(&resource.paths);
    let name = resource.name;
    let updater = random.pick(&UPDATERS);
    match random.below(20) {
        0..=10 => {
            let force = if random.chance(3) { "&force=true" } else { "" };
            let request = format!("APPLY {}/{name}?fieldManager={}{force}", path.collection, random.pick(&APPLIERS));
            json!({"request": request, "json": object(path.api_version, resource.kind, name, content, random)})
        }
        11..=12 => json!({
            "request": format!("POST {}?fieldManager={updater}", path.collection),
            "json": object(path.api_version, resource.kind, name, content, random),
        }),
        // Custom resources refuse strategic merge patches, once in a while.
        13..=15 if content.is_native() && !random.chance(3) || random.chance(20) => json!({
            "request": format!("PATCH {}/{name}?fieldManager={updater}", path.collection),
            "type": "application/strategic-merge-patch+json",
            "json": content.strategic_patch(random),
        }),
        13..=15 => json!({
            "request": format!("PATCH {}/{name}?fieldManager={updater}", path.collection),
            "type": "application/merge-patch+json",
            "json": content.members(random),
        }),
        16..=17 => {
            let members = content.members(random);
            let operations: Vec<Value> = members
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, _)| *key != "metadata")
                .map(|(key, value)| json!({"op": "add", "path": format!("/{key}"), "value": value}))
                .collect();
            json!({
                "request": format!("PATCH {}/{name}?fieldManager={updater}", path.collection),
                "type": "application/json-patch+json",
                "json": operations,
            })
        }
        18 if random.chance(3) => json!({
            "request": format!("PATCH {}/{name}?fieldManager={updater}", path.collection),
            "type": "application/merge-patch+json",
            "json": {"metadata": {"managedFields": [{}]}},
        }),
        _ => json!({"request": format!("GET {}/{name}", path.collection)}),
    }
}

fn object(api_version: &str, kind: &str, name: &str, content: Content, random: &mut Random) -> Value {
    let mut object = content.members(random);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    object
}

/// The script up to the first answer that differs, and how it differs; nothing when all are equal.
fn first_difference(case: &Case, expected: &[Answer], got: &[Answer]) -> Vec<String> {
    for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
        let lines = diff::differences(&without_chance(expected), &without_chance(got));
        if !lines.is_empty() {
            let script = case.steps.iter().take(index + 1).map(Value::to_string);
            return script.chain(lines).collect();
        }
    }
    vec![]
}

/// Upstream tells errors of custom resources in the order of a Go map.
fn without_chance(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if answer.status == Some(422)
        && let Some(body) = answer.body.as_object_mut()
    {
        body.remove("message");
        if let Some(Value::Array(causes)) = body.get_mut("details").and_then(|details| details.get_mut("causes")) {
            causes.sort_by_key(Value::to_string);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_scripts_and_another_makes_others() {
        let steps = |seed| scripts(seed, 5).into_iter().map(|case| case.steps).collect::<Vec<_>>();
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }

    #[test]
    fn every_step_can_be_sent() {
        for case in scripts(3, 50) {
            for step in case.steps {
                let parsed = serde_json::from_value::<super::super::case::Step>(step.clone());
                assert!(parsed.is_ok(), "{step}");
            }
        }
    }
}
