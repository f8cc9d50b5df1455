//! Versions and version ranges as OLM reads them (the rules and messages of Go's blang/semver): three numbers are
//! required, build metadata does not order, pre-releases compare plainly in ranges.

use std::cmp::Ordering;
use std::fmt;

use crate::go::quote;

mod constraint;
mod range;
mod release;

pub use constraint::Constraint;
pub use range::Range;
pub use release::{Release, VersionRelease};

/// A semantic version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// Empty for a release.
    pub pre: Vec<Identifier>,
    pub build: Vec<String>,
}

/// A part of a pre-release, between two dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifier {
    /// Numbers order before text.
    Number(u64),
    Text(String),
}

impl Version {
    /// Reads `1.2.3-rc.1+build`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, build.split('.').collect()),
            None => (rest, Vec::new()),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, pre.split('.').collect()),
            None => (rest, Vec::new()),
        };
        let patch = number(patch, "patch", "Patch")?;
        let pre = pre.into_iter().map(Identifier::parse).collect::<Result<_, _>>()?;
        let build = build.into_iter().map(build_part).collect::<Result<_, _>>()?;
        Ok(Version { major, minor, patch, pre, build })
    }

    /// Reads what a person may write: with a `v`, without minor and patch numbers, with leading zeros.
    pub fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let without_zeros = |part: &str| {
            let trimmed = part.trim_start_matches('0');
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
        };
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| if part.len() > 1 { without_zeros(part) } else { part.to_owned() })
            .collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Order by precedence: build metadata does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre(&self.pre, &other.pre))
    }

    /// The version without build metadata, as text.
    pub fn without_build(&self) -> String {
        Version { build: Vec::new(), ..self.clone() }.to_string()
    }
}

/// No pre-release is newer than any.
fn compare_pre(a: &[Identifier], b: &[Identifier]) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => a.cmp(b),
    }
}

impl Identifier {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            if has_leading_zero(text) {
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(text)));
            }
            return text.parse().map(Identifier::Number).map_err(|_| out_of_range(text));
        }
        if !is_alphanumeric(text) {
            return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
        }
        Ok(Identifier::Text(text.to_owned()))
    }
}

fn build_part(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    if !is_alphanumeric(text) {
        return Err(format!("Invalid character(s) found in build meta data {}", quote(text)));
    }
    Ok(text.to_owned())
}

fn number(text: &str, name: &str, capital: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if has_leading_zero(text) {
        return Err(format!("{capital} number must not contain leading zeroes {}", quote(text)));
    }
    if text.is_empty() {
        return Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned());
    }
    text.parse().map_err(|_| out_of_range(text))
}

fn out_of_range(text: &str) -> String {
    format!("strconv.ParseUint: parsing {}: value out of range", quote(text))
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (i, part) in self.pre.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { '-' } else { '.' })?;
        }
        for (i, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Number(number) => write!(f, "{number}"),
            Identifier::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn precedence_follows_semver() {
        let ascending =
            ["0.9.9", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-a", "1.0.0-a.1", "1.0.0-b", "1.0.0", "1.0.1"];
        for pair in ascending.windows(2) {
            assert_eq!(version(pair[0]).compare(&version(pair[1])), Ordering::Less, "{pair:?}");
        }
        assert_eq!(version("1.0.0+a").compare(&version("1.0.0+b")), Ordering::Equal);
        assert_eq!(version("1.0.0-rc.1+b.2").to_string(), "1.0.0-rc.1+b.2");
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (text, message) in [
            ("", "Version string empty"),
            ("1.0", "No Major.Minor.Patch elements found"),
            ("v1.0.0", "Invalid character(s) found in major number \"v1\""),
            ("1.01.0", "Minor number must not contain leading zeroes \"01\""),
            ("1.0.0-", "Prerelease is empty"),
            ("1.0.0-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.0.0+a_b", "Invalid character(s) found in build meta data \"a_b\""),
            ("1..0", "strconv.ParseUint: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(Version::parse(text).unwrap_err(), message, "{text}");
        }
    }
}
