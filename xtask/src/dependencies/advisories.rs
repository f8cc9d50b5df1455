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

/// The advisories of the database in `dir` that hold for any of `packages`.
pub fn about(packages: &[Package], dir: &Path) -> Result<Vec<Advisory>> {
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let Ok(files) = std::fs::read_dir(dir.join("crates").join(&package.name)) else { continue };
        for file in files {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path)?;
                found.extend(holds(&text, package).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(found)
}

/// The advisory, if it holds for the package.
fn holds(text: &str, package: &Package) -> Result<Option<Advisory>> {
    let head = text.split("```").nth(1).context("an advisory begins with TOML")?;
    if line(head, "withdrawn").is_some() {
        return Ok(None);
    }
    let version = Version::parse(&package.version)?;
    let safe = [ranges(head, "patched"), ranges(head, "unaffected")].concat();
    for range in &safe {
        if VersionReq::parse(range)?.matches(&version) {
            return Ok(None);
        }
    }
    let severity = line(head, "informational").map_or(Severity::Vulnerability, Severity::Notice);
    let id = line(head, "id").context("an advisory has an id")?;
    Ok(Some(Advisory { id, package: format!("{} {}", package.name, package.version), severity }))
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

    fn package(version: &str) -> Package {
        Package { name: "h2".into(), version: version.into(), license: None, source: Some("x".into()) }
    }

    #[test]
    fn an_advisory_holds_for_versions_that_are_neither_patched_nor_unaffected() {
        for (version, affected) in
            [("0.4.3", true), ("0.4.4", false), ("0.3.26", false), ("0.3.25", true), ("0.1.9", false)]
        {
            let found = holds(ADVISORY, &package(version)).unwrap();
            assert_eq!(found.is_some(), affected, "{version}");
        }
        let found = holds(ADVISORY, &package("0.4.3")).unwrap().unwrap();
        assert_eq!((found.id.as_str(), found.severity), ("RUSTSEC-2024-0332", Severity::Vulnerability));
    }

    #[test]
    fn notices_are_told_from_vulnerabilities_and_withdrawn_ones_do_not_count() {
        let notice = ADVISORY.replace("package =", "informational = \"unmaintained\"\npackage =");
        assert_eq!(
            holds(&notice, &package("0.4.3")).unwrap().unwrap().severity,
            Severity::Notice("unmaintained".into())
        );
        let withdrawn = ADVISORY.replace("package =", "withdrawn = \"2025-01-01\"\npackage =");
        assert_eq!(holds(&withdrawn, &package("0.4.3")).unwrap(), None);
    }
}
