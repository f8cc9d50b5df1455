//! Paths like `.spec.color` or `.spec['the color']` that lead from a schema to one inside it.

use bailiwick_schema::structural::rules::Tokens;
use serde_json::Value;

use crate::fields::{map, present};

/// Whether names may stand in brackets and quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    Allowed,
    Forbidden,
}

/// The schema a path leads to, or why it leads nowhere.
pub(super) fn find<'a>(path: &str, schema: &'a Value, brackets: Brackets) -> Result<&'a Value, String> {
    const END: &str = "unexpected end of JSON path";
    let mut tokens = Tokens::of(path);
    let mut schema = schema;
    while let Some(token) = tokens.next() {
        match token {
            "." => {
                let name = tokens.next().ok_or(END)?;
                schema = step(schema, name)?;
            }
            "[" if brackets == Brackets::Forbidden => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let name = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                schema = step(schema, &name.replace("\\'", "'").replace("\\\\", "\\"))?;
                let close = tokens.next().ok_or(END)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(schema)
}

fn step<'a>(schema: &'a Value, name: &str) -> Result<&'a Value, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    match (map(schema, "properties").filter(|all| !all.is_empty()), present(schema, "additionalProperties")) {
        (Some(properties), _) => properties.get(name).ok_or_else(nowhere),
        (None, Some(values)) => Ok(values),
        (None, None) => Err(nowhere()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn brackets_and_dots_lead_to_the_same_field() {
        let schema = json!({"properties": {"a'b": {"additionalProperties": {"type": "string"}}}});
        let found = Ok(&schema["properties"]["a'b"]["additionalProperties"]);
        assert_eq!(find(r"['a\'b'].x", &schema, Brackets::Allowed), found);
        assert_eq!(find(".a'b.x", &schema, Brackets::Forbidden), found);
        assert_eq!(find(".x", &schema, Brackets::Allowed), Err("does not refer to a valid field".into()));
        assert_eq!(find("['a", &schema, Brackets::Allowed), Err("expected single quoted string but got 'a".into()));
    }

    proptest! {
        #[test]
        fn no_input_panics(path in r"[.\[\]'\\aé]*") {
            let _ = find(&path, &json!({"properties": {"a": {"properties": {}}}}), Brackets::Allowed);
        }
    }
}
