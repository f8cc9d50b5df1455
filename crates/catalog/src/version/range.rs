//! Version ranges: `>=1.0.0 <2.0.0 || 3.x`. A space means and, `||` means or, `x` stands for any number.

use std::cmp::Ordering;

use super::Version;
use crate::go::quote;

/// A set of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range(Vec<Vec<Comparison>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Range {
    /// Reads a range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split(text);
        if parts.first().is_some_and(|part| part == "||") {
            return Err("First element in range is '||'".to_owned());
        }
        if parts.last().is_none_or(|part| part == "||") {
            return Err("Last element in range is '||'".to_owned());
        }
        let alternatives = parts.split(|part| part == "||").map(expand).collect::<Result<Vec<_>, _>>()?;
        alternatives
            .iter()
            .map(|all| all.iter().map(|part| comparison(part)).collect())
            .collect::<Result<_, _>>()
            .map(Range)
    }

    /// Whether a version is in the range.
    pub fn contains(&self, version: &Version) -> bool {
        self.0.iter().any(|all| all.iter().all(|comparison| comparison.holds(version)))
    }
}

impl Comparison {
    fn holds(&self, version: &Version) -> bool {
        let order = version.compare(&self.version);
        match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
        }
    }
}

/// Splits at spaces, except after an operator. Single characters are dropped, as upstream does.
fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut push = |from: usize, to: usize| {
        if from + 1 < to {
            parts.push(text.get(from..to).unwrap_or_default().replace(' ', ""));
        }
    };
    let (mut start, mut last) = (0, 0u8);
    for (i, byte) in text.bytes().enumerate() {
        if byte == b' ' && !matches!(last, b'>' | b'<' | b'=') {
            push(start, i);
            start = i + 1;
        } else if byte != b' ' {
            last = byte;
        }
    }
    push(start, text.len());
    parts
}

fn split_operator(part: &str) -> Result<(&str, &str), String> {
    let at = part
        .find(|c: char| c.is_numeric())
        .ok_or_else(|| format!("Could not get version from string: {}", quote(part)))?;
    let (operator, version) = part.split_at(at);
    Ok((operator.trim(), version))
}

fn comparison(part: &str) -> Result<Comparison, String> {
    let (operator_text, version_text) = split_operator(part)?;
    let whole = format!("{operator_text}{version_text}");
    let operator = match operator_text {
        "" | "=" | "==" => Operator::Equal,
        "!" | "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        _ => {
            let reason = format!("Could not parse comparator {} in {}", quote(operator_text), quote(&whole));
            return Err(format!("Could not parse Range {}: {reason}", quote(part)));
        }
    };
    let version = Version::parse(version_text).map_err(|error| {
        let reason = format!("Could not parse version {} in {}: {error}", quote(version_text), quote(&whole));
        format!("Could not parse Range {}: {reason}", quote(part))
    })?;
    Ok(Comparison { operator, version })
}

/// Replaces wildcards by comparisons with what they stand for.
fn expand(parts: &[String]) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for part in parts {
        if !part.contains('x') {
            out.push(part.clone());
            continue;
        }
        let (operator, version) = split_operator(part)?;
        let lowest = lowest_match(version);
        let above = || above_matches(version, &lowest);
        match operator {
            ">" => out.push(format!(">={}", above())),
            ">=" | "<" => out.push(format!("{operator}{lowest}")),
            "<=" => out.push(format!("<{}", above())),
            "" | "=" | "==" => out.extend([format!(">={lowest}"), format!("<{}", above())]),
            "!" | "!=" => out.extend([format!("<{lowest}"), format!(">={}", above())]),
            _ => out.push(lowest),
        }
    }
    Ok(out)
}

/// `1.x` and `1.x.x` as `1.0.0`.
fn lowest_match(version: &str) -> String {
    let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 { format!("{flat}.0") } else { flat }
}

/// The first version after what a wildcard covers; nothing when there is no wildcard at the end.
fn above_matches(version: &str, lowest: &str) -> String {
    let parts: Vec<&str> = version.split('.').collect();
    let position = match (parts.last(), parts.len()) {
        (Some(&"x"), 3) => 1,
        (Some(&"x"), 2) => 0,
        _ => return String::new(),
    };
    let mut numbers: Vec<String> = lowest.split('.').map(str::to_owned).collect();
    match numbers.get_mut(position).map(|text| (text.parse::<i64>(), text)) {
        Some((Ok(number), text)) => *text = number.wrapping_add(1).to_string(),
        _ => return String::new(),
    }
    numbers.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: &str, version: &str) -> bool {
        Range::parse(range).unwrap().contains(&Version::parse(version).unwrap())
    }

    #[test]
    fn and_or_and_wildcards() {
        for (range, inside, outside) in [
            (">=1.0.0 <2.0.0", "1.5.0", "2.0.0"),
            (">= 1.0.0 < 2.0.0", "1.0.0", "0.9.0"),
            ("<1.0.0 || >=3.0.0", "3.1.0", "2.0.0"),
            ("1.2.x", "1.2.9", "1.3.0"),
            ("1.x", "1.9.0", "2.0.0"),
            ("!=1.5.0", "1.5.1", "1.5.0"),
            (">=0.1.0", "1.0.0-rc.1", "0.1.0-rc.1"),
        ] {
            assert!(contains(range, inside), "{range} {inside}");
            assert!(!contains(range, outside), "{range} {outside}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (range, message) in [
            ("", "Last element in range is '||'"),
            ("|| >1.0.0", "First element in range is '||'"),
            ("abc", "Could not get version from string: \"abc\""),
            ("~1.0.0", "Could not parse Range \"~1.0.0\": Could not parse comparator \"~\" in \"~1.0.0\""),
            (
                ">1.0",
                "Could not parse Range \">1.0\": Could not parse version \"1.0\" in \">1.0\": No Major.Minor.Patch elements found",
            ),
        ] {
            assert_eq!(Range::parse(range).unwrap_err(), message, "{range}");
        }
    }
}
