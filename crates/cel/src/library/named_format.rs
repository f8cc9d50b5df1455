//! The formats that expressions can ask for by name: DNS names, label values, dates and so on. Each tells what is wrong
//! with a text in the words of Kubernetes' validation, nothing when it is fine.

use super::go_url;

/// Longest DNS label, and longest name part of a qualified name.
const LABEL_MAX_LENGTH: usize = 63;
/// Longest DNS subdomain.
const SUBDOMAIN_MAX_LENGTH: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// A named format.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    /// How expressions call it.
    pub name: &'static str,
    pub validate: fn(&str) -> Vec<String>,
    /// The length of the regular expression that checking it is charged as.
    pub regex_size: u64,
}

/// All formats.
pub(crate) static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", validate: label, regex_size: 30 },
    NamedFormat { name: "dns1123Subdomain", validate: subdomain, regex_size: 60 },
    NamedFormat { name: "dns1035Label", validate: label_1035, regex_size: 30 },
    NamedFormat { name: "qualifiedName", validate: qualified_name, regex_size: 60 },
    NamedFormat { name: "dns1123LabelPrefix", validate: |s| label(&masked(s)), regex_size: 30 },
    NamedFormat { name: "dns1123SubdomainPrefix", validate: |s| subdomain(&masked(s)), regex_size: 60 },
    NamedFormat { name: "dns1035LabelPrefix", validate: |s| label_1035(&masked(s)), regex_size: 30 },
    NamedFormat { name: "labelValue", validate: label_value, regex_size: 40 },
    NamedFormat {
        name: "uri",
        validate: |s| go_url::check_request_uri(s).err().into_iter().collect(),
        regex_size: 1103,
    },
    NamedFormat { name: "uuid", validate: |s| unless(is_uuid(s), "does not match the UUID format"), regex_size: 70 },
    NamedFormat { name: "byte", validate: |s| unless(is_base64(s), "invalid base64"), regex_size: 84 },
    NamedFormat { name: "date", validate: |s| unless(is_date(s), "invalid date"), regex_size: 71 },
    NamedFormat { name: "datetime", validate: |s| unless(is_date_time(s), "invalid datetime"), regex_size: 71 },
];

/// The format of this name.
pub(crate) fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

fn unless(fine: bool, message: &str) -> Vec<String> {
    if fine { Vec::new() } else { vec![message.to_owned()] }
}

fn label(value: &str) -> Vec<String> {
    let text = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
    let mut wrong = too_long(value, LABEL_MAX_LENGTH, "characters");
    if !is_label(value) {
        wrong.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            regex_error(text, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    wrong
}

fn subdomain(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_MAX_LENGTH, "characters");
    wrong.extend(subdomain_form(value));
    wrong
}

fn subdomain_form(value: &str) -> Option<String> {
    let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
    (!is_subdomain(value)).then(|| regex_error(text, SUBDOMAIN_FORMAT, &["example.com"]))
}

fn label_1035(value: &str) -> Vec<String> {
    let text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let mut wrong = too_long(value, LABEL_MAX_LENGTH, "characters");
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(regex_error(text, LABEL_1035_FORMAT, &["my-name", "abc-123"]));
    }
    wrong
}

fn qualified_name(value: &str) -> Vec<String> {
    let text = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let error = || regex_error(text, QUALIFIED_FORMAT, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                error()
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let mut problems = too_long(prefix, SUBDOMAIN_MAX_LENGTH, "bytes");
                problems.extend(subdomain_form(prefix));
                wrong.extend(problems.into_iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, LABEL_MAX_LENGTH, "bytes").into_iter().map(|text| format!("name part {text}")));
    if !is_qualified(name) {
        wrong.push(format!("name part {}", error()));
    }
    wrong
}

fn label_value(value: &str) -> Vec<String> {
    let text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let mut wrong = too_long(value, LABEL_MAX_LENGTH, "bytes");
    if !value.is_empty() && !is_qualified(value) {
        wrong.push(regex_error(text, LABEL_VALUE_FORMAT, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

fn too_long(value: &str, limit: usize, unit: &str) -> Vec<String> {
    unless(value.len() <= limit, &format!("must be no more than {limit} {unit}"))
}

/// The odd spacing between examples is what clients know.
fn regex_error(text: &str, format: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{format}')", quoted.join(" or "))
}

/// A prefix may end in a dash, because random characters will follow. Upstream puts one letter in place of the dash and
/// what stands before it; that is kept.
fn masked(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(head) => {
            let mut cut = head.to_owned();
            cut.pop();
            cut.push('a');
            cut
        }
        None => name.to_owned(),
    }
}

fn is_label(value: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    framed(value, lower, |b| lower(b) || b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
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

/// Five groups of hexadecimal digits; each dash may be missing.
fn is_uuid(value: &str) -> bool {
    let mut rest = value;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((group, after)) if group.bytes().all(|b| b.is_ascii_hexdigit()) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Padded, standard alphabet. The empty text counts only in groups of four, so it is none.
fn is_base64(value: &str) -> bool {
    let content = value.trim_end_matches('=');
    let padding = value.len() - content.len();
    !value.is_empty()
        && value.len().is_multiple_of(4)
        && padding <= 2
        && content.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// `2006-01-02`, a day that exists.
fn is_date(value: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    let (Some(year), Some(month), Some(day)) = (value.get(..4), value.get(5..7), value.get(8..)) else { return false };
    let dashes = value.get(4..5) == Some("-") && value.get(7..8) == Some("-");
    let (Some(year), Some(month), Some(day)) = (digits(year), digits(month), digits(day)) else { return false };
    value.len() == 10
        && dashes
        && i16::try_from(year).is_ok_and(|year| {
            let small = |n: i32| i8::try_from(n).unwrap_or(0);
            jiff::civil::Date::new(year, small(month), small(day)).is_ok()
        })
}

/// A date, `t`, a time and a zone, in any case. What follows a second `t` is not looked at.
fn is_date_time(value: &str) -> bool {
    let lower = value.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    value.len() >= 4 && is_date(date) && is_time(time)
}

fn is_time(time: &str) -> bool {
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let two_digits = |part: &str, most: u8| {
        part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok_and(|n| n <= most)
    };
    let mut fields = clock.split(':');
    let in_range = [23, 59, 59].into_iter().all(|most| fields.next().is_some_and(|field| two_digits(field, most)));
    if !in_range || fields.next().is_some() {
        return false;
    }
    // Any one character may stand before the fraction.
    let zone = |text: &str| {
        text == "z"
            || text
                .strip_prefix(['+', '-'])
                .and_then(|offset| offset.split_once(':'))
                .is_some_and(|(hours, minutes)| two_digits(hours, 99) && two_digits(minutes, 99))
    };
    let mut chars = rest.chars();
    zone(rest)
        || (chars.next().is_some() && {
            let fraction = chars.as_str();
            let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            after.len() < fraction.len() && zone(after)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fine(format: &str, value: &str) -> bool {
        (named(format).expect("a known format").validate)(value).is_empty()
    }

    #[test]
    fn dates_exist_and_times_have_a_zone() {
        for (value, expected) in [
            ("2021-01-01T00:00:00Z", true),
            ("2021-01-01t00:00:00z", true),
            ("2021-01-01T23:59:59.123+01:00", true),
            ("2021-01-01T23:59:59x5-01:00", true),
            ("2021-01-01T24:00:00Z", false),
            ("2021-01-01T00:00:00", false),
            ("2021-02-30T00:00:00Z", false),
            ("2021-01-01 00:00:00Z", false),
        ] {
            assert_eq!(fine("datetime", value), expected, "{value}");
        }
        assert!(fine("date", "2024-02-29"));
        assert!(!fine("date", "2023-02-29"));
        assert!(!fine("date", "2023-2-9"));
    }

    #[test]
    fn the_charged_regex_sizes_are_the_lengths_of_the_real_ones() {
        let uuid = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
        let date_time = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
        assert_eq!(named("uuid").map(|f| f.regex_size), Some(uuid.len() as u64));
        assert_eq!(named("datetime").map(|f| f.regex_size), Some(date_time.len() as u64));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            for format in &FORMATS {
                let _ = (format.validate)(&text);
            }
        }
    }
}
