//! From resource descriptors to paths with their operations.

use std::collections::BTreeMap;

use bailiwick_machinery::Resource;
use bailiwick_machinery::resource::Subresource;
use bailiwick_schema::openapi::{Definition, Leaf};
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::names::{self, article, capitalized};
use super::operation::{Body, Content, Operation, PathItem, STRATEGIC_MERGE_PATCH, Schema};
use super::parameters::{self, Parameter, Target};

pub(super) type Paths = BTreeMap<String, PathItem>;

const ANY: &[&str] = &["*/*"];
pub(super) const MEDIA: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const MEDIA_WATCH: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const MEDIA_PATCH: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC_MERGE_PATCH,
    "application/apply-patch+yaml",
];

/// Adds the paths of a resource. Resources whose types have no definition have no paths.
pub(super) fn add_resource(paths: &mut Paths, resource: &Resource) {
    if let Some(builder) = Builder::new(resource) {
        builder.add(paths);
    }
}

/// What the operations of one resource share.
struct Builder<'a> {
    resource: &'a Resource,
    object: Definition,
    list: Option<Definition>,
    base: String,
    tag: String,
    group_version: String,
}

/// Where an operation is: which objects its path can name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    AllNamespaces,
    Namespaced,
    Cluster,
}

impl<'a> Builder<'a> {
    fn new(resource: &'a Resource) -> Option<Self> {
        let list = Types::native().by_gvk(&resource.group, &resource.version, &resource.list_kind);
        Some(Self {
            resource,
            object: Definition::Native(resource.native?),
            list: list.map(Definition::Native),
            base: base_path(&resource.group, &resource.version),
            tag: names::tag(&resource.group, &resource.version),
            group_version: names::group_version(&resource.group, &resource.version),
        })
    }

    fn add(&self, paths: &mut Paths) {
        let plural = &self.resource.plural;
        let (place, scope) = match self.resource.namespaced() {
            true => (Place::Namespaced, "/namespaces/{namespace}"),
            false => (Place::Cluster, ""),
        };
        let collection = format!("{scope}/{plural}");
        let object = format!("{collection}/{{name}}");
        self.put(paths, &collection, [self.list(place), self.create(place), self.delete_collection(place)]);
        let operations =
            [self.read(place, None), self.replace(place, None), self.delete(place), self.patch(place, None)];
        self.put(paths, &object, operations);
        for subresource in &self.resource.subresources {
            let path = format!("{object}/{}", subresource.name);
            let sub = Some(subresource);
            let operations = [
                self.read(place, sub),
                self.create_in(place, subresource),
                self.replace(place, sub),
                self.patch(place, sub),
            ];
            self.put(paths, &path, operations);
        }
        if place == Place::Namespaced {
            self.put(paths, &format!("/{plural}"), [self.list(Place::AllNamespaces)]);
            self.put(paths, &format!("/watch/{plural}"), [self.watch_list(Place::AllNamespaces)]);
        }
        self.put(paths, &format!("/watch{collection}"), [self.watch_list(place)]);
        self.put(paths, &format!("/watch{object}"), [self.watch(place)]);
    }

    fn put(&self, paths: &mut Paths, path: &str, operations: impl IntoIterator<Item = Option<Operation>>) {
        let operations: Vec<Operation> = operations.into_iter().flatten().collect();
        if !operations.is_empty() {
            paths.insert(format!("{}{path}", self.base), PathItem { operations });
        }
    }

    fn serves(&self, subresource: Option<&Subresource>, verb: &str) -> bool {
        subresource.map_or(&self.resource.verbs, |subresource| &subresource.verbs).contains(&verb)
    }

    fn list(&self, place: Place) -> Option<Operation> {
        let list = self.list.filter(|_| self.serves(None, "list"))?;
        let text = format!("List or watch {} objects.", self.resource.kind);
        let mut operation = self.operation("get", "list", self.id("list", "", place, ""), text);
        operation.parameters = Parameter::all(parameters::LIST, place, Target::Collection);
        operation.responses = answers(&["200"], list);
        operation.produces = MEDIA_WATCH;
        Some(operation)
    }

    fn create(&self, place: Place) -> Option<Operation> {
        self.serves(None, "create").then_some(())?;
        let text = format!("Create {} {}.", article(&self.resource.kind), self.resource.kind);
        let mut operation = self.operation("post", "post", self.id("create", "", place, ""), text);
        operation.parameters = Parameter::all(parameters::WRITE, place, Target::Collection);
        operation.body = Some(body(self.object, ANY));
        operation.responses = answers(&["200", "201", "202"], self.object);
        Some(operation)
    }

    fn create_in(&self, place: Place, subresource: &Subresource) -> Option<Operation> {
        self.serves(Some(subresource), "create").then_some(())?;
        let object = self.object_of(Some(subresource));
        let text =
            format!("Create the {} of {} {}.", subresource.name, article(&self.resource.kind), self.resource.kind);
        let id = self.id("create", "", place, &capitalized(&subresource.name));
        let mut operation = self.operation("post", "post", id, text);
        operation.parameters = Parameter::all(parameters::WRITE, place, Target::Object);
        operation.body = Some(body(object, ANY));
        operation.responses = answers(&["200", "201", "202"], object);
        operation.action = Some(("post", self.action_kind(Some(subresource))));
        Some(operation)
    }

    fn read(&self, place: Place, subresource: Option<&Subresource>) -> Option<Operation> {
        self.serves(subresource, "get").then_some(())?;
        let mut operation = self.on_object("get", "get", "read", "Read", place, subresource);
        operation.parameters = Parameter::all(parameters::PRETTY, place, Target::Object);
        operation.responses = answers(&["200"], self.object_of(subresource));
        Some(operation)
    }

    fn replace(&self, place: Place, subresource: Option<&Subresource>) -> Option<Operation> {
        self.serves(subresource, "update").then_some(())?;
        let object = self.object_of(subresource);
        let mut operation = self.on_object("put", "put", "replace", "Replace", place, subresource);
        operation.parameters = Parameter::all(parameters::WRITE, place, Target::Object);
        operation.body = Some(body(object, ANY));
        operation.responses = answers(&["200", "201"], object);
        Some(operation)
    }

    fn patch(&self, place: Place, subresource: Option<&Subresource>) -> Option<Operation> {
        self.serves(subresource, "patch").then_some(())?;
        let mut operation = self.on_object("patch", "patch", "patch", "Change parts of", place, subresource);
        operation.parameters = Parameter::all(parameters::PATCH, place, Target::Object);
        operation.body = Some(body(Definition::Leaf(Leaf::Patch), MEDIA_PATCH));
        operation.consumes = MEDIA_PATCH;
        operation.responses = answers(&["200", "201"], self.object_of(subresource));
        Some(operation)
    }

    fn delete(&self, place: Place) -> Option<Operation> {
        self.serves(None, "delete").then_some(())?;
        // Namespaces answer with the object while they go, but upstream documents a Status.
        let is_namespaces = self.resource.group.is_empty() && self.resource.plural == "namespaces";
        let answer = match self.resource.strategy.returns_deleted_object() && !is_namespaces {
            true => self.object,
            false => Definition::Native(Types::native().status()),
        };
        let mut operation = self.on_object("delete", "delete", "delete", "Delete", place, None);
        operation.parameters = Parameter::all(parameters::DELETE, place, Target::Object);
        operation.body = Some(delete_options());
        operation.responses = answers(&["200", "202"], answer);
        Some(operation)
    }

    fn delete_collection(&self, place: Place) -> Option<Operation> {
        self.serves(None, "deletecollection").then_some(())?;
        let text = format!("Delete the {} objects that match.", self.resource.kind);
        let mut operation =
            self.operation("delete", "deletecollection", self.id("delete", "Collection", place, ""), text);
        operation.parameters = Parameter::all(parameters::DELETE_COLLECTION, place, Target::Collection);
        operation.body = Some(delete_options());
        operation.responses = answers(&["200"], Definition::Native(Types::native().status()));
        Some(operation)
    }

    fn watch_list(&self, place: Place) -> Option<Operation> {
        self.serves(None, "watch").then_some(())?;
        let text = format!("Watch {} objects. Deprecated: list with the watch parameter.", self.resource.kind);
        let mut operation = self.operation("get", "watchlist", self.id("watch", "", place, "List"), text);
        operation.parameters = Parameter::all(parameters::LIST, place, Target::Collection);
        operation.responses = vec![("200", watch_event()?), UNAUTHORIZED];
        operation.produces = MEDIA_WATCH;
        Some(operation)
    }

    fn watch(&self, place: Place) -> Option<Operation> {
        (self.serves(None, "watch") && self.serves(None, "get")).then_some(())?;
        let kind = &self.resource.kind;
        let text = format!(
            "Watch {} {kind}. Deprecated: list with the watch parameter and a fieldSelector for its name.",
            article(kind)
        );
        let mut operation = self.operation("get", "watch", self.id("watch", "", place, ""), text);
        operation.parameters = Parameter::all(parameters::LIST, place, Target::Object);
        operation.responses = vec![("200", watch_event()?), UNAUTHORIZED];
        operation.produces = MEDIA_WATCH;
        Some(operation)
    }

    fn on_object(
        &self,
        method: &'static str,
        action: &'static str,
        verb: &str,
        text: &str,
        place: Place,
        subresource: Option<&Subresource>,
    ) -> Operation {
        let kind = &self.resource.kind;
        let text = match subresource {
            None => format!("{text} {} {kind}.", article(kind)),
            Some(subresource) => format!("{text} the {} of {} {kind}.", subresource.name, article(kind)),
        };
        let suffix = subresource.map(|subresource| capitalized(&subresource.name)).unwrap_or_default();
        let mut operation = self.operation(method, action, self.id(verb, "", place, &suffix), text);
        operation.action = Some((action, self.action_kind(subresource)));
        operation
    }

    fn operation(&self, method: &'static str, action: &'static str, id: String, text: String) -> Operation {
        Operation {
            method,
            id,
            text,
            tag: self.tag.clone(),
            action: Some((action, self.action_kind(None))),
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            consumes: ANY,
            produces: MEDIA,
        }
    }

    fn id(&self, verb: &str, before: &str, place: Place, after: &str) -> String {
        operation_id(verb, &self.group_version, before, place, &self.resource.kind, after)
    }

    fn object_of(&self, subresource: Option<&Subresource>) -> Definition {
        let own = subresource.and_then(|subresource| subresource.kind.as_ref());
        own.and_then(|kind| Types::native().by_gvk(&kind.group, &kind.version, &kind.kind))
            .map_or(self.object, Definition::Native)
    }

    fn action_kind(&self, subresource: Option<&Subresource>) -> Value {
        match subresource.and_then(|subresource| subresource.kind.as_ref()) {
            Some(kind) => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
            None => {
                let Resource { group, version, kind, .. } = self.resource;
                json!({"group": group, "version": version, "kind": kind})
            }
        }
    }
}

pub(super) const UNAUTHORIZED: (&str, Content) = ("401", Content::Nothing);

/// The id of an operation: its verb, where it is, and what stands before the scope and after the kind.
pub(super) fn operation_id(
    verb: &str,
    group_version: &str,
    before: &str,
    place: Place,
    kind: &str,
    after: &str,
) -> String {
    let scope = if place == Place::Namespaced { "Namespaced" } else { "" };
    let all = if place == Place::AllNamespaces { "ForAllNamespaces" } else { "" };
    format!("{verb}{group_version}{before}{scope}{kind}{after}{all}")
}

/// Where the resources of a group version are.
pub(super) fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn body(definition: Definition, media_types: &'static [&'static str]) -> Body {
    Body { schema: Schema::Definition(definition), required: true, media_types }
}

fn delete_options() -> Body {
    Body { required: false, ..body(Definition::Native(Types::native().delete_options()), ANY) }
}

fn watch_event() -> Option<Content> {
    Types::native().by_gvk("", "v1", "WatchEvent").map(|ty| Content::Schema(Schema::Definition(Definition::Native(ty))))
}

fn answers(codes: &[&'static str], definition: Definition) -> Vec<(&'static str, Content)> {
    codes.iter().map(|code| (*code, Content::Schema(Schema::Definition(definition)))).chain([UNAUTHORIZED]).collect()
}
