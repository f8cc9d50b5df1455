//! What is written around manifests to make them a bundle: `annotations.yaml` and a Dockerfile, as opm writes them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::csv::Csv;
use crate::fbc::{DocumentReader, Fields, parse_lenient};

const LABELS: &str = "operators.operatorframework.io.bundle";

/// What a bundle says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleLabels {
    /// `registry+v1` for what OLM installs.
    pub media_type: &'static str,
    pub package: String,
    /// With commas between them.
    pub channels: String,
    /// Empty if there is none.
    pub default_channel: String,
}

impl BundleLabels {
    /// In opm's order.
    fn pairs(&self) -> Vec<(String, &str)> {
        let mut pairs = vec![
            ("mediatype.v1", self.media_type),
            ("manifests.v1", "manifests/"),
            ("metadata.v1", "metadata/"),
            ("package.v1", &self.package),
            ("channels.v1", &self.channels),
        ];
        if !self.default_channel.is_empty() {
            pairs.push(("channel.default.v1", &self.default_channel));
        }
        pairs.into_iter().map(|(name, value)| (format!("{LABELS}.{name}"), value)).collect()
    }

    /// The labels of the image.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.pairs().into_iter().map(|(key, value)| (key, value.to_owned())).collect()
    }

    /// The text of `metadata/annotations.yaml`.
    pub fn annotations(&self) -> String {
        bailiwick_machinery::yaml::encode(&json!({"annotations": self.labels()}))
    }

    /// The text of `bundle.Dockerfile`, which is used in a directory from which the two others are named.
    pub fn dockerfile(&self, base_image: &str, manifests: &Path, metadata: &Path) -> String {
        let mut out = format!("FROM {base_image}\n\n");
        for (key, value) in self.pairs() {
            out.push_str(&format!("LABEL {key}={value}\n"));
        }
        if !self.default_channel.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("COPY {} /manifests/\n", manifests.display()));
        out.push_str(&format!("COPY {} /metadata/\n", metadata.display()));
        out
    }

    /// What an `annotations.yaml` that is there already says otherwise.
    pub fn missing_in(&self, existing: &str) -> Result<Vec<String>, String> {
        let decoded = bailiwick_machinery::yaml::decode(existing).map_err(|error| error.to_string())?;
        let annotations = decoded.value.get("annotations").cloned().unwrap_or_default();
        let mut findings = Vec::new();
        for (key, wanted) in self.pairs() {
            match annotations.get(&key).and_then(Value::as_str) {
                None => findings.push(format!("Missing field: {key}")),
                Some(value) if value != wanted => {
                    findings.push(format!("Expect field {key:?} to have value {wanted:?} instead of {value:?}"));
                }
                Some(_) => {}
            }
        }
        findings.sort();
        Ok(findings)
    }
}

/// Which kind of bundle a directory of manifests is.
pub fn media_type(manifests: &Path) -> Result<&'static str, String> {
    let at = |error: std::io::Error| format!("{}: {error}", manifests.display());
    let mut is_empty = true;
    let mut has_csv = false;
    for entry in std::fs::read_dir(manifests).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() {
            continue;
        }
        is_empty = false;
        let data = std::fs::read(&path).map_err(|_| format!("Unable to read file {} in bundle", path.display()))?;
        let document = DocumentReader::new(data.as_slice()).next_document().ok().flatten();
        let object = document.and_then(|it| parse_lenient(&it).ok());
        has_csv |= object.as_ref().is_some_and(|it| Csv::new(it).is_some());
        let is_chart = path.file_name().is_some_and(|name| name == "Chart.yaml")
            && object.as_ref().is_some_and(|it| !Fields::of(it).text("name").is_empty());
        if is_chart {
            return Ok("helm");
        }
    }
    if is_empty {
        return Err(format!("The directory {} contains no yaml files", manifests.display()));
    }
    Ok(if has_csv { "registry+v1" } else { "plain" })
}

/// How a path is named from a directory; both are absolute.
pub fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<Component>, Vec<Component>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.iter().skip(shared).copied()).collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_from_elsewhere() {
        for (from, to, named) in
            [("/a/b", "/a/b/c", "c"), ("/a/b", "/a/x/y", "../x/y"), ("/a", "/a", "."), ("/a/b", "/c", "../../c")]
        {
            assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(named));
        }
    }

    #[test]
    fn annotations_that_say_something_else_are_named() {
        let labels = BundleLabels {
            media_type: "registry+v1",
            package: "foo".to_owned(),
            channels: "stable,beta".to_owned(),
            default_channel: String::new(),
        };
        assert!(labels.missing_in(&labels.annotations()).unwrap().is_empty());
        let changed = labels.annotations().replace("package.v1: foo", "package.v1: bar").replace("stable,beta", "x");
        assert_eq!(labels.missing_in(&changed).unwrap().len(), 2);
    }
}
