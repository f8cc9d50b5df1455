//! Names: what a person types (a URL, an address of mail, a name in any script) becomes a [`DomainName`] of A-labels, and
//! a [`Subject`] says which part of it somebody registered. Names are checked here once and never again further in.

mod script;
mod suffix;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::{Name, parse_name};

pub use script::Lookalike;
pub(crate) use suffix::is_registry_suffix;
pub use suffix::{Subject, SuffixKind};

/// RFC 1035: a name has at most 255 octets on the wire, which leaves 253 characters.
const NAME_CHARS_MAX: usize = 253;
/// RFC 1035: a label's length has six bits.
const LABEL_CHARS_MAX: usize = 63;
/// What is longer than this is no name in any script; UTS 46 is not run on it.
const INPUT_CHARS_MAX: usize = 2048;

/// A name in DNS: A-labels, lower case, without the dot at the end. Underscores are allowed, as owner names have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainName(Box<str>);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("there is no name in it; give one such as www.example.com")]
    Empty,
    #[error("{0} is an address; give the name instead")]
    Address(IpAddr),
    #[error("{0} is no address, as each part of one is at most 255, and no name, as none ends in a number")]
    NoAddress(DomainName),
    #[error("the name is longer than {NAME_CHARS_MAX} characters, which no name can be")]
    TooLong,
    #[error("the label {0:?} is longer than {LABEL_CHARS_MAX} characters, which none can be")]
    LabelTooLong(String),
    #[error("two dots follow each other, or a dot stands in front: take the one too many out")]
    EmptyLabel,
    #[error("{character:?} cannot be part of a name; letters, digits, hyphens, underscores and dots can")]
    Character { character: char },
    #[error("{0:?} is no internationalised name: give it in its own script, or what that becomes in xn-- form")]
    Idna(String),
    #[error("{0} is a public suffix: nobody registers it, names are registered below it")]
    PublicSuffix(DomainName),
    #[error("*.{0} stands for many names; give one of them, such as www.{0}")]
    Wildcard(DomainName),
    #[error("{0} has only one label; a name such as example.com is needed")]
    SingleLabel(DomainName),
}

impl DomainName {
    /// Takes a name as a person or a record writes it: any script, any case, a dot at the end or not.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.chars().count() > INPUT_CHARS_MAX {
            return Err(NameError::TooLong);
        }
        if let Some(character) = text.chars().find(|c| c.is_ascii() && !plain(*c)) {
            return Err(NameError::Character { character });
        }
        if text.is_ascii() && !text.to_ascii_lowercase().contains("xn--") {
            return Self::checked(text.to_ascii_lowercase());
        }
        let ascii = idna::domain_to_ascii(text).map_err(|_| NameError::Idna(text.to_owned()))?;
        // Some characters, such as the full stop of Japanese, become dots and may end the name.
        Self::checked(ascii.strip_suffix('.').unwrap_or(&ascii).to_owned())
    }

    fn checked(ascii: String) -> Result<Self, NameError> {
        if ascii.is_empty() {
            return Err(NameError::Empty);
        }
        if ascii.len() > NAME_CHARS_MAX {
            return Err(NameError::TooLong);
        }
        for label in ascii.split('.') {
            if label.is_empty() {
                return Err(NameError::EmptyLabel);
            }
            if label.len() > LABEL_CHARS_MAX {
                return Err(NameError::LabelTooLong(label.to_owned()));
            }
            if let Some(character) = label.chars().find(|c| !plain(*c) || *c == '.') {
                return Err(NameError::Character { character });
            }
        }
        Ok(Self(ascii.into_boxed_str()))
    }

    /// The name as DNS has it: `xn--bcher-kva.example`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as people read it: `bücher.example`. What cannot be shown safely stays as it is in DNS.
    pub fn unicode(&self) -> String {
        if !self.0.contains("xn--") {
            return self.0.to_string();
        }
        match idna::domain_to_unicode(&self.0) {
            (unicode, Ok(())) => unicode,
            (_, Err(_)) => self.0.to_string(),
        }
    }

    /// With the dot at the end, as zone files want it.
    pub fn absolute(&self) -> String {
        format!("{}.", self.0)
    }

    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }

    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// The name without its first label.
    pub fn parent(&self) -> Option<Self> {
        let (_, parent) = self.0.split_once('.')?;
        Some(Self(parent.into()))
    }

    /// Whether it is `ancestor` or below it.
    pub fn is_within(&self, ancestor: &Self) -> bool {
        self.0.strip_suffix(ancestor.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// What stands before `zone`: `www` of `www.example.com`, nothing at the zone itself; none outside the zone.
    pub fn relative_to<'a>(&'a self, zone: &Self) -> Option<&'a str> {
        let rest = self.0.strip_suffix(zone.as_str())?;
        if rest.is_empty() { Some("") } else { rest.strip_suffix('.') }
    }

    /// The name with `labels` in front.
    pub fn prepend(&self, labels: &str) -> Result<Self, NameError> {
        Self::parse(&format!("{labels}.{}", self.0))
    }

    /// Letters that are made to be mistaken for others, if there are any.
    pub fn lookalike(&self) -> Option<Lookalike> {
        script::lookalike(&self.unicode())
    }

    /// A part of an own name that is known to be one.
    fn known(part: &str) -> Self {
        Self(part.into())
    }
}

/// Letters, digits and what else names have, before or after UTS 46.
fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DomainName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl Serialize for DomainName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DomainName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The host in whatever was pasted: a URL, `user@host`, `host:port`, `*.host`, or a name alone.
pub fn host_of(input: &str) -> Result<DomainName, NameError> {
    let text = input.trim().trim_matches(|c| matches!(c, '"' | '\'' | '<' | '>' | '`'));
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.strip_prefix("mailto:").unwrap_or(text);
    let text = text.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
        return match inside.parse() {
            Ok(address) => Err(NameError::Address(address)),
            Err(_) => Err(NameError::Character { character: '[' }),
        };
    }
    if let Ok(address) = text.parse() {
        return Err(NameError::Address(address));
    }
    let text = match text.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => host,
        _ => text,
    };
    if let Ok(address) = text.parse() {
        return Err(NameError::Address(address));
    }
    let text = text.strip_prefix("*.").unwrap_or(text);
    let host = DomainName::parse(text)?;
    // RFC 1123: the last label of a host is never a number, so that addresses can be told apart.
    let ends_in_number = host.labels().next_back().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if ends_in_number { Err(NameError::NoAddress(host)) } else { Ok(host) }
}

/// A name to ask the DNS about, as it is typed: any name there can be, the root and wildcards included, or what [`host_of`] takes.
pub fn asked_name(input: &str) -> Result<Name, String> {
    let text = input.trim();
    if text == "." {
        return Ok(Name::root());
    }
    let is_pasted = !text.is_ascii() || text.contains([':', '@']) || text.parse::<IpAddr>().is_ok() || text.is_empty();
    if is_pasted {
        let host = host_of(text).map_err(|error| error.to_string())?;
        let host = if text.starts_with("*.") { format!("*.{host}") } else { host.to_string() };
        return parse_name(&host).map_err(|error| error.to_string());
    }
    // What is wrong with a name is told in our own words.
    parse_name(text).map_err(|error| DomainName::parse(text).err().map_or(error.to_string(), |told| told.to_string()))
}

/// The same for whoever asks about one name: a wildcard is none.
pub fn one_host_of(input: &str) -> Result<DomainName, NameError> {
    let host = host_of(input)?;
    if input.trim().starts_with("*.") { Err(NameError::Wildcard(host)) } else { Ok(host) }
}

#[cfg(test)]
mod tests;
