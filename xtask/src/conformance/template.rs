//! `{{…}}` in case files: references to earlier answers, to the case's namespace, and long generated strings. A
//! string that is nothing but one reference becomes the referenced value, whatever its type.

use anyhow::{Result, bail};
use serde_json::{Map, Value};

/// What happens to a reference that the lookup does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It stays, for a later pass.
    Keep,
    /// It is an error.
    Refuse,
}

/// Fills every template in the strings (and keys) of `value`.
pub fn fill(value: &Value, lookup: &dyn Fn(&str) -> Option<Value>, unknown: Unknown) -> Result<Value> {
    Ok(match value {
        Value::String(text) => fill_string(text, lookup, unknown)?,
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill(item, lookup, unknown)).collect::<Result<_>>()?)
        }
        Value::Object(members) => {
            let mut filled = Map::new();
            for (key, member) in members {
                filled.insert(text_of(&fill_string(key, lookup, unknown)?), fill(member, lookup, unknown)?);
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

fn fill_string(text: &str, lookup: &dyn Fn(&str) -> Option<Value>, unknown: Unknown) -> Result<Value> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let reference = &rest[start + 2..start + length];
        let after = &rest[start + length + 2..];
        let resolved = match long_string(reference).or_else(|| lookup(reference)) {
            Some(value) => value,
            None if unknown == Unknown::Keep => Value::String(format!("{{{{{reference}}}}}")),
            None => bail!("nothing is known as {{{{{reference}}}}}"),
        };
        if filled.is_empty() && start == 0 && after.is_empty() {
            return Ok(resolved);
        }
        filled.push_str(&rest[..start]);
        filled.push_str(&text_of(&resolved));
        rest = after;
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

/// `{{a*300}}` is three hundred times the letter a.
fn long_string(reference: &str) -> Option<Value> {
    let (unit, count) = reference.rsplit_once('*')?;
    Some(Value::String(unit.repeat(count.parse().ok()?)))
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `metadata.items.0.name` inside `value`.
pub fn member(value: &Value, path: &str) -> Option<Value> {
    let mut found = value;
    for part in path.split('.') {
        found = match found {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            other => other.get(part)?,
        };
    }
    Some(found.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known(name: &str) -> Option<Value> {
        match name {
            "count" => Some(json!(3)),
            "ns" => Some(json!("c1")),
            _ => None,
        }
    }

    #[test]
    fn a_lone_reference_keeps_its_type_and_an_embedded_one_becomes_text() {
        let filled = fill(&json!({"a": "{{count}}", "b": "/{{ns}}/{{count}}"}), &known, Unknown::Refuse).unwrap();
        assert_eq!(filled, json!({"a": 3, "b": "/c1/3"}));
    }

    #[test]
    fn unknown_references_are_refused_or_kept() {
        assert!(fill(&json!("x{{nope}}"), &known, Unknown::Refuse).is_err());
        assert_eq!(fill(&json!("x{{nope}}"), &known, Unknown::Keep).unwrap(), json!("x{{nope}}"));
    }

    #[test]
    fn long_strings_are_generated() {
        assert_eq!(fill(&json!("{{ab*3}}"), &known, Unknown::Refuse).unwrap(), json!("ababab"));
    }
}
