//! The keys of a configuration, and which resource is sealed with which. The first provider writes, all read.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::cipher::{Cipher, CipherError};
use crate::config::{ConfigError, EncryptionConfig, Key, ProviderConfig, group_resource};
use crate::kms::Kms;

/// What every encrypted value begins with.
pub(crate) const ENCRYPTED: &[u8] = b"k8s:enc:";
const AESGCM: &str = "k8s:enc:aesgcm:v1:";
const AESCBC: &str = "k8s:enc:aescbc:v1:";
const SECRETBOX: &str = "k8s:enc:secretbox:v1:";

/// Why a value could not be sealed or opened. Names keys, never contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("no matching prefix found")]
    NoPrefix,
    #[error("identity transformer tried to read encrypted data")]
    Encrypted,
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    #[error("{error} (key {name:?})")]
    Cipher { name: String, error: CipherError },
    #[error("{0}")]
    Kms(String),
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<OpenError>),
}

/// A value that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub value: Bytes,
    /// Whether it would be sealed differently if it were written now.
    pub stale: bool,
}

/// All keys of a server.
pub struct Keyring {
    rules: Vec<Rule>,
    plugins: Vec<Arc<Kms>>,
}

struct Rule {
    group: String,
    resource: String,
    providers: Arc<Providers>,
}

/// What seals one resource.
pub(crate) struct Providers(Vec<Arc<Provider>>);

enum Provider {
    Keys { prefix: &'static str, family: &'static str, keys: Vec<NamedKey> },
    Identity,
    Kms(Arc<Kms>),
}

type MakeCipher = fn(&[u8]) -> Result<Cipher, CipherError>;

struct NamedKey {
    name: String,
    cipher: Cipher,
}

impl Keyring {
    /// Nothing is encrypted, and what is cannot be read.
    pub fn plain() -> Self {
        Self { rules: Vec::new(), plugins: Vec::new() }
    }

    /// The keys of a configuration. Plugins of key services are connected to.
    pub fn new(config: &EncryptionConfig) -> Result<Self, ConfigError> {
        let mut ring = Self::plain();
        for entry in &config.resources {
            let mut providers = Vec::new();
            for provider in &entry.providers {
                providers.push(Arc::new(ring.provider(provider)?));
            }
            let providers = Arc::new(Providers(providers));
            for resource in &entry.resources {
                ring.add_rule(resource, &providers)?;
            }
        }
        Ok(ring)
    }

    fn add_rule(&mut self, text: &str, providers: &Arc<Providers>) -> Result<(), ConfigError> {
        let (group, resource) = group_resource(text);
        for wildcard in [(group, "*"), ("*", "*")] {
            if self.rules.iter().any(|rule| (rule.group.as_str(), rule.resource.as_str()) == wildcard) {
                let earlier = if wildcard.0.is_empty() { "*.".to_owned() } else { format!("*.{}", wildcard.0) };
                return Err(ConfigError::Build(format!("resource {text:?} is masked by earlier rule {earlier:?}")));
            }
        }
        match self.rules.iter_mut().find(|rule| rule.group == group && rule.resource == resource) {
            Some(rule) => {
                let both = rule.providers.0.iter().chain(&providers.0).cloned().collect();
                rule.providers = Arc::new(Providers(both));
            }
            None => {
                let (group, resource) = (group.to_owned(), resource.to_owned());
                self.rules.push(Rule { group, resource, providers: providers.clone() });
            }
        }
        Ok(())
    }

    fn provider(&mut self, config: &ProviderConfig) -> Result<Provider, ConfigError> {
        if let Some(kms) = &config.kms {
            if kms.is_v1() {
                return Err(ConfigError::Build(
                    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."
                        .into(),
                ));
            }
            let plugin = Arc::new(Kms::new(kms).map_err(ConfigError::Build)?);
            self.plugins.push(plugin.clone());
            return Ok(Provider::Kms(plugin));
        }
        let (prefix, family, keys, cipher): (_, _, _, MakeCipher) = if let Some(keys) = &config.aesgcm {
            (AESGCM, "AES", keys, Cipher::aes_gcm)
        } else if let Some(keys) = &config.aescbc {
            (AESCBC, "AES", keys, Cipher::aes_cbc)
        } else if let Some(keys) = &config.secretbox {
            (SECRETBOX, "Secretbox", keys, Cipher::secretbox)
        } else {
            return Ok(Provider::Identity);
        };
        let keys = keys.keys.iter().map(|key| named_key(key, cipher)).collect::<Result<_, _>>()?;
        Ok(Provider::Keys { prefix, family, keys })
    }

    /// What seals the value of a key of the store, `<tenant>/<group>/<resource>/…`.
    pub(crate) fn providers(&self, key: &[u8]) -> Option<&Arc<Providers>> {
        if self.rules.is_empty() {
            return None;
        }
        let mut segments = key.splitn(4, |byte| *byte == b'/').skip(1);
        let (group, resource) = (segments.next()?, segments.next()?);
        let group: &[u8] = if group == b"core" { b"" } else { group };
        let find = |group: &[u8], resource: &[u8]| {
            let rule = self.rules.iter().find(|r| r.group.as_bytes() == group && r.resource.as_bytes() == resource);
            rule.map(|rule| &rule.providers)
        };
        find(group, resource).or_else(|| find(group, b"*")).or_else(|| find(b"*", b"*"))
    }

    /// The value as it is stored under `key`.
    pub fn seal(&self, key: &[u8], value: Bytes) -> Result<Bytes, OpenError> {
        match self.providers(key) {
            Some(providers) => providers.seal(key, value),
            None => Ok(value),
        }
    }

    /// The value as it was before it was stored under `key`.
    pub async fn open(&self, key: &[u8], stored: Bytes) -> Result<Opened, OpenError> {
        match self.providers(key) {
            Some(providers) => providers.open(key, stored).await,
            None if stored.starts_with(ENCRYPTED) => Err(OpenError::Encrypted),
            None => Ok(Opened { value: stored, stale: false }),
        }
    }

    /// Whether a stored value is what it was before, so that nothing needs to be opened.
    pub(crate) fn passes(&self, key: &[u8], stored: &[u8]) -> bool {
        !stored.starts_with(ENCRYPTED) && self.providers(key).is_none()
    }

    /// Whether anything is encrypted at all.
    pub fn is_plain(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn plugins(&self) -> &[Arc<Kms>] {
        &self.plugins
    }
}

fn named_key(key: &Key, cipher: MakeCipher) -> Result<NamedKey, ConfigError> {
    let named = |reason: String| {
        ConfigError::Build(format!("error while creating cipher for named key {}: {reason}", key.name))
    };
    let secret = STANDARD.decode(&key.secret).map_err(|_| named("secrets must be base64 encoded".to_owned()))?;
    let cipher = cipher(&secret).map_err(|error| named(error.to_string()))?;
    Ok(NamedKey { name: key.name.clone(), cipher })
}

impl Providers {
    fn seal(&self, key: &[u8], value: Bytes) -> Result<Bytes, OpenError> {
        match self.0.first().map(|provider| &**provider) {
            None | Some(Provider::Identity) => Ok(value),
            Some(Provider::Kms(kms)) => kms.seal(&value, key).map_err(OpenError::Kms),
            Some(Provider::Keys { prefix, family, keys }) => {
                let Some(NamedKey { name, cipher }) = keys.first() else { return Err(OpenError::NoKey(family)) };
                let sealed =
                    cipher.seal(&value, key).map_err(|error| OpenError::Cipher { name: name.clone(), error })?;
                Ok([prefix.as_bytes(), name.as_bytes(), b":", &sealed].concat().into())
            }
        }
    }

    async fn open(&self, key: &[u8], stored: Bytes) -> Result<Opened, OpenError> {
        let mut errors = Vec::new();
        for (index, provider) in self.0.iter().enumerate() {
            let opened = match &**provider {
                Provider::Identity if stored.starts_with(ENCRYPTED) => continue,
                Provider::Identity => Ok(Opened { value: stored.clone(), stale: false }),
                Provider::Keys { prefix, family, keys } => match stored.strip_prefix(prefix.as_bytes()) {
                    Some(rest) => open_with(keys, family, rest, key),
                    None => continue,
                },
                Provider::Kms(kms) => match stored.strip_prefix(kms.prefix().as_bytes()) {
                    Some(rest) => kms.open(rest, key).await.map_err(OpenError::Kms),
                    None => continue,
                },
            };
            match opened {
                Ok(opened) => return Ok(Opened { stale: opened.stale || index > 0, ..opened }),
                Err(error) => errors.push(error),
            }
        }
        Err(match errors.len() {
            0 => OpenError::NoPrefix,
            1 => errors.remove(0),
            _ => OpenError::Several(errors),
        })
    }
}

fn open_with(keys: &[NamedKey], family: &'static str, stored: &[u8], bound: &[u8]) -> Result<Opened, OpenError> {
    let mut failure = OpenError::NoKey(family);
    for (index, NamedKey { name, cipher }) in keys.iter().enumerate() {
        let Some(sealed) = stored.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":")) else {
            continue;
        };
        match cipher.open(sealed, bound) {
            Ok(value) => return Ok(Opened { value: value.into(), stale: index > 0 }),
            Err(error) => failure = OpenError::Cipher { name: name.clone(), error },
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests;
