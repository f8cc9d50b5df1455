//! A catalog as a graph: packages, their channels, the bundles in them and the upgrades between them. Building it is
//! validating it: the first group of rules stops at the first breach, the second collects all of them into a tree.

mod build;
mod facts;
mod problem;
mod rules;

use std::collections::BTreeMap;

pub use build::build;
pub use facts::{BundleFacts, Fact};
pub use problem::Problem;

use crate::fbc::{Catalog, Icon, LoadError};

/// A valid catalog, or what there is of an invalid one.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub packages: BTreeMap<String, Package>,
    /// What channel entries point to.
    pub bundles: Vec<BundleFacts>,
}

#[derive(Clone, Debug, Default)]
pub struct Package {
    pub name: String,
    pub description: String,
    pub icon: Option<Icon>,
    /// The name of a key of `channels`.
    pub default_channel: Option<String>,
    pub channels: BTreeMap<String, Channel>,
    pub deprecation: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Channel {
    pub name: String,
    pub entries: BTreeMap<String, Entry>,
    pub deprecation: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub name: String,
    pub replaces: String,
    pub skips: Vec<String>,
    pub skip_range: String,
    /// Of `Model::bundles`; missing in invalid catalogs only.
    pub bundle: Option<usize>,
    pub deprecation: Option<String>,
}

impl Channel {
    /// The only entry that no other one replaces or skips.
    pub fn head(&self) -> Result<&Entry, String> {
        let mut older = std::collections::HashSet::new();
        for entry in self.entries.values() {
            if !entry.replaces.is_empty() {
                older.insert(entry.replaces.as_str());
            }
            older.extend(entry.skips.iter().map(String::as_str));
        }
        let heads: Vec<&Entry> = self.entries.values().filter(|entry| !older.contains(entry.name.as_str())).collect();
        match heads.as_slice() {
            [] => Err("no channel head found in graph".to_owned()),
            [head] => Ok(head),
            many => {
                let names: Vec<&str> = many.iter().map(|head| head.name.as_str()).collect();
                Err(format!("multiple channel heads found in graph: {}", names.join(", ")))
            }
        }
    }
}

/// Why a directory is no valid catalog.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The text is opm's, a tree where there are several reasons.
    #[error("{0}")]
    Invalid(String),
}

impl ValidateError {
    /// What is wrong, and where if that is one place.
    pub fn located(&self) -> String {
        match self {
            ValidateError::Load(error) => error.located(),
            ValidateError::Invalid(message) => message.clone(),
        }
    }
}

/// Validates a directory without keeping more of it than the graph.
pub fn validate(root: &std::path::Path) -> Result<Model, ValidateError> {
    let facts = crate::fbc::for_each_meta(root, Fact::new)?;
    build(facts).map_err(ValidateError::Invalid)
}

/// Validates a catalog in memory.
pub fn validate_catalog(catalog: &Catalog) -> Result<Model, String> {
    build(Fact::of_catalog(catalog))
}
