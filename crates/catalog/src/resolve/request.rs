//! What resolution is asked, and what it answers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::installed::Installed;
use super::snapshot::Snapshot;
use crate::property::Gvk;
use crate::version::{Constraint, Range, VersionRelease};

/// Names a catalog: a CatalogSource, or a ClusterCatalog with an empty namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    pub namespace: String,
    pub name: String,
}

impl SourceKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        SourceKey { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// A catalog that may be used.
#[derive(Clone, Debug)]
pub struct Source {
    pub key: SourceKey,
    /// Higher is asked first.
    pub priority: i32,
    pub snapshot: Arc<Snapshot>,
}

/// Everything that a resolution depends on.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Whose subscriptions these are; among catalogs of one priority its own come first. Empty for extensions.
    pub namespace: String,
    pub sources: Vec<Source>,
    /// The operators in the namespace, or in the cluster for extensions.
    pub installed: Vec<Installed>,
    /// Earlier ones choose first.
    pub wants: Vec<Want>,
    /// APIs that are there without an operator and meet requirements. OLM v0 counts none.
    pub apis: BTreeSet<Gvk>,
}

impl Request {
    /// The same without some wants: when one cannot be met, the others need not wait for it.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Self {
        let wants = self.wants.iter().filter(|want| !names.contains(&want.name)).cloned().collect();
        Request { wants, ..self.clone() }
    }
}

/// One operator that somebody asks for.
#[derive(Clone, Debug)]
pub struct Want {
    /// Of the Subscription or ClusterExtension.
    pub name: String,
    pub package: String,
    /// The name of the bundle that is installed for it, if one is.
    pub installed: Option<String>,
    pub choice: Choice,
}

/// Which bundles of the package will do.
#[derive(Clone, Debug)]
pub enum Choice {
    /// As a Subscription of OLM v0 says it: any bundle that upgrades the installed one, or any of the channel, the head
    /// first.
    Subscription {
        source: SourceKey,
        /// Empty for all, the default one first.
        channel: String,
        /// The only bundle to begin with; empty for any.
        starting_csv: String,
        /// What Subscriptions cannot say but platforms do.
        versions: Option<Range>,
    },
    /// As a ClusterExtension of OLM v1 says it: the newest bundle that fits, of the catalog with the highest priority.
    Extension {
        /// The catalogs that its selector allows; `None` for all.
        sources: Option<Vec<SourceKey>>,
        /// Empty for all.
        channels: Vec<String>,
        versions: Option<Constraint>,
        upgrades: Upgrades,
    },
}

/// Which upgrades of an installed extension are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrades {
    /// Those along the edges of the catalog.
    CatalogProvided,
    /// Any, downgrades too: the user has checked them.
    SelfCertified,
}

/// What to install.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolution {
    /// What is wanted in the order of the wants, then what these require. Installed bundles that stay are not among
    /// them.
    pub steps: Vec<Step>,
}

/// One bundle to install.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub bundle: String,
    pub package: String,
    pub version: VersionRelease,
    pub channel: String,
    pub source: SourceKey,
    /// Empty when the catalog holds the manifests itself.
    pub image: String,
    /// The installed bundle whose place it takes.
    pub replaces: Option<String>,
    pub because: Because,
    /// Bundles that would have been preferred and are impossible together with the rest; [`super::why_not`] tells why.
    pub passed_over: Vec<String>,
}

/// Why a bundle is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// The name of the want.
    Wanted(String),
    /// Another step, or an installed operator, requires it.
    Required {
        by: String,
        /// In plain words, to follow "requires".
        requirement: String,
    },
}
