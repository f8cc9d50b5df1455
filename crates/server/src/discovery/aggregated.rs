//! Aggregated discovery: everything in one document with an ETag, which current clients ask for first.

use std::sync::Arc;

use bailiwick_aggregation::ApiVersionDiscovery;
use bailiwick_machinery::media::parse_accept;
use bailiwick_machinery::resource::{Resource, Subresource};
use serde::{Serialize, Serializer};

use super::Sources;

/// The versions of the document that clients negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatedVersion {
    V2,
    V2Beta1,
}

impl AggregatedVersion {
    /// The version the client asks for; `None` when it wants the legacy form.
    pub fn negotiate(accept: &str) -> Option<Self> {
        parse_accept(accept).iter().find_map(|clause| {
            let json = clause.kind == "application" && clause.subtype == "json";
            let ours =
                clause.param("g") == Some("apidiscovery.k8s.io") && clause.param("as") == Some("APIGroupDiscoveryList");
            match (json, ours, clause.param("v")) {
                (true, true, Some("v2")) => Some(Some(Self::V2)),
                (true, true, Some("v2beta1")) => Some(Some(Self::V2Beta1)),
                // Whatever is wanted more than a version we know ends the search.
                (_, false, _) => Some(None),
                _ => None,
            }
        })?
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        }
    }
}

/// The document of `/api` (the core group) or of `/apis` (all others), as JSON. Controllers ask for it after each new
/// definition, so it is written without a tree in between.
pub fn document(sources: Sources<'_>, core: bool, version: AggregatedVersion) -> serde_json::Result<Vec<u8>> {
    let groups = match core {
        true => vec![("", sources.registry.groups().get("").into_iter().flatten().map(String::as_str).collect())],
        false => sources.served(),
    };
    serde_json::to_vec(&GroupList {
        kind: "APIGroupDiscoveryList",
        api_version: match version {
            AggregatedVersion::V2 => "apidiscovery.k8s.io/v2",
            AggregatedVersion::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        },
        metadata: Metadata { name: "" },
        items: groups.into_iter().map(|(group, versions)| Group::new(sources, group, &versions)).collect(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'static>,
    items: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct Group<'a> {
    metadata: Metadata<'a>,
    versions: Vec<Version<'a>>,
}

#[derive(Serialize)]
struct Version<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Resources::are_unknown")]
    resources: Resources<'a>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Resources<'a> {
    Local(Vec<Item<'a>>),
    Remote(Shared),
}

/// What another server told of a version.
struct Shared(Arc<ApiVersionDiscovery>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    resource: &'a str,
    response_kind: Kind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceItem<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceItem<'a> {
    subresource: &'a str,
    response_kind: Kind<'a>,
    verbs: &'a [&'static str],
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.resources.serialize(serializer)
    }
}

impl Resources<'_> {
    fn are_unknown(&self) -> bool {
        matches!(self, Self::Remote(version) if version.0.resources.is_empty())
    }
}

impl<'a> Group<'a> {
    fn new(sources: Sources<'a>, group: &'a str, versions: &[&'a str]) -> Self {
        let versions = versions.iter().map(|version| Version::new(sources, group, version)).collect();
        Self { metadata: Metadata { name: group }, versions }
    }
}

impl<'a> Version<'a> {
    fn new(sources: Sources<'a>, group: &str, version: &'a str) -> Self {
        match sources.remote(group, version) {
            Some(route) => {
                let discovered = route.documents().discovered();
                let resources = Resources::Remote(Shared(discovered.version.clone()));
                Self { version, resources, freshness: discovered.freshness.as_str() }
            }
            None => {
                let served = sources.registry.resources_of(group, version).into_iter();
                let resources = Resources::Local(served.map(|served| Item::new(&served.resource)).collect());
                Self { version, resources, freshness: "Current" }
            }
        }
    }
}

impl<'a> Item<'a> {
    fn new(resource: &'a Resource) -> Self {
        let mut subresources: Vec<&Subresource> = resource.subresources.iter().collect();
        if resource.custom.is_none() {
            subresources.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Self {
            resource: &resource.plural,
            response_kind: Kind::own(resource),
            scope: if resource.namespaced() { "Namespaced" } else { "Cluster" },
            singular_resource: &resource.singular,
            verbs: &resource.verbs,
            short_names: &resource.short_names,
            categories: &resource.categories,
            subresources: subresources.into_iter().map(|s| SubresourceItem::new(resource, s)).collect(),
        }
    }
}

impl<'a> SubresourceItem<'a> {
    fn new(resource: &'a Resource, subresource: &'a Subresource) -> Self {
        let response_kind = match &subresource.kind {
            Some(kind) => Kind { group: &kind.group, version: &kind.version, kind: &kind.kind },
            None => Kind::own(resource),
        };
        Self { subresource: &subresource.name, response_kind, verbs: &subresource.verbs }
    }
}

impl<'a> Kind<'a> {
    /// The kind of a resource. Native ones leave the group and version to the place they stand in.
    fn own(resource: &'a Resource) -> Self {
        match resource.custom {
            None => Self { group: "", version: "", kind: &resource.kind },
            Some(_) => Self { group: &resource.group, version: &resource.version, kind: &resource.kind },
        }
    }
}
