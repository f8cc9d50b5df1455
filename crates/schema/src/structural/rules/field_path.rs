//! `fieldPath` of a rule: `.spec.color` or `.spec['the color']`, from the schema of the rule to one inside it.

use std::sync::Arc;

use crate::field::Path;
use crate::structural::schema::{Additional, Schema};

/// The path as errors name it, or `None` when it leads nowhere.
pub(super) fn resolve(path: &str, schema: &Schema) -> Option<Path> {
    let mut tokens = Tokens::of(path);
    let mut found = Path::root();
    let mut schema = Some(schema);
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next()?.to_owned(),
            "[" => {
                let name = unescaped(tokens.next()?.strip_prefix('\'')?.strip_suffix('\'')?)?;
                if tokens.next()? != "]" {
                    return None;
                }
                name
            }
            _ => return None,
        };
        let here = schema?;
        if !here.properties.is_empty() {
            schema = Some(Arc::as_ref(here.property(&name)?));
            found = found.child(&name);
        } else {
            schema = match &here.additional_properties {
                Additional::Absent => return None,
                Additional::Allowed(_) => None,
                Additional::Schema(values) => Some(Arc::as_ref(values)),
            };
            found = found.key(&name);
        }
    }
    Some(found)
}

/// The text of a quoted name.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('a') => '\x07',
                Some('b') => '\x08',
                Some('f') => '\x0c',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('v') => '\x0b',
                Some(quote @ ('\'' | '\\')) => quote,
                // A backslash at the end stands for itself.
                None => '\\',
                Some(_) => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// The parts of a path as definitions write it: delimiters one by one, quoted names whole, and what is between delimiters.
pub struct Tokens<'p>(&'p str);

impl<'p> Tokens<'p> {
    pub fn of(path: &'p str) -> Self {
        Self(path)
    }
}

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let first = self.0.chars().next()?;
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let mut previous = first;
                let close = self.0.char_indices().skip(1).find(|(_, c)| {
                    let found = *c == '\'' && previous != '\\';
                    previous = *c;
                    found
                });
                close.map_or(self.0.len(), |(index, _)| index + 1)
            }
            _ => self.0.find(['.', '[', ']']).unwrap_or(self.0.len()),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Arc<Schema> {
        crate::structural::compile(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .expect("a schema")
    }

    #[test]
    fn paths_name_fields_and_entries() {
        let schema = schema();
        let found = |path: &str| resolve(path, &schema).map(|path| path.to_string());
        assert_eq!(found(".a"), Some("a".into()));
        assert_eq!(found(".a['b c']"), Some("a.b c".into()));
        assert_eq!(found(".m['x']"), Some("m[x]".into()));
        assert_eq!(found(".m.x"), Some("m[x]".into()));
        for nowhere in [".x", "a", ".a.b", ".", ".a[", ".a['b c'", ".a['b c'x", ".m.x.y", ".a['\\q']"] {
            assert_eq!(found(nowhere), None, "{nowhere}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r"[.\[\]'\\améx ]*") {
            let _ = resolve(&path, &schema());
        }
    }
}
