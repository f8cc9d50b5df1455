//! kube-apiserver's recorded answers, under `conformance/golden`: one JSON line per compared request, so that a change in a
//! recording is a readable diff.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::exchange::Answer;

/// Recorded answers of one subject, by case name.
pub type Golden = BTreeMap<String, Vec<Answer>>;

#[derive(Serialize, Deserialize)]
struct Line {
    case: String,
    #[serde(flatten)]
    answer: Answer,
}

/// Reads the recording of `subject`; empty when there is none.
pub fn read(dir: &Path, subject: &str) -> Result<Golden> {
    let path = dir.join(format!("{subject}.jsonl"));
    let mut golden = Golden::new();
    if !path.exists() {
        return Ok(golden);
    }
    let text = std::fs::read_to_string(&path)?;
    for (number, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
        golden.entry(line.case).or_default().push(line.answer);
    }
    Ok(golden)
}

/// Writes the recording of `subject`, cases in the order given.
pub fn write<'a>(dir: &Path, subject: &str, cases: impl Iterator<Item = (&'a str, &'a [Answer])>) -> Result<()> {
    let mut text = String::new();
    for (case, answers) in cases {
        for answer in answers {
            let line = Line { case: case.to_owned(), answer: answer.clone() };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
    }
    std::fs::create_dir_all(dir)?;
    Ok(std::fs::write(dir.join(format!("{subject}.jsonl")), text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let answer = Answer { status: Some(200), body: json!({"a": 1}), ..Answer::default() };
        write(dir.path(), "s", [("x", std::slice::from_ref(&answer))].into_iter()).unwrap();
        assert_eq!(read(dir.path(), "s").unwrap(), Golden::from([("x".to_owned(), vec![answer])]));
    }
}
