//! The file of `--authentication-config`: `AuthenticationConfiguration` of apiserver.config.k8s.io, decoded strictly.

use bailiwick_machinery::yaml;
use serde::Deserialize;
use serde_json::Value;

/// A configuration larger than this is not read: 64 issuers with their certificate authorities are well below.
pub const MAX_CONFIG_BYTES: usize = 4 * 1024 * 1024;

const GROUP: &str = "apiserver.config.k8s.io";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

/// Why a configuration cannot be read. What it says may still be invalid, see [`super::validation`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("empty config data")]
    Empty,
    #[error("the configuration has more than {MAX_CONFIG_BYTES} bytes")]
    TooLarge,
    #[error("{0}")]
    Malformed(String),
    #[error("no kind {kind:?} is registered for version {api_version:?} in scheme {GROUP:?}")]
    Kind { kind: String, api_version: String },
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

/// Whom to believe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthenticationConfiguration {
    pub jwt: Vec<JwtAuthenticator>,
    pub anonymous: Option<AnonymousConfig>,
}

/// Whether callers without credentials are served, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnonymousConfig {
    pub enabled: bool,
    pub conditions: Vec<AnonymousCondition>,
}

/// A path that callers without credentials may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AnonymousCondition {
    pub path: String,
}

/// An issuer of tokens and what its tokens mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwtAuthenticator {
    pub issuer: Issuer,
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    pub claim_mappings: ClaimMappings,
    pub user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Issuer {
    pub url: String,
    #[serde(rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    pub egress_selector_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimValidationRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimMappings {
    pub username: PrefixedClaimOrExpression,
    pub groups: PrefixedClaimOrExpression,
    pub uid: ClaimOrExpression,
    pub extra: Vec<ExtraMapping>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PrefixedClaimOrExpression {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimOrExpression {
    pub claim: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtraMapping {
    pub key: String,
    pub value_expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserValidationRule {
    pub expression: String,
    pub message: String,
}

/// The members an object may have; a list is as its elements.
enum Shape {
    Leaf,
    Object(&'static [(&'static str, Shape)]),
}

const CONFIGURATION: Shape =
    Shape::Object(&[("apiVersion", Shape::Leaf), ("kind", Shape::Leaf), ("anonymous", ANONYMOUS), ("jwt", JWT)]);
const ANONYMOUS: Shape =
    Shape::Object(&[("enabled", Shape::Leaf), ("conditions", Shape::Object(&[("path", Shape::Leaf)]))]);
const JWT: Shape = Shape::Object(&[
    ("issuer", ISSUER),
    ("claimValidationRules", CLAIM_RULE),
    ("claimMappings", MAPPINGS),
    ("userValidationRules", Shape::Object(&[("expression", Shape::Leaf), ("message", Shape::Leaf)])),
]);
const ISSUER: Shape = Shape::Object(&[
    ("url", Shape::Leaf),
    ("discoveryURL", Shape::Leaf),
    ("certificateAuthority", Shape::Leaf),
    ("audiences", Shape::Leaf),
    ("audienceMatchPolicy", Shape::Leaf),
    ("egressSelectorType", Shape::Leaf),
]);
const CLAIM_RULE: Shape = Shape::Object(&[
    ("claim", Shape::Leaf),
    ("requiredValue", Shape::Leaf),
    ("expression", Shape::Leaf),
    ("message", Shape::Leaf),
]);
const MAPPINGS: Shape = Shape::Object(&[
    ("username", PREFIXED),
    ("groups", PREFIXED),
    ("uid", Shape::Object(&[("claim", Shape::Leaf), ("expression", Shape::Leaf)])),
    ("extra", Shape::Object(&[("key", Shape::Leaf), ("valueExpression", Shape::Leaf)])),
]);
const PREFIXED: Shape = Shape::Object(&[("claim", Shape::Leaf), ("prefix", Shape::Leaf), ("expression", Shape::Leaf)]);

impl AuthenticationConfiguration {
    /// Reads a configuration in YAML or JSON. Fields that do not exist and keys given twice are errors.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.is_empty() {
            return Err(ConfigError::Empty);
        }
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLarge);
        }
        let decoded = yaml::decode(text).map_err(|error| ConfigError::Malformed(error.to_string()))?;
        let member = |name: &str| decoded.value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, api_version) = (member("kind"), member("apiVersion"));
        let known =
            api_version.split_once('/').is_some_and(|(group, version)| group == GROUP && VERSIONS.contains(&version));
        if kind != KIND || !known {
            return Err(ConfigError::Kind { kind, api_version });
        }
        let mut strict: Vec<String> = decoded.strict_error().into_iter().collect();
        unknown_fields(&decoded.value, &CONFIGURATION, "", &mut strict);
        if !strict.is_empty() {
            return Err(ConfigError::Strict(strict));
        }
        serde_json::from_value(without_nulls(decoded.value)).map_err(|error| ConfigError::Malformed(error.to_string()))
    }
}

/// As Go decodes it, null is the same as absent. Nesting is limited by the YAML decoder.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn unknown_fields(value: &Value, shape: &Shape, path: &str, found: &mut Vec<String>) {
    match (value, shape) {
        (Value::Array(items), _) => {
            for (index, item) in items.iter().enumerate() {
                unknown_fields(item, shape, &format!("{path}[{index}]"), found);
            }
        }
        (Value::Object(members), Shape::Object(known)) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.iter().find(|(known, _)| known == name) {
                    Some((_, shape)) => unknown_fields(member, shape, &path, found),
                    None => found.push(format!("unknown field {path:?}")),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    #[test]
    fn every_served_version_is_read() {
        for version in VERSIONS {
            let text = format!(
                "apiVersion: {GROUP}/{version}\nkind: {KIND}\njwt: [{{issuer: {{url: 'https://a', discoveryURL: 'https://b'}}}}]\n"
            );
            let config = AuthenticationConfiguration::parse(&text).expect(version);
            let issuer = &config.jwt.first().expect("one").issuer;
            assert_eq!((issuer.url.as_str(), issuer.discovery_url.as_deref()), ("https://a", Some("https://b")));
        }
    }

    #[test]
    fn what_nobody_knows_is_named() {
        let text = format!("{HEAD}jwt: [{{issuer: {{url: x, colour: red}}}}]\nport: 1\n");
        let error = AuthenticationConfiguration::parse(&text).expect_err("refused").to_string();
        assert_eq!(error, "strict decoding error: unknown field \"jwt[0].issuer.colour\", unknown field \"port\"");
        let error = AuthenticationConfiguration::parse("kind: Foo\napiVersion: v1\n").expect_err("refused").to_string();
        assert_eq!(error, "no kind \"Foo\" is registered for version \"v1\" in scheme \"apiserver.config.k8s.io\"");
        assert_eq!(AuthenticationConfiguration::parse(""), Err(ConfigError::Empty));
        let error = AuthenticationConfiguration::parse(&format!("{HEAD}jwt: []\njwt: []\n")).expect_err("refused");
        assert!(error.to_string().contains("already set in map"), "{error}");
    }

    #[test]
    fn null_is_absent() {
        let config = AuthenticationConfiguration::parse(&format!("{HEAD}jwt: null\nanonymous: null\n"));
        assert_eq!(config, Ok(AuthenticationConfiguration::default()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ \\n{}\\[\\]:,a-c'\"-]{0,60}") {
            let _ = AuthenticationConfiguration::parse(&format!("{HEAD}{text}"));
            let _ = AuthenticationConfiguration::parse(&text);
        }
    }
}
