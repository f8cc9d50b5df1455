//! Release numbers: an order among bundles of one version.

use std::cmp::Ordering;
use std::fmt;

use super::{Identifier, Version, compare_pre};
use crate::go::quote;

/// What the API of ClusterServiceVersion allows.
const MAX_LENGTH: usize = 20;

/// The release of a bundle; empty when it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release(Vec<Identifier>);

impl Release {
    /// Reads dot-separated identifiers.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Release::default());
        }
        if text.len() > MAX_LENGTH {
            return Err(format!("invalid release {}: exceeds maximum length of {MAX_LENGTH} characters", quote(text)));
        }
        let mut errors = Vec::new();
        let mut parts = Vec::new();
        for (i, part) in text.split('.').enumerate() {
            match Identifier::parse(part) {
                Ok(part) => parts.push(part),
                Err(error) => errors.push(format!("segment {i}: {error}")),
            }
        }
        if errors.is_empty() {
            Ok(Release(parts))
        } else {
            Err(format!("invalid release {}: {}", quote(text), errors.join("\n")))
        }
    }

    /// Whether the bundle has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// None is older than any.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_empty(), other.is_empty()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => compare_pre(&self.0, &other.0),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

/// A version with its release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRelease {
    pub version: Version,
    pub release: Release,
}

impl VersionRelease {
    /// Version first, then release.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.version.compare(&other.version).then_with(|| self.release.compare(&other.release))
    }
}

/// `1.2.3`, or `1.2.3-4` with a release.
impl fmt::Display for VersionRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version)?;
        if self.release.is_empty() { Ok(()) } else { write!(f, "-{}", self.release) }
    }
}
