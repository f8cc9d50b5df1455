//! A small world for the tests of plugins.

use std::sync::Arc;

use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::strategy::NoRules;
use bailiwick_machinery::table::{Column, TableConvertor};
use bailiwick_machinery::{GroupResource, Resource, Scope, UserInfo};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Attributes, DryRun, Lookup, NamespaceState, Operation};

struct NoColumns;

impl TableConvertor for NoColumns {
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

pub(crate) fn resource(group: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: Vec::new(),
        storage: Storage::Stored(GroupResource { group: group.into(), resource: plural.into() }),
        native: None,
        custom: None,
        strategy: Arc::new(NoRules),
        table: Arc::new(NoColumns),
        selectable_fields: Vec::new(),
        subresources: Vec::new(),
    }
}

pub(crate) struct World {
    pub(crate) namespace: NamespaceState,
    pub(crate) quotas: Vec<Value>,
}

impl Lookup for World {
    fn namespace_state(&self, _: &str) -> NamespaceState {
        self.namespace
    }

    fn resource_quotas(&self, _: &str) -> Vec<Arc<Value>> {
        self.quotas.iter().cloned().map(Arc::new).collect()
    }
}

pub(crate) fn request<'a>(
    operation: Operation,
    resource: &'a Resource,
    user: &'a UserInfo,
    name: &'a str,
    object: Option<&'a mut Value>,
) -> Attributes<'a> {
    Attributes {
        operation,
        resource,
        subresource: "",
        name,
        namespace: if resource.kind == "Namespace" { "" } else { "ns" },
        object,
        old_object: None,
        user,
        dry_run: DryRun::No,
        options: &Value::Null,
    }
}
