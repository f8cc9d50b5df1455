//! Replaces what must differ between two servers (uids, times, revisions, tokens, random suffixes) by placeholders, so that
//! everything else can be compared exactly. Values that the case itself sent are left alone.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::case::ManagedFields;

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static REVISION_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)(resource ?version[^0-9]{0,24}?)\d+"));
static TOO_OLD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+ \(\d+\)"));
static WHOLE_OBJECT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"Invalid value: "\{.*\}": "#));
static SCHEME: LazyLock<Regex> = LazyLock::new(|| pattern(r#"in scheme "[^"]*""#));
static HOOK: LazyLock<Regex> = LazyLock::new(|| pattern(r"https://127\.0\.0\.1:\d+/hook"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[smhd]){1,2}$"));

/// A generated name keeps this much of its prefix.
const MAX_GENERATED_PREFIX: usize = 58;
/// The letters of generated suffixes.
const SUFFIX_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the pattern is a literal")
}

/// Masks answers of one case.
pub struct Masker<'a> {
    /// Everything the case sends; what occurs here is not masked.
    sent: &'a str,
    /// The `generateName`s that the case sent.
    prefixes: &'a [String],
    managed_fields: ManagedFields,
}

impl<'a> Masker<'a> {
    /// A masker for a case whose text is `sent`, with the `generateName`s it has used so far.
    pub fn new(sent: &'a str, prefixes: &'a [String]) -> Self {
        Self { sent, prefixes, managed_fields: ManagedFields::Compare }
    }

    /// The same masker with another rule for `managedFields`. Their times are masked like any other time.
    pub fn with_managed_fields(self, managed_fields: ManagedFields) -> Self {
        Self { managed_fields, ..self }
    }

    /// Masks a JSON document in place.
    pub fn mask(&self, value: &mut Value) {
        match value {
            Value::Object(members) => self.mask_object(members),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    /// Masks a piece of prose or a header.
    pub fn text(&self, text: &str) -> String {
        let masked = UUID.replace_all(text, |found: &regex::Captures<'_>| self.unless_sent(&found[0], "<uid>"));
        let masked = TIME.replace_all(&masked, |found: &regex::Captures<'_>| {
            let fraction = found.get(1).map_or(0, |digits| digits.as_str().len());
            self.unless_sent(&found[0], if fraction == 0 { "<time>" } else { "<microtime>" })
        });
        // A failed patch is answered with the patched object, managedFields and all.
        let masked = WHOLE_OBJECT.replace_all(&masked, "Invalid value: \"<object>\": ");
        // The name of a Go source file, which depends on how kube-apiserver was built.
        let masked = SCHEME.replace_all(&masked, "in scheme \"<scheme>\"");
        let masked = HOOK.replace_all(&masked, "<hook>");
        let masked = TOO_OLD.replace_all(&masked, "<rv> (<rv>)");
        let masked = REVISION_IN_TEXT.replace_all(&masked, "${1}<rv>");
        self.prefixes.iter().fold(masked.into_owned(), |text, prefix| mask_generated_names(&text, prefix))
    }

    fn unless_sent(&self, found: &str, mask: &str) -> String {
        if self.sent.contains(found) { found.to_owned() } else { mask.to_owned() }
    }

    fn mask_object(&self, members: &mut Map<String, Value>) {
        if self.managed_fields == ManagedFields::Drop {
            members.remove("managedFields");
        }
        let is_table = members.get("kind").and_then(Value::as_str) == Some("Table");
        for (key, value) in members.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Value::String(text)) if is_number(text) => *text = "<rv>".to_owned(),
                ("serverAddress", Value::String(text)) => *text = "<server>".to_owned(),
                ("storageVersionHash", Value::String(text)) if !text.is_empty() => *text = "<hash>".to_owned(),
                ("continue", Value::String(text)) if !text.is_empty() && !self.sent.contains(text.as_str()) => {
                    *text = "<continue>".to_owned();
                }
                ("token", Value::String(text)) if text.starts_with("eyJ") => *text = "<token>".to_owned(),
                // The help texts of Table columns are prose, which we write ourselves.
                ("columnDefinitions", Value::Array(columns)) => {
                    columns.iter_mut().filter_map(Value::as_object_mut).for_each(|column| {
                        column.remove("description");
                    });
                }
                ("managedFields", Value::Array(entries)) => self.mask_managers(entries),
                // Upstream walks its managers in no particular order.
                ("causes", Value::Array(causes)) if causes.iter().any(is_manager_conflict) => {
                    causes.sort_by_key(Value::to_string);
                    causes.iter_mut().for_each(|cause| self.mask(cause));
                }
                ("rows", Value::Array(rows)) if is_table => rows.iter_mut().for_each(|row| self.mask_row(row)),
                (_, value) => self.mask(value),
            }
        }
    }

    /// Managers are ordered by their times, to the second: whether two writes fell into the same second is luck. So the
    /// order is checked here, and what is compared is ordered without the times.
    fn mask_managers(&self, entries: &mut [Value]) {
        let out_of_order = !entries.is_sorted_by_key(|entry| manager_order(entry, Times::Count));
        entries.sort_by_key(|entry| manager_order(entry, Times::Ignore));
        entries.iter_mut().for_each(|entry| self.mask(entry));
        if let (true, Some(first)) = (out_of_order, entries.first_mut()) {
            first["order"] = Value::from("<not by operation, time, manager, version and subresource>");
        }
    }

    fn mask_row(&self, row: &mut Value) {
        if let Some(cells) = row.get_mut("cells").and_then(Value::as_array_mut) {
            for cell in cells {
                if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                    *cell = Value::String("<age>".to_owned());
                }
            }
        }
        self.mask(row);
    }
}

fn is_manager_conflict(cause: &Value) -> bool {
    cause.get("reason").and_then(Value::as_str) == Some("FieldManagerConflict")
}

/// Whether times take part in an order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Count,
    Ignore,
}

/// Where an entry of `managedFields` belongs. Times are in UTC and of one length, so that their text orders them.
fn manager_order(entry: &Value, times: Times) -> [String; 5] {
    let member = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let time = if times == Times::Count { member("time") } else { String::new() };
    [member("operation"), time, member("manager"), member("apiVersion"), member("subresource")]
}

/// Replaces what the server appended to a `generateName`, which it cuts so that names stay below 64 characters.
fn mask_generated_names(text: &str, prefix: &str) -> String {
    let kept: String = prefix.chars().take(MAX_GENERATED_PREFIX).collect();
    let pattern = format!("{}[{SUFFIX_LETTERS}]{{5}}", regex::escape(&kept));
    match Regex::new(&pattern) {
        Ok(names) => names.replace_all(text, format!("{kept}<random>").replace('$', "$$")).into_owned(),
        Err(_) => text.to_owned(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(sent: &str, mut value: Value) -> Value {
        Masker::new(sent, &["a-".to_owned()]).mask(&mut value);
        value
    }

    #[test]
    fn what_the_server_chose_is_masked() {
        let got = masked(
            "",
            json!({"metadata": {"uid": "0c9f8b1e-0000-4000-8000-000000000000", "resourceVersion": "12", "generateName": "a-",
                "name": "a-x7k2p", "creationTimestamp": "2026-01-02T03:04:05Z", "continue": "abc"}}),
        );
        assert_eq!(
            got,
            json!({"metadata": {"uid": "<uid>", "resourceVersion": "<rv>", "generateName": "a-", "name": "a-<random>",
                "creationTimestamp": "<time>", "continue": "<continue>"}})
        );
    }

    #[test]
    fn managed_fields_lose_their_times_or_are_dropped_altogether() {
        let object =
            json!({"managedFields": [{"manager": "m", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:a": {}}}]});
        let expected = json!({"managedFields": [{"manager": "m", "time": "<time>", "fieldsV1": {"f:a": {}}}]});
        assert_eq!(masked("", object.clone()), expected);
        let mut dropped = object;
        Masker::new("", &[]).with_managed_fields(ManagedFields::Drop).mask(&mut dropped);
        assert_eq!(dropped, json!({}));
    }

    #[test]
    fn managers_are_compared_in_an_order_that_does_not_hang_on_the_second() {
        let at = |manager: &str, time: &str| json!({"operation": "Update", "manager": manager, "time": time});
        let (early, late) = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z");
        let same_second = masked("", json!({"managedFields": [at("a", early), at("b", early)]}));
        let next_second = masked("", json!({"managedFields": [at("b", early), at("a", late)]}));
        assert_eq!(same_second, next_second);
        let wrong = masked("", json!({"managedFields": [at("b", early), at("a", early)]}));
        assert_ne!(wrong, same_second);
    }

    #[test]
    fn what_the_case_sent_is_kept() {
        let got = masked("at 2020-01-01T00:00:00Z", json!({"firstTimestamp": "2020-01-01T00:00:00Z"}));
        assert_eq!(got, json!({"firstTimestamp": "2020-01-01T00:00:00Z"}));
    }

    #[test]
    fn ages_in_tables_are_masked_and_other_cells_are_not() {
        let got = masked("", json!({"kind": "Table", "rows": [{"cells": ["name", 3, "12s", "1m2s"]}]}));
        assert_eq!(got["rows"][0]["cells"], json!(["name", 3, "<age>", "<age>"]));
    }

    #[test]
    fn revisions_inside_messages_are_masked() {
        assert_eq!(
            Masker::new("", &[]).text("too old resource version: 5 (77)"),
            "too old resource version: <rv> (<rv>)"
        );
    }
}
