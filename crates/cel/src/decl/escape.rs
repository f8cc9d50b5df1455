//! Property names as identifiers. Kubernetes spells what CEL cannot (`.`, `-`, `/`, double underscores, keywords)
//! in words between double underscores.

use std::borrow::Cow;

/// Words that cannot be identifiers of properties.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Whether a property of this name must be escaped as a keyword.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok()
}

/// The identifier for a property name, or `None` if there is none.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    let first = name.bytes().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/')) {
        return None;
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let (word, taken) = match next {
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            other => {
                escaped.push(other);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
        };
        escaped.push_str(word);
        rest = rest.get(taken..).unwrap_or_default();
    }
    Some(Cow::Owned(escaped))
}

/// The property name an identifier stands for, or `None` if it stands for none.
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(at) = rest.find("__") {
        let inside = rest.get(at + 2..)?;
        // `__` + something without underscores + `__`; anything else stands for itself.
        let word_len = inside.find('_').unwrap_or(inside.len());
        let closed = inside.get(word_len..).is_some_and(|tail| tail.starts_with("__"));
        if word_len == 0 || !closed {
            name.push_str(rest.get(..at + 1)?);
            rest = rest.get(at + 1..)?;
            continue;
        }
        name.push_str(rest.get(..at)?);
        let word = inside.get(..word_len)?;
        name.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            keyword if is_reserved(keyword) => {
                if word.len() + 4 != identifier.len() {
                    return None;
                }
                keyword
            }
            _ => return None,
        });
        rest = inside.get(word_len + 2..)?;
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn names_survive_escaping_and_unescaping() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("a.b", "a__dot__b"),
            ("a-b", "a__dash__b"),
            ("a/b", "a__slash__b"),
            ("a__b", "a__underscores__b"),
            ("_a_b", "_a_b"),
            ("namespace", "__namespace__"),
            ("namespaced", "namespaced"),
            ("x.y-z/w", "x__dot__y__dash__z__slash__w"),
            ("a___b", "a__underscores___b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
    }

    #[test]
    fn names_without_an_identifier_have_none() {
        for name in ["", "1a", "a b", "é", "a@b"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__nothing__b"), None);
        assert_eq!(unescape("a__namespace__"), None);
    }
}
