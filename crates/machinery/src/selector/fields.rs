//! Field selectors: `metadata.name=x,type!=y`, with `\` before a comma, equals sign or backslash in a value.

use std::borrow::Cow;
use std::fmt;

use crate::origin::Origin;
use crate::resource::SelectableField;

/// Whether the field must or must not have the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    NotEquals,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub field: String,
    pub operator: Operator,
    pub value: String,
}

/// All conditions of a selector; every one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

/// Why a field selector cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Syntax { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// Upstream prints the number of the character.
    #[error("invalid field selector: unescaped character in value: {}", *.0 as u32)]
    Unescaped(char),
    #[error("field label not supported: {0}")]
    NotSupported(String),
    /// The text for native types without selectable fields of their own.
    #[error("{0:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")]
    NotKnown(String),
}

impl FieldSelector {
    /// The selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector of these requirements.
    pub fn new(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// `field` must have `value`.
    pub fn equals(field: &str, value: &str) -> Self {
        Self::new(vec![Requirement { field: field.into(), operator: Operator::Equals, value: value.into() }])
    }

    /// Reads the syntax of the `fieldSelector` query parameter. Whether the fields exist is for [`Self::check`].
    pub fn parse(selector: &str) -> Result<Self, FieldSelectorError> {
        let mut terms = split_terms(selector);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let syntax = || FieldSelectorError::Syntax { selector: selector.to_owned(), term: term.to_owned() };
            let (field, operator, value) = split_term(term).ok_or_else(syntax)?;
            let value = unescape(value)?.into_owned();
            requirements.push(Requirement { field: field.to_owned(), operator, value });
        }
        Ok(Self { requirements })
    }

    /// Fails on fields that cannot be selected: all but `metadata.name`, `metadata.namespace` and those given. The
    /// words depend on where the resource comes from.
    pub fn check(&self, selectable: &[SelectableField], origin: Origin) -> Result<(), FieldSelectorError> {
        let known = |field: &str| {
            matches!(field, "metadata.name" | "metadata.namespace") || selectable.iter().any(|s| s.name == field)
        };
        match self.requirements.iter().find(|r| !known(&r.field)) {
            None => Ok(()),
            Some(r) if origin == Origin::Native && selectable.is_empty() => {
                Err(FieldSelectorError::NotKnown(r.field.clone()))
            }
            Some(r) => Err(FieldSelectorError::NotSupported(r.field.clone())),
        }
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The value the selector demands for a field, when it demands exactly one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && r.operator == Operator::Equals).map(|r| r.value.as_str())
    }

    /// The name every match must have.
    pub fn exact_name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// The namespace every match must be in.
    pub fn exact_namespace(&self) -> Option<&str> {
        self.exact("metadata.namespace")
    }

    /// Whether an object matches, whose fields `get` looks up; absent fields are the empty string.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements.iter().all(|r| (get(&r.field) == r.value) == (r.operator == Operator::Equals))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.requirements.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if r.operator == Operator::Equals { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", r.field)?;
            for c in r.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// At commas that no backslash precedes.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut escaped = false;
    selector
        .split(|c| {
            let separates = c == ',' && !escaped;
            escaped = c == '\\' && !escaped;
            separates
        })
        .collect()
}

/// At the first operator.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let at = term.char_indices().map(|(i, _)| i).find(|&i| {
        let rest = term.get(i..).unwrap_or_default();
        rest.starts_with("!=") || rest.starts_with('=')
    })?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, Operator::NotEquals, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, Operator::Equals, value))
}

fn unescape(value: &str) -> Result<Cow<'_, str>, FieldSelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(c)),
            other => plain.push(other),
        }
    }
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Cow<'a, str> {
        move |field| pairs.iter().find(|(f, _)| *f == field).map_or("", |(_, v)| *v).into()
    }

    #[test]
    fn requirements_match() {
        let object = [("metadata.name", "x"), ("type", "Opaque")];
        for (selector, expected) in [
            ("", true),
            ("metadata.name=x", true),
            ("metadata.name==x,type!=y", true),
            ("metadata.name!=x", false),
            ("gone=", true),
            ("gone!=", false),
            (",,type=Opaque,", true),
        ] {
            assert_eq!(FieldSelector::parse(selector).unwrap().matches(get(&object)), expected, "{selector}");
        }
    }

    #[test]
    fn exact_values_are_found() {
        let selector = FieldSelector::parse("metadata.namespace!=n,metadata.name=x").unwrap();
        assert_eq!((selector.exact_name(), selector.exact_namespace()), (Some("x"), None));
    }

    #[test]
    fn errors_are_upstreams() {
        for (selector, text) in [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            (r"metadata.name=a\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(selector).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn only_selectable_fields_are_accepted() {
        let selector = FieldSelector::parse("foo=bar,metadata.name=x").unwrap();
        let text = |selectable: &[SelectableField], origin| selector.check(selectable, origin).unwrap_err().to_string();
        assert_eq!(
            text(&[], Origin::Native),
            "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert_eq!(text(&[SelectableField::at("type")], Origin::Native), "field label not supported: foo");
        assert_eq!(text(&[], Origin::Custom), "field label not supported: foo");
        assert_eq!(selector.check(&[SelectableField::at("foo")], Origin::Custom), Ok(()));
    }

    proptest! {
        #[test]
        fn no_input_panics(selector in "\\PC*") {
            let _ = FieldSelector::parse(&selector);
        }

        #[test]
        fn values_survive_printing(value in "\\PC*") {
            let selector = FieldSelector::equals("spec.x", &value);
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }
}
