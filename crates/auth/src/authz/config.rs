//! AuthorizationConfiguration: which authorizers there are, read from a file and checked as upstream checks it.

mod validation;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bailiwick_machinery::yaml;
use serde::Deserialize;
use serde_json::Value;

use super::OnError;
use super::webhook::{Condition, Version};

/// The versions that are understood; all say the same.
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Why a configuration cannot be used. The text says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Load(String),
    #[error("{0}")]
    Invalid(String),
}

/// One authorizer, ready to be made.
#[derive(Debug)]
pub enum AuthorizerConfig {
    Rbac,
    AlwaysAllow,
    AlwaysDeny,
    Webhook(WebhookConfig),
}

/// How a webhook authorizer is asked.
#[derive(Debug)]
pub struct WebhookConfig {
    pub name: String,
    pub kubeconfig: PathBuf,
    pub version: Version,
    pub timeout: Duration,
    /// Zero for not at all.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub on_error: OnError,
    /// Expressions that compile.
    pub match_conditions: Vec<String>,
}

impl AuthorizerConfig {
    /// The name that upstream's `type` has.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Rbac => "RBAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Webhook(_) => "Webhook",
        }
    }
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    authorizers: Vec<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Entry {
    r#type: String,
    name: String,
    webhook: Option<Webhook>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Webhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: GoDuration,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: GoDuration,
    cache_unauthorized_requests: Option<bool>,
    timeout: GoDuration,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionInfo,
    match_conditions: Vec<MatchCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ConnectionInfo {
    r#type: String,
    kube_config_file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct MatchCondition {
    expression: String,
}

/// A duration in Go's notation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct GoDuration {
    nanos: i64,
    text: String,
}

impl TryFrom<String> for GoDuration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match bailiwick_cel::Duration::parse(&text) {
            Some(duration) => Ok(Self { nanos: duration.nanos, text }),
            None => Err(format!("time: invalid duration {text:?}")),
        }
    }
}

impl GoDuration {
    fn or(&self, default: Duration) -> Duration {
        if self.nanos == 0 { default } else { Duration::from_nanos(self.nanos.unsigned_abs()) }
    }
}

/// Upstream's defaults for how long answers are remembered.
const AUTHORIZED_TTL: Duration = Duration::from_secs(5 * 60);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// Reads a configuration. `required` are types that cannot be missing: a server that began with stored roles may not lose
/// them while it runs.
pub fn parse(text: &str, required: &BTreeSet<&'static str>) -> Result<Vec<AuthorizerConfig>, ConfigError> {
    let file = load(text).map_err(ConfigError::Load)?;
    let errors = validation::validate(&file);
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(ConfigError::Invalid(crate::go_format::aggregate(&errors)));
    }
    let mut complaints: Vec<String> = Vec::new();
    for entry in file.authorizers.iter().filter(|entry| entry.r#type != "Webhook") {
        let expected = entry.r#type.to_lowercase();
        if entry.name != expected {
            let (kind, name) = (&entry.r#type, &entry.name);
            complaints.push(format!("expected name {expected} for authorizer {kind} instead of {name}"));
        }
    }
    let has = |kind: &&&str| file.authorizers.iter().any(|entry| entry.r#type == ***kind);
    let missing: Vec<&str> = required.iter().filter(|kind| !has(kind)).copied().collect();
    if !missing.is_empty() {
        complaints.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    if !complaints.is_empty() {
        return Err(ConfigError::Invalid(crate::go_format::aggregate(&complaints)));
    }
    Ok(file.authorizers.into_iter().filter_map(settled).collect())
}

fn load(text: &str) -> Result<File, String> {
    let decoded = yaml::decode(text).map_err(|error| error.to_string())?;
    if let Some(error) = decoded.strict_error() {
        return Err(format!("strict decoding error: {error}"));
    }
    let field = |name: &str| decoded.value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    if version.is_empty() || kind.is_empty() {
        let missing = if kind.is_empty() { "kind" } else { "apiVersion" };
        return Err(format!("Object '{missing}' is missing"));
    }
    if !API_VERSIONS.contains(&version) || kind != "AuthorizationConfiguration" {
        return Err(format!(
            "expected AuthorizationConfiguration of {}, got {kind} of {version}",
            API_VERSIONS.join(", ")
        ));
    }
    serde_json::from_value(without_nulls(decoded.value)).map_err(|error| format!("strict decoding error: {error}"))
}

/// To Go, null is what is not there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name, without_nulls(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// A checked entry with its defaults.
fn settled(entry: Entry) -> Option<AuthorizerConfig> {
    Some(match entry.r#type.as_str() {
        "RBAC" => AuthorizerConfig::Rbac,
        "AlwaysAllow" => AuthorizerConfig::AlwaysAllow,
        "AlwaysDeny" => AuthorizerConfig::AlwaysDeny,
        _ => {
            let webhook = entry.webhook?;
            let remembered = |cached: Option<bool>, ttl: Duration| {
                if cached == Some(false) { Duration::ZERO } else { ttl }
            };
            AuthorizerConfig::Webhook(WebhookConfig {
                name: entry.name,
                kubeconfig: webhook.connection_info.kube_config_file?.into(),
                version: Version::parse(&webhook.subject_access_review_version)?,
                timeout: webhook.timeout.or(Duration::ZERO),
                authorized_ttl: remembered(
                    webhook.cache_authorized_requests,
                    webhook.authorized_ttl.or(AUTHORIZED_TTL),
                ),
                unauthorized_ttl: remembered(
                    webhook.cache_unauthorized_requests,
                    webhook.unauthorized_ttl.or(UNAUTHORIZED_TTL),
                ),
                on_error: if webhook.failure_policy == "Deny" { OnError::Deny } else { OnError::NoOpinion },
                match_conditions: webhook.match_conditions.into_iter().map(|condition| condition.expression).collect(),
            })
        }
    })
}

impl WebhookConfig {
    /// Its conditions, compiled.
    pub fn conditions(&self) -> Result<super::webhook::Conditions, ConfigError> {
        let compiled: Result<Vec<Condition>, _> =
            self.match_conditions.iter().map(|text| Condition::compile(text)).collect();
        compiled.map(super::webhook::Conditions::new).map_err(|error| ConfigError::Invalid(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
