//! The `Platform` document.

use serde_json::Value;

use crate::fbc::Fields;
use crate::version::{Range, Version};

/// What the document calls itself.
pub const API_VERSION: &str = "catalog.bailiwick.dev/v1alpha1";
pub const KIND: &str = "Platform";
/// What a platform is for that does not say.
const NEWEST_KUBERNETES: &str = "1.36";

/// Why a text is no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlatformError(String);

/// Operators that belong together.
#[derive(Clone, Debug)]
pub struct Platform {
    pub name: String,
    /// The Kubernetes versions it is for, from low to high.
    pub kubernetes: Vec<Version>,
    pub operators: Vec<Operator>,
    pub images: Images,
    /// Findings that were looked at and are accepted: `<operator>/<check>`.
    pub accepted: Vec<String>,
}

/// One operator of a platform.
#[derive(Clone, Debug)]
pub struct Operator {
    pub package: String,
    /// The default one if there is none.
    pub channel: Option<String>,
    /// The default one of the catalog, once that is known.
    pub(super) default_channel: Option<String>,
    pub versions: Option<Range>,
    /// As it was written.
    pub versions_text: String,
}

/// How images must be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// With a tag that does not move.
    #[default]
    Tagged,
    /// By digest.
    Digests,
}

impl Operator {
    /// Whether failures of it only warn: who takes candidates expects that.
    pub fn is_candidate(&self) -> bool {
        self.channel.as_deref().or(self.default_channel.as_deref()).is_some_and(is_candidate)
    }
}

/// Whether a channel is for candidates, by its name.
pub(super) fn is_candidate(channel: &str) -> bool {
    channel == "candidate" || channel.starts_with("candidate-")
}

impl Platform {
    /// Reads YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, PlatformError> {
        let decoded = bailiwick_machinery::yaml::decode(text).map_err(|error| PlatformError(error.to_string()))?;
        if let Some(twice) = decoded.strict_error() {
            return Err(PlatformError(twice));
        }
        read(&decoded.value).map_err(PlatformError)
    }
}

/// Refuses fields that would be silently ignored.
fn only(value: &Value, place: &str, known: &[&str]) -> Result<(), String> {
    let members = value.as_object().ok_or_else(|| format!("{place} must be an object"))?;
    match members.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!("{place} has an unknown field {key:?}; known are {}", known.join(", "))),
    }
}

fn read(value: &Value) -> Result<Platform, String> {
    only(value, "the document", &["apiVersion", "kind", "metadata", "spec"])?;
    let fields = Fields::of(value);
    let (api_version, kind) = (fields.text("apiVersion"), fields.text("kind"));
    if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        return Err(format!("this is {kind:?} of {api_version:?}, not {KIND} of {API_VERSION}"));
    }
    let name = Fields::of(fields.get("metadata")).text("name");
    if name.is_empty() {
        return Err("metadata.name is missing".to_owned());
    }
    let spec = fields.get("spec");
    only(spec, "spec", &["kubernetes", "operators", "images", "accepted"])?;
    let spec = Fields::of(spec);
    let mut kubernetes = texts(&spec, "kubernetes")?
        .iter()
        .map(|text| {
            Version::parse_tolerant(text).map_err(|error| format!("spec.kubernetes: {text:?} is no version: {error}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if kubernetes.is_empty() {
        kubernetes.extend(Version::parse_tolerant(NEWEST_KUBERNETES));
    }
    kubernetes.sort_by(Version::compare);
    let images = match spec.text("images").as_str() {
        "" | "tagged" => Images::Tagged,
        "digests" => Images::Digests,
        other => return Err(format!("spec.images must be \"tagged\" or \"digests\", not {other:?}")),
    };
    let operators =
        spec.list("operators").iter().enumerate().map(|(i, it)| operator(it, i)).collect::<Result<Vec<_>, _>>()?;
    if operators.is_empty() {
        return Err("spec.operators is empty: name at least one package".to_owned());
    }
    for (i, operator) in operators.iter().enumerate() {
        if operators.iter().take(i).any(|other| other.package == operator.package) {
            return Err(format!("spec.operators names package {} twice", operator.package));
        }
    }
    Ok(Platform { name, kubernetes, operators, images, accepted: texts(&spec, "accepted")? })
}

fn texts(fields: &Fields, name: &str) -> Result<Vec<String>, String> {
    let list = fields.list(name).iter().map(|it| match it {
        Value::String(text) => Ok(text.clone()),
        // 1.30 without quotes is the number 1.3.
        other => Err(format!("spec.{name} has {other}, which is no text: put it into quotes")),
    });
    list.collect()
}

fn operator(value: &Value, at: usize) -> Result<Operator, String> {
    let place = format!("spec.operators[{at}]");
    only(value, &place, &["package", "channel", "versions"])?;
    let fields = Fields::of(value);
    let package = fields.text("package");
    if package.is_empty() {
        return Err(format!("{place}.package is missing"));
    }
    let versions_text = fields.text("versions");
    let versions =
        match versions_text.as_str() {
            "" => None,
            text => Some(Range::parse(text).map_err(|error| {
                format!("{place}.versions: {text:?} is no range such as \">=1.2.0 <2.0.0\": {error}")
            })?),
        };
    let channel = Some(fields.text("channel")).filter(|it| !it.is_empty());
    Ok(Operator { package, channel, default_channel: None, versions, versions_text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: catalog.bailiwick.dev/v1alpha1\nkind: Platform\nmetadata: {name: p}\nspec:\n  \
        kubernetes: [\"1.36\", \"1.34\"]\n  operators:\n  - package: foo\n    channel: candidate-v1\n    versions: \">=1.0.0\"\n";

    #[test]
    fn a_platform_is_read() {
        let platform = Platform::parse(GOOD).unwrap();
        assert_eq!(platform.kubernetes[0].to_string(), "1.34.0");
        assert!(platform.operators[0].is_candidate());
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, message) in [
            ("kind: Platform", "kind: Platforms", "not Platform of"),
            ("name: p", "nam: p", "metadata.name is missing"),
            ("metadata:", "kind: Platform\nmetadata:", "line 3: key \"kind\" already set in map"),
            ("channel:", "chanel:", "spec.operators[0] has an unknown field \"chanel\""),
            (">=1.0.0", "^1", "is no range"),
            ("\"1.36\"", "1.36", "put it into quotes"),
            ("- package: foo", "- package: foo\n  - package: foo", "twice"),
        ] {
            let error = Platform::parse(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(message), "{to}: {error}");
        }
    }
}
