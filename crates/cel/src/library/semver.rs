//! Semantic versions: the strict grammar, and the lenient one that fills in what is missing and forgives a leading `v`
//! and leading zeros. The error texts are those users of Kubernetes know.

use std::cmp::Ordering;

use super::go_text::{number_error, quoted};

/// A version. Build metadata is checked but takes no part in comparison.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    prerelease: Vec<Identifier>,
}

/// One dotted part of a pre-release. Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Version {
    /// Reads `major.minor.patch[-prerelease][+build]` exactly.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".into());
        };
        let major = number(major, "Major", "major")?;
        let minor = number(minor, "Minor", "minor")?;
        let (rest, build) = cut(rest, '+');
        let (patch, prerelease) = cut(rest, '-');
        let patch = number(patch, "Patch", "patch")?;
        let prerelease =
            prerelease.map(|text| text.split('.').map(identifier).collect()).transpose()?.unwrap_or_default();
        for part in build.iter().flat_map(|text| text.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".into());
            }
            if !is_word(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", quoted(part)));
            }
        }
        Ok(Self { major, minor, patch, prerelease })
    }

    /// Reads a version that may begin with `v`, lack minor and patch, or carry leading zeros.
    pub fn parse_lenient(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".into());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn number(text: &str, title: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quoted(text)));
    }
    text.parse().map_err(|_| number_error("ParseUint", text))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(text)));
        }
        return text.parse().map(Identifier::Number).map_err(|_| number_error("ParseUint", text));
    }
    if is_word(text) {
        return Ok(Identifier::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", quoted(text)))
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A pre-release comes before its release.
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.prerelease.cmp(&other.prerelease),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_ordered_as_the_specification_has_them() {
        let ascending = [
            "0.0.9",
            "1.0.0-1",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "2.0.0",
        ];
        for pair in ascending.windows(2) {
            let parsed: Vec<_> = pair.iter().map(|text| Version::parse(text).expect("a version")).collect();
            assert!(parsed[0] < parsed[1], "{pair:?}");
        }
        assert_eq!(Version::parse("1.0.0+a"), Version::parse("1.0.0+b"));
    }

    #[test]
    fn lenient_reading_fills_in_and_forgives() {
        let strict = |text: &str| Version::parse(text).expect("a version");
        for (lenient, expected) in
            [("v1", "1.0.0"), ("1.2", "1.2.0"), ("01.02.03", "1.2.3"), ("v00.0.0-a", "0.0.0-a"), ("v1.2.3+x", "1.2.3")]
        {
            assert_eq!(Version::parse_lenient(lenient), Ok(strict(expected)), "{lenient}");
        }
        assert!(Version::parse_lenient("1.0-rc").is_err());
        assert!(Version::parse("v1.0.0").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = Version::parse(&text);
            let _ = Version::parse_lenient(&text);
        }
    }
}
