//! RustSec's advisories: one file per advisory, with a TOML head that names the crate and the versions that are safe.

use std::path::Path;

use anyhow::{Context, Result};
use regex::Regex;
use semver::{Version, VersionReq};

use super::Package;

/// An advisory about a crate of the build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advisory {
    pub id: String,
    pub package: String,
    /// Vulnerabilities fail a run; notices (unmaintained, unsound, notice) are only shown.
    pub severity: Severity,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Severity {
    Vulnerability,
    Notice(String),
}

/// What a database says of one crate: all that is needed to decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    pub package: String,
    pub id: String,
    /// The kind of a notice; empty for vulnerabilities.
    pub informational: String,
    /// Requirements that safe versions meet.
    pub safe: Vec<String>,
}

/// Everything a copy of the database in `dir` says, but for what it has withdrawn.
pub fn read(dir: &Path) -> Result<Vec<Record>> {
    let crates = dir.join("crates");
    let mut records = Vec::new();
    for folder in std::fs::read_dir(&crates).with_context(|| crates.display().to_string())? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path)?;
                records.extend(Record::of_advisory(&text).with_context(|| path.display().to_string())?);
            }
        }
    }
    records.sort();
    Ok(records)
}

/// The records that hold for any of `packages`.
pub fn about(packages: &[Package], records: &[Record]) -> Result<Vec<Advisory>> {
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        for record in records.iter().filter(|record| record.package == package.name) {
            found.extend(record.holds(package).with_context(|| record.id.clone())?);
        }
    }
    Ok(found)
}

impl Record {
    /// Reads a file of the database; nothing if it is withdrawn.
    fn of_advisory(text: &str) -> Result<Option<Self>> {
        let head = text.split("```").nth(1).context("an advisory begins with TOML")?;
        if line(head, "withdrawn").is_some() {
            return Ok(None);
        }
        Ok(Some(Self {
            package: line(head, "package").context("an advisory is about a package")?,
            id: line(head, "id").context("an advisory has an id")?,
            informational: line(head, "informational").unwrap_or_default(),
            safe: [ranges(head, "patched"), ranges(head, "unaffected")].concat(),
        }))
    }

    /// The advisory, if it holds for the package.
    fn holds(&self, package: &Package) -> Result<Option<Advisory>> {
        let version = Version::parse(&package.version)?;
        for range in &self.safe {
            if VersionReq::parse(range)?.matches(&version) {
                return Ok(None);
            }
        }
        let severity = match self.informational.as_str() {
            "" => Severity::Vulnerability,
            kind => Severity::Notice(kind.to_owned()),
        };
        Ok(Some(Advisory { id: self.id.clone(), package: format!("{} {}", package.name, package.version), severity }))
    }

    /// A line of the snapshot: package, id, kind of notice and safe versions between tabs.
    fn to_line(&self) -> String {
        format!("{}\t{}\t{}\t{}", self.package, self.id, self.informational, self.safe.join(" || "))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let (package, id, informational) = (fields.next()?, fields.next()?, fields.next()?);
        let safe = fields.next()?.split(" || ").filter(|range| !range.is_empty()).map(str::to_owned).collect();
        Some(Self { package, id, informational, safe })
    }
}

/// What we keep of the database for machines that cannot fetch it: its date, and a line for each record about a crate of ours.
pub struct Snapshot {
    /// The day of the database's last change.
    pub date: String,
    pub records: Vec<Record>,
}

impl Snapshot {
    pub fn to_text(&self) -> String {
        let lines: Vec<String> = self.records.iter().map(Record::to_line).collect();
        format!(
            "# RustSec advisory-db as of {}, by `cargo xtask dependencies --snapshot`\n{}\n",
            self.date,
            lines.join("\n")
        )
    }

    pub fn parse(text: &str) -> Result<Self> {
        let (head, lines) = text.split_once('\n').context("a snapshot begins with its date")?;
        let date = head.split_whitespace().find(|word| word.starts_with("20")).context("a snapshot has a date")?;
        let records = lines.lines().map(|line| Record::from_line(line).with_context(|| line.to_owned()));
        Ok(Self { date: date.trim_end_matches(',').to_owned(), records: records.collect::<Result<_>>()? })
    }
}

/// The value of `key = "value"`.
fn line(head: &str, key: &str) -> Option<String> {
    let pattern = Regex::new(&format!(r#"(?m)^{key}\s*=\s*"([^"]*)""#)).ok()?;
    Some(pattern.captures(head)?[1].to_owned())
}

/// The members of `key = ["a", "b"]`.
fn ranges(head: &str, key: &str) -> Vec<String> {
    let (Ok(list), Ok(item)) = (Regex::new(&format!(r"(?ms)^{key}\s*=\s*\[(.*?)\]")), Regex::new(r#""([^"]*)""#))
    else {
        return Vec::new();
    };
    let Some(list) = list.captures(head) else { return Vec::new() };
    item.captures_iter(&list[1]).map(|found| found[1].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2024-0332\"\npackage = \"h2\"\n\n[versions]\n\
        patched = [\"^0.3.26\", \">= 0.4.4\"]\nunaffected = [\"< 0.2.0\"]\n```\n\n# Flood\n";

    fn holds(text: &str, version: &str) -> Option<Advisory> {
        let package = Package { name: "h2".into(), version: version.into(), license: None, source: Some("x".into()) };
        let records: Vec<Record> = Record::of_advisory(text).unwrap().into_iter().collect();
        about(&[package], &records).unwrap().pop()
    }

    #[test]
    fn an_advisory_holds_for_versions_that_are_neither_patched_nor_unaffected() {
        for (version, affected) in
            [("0.4.3", true), ("0.4.4", false), ("0.3.26", false), ("0.3.25", true), ("0.1.9", false)]
        {
            assert_eq!(holds(ADVISORY, version).is_some(), affected, "{version}");
        }
        let found = holds(ADVISORY, "0.4.3").unwrap();
        assert_eq!((found.id.as_str(), found.severity), ("RUSTSEC-2024-0332", Severity::Vulnerability));
    }

    #[test]
    fn notices_are_told_from_vulnerabilities_and_withdrawn_ones_do_not_count() {
        let notice = ADVISORY.replace("package =", "informational = \"unmaintained\"\npackage =");
        assert_eq!(holds(&notice, "0.4.3").unwrap().severity, Severity::Notice("unmaintained".into()));
        let withdrawn = ADVISORY.replace("package =", "withdrawn = \"2025-01-01\"\npackage =");
        assert_eq!(holds(&withdrawn, "0.4.3"), None);
    }

    #[test]
    fn a_snapshot_says_what_the_database_says() {
        let records = vec![Record::of_advisory(ADVISORY).unwrap().unwrap()];
        let text = Snapshot { date: "2026-08-21".into(), records: records.clone() }.to_text();
        let read = Snapshot::parse(&text).unwrap();
        assert_eq!((read.date.as_str(), read.records), ("2026-08-21", records));
    }
}
