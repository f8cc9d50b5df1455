//! A sample of the generated scripts with kube-apiserver's answers recorded, so that every run of the suite compares some.
//! Of each answer only the status and the beginning of a digest are kept.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::super::case::{Case, Suite};
use super::super::exchange::Answer;
use super::super::{Outcome, answers, golden_dir, servers};
use super::{prepare, suite, without_chance};
use crate::real_crds::digest::digest;

/// What the sample is made from.
const SEED: u64 = 7;
/// Characters of a digest that are kept: two different answers that agree in them are as likely as none.
const DIGEST_LEN: usize = 12;

/// The answers to one script.
#[derive(Serialize, Deserialize)]
struct Line {
    script: String,
    /// Empty for a script that kube-apiserver does not answer.
    answers: Vec<String>,
}

fn golden() -> PathBuf {
    golden_dir().join("generated.jsonl")
}

fn summary(answer: &Answer) -> String {
    let digest = digest(&(String::new(), without_chance(answer)));
    format!("{} {}", digest.status, &digest.sha256[..DIGEST_LEN])
}

/// Records kube-apiserver's answers to `count` scripts.
pub fn record(count: usize) -> Result<()> {
    let suite = suite(SEED, count);
    let theirs = servers::start_kube_apiserver()?;
    prepare(&theirs.server)?;
    let cases: Vec<(&Suite, &Case)> = suite.cases.iter().map(|case| (&suite, case)).collect();
    let mut text = String::new();
    for ((_, case), answers) in cases.iter().zip(answers(&theirs.server, &cases)) {
        // Some patches make kube-apiserver itself panic, which ends the connection: such scripts are left out.
        let answers = match answers {
            Ok(answers) => answers.iter().map(summary).collect(),
            Err(error) => {
                println!("{} is left out: {error:#}", case.name);
                Vec::new()
            }
        };
        text.push_str(&serde_json::to_string(&Line { script: case.name.clone(), answers })?);
        text.push('\n');
    }
    std::fs::write(golden(), text)?;
    println!("recorded {count} scripts of seed {SEED}");
    Ok(())
}

/// Sends the recorded scripts whose name contains `filter` to our server and compares.
pub fn replay(binary: &Path, filter: &str) -> Result<Vec<Outcome>> {
    let text = std::fs::read_to_string(golden())?;
    let recorded: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let suite = suite(SEED, recorded.len());
    let title = |case: &Case| format!("{}: {}", suite.subject, case.name);
    let (lines, cases): (Vec<&Line>, Vec<(&Suite, &Case)>) = recorded
        .iter()
        .zip(&suite.cases)
        .filter(|(line, case)| !line.answers.is_empty() && title(case).contains(filter))
        .map(|(line, case)| (line, (&suite, case)))
        .unzip();
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let ours = servers::start_bailiwick(binary)?;
    prepare(&ours.server)?;
    let mut outcomes = Vec::new();
    for ((line, (_, case)), got) in lines.into_iter().zip(&cases).zip(answers(&ours.server, &cases)) {
        outcomes.push(Outcome { name: title(case), problems: judge(line, case, got) });
    }
    Ok(outcomes)
}

fn judge(line: &Line, case: &Case, got: Result<Vec<Answer>>) -> Vec<String> {
    if line.script != case.name {
        return vec![format!("the recording is of {}: the generator has changed, record again", line.script)];
    }
    let got: Vec<String> = match got {
        Ok(got) => got.iter().map(summary).collect(),
        Err(error) => return vec![format!("{error:#}")],
    };
    let Some(at) = (0..line.answers.len().max(got.len())).find(|at| line.answers.get(*at) != got.get(*at)) else {
        return Vec::new();
    };
    let step = case.steps.get(at).map(ToString::to_string).unwrap_or_default();
    let (expected, got) = (line.answers.get(at), got.get(at));
    vec![
        format!("answer {at} differs: expected {expected:?}, got {got:?}"),
        step,
        format!(
            "see how: cargo xtask conformance --generated {} --seed {SEED} --filter '{}'",
            at_least(case),
            case.name
        ),
    ]
}

/// How many scripts must be made for this one to be among them.
fn at_least(case: &Case) -> usize {
    let number = case.name.split(['/', ' ']).nth(2).and_then(|number| number.parse::<usize>().ok());
    number.map_or(1, |number| number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(name: &str) -> Answer {
        Answer { status: Some(200), body: json!({"metadata": {"name": name}}), ..Answer::default() }
    }

    #[test]
    fn the_first_answer_that_is_another_is_named() {
        let suite = suite(SEED, 3);
        let case = &suite.cases[2];
        let line = Line { script: case.name.clone(), answers: vec![summary(&answer("a")), summary(&answer("b"))] };
        assert_eq!(judge(&line, case, Ok(vec![answer("a"), answer("b")])), [""; 0]);
        let problems = judge(&line, case, Ok(vec![answer("a"), answer("c")]));
        assert!(problems[0].starts_with("answer 1 differs"), "{problems:?}");
        assert!(problems[2].contains("--generated 3 --seed 7"), "{problems:?}");
        let changed = Line { script: "another".to_owned(), answers: Vec::new() };
        assert!(judge(&changed, case, Ok(Vec::new()))[0].contains("record again"));
    }
}
