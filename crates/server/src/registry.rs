//! What is served: the table from group, version and plural to resource, replaced whole when it changes.

use std::collections::HashMap;
use std::sync::Arc;

use bailiwick_machinery::resource::{GroupResource, Resource, SelectableField, Storage};
use bailiwick_machinery::strategy::Strategy;
use bailiwick_machinery::versions::compare_versions;
use bailiwick_merge::apply::ResetFields;
use bytes::Bytes;
use imbl::OrdMap;
use serde_json::json;

use crate::cache::{BaseObjects, CacheSpec};

/// The control plane a request addresses; keys of the store begin with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantId(Arc<str>);

impl std::borrow::Borrow<str> for TenantId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TenantId {
    /// What the ids of all projects begin with.
    pub const PROJECTS: &'static str = "p-";

    /// The control plane at `/`.
    pub fn root() -> Self {
        Self("root".into())
    }

    /// The control plane of a project. By uid: a later project of the same name has nothing of the earlier one.
    pub fn project(uid: &str) -> Self {
        Self(format!("{}{uid}", Self::PROJECTS).into())
    }

    /// The prefix of every key it has.
    pub fn key_prefix(&self) -> Bytes {
        format!("{}/", self.0).into()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether those who look around are told of what a definition serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// It is part of discovery and OpenAPI.
    Discoverable,
    /// Only those who know of it find it.
    Hidden,
}

/// A resource as one control plane serves it: where its objects are. All else is shared by the control planes.
pub struct Served {
    /// `None` for resources that are not stored.
    pub cache: Option<CacheSpec>,
    shared: Arc<ServedType>,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Served({}, {})", self.api_version, self.resource.plural)
    }
}

impl std::ops::Deref for Served {
    type Target = ServedType;

    fn deref(&self) -> &ServedType {
        &self.shared
    }
}

/// A resource with what the server derives from its descriptor once.
pub struct ServedType {
    pub resource: Resource,
    /// Names this resource among all ever served, to tell encodings of shared events apart.
    pub id: u32,
    /// Whether it is part of the program: no definition can replace it.
    built_in: bool,
    pub visibility: Visibility,
    pub api_version: String,
    /// How the stored bytes of an object of this kind in this version begin.
    pub stored_head: Box<str>,
    pub group_resource: GroupResource,
    /// What writes through the resource's own path, and through each subresource, do not change.
    reset_fields: Box<[(Box<str>, ResetFields)]>,
    /// The same objects in other versions, or under another group.
    pub siblings: Box<[Sibling]>,
    pub labels: MetricLabels,
}

/// Another name for the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    pub group: String,
    pub version: String,
    pub resource: String,
}

/// The names of a resource as metrics label it, shared by all its samples.
pub struct MetricLabels {
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub resource: Arc<str>,
    pub none: Arc<str>,
}

impl ServedType {
    fn new(id: u32, built_in: bool, visibility: Visibility, siblings: Box<[Sibling]>, resource: Resource) -> Self {
        let api_version = resource.api_version();
        Self {
            id,
            built_in,
            visibility,
            stored_head: format!("{{\"kind\":{},\"apiVersion\":{},", json!(resource.kind), json!(api_version)).into(),
            api_version: api_version.clone(),
            group_resource: resource.group_resource(),
            reset_fields: reset_fields(&resource, &api_version),
            siblings,
            labels: MetricLabels {
                group: resource.group.as_str().into(),
                version: resource.version.as_str().into(),
                resource: resource.plural.as_str().into(),
                none: "".into(),
            },
            resource,
        }
    }

    pub fn is_discoverable(&self) -> bool {
        self.visibility == Visibility::Discoverable
    }

    /// Whether it is part of the program, not defined by an object.
    pub fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// The fields that a write through a subresource, or with the empty name through none, does not change.
    pub fn reset_fields(&self, subresource: &str) -> &ResetFields {
        const NONE: &ResetFields = &ResetFields::NONE;
        self.reset_fields.iter().find(|(name, _)| **name == *subresource).map_or(NONE, |(_, fields)| fields)
    }
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

/// Everything served at one moment. Cloning shares everything, so that one definition more or less costs next to nothing.
#[derive(Clone)]
pub struct Registry {
    tenant: TenantId,
    /// By group, version and plural.
    by_path: OrdMap<String, OrdMap<String, OrdMap<String, Arc<Served>>>>,
    /// Groups by name with their versions in priority order, as far as discovery tells of them.
    groups: OrdMap<String, Vec<String>>,
    next_id: u32,
}

impl Registry {
    /// A registry of these resources for one tenant. Versions of a group rank in the order they come.
    pub fn new(tenant: &TenantId, resources: Vec<Resource>) -> Self {
        let mut registry = Self { tenant: tenant.clone(), by_path: OrdMap::new(), groups: OrdMap::new(), next_id: 0 };
        let (indexed, sharing) = (indexed_fields(&resources), sharing_storage(&resources));
        for resource in resources {
            registry.add(resource, &indexed, &sharing, true, Visibility::Discoverable);
        }
        registry
    }

    /// The same resources for another tenant, who may have objects from the start. What describes them is shared.
    pub fn for_tenant(
        &self,
        tenant: &TenantId,
        base: impl Fn(&GroupResource, &Bytes) -> Option<Arc<BaseObjects>>,
    ) -> Self {
        let of_tenant = |served: &Arc<Served>| {
            let cache = served.cache.as_ref().and_then(|cache| {
                let Storage::Stored(stored) = &served.resource.storage else { return None };
                let prefix = storage_prefix(tenant, stored);
                Some(CacheSpec { base: base(stored, &prefix), prefix, ..cache.clone() })
            });
            Arc::new(Served { cache, shared: served.shared.clone() })
        };
        let versions = |versions: &OrdMap<String, OrdMap<String, Arc<Served>>>| {
            let plurals = |plurals: &OrdMap<String, Arc<Served>>| -> OrdMap<String, Arc<Served>> {
                plurals.iter().map(|(plural, served)| (plural.clone(), of_tenant(served))).collect()
            };
            versions.iter().map(|(version, served)| (version.clone(), plurals(served))).collect::<OrdMap<_, _>>()
        };
        Self {
            tenant: tenant.clone(),
            by_path: self.by_path.iter().map(|(group, served)| (group.clone(), versions(served))).collect(),
            groups: self.groups.clone(),
            next_id: self.next_id,
        }
    }

    /// Serves what a definition defines now instead of what it defined before; nothing if `resources` is empty.
    pub fn redefine(&mut self, group: &str, plural: &str, resources: Vec<Resource>, visibility: Visibility) {
        self.remove(group, plural);
        let (indexed, sharing) = (indexed_fields(&resources), sharing_storage(&resources));
        for resource in resources {
            if self.get(group, &resource.version, plural).is_none() {
                self.add(resource, &indexed, &sharing, false, visibility);
            }
        }
        if let Some(versions) = self.groups.get_mut(group) {
            versions.sort_by(|a, b| compare_versions(b, a));
        }
    }

    fn remove(&mut self, group: &str, plural: &str) {
        let Some(versions) = self.by_path.get_mut(group) else { return };
        let names: Vec<String> = versions.keys().cloned().collect();
        for name in names {
            let Some(plurals) = versions.get_mut(&name) else { continue };
            // What is built in cannot be defined away.
            if plurals.get(plural).is_some_and(|served| !served.built_in) {
                plurals.remove(plural);
            }
            let is_discoverable = plurals.values().any(|served| served.is_discoverable());
            if plurals.is_empty() {
                versions.remove(&name);
            }
            if let Some(ranked) = self.groups.get_mut(group).filter(|_| !is_discoverable) {
                ranked.retain(|version| *version != name);
            }
        }
        if versions.is_empty() {
            self.by_path.remove(group);
        }
        if self.groups.get(group).is_some_and(Vec::is_empty) {
            self.groups.remove(group);
        }
    }

    fn add(
        &mut self,
        resource: Resource,
        indexed: &IndexedFields,
        sharing: &SharingStorage,
        built_in: bool,
        visibility: Visibility,
    ) {
        if visibility == Visibility::Discoverable {
            let versions = self.groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
        }
        let cache = match &resource.storage {
            Storage::Virtual => None,
            Storage::Stored(stored) => Some(CacheSpec {
                prefix: storage_prefix(&self.tenant, stored),
                namespaced: resource.namespaced(),
                selectable_fields: indexed.get(stored).map(|fields| fields.as_slice().into()).unwrap_or_default(),
                base: None,
            }),
        };
        self.next_id += 1;
        let siblings = sharing.others(&resource);
        let shared = Arc::new(ServedType::new(self.next_id, built_in, visibility, siblings, resource));
        let served = Arc::new(Served { cache, shared });
        let versions = self.by_path.entry(served.resource.group.clone()).or_default();
        let plurals = versions.entry(served.resource.version.clone()).or_default();
        plurals.insert(served.resource.plural.clone(), served);
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.by_path.get(group)?.get(version)?.get(plural)
    }

    /// The resource in whatever version is preferred.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        let mut ranked = self.groups.get(group).into_iter().flatten();
        let preferred = ranked.find_map(|version| self.get(group, version, plural));
        preferred.or_else(|| self.by_path.get(group)?.values().find_map(|plurals| plurals.get(plural)))
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.iter().any(|v| v == version))
    }

    /// Whether the group has types of our own, whose paths are answered differently from those of custom ones.
    pub fn is_native_group(&self, group: &str) -> bool {
        let Some(versions) = self.by_path.get(group) else { return false };
        versions.values().flat_map(|plurals| plurals.values()).any(|served| served.resource.custom.is_none())
    }

    /// Groups with their versions as discovery tells them; the core group has the empty name.
    pub fn groups(&self) -> &OrdMap<String, Vec<String>> {
        &self.groups
    }

    /// Resources of one group version as discovery tells them, by plural.
    pub fn resources_of(&self, group: &str, version: &str) -> Vec<&Arc<Served>> {
        self.by_path
            .get(group)
            .and_then(|versions| versions.get(version))
            .into_iter()
            .flat_map(OrdMap::values)
            .filter(|served| served.is_discoverable())
            .collect()
    }

    /// Whether anything is served that a definition defines.
    pub fn has_defined(&self) -> bool {
        self.all().any(|served| !served.built_in)
    }

    /// Everything that is served, discoverable or not.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.by_path.values().flat_map(|versions| versions.values().flat_map(OrdMap::values))
    }
}

fn reset_fields(resource: &Resource, api_version: &str) -> Box<[(Box<str>, ResetFields)]> {
    let own = ("", &resource.strategy);
    let all = resource.subresources.iter().map(|sub| (sub.name.as_str(), &sub.strategy));
    let named = |(name, strategy): (&str, &Arc<dyn Strategy>)| {
        let fields = strategy.reset_fields();
        (!fields.is_empty()).then(|| (name.into(), ResetFields::of(api_version, fields)))
    };
    std::iter::once(own).chain(all).filter_map(named).collect()
}

/// Resources by the storage they share.
struct SharingStorage(HashMap<GroupResource, Vec<Sibling>>);

fn sharing_storage(resources: &[Resource]) -> SharingStorage {
    let mut sharing: HashMap<GroupResource, Vec<Sibling>> = HashMap::new();
    for resource in resources {
        if let Storage::Stored(stored) = &resource.storage {
            sharing.entry(stored.clone()).or_default().push(sibling(resource));
        }
    }
    SharingStorage(sharing)
}

fn sibling(resource: &Resource) -> Sibling {
    Sibling { group: resource.group.clone(), version: resource.version.clone(), resource: resource.plural.clone() }
}

impl SharingStorage {
    fn others(&self, resource: &Resource) -> Box<[Sibling]> {
        let Storage::Stored(stored) = &resource.storage else { return Box::default() };
        let own = sibling(resource);
        self.0.get(stored).into_iter().flatten().filter(|other| **other != own).cloned().collect()
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
