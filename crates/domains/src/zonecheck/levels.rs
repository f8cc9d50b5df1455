//! Our severities beside those that Zonemaster documents, message by message.

use std::collections::BTreeMap;
use std::path::Path;

const LEVELS: [&str; 5] = ["info", "notice", "warning", "error", "critical"];

/// `(tag, level)` of every message in the sources of the cases.
fn messages() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/zonecheck");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the sources are there").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a source is text");
        for level in LEVELS {
            for (at, call) in text.match_indices(&format!(".{level}(")) {
                let rest = text[at + call.len()..].trim_start();
                let tag = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(tag, _)| tag);
                if let Some(tag) = tag.filter(|tag| !tag.contains(|c: char| c.is_ascii_lowercase() || c == ' ')) {
                    found.push((tag.to_owned(), level.to_owned()));
                }
            }
        }
    }
    found
}

#[test]
fn every_message_has_the_level_that_zonemaster_documents() {
    let table = include_str!("../../testdata/zonemaster-levels.txt");
    let documented: BTreeMap<&str, String> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split(' ');
            // What Zonemaster shows only to its developers is information to us.
            let (tag, level) = (fields.next()?, fields.next()?.to_lowercase().replace("debug", "info"));
            Some((tag, level))
        })
        .collect();
    let messages = messages();
    assert!(messages.len() > 150, "only {} messages were found", messages.len());
    let wrong: Vec<String> = messages
        .iter()
        .filter(|(tag, level)| documented.get(tag.as_str()) != Some(level))
        .map(|(tag, level)| format!("{tag} is {level} here and {:?} there", documented.get(tag.as_str())))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
