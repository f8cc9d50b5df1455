//! Says where two answers differ, path by path, in lines short enough to read.

use serde_json::Value;

use super::exchange::Answer;

/// More differences than this in one answer say no more than the first ones.
const MAX_LINES: usize = 12;
/// Longer values are cut in the middle of the report.
const MAX_VALUE_LENGTH: usize = 400;

/// The differences, as `path: expected … got …`; empty when the answers are equal.
pub fn differences(expected: &Answer, got: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    let [expected, got] = [expected, got].map(|answer| serde_json::to_value(answer).unwrap_or_default());
    compare("", &expected, &got, &mut lines);
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("… and {more} more"));
    }
    lines
}

fn compare(path: &str, expected: &Value, got: &Value, lines: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                let path = format!("{path}/{key}");
                match right.get(key) {
                    Some(other) => compare(&path, value, other, lines),
                    None => lines.push(format!("{path}: missing, expected {}", short(value))),
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                lines.push(format!("{path}/{key}: unexpected {}", short(value)));
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for (index, (value, other)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}/{index}"), value, other, lines);
            }
            if left.len() != right.len() {
                lines.push(format!("{path}: expected {} elements, got {}", left.len(), right.len()));
            }
            for value in left.iter().skip(right.len()) {
                lines.push(format!("{path}/+: missing {}", short(value)));
            }
            for value in right.iter().skip(left.len()) {
                lines.push(format!("{path}/+: unexpected {}", short(value)));
            }
        }
        (expected, got) if expected != got => {
            lines.push(format!("{path}: expected {}\n{:8}got {}", short(expected), "", short(got)));
        }
        _ => {}
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_VALUE_LENGTH {
        let cut = (0..=MAX_VALUE_LENGTH).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_name_their_path() {
        let expected = Answer { status: Some(200), body: json!({"a": [1, 2]}), ..Answer::default() };
        let got = Answer { status: Some(200), body: json!({"a": [1, 3], "b": 0}), ..Answer::default() };
        let lines = differences(&expected, &got);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("/body/a/1: expected 2"), "{lines:?}");
        assert!(lines[1].starts_with("/body/b: unexpected"), "{lines:?}");
    }

    #[test]
    fn equal_answers_have_none() {
        let answer = Answer { status: Some(200), ..Answer::default() };
        assert!(differences(&answer, &answer).is_empty());
    }
}
