//! The catalogs that are ready to be drawn from, shared by everything that asks: PackageManifests, resolution, servers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bailiwick_catalog::resolve::Snapshot;
use bailiwick_catalog::serve::Index;

/// Which catalog: a CatalogSource, or a ClusterCatalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CatalogKey {
    Source { namespace: String, name: String },
    Cluster { name: String },
}

impl std::fmt::Display for CatalogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogKey::Source { namespace, name } => write!(f, "{namespace}/{name}"),
            CatalogKey::Cluster { name } => f.write_str(name),
        }
    }
}

/// A catalog that can be used.
pub(crate) struct Catalog {
    pub key: CatalogKey,
    pub display_name: String,
    pub publisher: String,
    pub priority: i32,
    pub labels: BTreeMap<String, String>,
    /// Of the object that names it.
    pub created: String,
    pub index: Arc<Index>,
    /// What resolution knows of it.
    pub snapshot: Arc<Snapshot>,
    /// Docker configurations that its images, and those of its bundles, are pulled with.
    pub pull_secrets: Vec<String>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Catalogs(RwLock<BTreeMap<CatalogKey, Arc<Catalog>>>);

impl Catalogs {
    pub fn get(&self, key: &CatalogKey) -> Option<Arc<Catalog>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub fn put(&self, catalog: Catalog) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(catalog.key.clone(), Arc::new(catalog));
    }

    /// Whether it was there.
    pub fn remove(&self, key: &CatalogKey) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }

    /// Those of CatalogSources, by namespace and name.
    pub fn sources(&self) -> Vec<Arc<Catalog>> {
        self.all().into_iter().filter(|catalog| matches!(catalog.key, CatalogKey::Source { .. })).collect()
    }

    /// Those of ClusterCatalogs, by name.
    pub fn cluster(&self) -> Vec<Arc<Catalog>> {
        self.all().into_iter().filter(|catalog| matches!(catalog.key, CatalogKey::Cluster { .. })).collect()
    }

    fn all(&self) -> Vec<Arc<Catalog>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Those of CatalogSources that a namespace may draw from: its own and the global ones.
    pub fn visible_in(&self, namespace: &str, global: &str) -> Vec<Arc<Catalog>> {
        let visible = |catalog: &Arc<Catalog>| match &catalog.key {
            CatalogKey::Source { namespace: own, .. } => own == namespace || own == global,
            CatalogKey::Cluster { .. } => false,
        };
        self.all().into_iter().filter(visible).collect()
    }
}
