//! Which strings may be names: DNS labels and subdomains, qualified names, label values, config keys.
//!
//! Each rule returns what is wrong with a string in upstream's words, nothing when it is fine. The `name_is_…` functions
//! are [`NameValidator`](crate::strategy::NameValidator)s.

use crate::strategy::NameKind;

/// Longest DNS label, and longest name part of a qualified name.
pub const LABEL_MAX_LENGTH: usize = 63;
/// Longest DNS subdomain; also the limit of config keys.
pub const SUBDOMAIN_MAX_LENGTH: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_SUBDOMAIN_FORMAT: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const WILDCARD_FORMAT: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY_FORMAT: &str = "[-._a-zA-Z0-9]+";
const C_IDENTIFIER_FORMAT: &str = "[A-Za-z_][A-Za-z0-9_]*";
const HTTP_PATH_FORMAT: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

const QUALIFIED_TEXT: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A DNS label as RFC 1123 has it: what namespaces are called.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        wrong.push(too_many_characters(LABEL_MAX_LENGTH));
    }
    if !is_label(value) {
        wrong.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let text = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            regex_error(text, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    wrong
}

/// A DNS name as RFC 1123 has it: what most objects are called.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        wrong.push(too_many_characters(SUBDOMAIN_MAX_LENGTH));
    }
    wrong.extend(subdomain_form(value));
    wrong
}

/// Like [`dns1123_subdomain`] with underscores allowed (node-like names in field values).
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        wrong.push(too_many_characters(SUBDOMAIN_MAX_LENGTH));
    }
    let label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        framed(part, is_lower_alphanumeric, |b| is_lower_alphanumeric(b) || b == b'-' || b == b'_')
    };
    if !value.split('.').all(label) {
        let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
        wrong.push(regex_error(text, UNDERSCORE_SUBDOMAIN_FORMAT, &["example.com"]));
    }
    wrong
}

/// A DNS label that starts with a letter (RFC 1035): what CRD plurals and services are called.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        wrong.push(too_many_characters(LABEL_MAX_LENGTH));
    }
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        let text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        wrong.push(regex_error(text, LABEL_1035_FORMAT, &["my-name", "abc-123"]));
    }
    wrong
}

/// `*.` and a DNS name.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        wrong.push(too_many_characters(SUBDOMAIN_MAX_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let text = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        wrong.push(regex_error(text, WILDCARD_FORMAT, &["*.example.com"]));
    }
    wrong
}

/// `[prefix/]name`: label and annotation keys, finalizers, condition types.
pub fn qualified_name(value: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_error(QUALIFIED_TEXT, QUALIFIED_FORMAT, &examples)
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > SUBDOMAIN_MAX_LENGTH {
                    wrong.push(format!("prefix part {}", too_many_bytes(SUBDOMAIN_MAX_LENGTH)));
                }
                wrong.extend(subdomain_form(prefix).map(|text| format!("prefix part {text}")));
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX_LENGTH {
        wrong.push(format!("name part {}", too_many_bytes(LABEL_MAX_LENGTH)));
    }
    if !is_qualified_part(name) {
        wrong.push(format!("name part {}", regex_error(QUALIFIED_TEXT, QUALIFIED_FORMAT, &examples)));
    }
    wrong
}

/// The value of a label; may be empty.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        wrong.push(too_many_bytes(LABEL_MAX_LENGTH));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        let text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        wrong.push(regex_error(text, LABEL_VALUE_FORMAT, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        wrong.push(too_many_characters(SUBDOMAIN_MAX_LENGTH));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(allowed) {
        let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        wrong.push(regex_error(text, CONFIG_KEY_FORMAT, &["key.name", "KEY_NAME", "key-name"]));
    }
    match value {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// An identifier of the C language: names in CEL and printer columns.
pub fn c_identifier(value: &str) -> Vec<String> {
    let fine = value.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if fine {
        return Vec::new();
    }
    let text = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![regex_error(text, C_IDENTIFIER_FORMAT, &["my_name", "MY_NAME", "MyName"])]
}

/// Only characters that an HTTP path may hold (RFC 3986).
pub fn is_http_path(value: &str) -> bool {
    let extra = b"/-._~%!$&'()*+,;=:";
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
}

/// `domain/path`, such as the name of a certificate signer. Pairs of the offending part and what is wrong with it.
pub fn domain_prefixed_path(value: &str) -> Vec<(String, String)> {
    match value.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            let mut wrong: Vec<_> = dns1123_subdomain(host).into_iter().map(|text| (host.to_owned(), text)).collect();
            if !is_http_path(path) {
                wrong.push((path.to_owned(), regex_error("Invalid path", HTTP_PATH_FORMAT, &[])));
            }
            wrong
        }
        _ => vec![(value.to_owned(), "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())],
    }
}

/// Name rule: a DNS subdomain.
pub fn name_is_dns_subdomain(name: &str, kind: NameKind) -> Vec<String> {
    dns1123_subdomain(&masked(name, kind))
}

/// Name rule: a DNS label (namespaces).
pub fn name_is_dns_label(name: &str, kind: NameKind) -> Vec<String> {
    dns1123_label(&masked(name, kind))
}

/// Name rule: a DNS label that starts with a letter.
pub fn name_is_dns1035_label(name: &str, kind: NameKind) -> Vec<String> {
    dns1035_label(&masked(name, kind))
}

/// Name rule: anything that can stand as one segment of a URL path (RBAC).
pub fn name_is_path_segment(name: &str, kind: NameKind) -> Vec<String> {
    crate::strategy::any_path_segment_name(name, kind)
}

/// The text for a string that does not match a format. The odd spacing between examples is what clients know.
pub fn regex_error(text: &str, format: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{text} (regex used for validation is '{format}')");
    }
    let quoted: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{format}')", quoted.join(" or "))
}

fn too_many_characters(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn subdomain_form(value: &str) -> Option<String> {
    let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
    (!is_subdomain(value)).then(|| regex_error(text, SUBDOMAIN_FORMAT, &["example.com"]))
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_label(value: &str) -> bool {
    framed(value, is_lower_alphanumeric, |b| is_lower_alphanumeric(b) || b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified_part(value: &str) -> bool {
    framed(value, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Not empty, the first and last byte in `ends`, all between in `middle`.
fn framed(value: &str, ends: impl Fn(u8) -> bool, middle: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [one] => ends(*one),
        [first, inner @ .., last] => ends(*first) && ends(*last) && inner.iter().all(|b| middle(*b)),
    }
}

/// A prefix may end in a dash, because random characters will follow. Upstream replaces the dash and the character
/// before it by one letter, so a prefix is measured one byte short; that is kept.
fn masked(name: &str, kind: NameKind) -> std::borrow::Cow<'_, str> {
    match (kind, name.strip_suffix('-')) {
        (NameKind::Prefix, Some(head)) if head.ends_with(|c: char| c.is_ascii()) => {
            let mut cut = head.to_owned();
            cut.pop();
            cut.push('a');
            cut.into()
        }
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        for good in ["a", "a-b", "1", "a1-2b"] {
            assert!(dns1123_label(good).is_empty(), "{good}");
            assert!(dns1123_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "-", "a-", "-a", "A", "a_b", "a..b", ".a", "a.", "é"] {
            assert!(!dns1123_label(bad).is_empty(), "{bad}");
            assert!(!dns1123_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(dns1123_subdomain("a.b-c.1").is_empty());
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert!(dns1035_label("a1").is_empty() && !dns1035_label("1a").is_empty());
        assert!(wildcard_dns1123_subdomain("*.a.b").is_empty());
        for bad in ["*", "*.", "a.*", "*a.b", "*.*.b"] {
            assert!(!wildcard_dns1123_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(dns1123_subdomain_with_underscore("_a.b_c").is_empty());
        assert!(!dns1123_subdomain_with_underscore("a_.b").is_empty());
    }

    #[test]
    fn label_text_is_upstreams() {
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
              end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }

    #[test]
    fn qualified_names() {
        for good in ["a", "A.b_c-d", "example.com/My.Name", "a/1"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        assert_eq!(qualified_name("/").len(), 3);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(
            qualified_name("A/b").first().is_some_and(|t| t.starts_with("prefix part a lowercase RFC 1123 subdomain"))
        );
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert_eq!(qualified_name("").len(), 2);
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(label_value("").is_empty() && label_value("a.b-c_D").is_empty());
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        for bad in ["-", "a b", "_", "a/b"] {
            assert_eq!(label_value(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn config_keys_may_not_climb() {
        assert!(config_map_key("..a").contains(&"must not start with '..'".to_owned()));
        assert_eq!(config_map_key(".."), ["must not be '..'"]);
        assert_eq!(config_map_key("."), ["must not be '.'"]);
        assert!(config_map_key(".a_B-1").is_empty());
        assert_eq!(config_map_key("").len(), 1);
    }

    #[test]
    fn prefixes_may_end_in_a_dash() {
        assert!(name_is_dns_label("a-", NameKind::Prefix).is_empty());
        assert!(!name_is_dns_label("a-", NameKind::Full).is_empty());
        assert!(!name_is_dns_label("-", NameKind::Prefix).is_empty());
        assert!(!name_is_dns_subdomain("é-", NameKind::Prefix).is_empty());
        assert!(name_is_dns_label(&format!("{}-", "a".repeat(63)), NameKind::Prefix).is_empty());
    }
}
