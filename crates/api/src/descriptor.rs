//! Short ways to write resource descriptors, so that each type's module says only what is special about it.

use std::sync::Arc;

use bailiwick_machinery::resource::{ALL_VERBS, Storage};
use bailiwick_machinery::table::TableConvertor;
use bailiwick_machinery::{GroupResource, Resource, Scope, Strategy, Subresource};
use bailiwick_schema::types::{Type, Types};

/// Which kind in which group and version, and the plural it is served under.
pub(crate) struct Named {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl Named {
    /// An ordinary stored resource: all verbs, no short names, stored under its own group and plural.
    pub fn stored(
        &self,
        scope: Scope,
        strategy: impl Strategy + 'static,
        table: impl TableConvertor + 'static,
    ) -> Resource {
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_ascii_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: ALL_VERBS.to_vec(),
            storage: Storage::Stored(GroupResource { group: self.group.to_owned(), resource: self.plural.to_owned() }),
            native: self.native_type(),
            custom: None,
            strategy: Arc::new(strategy),
            table: Arc::new(table),
            selectable_fields: Vec::new(),
            subresources: Vec::new(),
        }
    }

    /// A resource that is only ever posted and answered.
    pub fn posted(&self, scope: Scope, strategy: impl Strategy + 'static) -> Resource {
        let mut resource = self.stored(scope, strategy, crate::columns::default_table());
        resource.verbs = vec!["create"];
        resource.storage = Storage::Virtual;
        resource
    }

    fn native_type(&self) -> Option<&'static Type> {
        Types::native().by_gvk(self.group, self.version, self.kind)
    }
}

/// The verbs of an ordinary `status` subresource.
pub(crate) const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// A subresource that speaks the resource's own kind.
pub(crate) fn subresource(name: &str, verbs: &[&'static str], strategy: impl Strategy + 'static) -> Subresource {
    Subresource { name: name.to_owned(), kind: None, verbs: verbs.to_vec(), strategy: Arc::new(strategy) }
}
