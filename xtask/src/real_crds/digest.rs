//! The recording: of every answer only its status and a SHA-256 of the rest, so that it holds nothing of what the projects wrote.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::session::Exchange;

/// What is kept of the answers about one definition, in the order of the requests.
pub type Digests = Vec<Digest>;

/// What is kept of one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The request, as `METHOD place of the sample`.
    pub request: String,
    /// The status code.
    pub status: u16,
    /// Of the masked body and the warnings.
    pub sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    of: String,
    #[serde(flatten)]
    digest: Digest,
}

/// The digest of an answer.
pub fn digest((request, answer): &Exchange) -> Digest {
    let mut hash = Sha256::new();
    let mut text = Vec::new();
    write_canonically(&answer.body, &mut text);
    for warning in answer.headers.values().flatten() {
        text.push(b'\n');
        text.extend_from_slice(warning.as_bytes());
    }
    hash.update(&text);
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Digest { request: request.clone(), status: answer.status.unwrap_or_default(), sha256 }
}

/// With sorted keys, whichever order `serde_json` was built to keep. The depth is bounded by its parser.
fn write_canonically(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            text.push(b'{');
            for (key, value) in members {
                text.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
                text.push(b':');
                write_canonically(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_canonically(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        scalar => text.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

/// Reads a recording; empty when there is none.
pub fn read(path: &Path) -> Result<BTreeMap<String, Digests>> {
    let mut recording: BTreeMap<String, Digests> = BTreeMap::new();
    if !path.exists() {
        return Ok(recording);
    }
    for (number, line) in std::fs::read_to_string(path)?.lines().enumerate() {
        let line: Line = serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
        recording.entry(line.of).or_default().push(line.digest);
    }
    Ok(recording)
}

/// Writes a recording.
pub fn write(path: &Path, recording: &BTreeMap<String, Digests>) -> Result<()> {
    let mut text = String::new();
    for (of, digests) in recording {
        for digest in digests {
            text.push_str(&serde_json::to_string(&Line { of: of.clone(), digest: digest.clone() })?);
            text.push('\n');
        }
    }
    Ok(std::fs::write(path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::exchange::Answer;
    use serde_json::json;

    fn digest_of(body: Value) -> Digest {
        digest(&("GET".to_owned(), Answer { status: Some(200), body, ..Answer::default() }))
    }

    #[test]
    fn equal_answers_have_equal_digests_and_others_have_not() {
        assert_eq!(digest_of(json!({"a": [1, "x"], "b": null})), digest_of(json!({"b": null, "a": [1, "x"]})));
        assert_ne!(digest_of(json!({"a": [1]})), digest_of(json!({"a": [1.0]})));
        assert_ne!(digest_of(json!({"a": {}})), digest_of(json!({"a": null})));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording.jsonl");
        let recording = BTreeMap::from([("x".to_owned(), vec![digest_of(json!(1))])]);
        write(&path, &recording).unwrap();
        assert_eq!(read(&path).unwrap(), recording);
    }
}
