//! `apiserver.config.k8s.io/v1` EncryptionConfiguration, read and checked as kube-apiserver does. Keys never get into
//! errors.

use std::path::Path as FilePath;
use std::time::Duration;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::yaml;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("error reading encryption provider configuration file {path:?}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("encryption provider configuration file {0:?} is empty")]
    Empty(String),
    #[error("error while parsing file: error decoding encryption provider configuration file {path:?}: {reason}")]
    Malformed { path: String, reason: String },
    #[error("error while parsing file: {0}")]
    Invalid(String),
    #[error("error while building transformers: {0}")]
    Build(String),
}

/// What is encrypted, and by whom.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EncryptionConfig {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    pub(crate) resources: Vec<ResourceConfig>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceConfig {
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub providers: Vec<ProviderConfig>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub aesgcm: Option<Keys>,
    pub aescbc: Option<Keys>,
    pub secretbox: Option<Keys>,
    pub identity: Option<Identity>,
    pub kms: Option<KmsConfig>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Keys {
    pub keys: Vec<Key>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Key {
    pub name: String,
    pub secret: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Identity {}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct KmsConfig {
    pub api_version: String,
    pub name: String,
    #[serde(rename = "cachesize")]
    pub cache_size: Option<i64>,
    pub endpoint: String,
    pub timeout: Option<String>,
}

/// How long a plugin may take where nothing else is said, as upstream.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

impl KmsConfig {
    pub fn timeout(&self) -> Option<Duration> {
        match &self.timeout {
            None => Some(KMS_TIMEOUT),
            Some(text) => text.parse::<jiff::SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok()),
        }
    }

    /// Configurations of the time before versions are of the first.
    fn version(&self) -> &str {
        if self.api_version.is_empty() { "v1" } else { &self.api_version }
    }
}

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

impl EncryptionConfig {
    /// Reads a configuration file.
    pub fn load(path: &FilePath) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: shown.clone(), source })?;
        if text.is_empty() {
            return Err(ConfigError::Empty(shown));
        }
        let config = Self::decode(&text).map_err(|reason| ConfigError::Malformed { path: shown, reason })?;
        config.check()?;
        Ok(config)
    }

    /// Reads a configuration.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config = Self::decode(text).map_err(|reason| ConfigError::Malformed { path: String::new(), reason })?;
        config.check()?;
        Ok(config)
    }

    fn decode(text: &str) -> Result<Self, String> {
        let value = yaml::decode(text).map_err(|error| error.to_string())?.value;
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        if kind.is_empty() {
            return Err("Object 'Kind' is missing".to_owned());
        }
        if (api_version, kind) != (API_VERSION, KIND) {
            return Err(format!("no kind {kind:?} is registered for version {api_version:?}"));
        }
        // The message of a wrong type would show the value, which may be a key: it says where, not what.
        serde_json::from_value(value).map_err(|error| format!("strict decoding error: {}", without_values(&error)))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let errors = self.errors();
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(ConfigError::Invalid(one.to_string())),
            many => {
                let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
                Err(ConfigError::Invalid(format!("[{}]", texts.join(", "))))
            }
        }
    }

    fn errors(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let root = Path::new("resources");
        if self.resources.is_empty() {
            errors.push(Error::required(&root, "at least one resources is required"));
        }
        let mut kms_names: Vec<&str> = Vec::new();
        for (index, entry) in self.resources.iter().enumerate() {
            let path = root.index(index);
            let (resources, providers) = (path.child("resources"), path.child("providers"));
            if entry.resources.is_empty() {
                errors.push(Error::required(&resources, format!("at least one {} is required", resources.as_str())));
            }
            check_overlap(&entry.resources, &resources, &mut errors);
            check_names(&entry.resources, &resources, &mut errors);
            if entry.providers.is_empty() {
                errors.push(Error::required(&providers, format!("at least one {} is required", providers.as_str())));
            }
            for (index, provider) in entry.providers.iter().enumerate() {
                provider.check(&providers.index(index), &mut kms_names, &mut errors);
            }
        }
        errors
    }
}

/// What a decoding error says, without the values it quotes.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.starts_with("unknown field") || text.starts_with("missing field") {
        text
    } else {
        "a field has the wrong type".to_owned()
    }
}

/// A resource and its group as the configuration writes them: `secrets`, `pandas.bears.example`, `*.apps`, `*.`, `*.*`.
pub(crate) fn group_resource(text: &str) -> (&str, &str) {
    match text.split_once('.') {
        Some((resource, group)) => (group, resource),
        None => ("", text),
    }
}

fn check_overlap(resources: &[String], path: &Path, errors: &mut ErrorList) {
    let parsed: Vec<(&str, &str)> = resources.iter().map(|resource| group_resource(resource)).collect();
    let (mut duplicate, mut overlap) = (false, false);
    for (i, a) in parsed.iter().enumerate() {
        for b in parsed.iter().enumerate().filter(|(j, _)| i != *j).map(|(_, b)| b) {
            if a == b {
                duplicate = true;
            }
            overlap |= a != b && (*a == ("*", "*") || (a.0 == b.0 && (a.1 == "*" || b.1 == "*")));
        }
    }
    if duplicate {
        let detail = "the same resource cannot be specified multiple times";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
    if overlap {
        let detail = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed \
                      as they will be masked";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
}

fn check_names(resources: &[String], path: &Path, errors: &mut ErrorList) {
    for (index, resource) in resources.iter().enumerate() {
        let detail = match group_resource(resource) {
            _ if resource.to_lowercase() != *resource => "resource name should not contain capital letters",
            _ if resource == "*" => {
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
            }
            ("", "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations") => {
                "resources which do not have REST API/s cannot be encrypted"
            }
            ("events.k8s.io", _) => {
                "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
                 config file"
            }
            ("extensions", _) => "'extensions' group has been removed and cannot be used for encryption",
            ("*", resource) if resource != "*" => "encrypting the same resource across groups is not supported",
            _ => continue,
        };
        errors.push(Error::invalid(&path.index(index), resource.as_str(), detail));
    }
}

/// The lengths of AES keys, and how a message lists them.
const AES_KEYS: (&[usize], &str) = (&[16, 24, 32], "[16 24 32]");
const SECRETBOX_KEYS: (&[usize], &str) = (&[32], "[32]");

impl ProviderConfig {
    fn check<'a>(&'a self, path: &Path, kms_names: &mut Vec<&'a str>, errors: &mut ErrorList) {
        let given = [self.kms.is_some(), self.aesgcm.is_some(), self.aescbc.is_some(), self.secretbox.is_some()];
        let count = given.into_iter().chain([self.identity.is_some()]).filter(|given| *given).count();
        if count == 0 {
            let detail =
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
            errors.push(Error::invalid(path, "REDACTED", detail));
        } else if count > 1 {
            let detail =
                "more than one provider specified in a single element, should split into different list elements";
            errors.push(Error::invalid(path, "REDACTED", detail));
        }
        if let Some(kms) = &self.kms {
            kms.check(&path.child("kms"), kms_names, errors);
            kms_names.push(&kms.name);
        } else if let Some(keys) = &self.aesgcm {
            keys.check(&path.child("aesgcm").child("keys"), AES_KEYS, errors);
        } else if let Some(keys) = &self.aescbc {
            keys.check(&path.child("aescbc").child("keys"), AES_KEYS, errors);
        } else if let Some(keys) = &self.secretbox {
            keys.check(&path.child("secretbox").child("keys"), SECRETBOX_KEYS, errors);
        }
    }
}

impl Keys {
    fn check(&self, path: &Path, (lengths, shown): (&[usize], &str), errors: &mut ErrorList) {
        if self.keys.is_empty() {
            errors.push(Error::required(path, "at least one keys is required"));
        }
        for (index, key) in self.keys.iter().enumerate() {
            let path = path.index(index);
            if key.name.is_empty() {
                errors.push(Error::required(&path.child("name"), "name is a mandatory field for a key"));
            }
            let secret = path.child("secret");
            if key.secret.is_empty() {
                errors.push(Error::required(&secret, "secret is a mandatory field for a key"));
                continue;
            }
            match STANDARD.decode(&key.secret) {
                Err(_) => errors.push(Error::invalid(&secret, "REDACTED", "secrets must be base64 encoded")),
                Ok(bytes) if !lengths.contains(&bytes.len()) => {
                    let detail =
                        format!("secret is not of the expected length, got {}, expected one of {shown}", bytes.len());
                    errors.push(Error::invalid(&secret, "REDACTED", detail));
                }
                Ok(_) => {}
            }
        }
    }
}

impl KmsConfig {
    fn check(&self, path: &Path, names: &[&str], errors: &mut ErrorList) {
        let name = path.child("name");
        let version = self.version();
        if self.name.is_empty() {
            errors.push(Error::required(&name, "name is a mandatory field for a provider"));
        }
        if version != "v1" && self.name.contains(':') {
            let detail = format!("invalid KMS provider name {}, must not contain ':'", self.name);
            errors.push(Error::invalid(&name, self.name.as_str(), detail));
        }
        if names.contains(&self.name.as_str()) {
            let detail = format!("duplicate KMS provider name {}, names must be unique", self.name);
            errors.push(Error::invalid(&name, self.name.as_str(), detail));
        }
        if self.timeout().is_none_or(|timeout| timeout.is_zero()) {
            let shown = self.timeout.clone().unwrap_or_default();
            errors.push(Error::invalid(&path.child("timeout"), shown, "timeout should be a positive value"));
        }
        let endpoint = path.child("endpoint");
        let scheme = self.endpoint.split_once("://").map_or("", |(scheme, _)| scheme);
        if self.endpoint.is_empty() {
            errors.push(Error::invalid(&endpoint, "", "endpoint is a mandatory field for a kms"));
        } else if scheme != "unix" {
            let detail = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
            errors.push(Error::invalid(&endpoint, self.endpoint.as_str(), detail));
        }
        if let Some(size) = self.cache_size.filter(|_| version != "v1") {
            errors.push(Error::invalid(&path.child("cachesize"), size, "cachesize is not supported in v2"));
        }
        if !matches!(version, "v1" | "v2") {
            let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
            errors.push(Error::invalid(&path.child("apiVersion"), version, detail));
        }
    }

    pub fn is_v1(&self) -> bool {
        self.version() == "v1"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        match EncryptionConfig::parse(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{body}")) {
            Ok(_) => panic!("is refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_are_worded_as_upstream() {
        let intro = "error while parsing file: ";
        assert_eq!(
            refusal("resources: []"),
            format!("{intro}resources: Required value: at least one resources is required")
        );
        let provider = "providers: [{identity: {}}]";
        assert_eq!(
            refusal(&format!("resources: [{{resources: [secrets, '*.'], {provider}}}]")),
            format!(
                "{intro}resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping resources such as \
                 'secrets' and '*.' in the same resource list is not allowed as they will be masked"
            )
        );
        assert_eq!(
            refusal(&format!("resources: [{{resources: ['*'], {provider}}}]")),
            format!(
                "{intro}resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core \
                 API group or *.* to encrypt all resources"
            )
        );
        assert_eq!(
            refusal(
                "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}}]}]"
            ),
            format!(
                "{intro}resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the \
                 expected length, got 5, expected one of [16 24 32]"
            )
        );
        assert_eq!(
            refusal(
                "resources: [{resources: [secrets], providers: [{kms: {apiVersion: v2, name: 'a:b', endpoint: 'tcp://x'}}]}]"
            ),
            format!(
                "{intro}[resources[0].providers[0].kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not \
                 contain ':', resources[0].providers[0].kms.endpoint: Invalid value: \"tcp://x\": unsupported scheme \"tcp\" \
                 for KMS provider, only unix is supported]"
            )
        );
    }

    #[test]
    fn a_key_never_gets_into_an_error() {
        for body in [
            "resources: [{resources: [secrets], providers: [{aesgcm: {keys: hunter2}}]}]",
            "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: a, secret: [hunter2]}]}}]}]",
            "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: a, secret: hunter2}]}}]}]",
        ] {
            let shown = refusal(body);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
