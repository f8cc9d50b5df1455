//! The audit policy file: `audit.k8s.io/v1` Policy, read and checked as kube-apiserver does.

use std::path::Path as FilePath;

use bailiwick_machinery::audit::Level;
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::dns1123_subdomain;
use bailiwick_machinery::yaml;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::event::Stage;
use crate::rules::{GroupResources, Rule, StageSet};

const API_VERSION: &str = "audit.k8s.io/v1";

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("loading audit policy file: failed to read file path {path:?}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("loading audit policy file: {reason}: from file {path}")]
    Malformed { path: String, reason: String },
}

/// Which requests are recorded, and how much of them: the first rule that matches decides.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    rules: Vec<RuleDocument>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct RuleDocument {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResourcesDocument>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct GroupResourcesDocument {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Policy {
    /// Reads a policy file.
    pub fn load(path: &FilePath) -> Result<Self, PolicyError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| PolicyError::Io { path: shown.clone(), source })?;
        Self::parse(&text).map_err(|reason| PolicyError::Malformed { path: shown, reason })
    }

    /// Reads a policy; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = yaml::decode(text).map_err(|error| format!("failed decoding: {error}"))?.value;
        check_type(&value)?;
        let document: Document =
            serde_json::from_value(without_nulls(value)).map_err(|error| format!("failed decoding: {error}"))?;
        warn_of_unknown(&document);
        let errors = document.errors();
        match errors.as_slice() {
            [] => {}
            [one] => return Err(one.to_string()),
            many => return Err(format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))),
        }
        if document.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        Ok(document.into_policy())
    }
}

fn check_type(value: &Value) -> Result<(), String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        return Err(format!("failed decoding: Object 'Kind' is missing in '{value}'"));
    }
    if api_version != API_VERSION || kind != "Policy" {
        return Err(format!(
            "failed decoding: no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/audit/scheme.go:30\""
        ));
    }
    Ok(())
}

/// A null is as good as an absent field.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Unknown fields do not stop the server, as upstream, but are likely mistakes.
fn warn_of_unknown(document: &Document) {
    let known = ["apiVersion", "kind", "metadata"];
    let top = document.unknown.keys().filter(|key| !known.contains(&key.as_str()));
    let rules = document.rules.iter().flat_map(|rule| {
        rule.unknown.keys().chain(rule.resources.iter().flat_map(|resources| resources.unknown.keys()))
    });
    for field in top.chain(rules) {
        tracing::warn!(field, "the audit policy has an unknown field, which is ignored");
    }
}

impl Document {
    fn errors(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        check_stages(&self.omit_stages, &Path::new("omitStages"), &mut errors);
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check(&Path::new("rules").index(index), &mut errors);
        }
        errors
    }

    fn into_policy(self) -> Policy {
        let (omit, managed) = (stages(&self.omit_stages), self.omit_managed_fields);
        Policy { rules: self.rules.into_iter().map(|rule| rule.into_rule(omit, managed)).collect() }
    }
}

impl RuleDocument {
    fn check(&self, path: &Path, errors: &mut ErrorList) {
        let level = path.child("level");
        if self.level.is_empty() {
            errors.push(Error::required(&level, ""));
        } else if level_named(&self.level).is_none() {
            errors.push(Error::not_supported(&level, self.level.as_str(), &Level::ALL.map(Level::as_str)));
        }
        let urls = path.child("nonResourceURLs");
        for (index, url) in self.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            if !url.starts_with('/') {
                let detail = "non-resource URL rules must begin with a '/' character";
                errors.push(Error::invalid(&urls.index(index), url.as_str(), detail));
            }
            if url.strip_suffix(|_: char| true).is_some_and(|rest| rest.contains('*')) {
                let detail = "non-resource URL wildcards '*' must be the final character of the rule";
                errors.push(Error::invalid(&urls.index(index), url.as_str(), detail));
            }
        }
        let resources = path.child("resources");
        for group in &self.resources {
            if !group.group.is_empty() && group.group != "*" {
                let reasons = dns1123_subdomain(&group.group);
                if !reasons.is_empty() {
                    errors.push(Error::invalid(&resources.child("group"), group.group.as_str(), reasons.join(",")));
                }
            }
            if !group.resource_names.is_empty() && group.resources.is_empty() {
                let detail = "using resourceNames requires at least one resource";
                errors.push(Error::invalid(&resources.child("resourceNames"), group.resource_names.clone(), detail));
            }
        }
        check_stages(&self.omit_stages, &path.child("omitStages"), errors);
        let names_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.non_resource_urls.is_empty() && names_resources {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&urls, self.non_resource_urls.clone(), detail));
        }
    }

    fn into_rule(self, omit: StageSet, managed: bool) -> Rule {
        Rule {
            level: level_named(&self.level).unwrap_or(Level::None),
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            namespaces: self.namespaces,
            non_resource_urls: self.non_resource_urls,
            omit_stages: omit.union(stages(&self.omit_stages)),
            omit_managed_fields: self.omit_managed_fields.unwrap_or(managed),
            resources: self
                .resources
                .into_iter()
                .map(|r| GroupResources { group: r.group, resources: r.resources, resource_names: r.resource_names })
                .collect(),
        }
    }
}

fn level_named(name: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.as_str() == name)
}

fn stages(names: &[String]) -> StageSet {
    Stage::ALL.into_iter().filter(|stage| names.iter().any(|name| name == stage.as_str())).collect()
}

fn check_stages(names: &[String], path: &Path, errors: &mut ErrorList) {
    for (index, name) in names.iter().enumerate() {
        if !Stage::ALL.iter().any(|stage| stage.as_str() == name) {
            let allowed = Stage::ALL.map(Stage::as_str).join(",");
            errors.push(Error::invalid(&path.index(index), name.as_str(), format!("allowed stages are {allowed}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(rules: &str) -> String {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
        Policy::parse(&text).expect_err("is refused")
    }

    #[test]
    fn refusals_are_worded_as_upstream() {
        assert_eq!(refusal("rules: []"), "loaded illegal policy with 0 rules");
        assert_eq!(refusal("rules: [{}]"), "rules[0].level: Required value");
        assert_eq!(
            refusal("rules: [{level: Everything}]"),
            "rules[0].level: Unsupported value: \"Everything\": supported values: \"None\", \"Metadata\", \"Request\", \
             \"RequestResponse\""
        );
        assert_eq!(
            refusal("rules: [{level: None, nonResourceURLs: [healthz, \"/a*b\"]}]"),
            "[rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' \
             character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be \
             the final character of the rule]"
        );
        assert_eq!(
            refusal("omitStages: [Never]\nrules: [{level: None}]"),
            "omitStages[0]: Invalid value: \"Never\": allowed stages are \
             RequestReceived,ResponseStarted,ResponseComplete,Panic"
        );
        assert_eq!(
            refusal("rules: [{level: None, resources: [{group: apps, resourceNames: [a]}]}]"),
            "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
        );
        assert_eq!(
            refusal("rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]"),
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
             non-resource URLs"
        );
        let old = Policy::parse("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]");
        assert!(old.expect_err("too old").contains("no kind \"Policy\" is registered for version"));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        Policy::parse("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, colour: red}]").expect("read");
    }

    proptest! {
        #[test]
        fn any_text_is_a_policy_or_refused(text in "\\PC{0,200}") {
            let _ = Policy::parse(&text);
        }
    }
}
