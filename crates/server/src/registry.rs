//! What is served: the table from group, version and plural to resource, replaced whole when it changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bailiwick_machinery::resource::{GroupResource, Resource, SelectableField, Storage};
use bytes::Bytes;

use crate::cache::CacheSpec;

/// The control plane a request addresses; keys of the store begin with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// The control plane at `/`.
    pub fn root() -> Self {
        Self("root".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A resource with what the server derives from its descriptor once.
pub struct Served {
    pub resource: Resource,
    /// Names this resource among all ever served, to tell encodings of shared events apart.
    pub id: u32,
    /// `None` for resources that are not stored.
    pub cache: Option<CacheSpec>,
    pub api_version: String,
    pub group_resource: GroupResource,
    pub labels: MetricLabels,
}

/// The names of a resource as metrics label it, shared by all its samples.
pub struct MetricLabels {
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub resource: Arc<str>,
    pub none: Arc<str>,
}

impl Served {
    /// The store key of one object; `namespace` is ignored for cluster-scoped resources.
    pub fn key(&self, namespace: &str, name: &str) -> Bytes {
        let prefix: &[u8] = self.cache.as_ref().map_or(b"", |cache| &cache.prefix);
        let mut key = Vec::with_capacity(prefix.len() + namespace.len() + name.len() + 1);
        key.extend_from_slice(prefix);
        if self.resource.namespaced() {
            key.extend_from_slice(namespace.as_bytes());
            key.push(b'/');
        }
        key.extend_from_slice(name.as_bytes());
        key.into()
    }

    /// Which of the cache's indexed fields a field selector names.
    pub fn indexed_field(&self, name: &str) -> Option<usize> {
        let field = self.resource.selectable_fields.iter().find(|field| field.name == name)?;
        self.cache.as_ref()?.selectable_fields.iter().position(|indexed| same_place(indexed, field))
    }

    /// The prefix of all objects in a namespace, or of all objects when it is empty.
    pub fn prefix(&self, namespace: &str) -> Bytes {
        match &self.cache {
            None => Bytes::new(),
            Some(cache) if namespace.is_empty() || !self.resource.namespaced() => cache.prefix.clone(),
            Some(_) => self.key(namespace, ""),
        }
    }
}

/// Everything served at one moment.
pub struct Registry {
    /// By group, version and plural.
    by_path: HashMap<String, HashMap<String, HashMap<String, Arc<Served>>>>,
    /// Groups by name with their versions in priority order.
    groups: BTreeMap<String, Vec<String>>,
    ordered: Vec<Arc<Served>>,
}

impl Registry {
    /// A registry of these resources for one tenant.
    pub fn new(tenant: &TenantId, resources: Vec<Resource>) -> Self {
        let mut registry = Self { by_path: HashMap::new(), groups: BTreeMap::new(), ordered: Vec::new() };
        let indexed = indexed_fields(&resources);
        for (id, resource) in resources.into_iter().enumerate() {
            registry.add(tenant, id as u32, resource, &indexed);
        }
        registry
    }

    fn add(&mut self, tenant: &TenantId, id: u32, resource: Resource, indexed: &IndexedFields) {
        let versions = self.groups.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
        let cache = match &resource.storage {
            Storage::Virtual => None,
            Storage::Stored(stored) => Some(CacheSpec {
                prefix: storage_prefix(tenant, stored),
                namespaced: resource.namespaced(),
                selectable_fields: indexed.get(stored).cloned().unwrap_or_default(),
            }),
        };
        let served = Arc::new(Served {
            id,
            cache,
            api_version: resource.api_version(),
            group_resource: resource.group_resource(),
            labels: MetricLabels {
                group: resource.group.as_str().into(),
                version: resource.version.as_str().into(),
                resource: resource.plural.as_str().into(),
                none: "".into(),
            },
            resource,
        });
        let versions = self.by_path.entry(served.resource.group.clone()).or_default();
        let plurals = versions.entry(served.resource.version.clone()).or_default();
        plurals.insert(served.resource.plural.clone(), served.clone());
        self.ordered.push(served);
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.by_path.get(group)?.get(version)?.get(plural)
    }

    /// The resource in whatever version is preferred.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.ordered.iter().find(|s| s.resource.group == group && s.resource.plural == plural)
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.iter().any(|v| v == version))
    }

    /// Groups with their versions; the core group has the empty name.
    pub fn groups(&self) -> &BTreeMap<String, Vec<String>> {
        &self.groups
    }

    /// Resources of one group version, by plural.
    pub fn resources_of(&self, group: &str, version: &str) -> Vec<&Arc<Served>> {
        let mut found: Vec<_> =
            self.ordered.iter().filter(|s| s.resource.group == group && s.resource.version == version).collect();
        found.sort_by(|a, b| a.resource.plural.cmp(&b.resource.plural));
        found
    }

    pub fn all(&self) -> &[Arc<Served>] {
        &self.ordered
    }
}

type IndexedFields = HashMap<GroupResource, Vec<SelectableField>>;

/// The fields each storage indexes: all that any resource served from it can select by.
fn indexed_fields(resources: &[Resource]) -> IndexedFields {
    let mut indexed = IndexedFields::new();
    for resource in resources {
        if let Storage::Stored(stored) = &resource.storage {
            let fields = indexed.entry(stored.clone()).or_default();
            for field in &resource.selectable_fields {
                if !fields.iter().any(|known| same_place(known, field)) {
                    fields.push(field.clone());
                }
            }
        }
    }
    indexed
}

/// Whether two selectable fields read the same value, whatever they are called.
fn same_place(a: &SelectableField, b: &SelectableField) -> bool {
    a.path == b.path && a.fallback == b.fallback
}

/// `<tenant>/<group>/<resource>/`, with `core` for the group without a name.
fn storage_prefix(tenant: &TenantId, stored: &GroupResource) -> Bytes {
    let group = if stored.group.is_empty() { "core" } else { &stored.group };
    format!("{}/{group}/{}/", tenant.as_str(), stored.resource).into()
}
