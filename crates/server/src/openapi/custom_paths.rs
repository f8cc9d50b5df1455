//! The paths of custom resources, as templates of each shape that they can have.

use std::sync::OnceLock;

use bailiwick_schema::openapi::{Definition, Form, Leaf};
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::operation::{Body, Content, Operation, PathItem, Schema};
use super::parameters::{self, Parameter, Target};
use super::paths::{Place, UNAUTHORIZED, operation_id};
use super::shared::Shared;
use super::template::{Template, has_slots, slot};

/// What decides which paths there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub namespaced: bool,
    pub status: bool,
    pub scale: bool,
}

/// What all custom resources of one shape have in documents of one form.
pub(super) struct ShapePaths {
    pub paths: Template,
    /// What operations on the kind answer with.
    pub responses: Template,
    /// What is no resource's own.
    pub shared: Shared,
}

impl ShapePaths {
    /// Made when first wanted.
    pub(super) fn of(shape: Shape, form: Form) -> &'static Self {
        static SHAPES: [OnceLock<ShapePaths>; 16] = [const { OnceLock::new() }; 16];
        let bits = [shape.namespaced, shape.status, shape.scale, form == Form::V2];
        let at = bits.iter().fold(0, |at, bit| at * 2 + usize::from(*bit));
        SHAPES[at].get_or_init(|| Self::new(shape, form))
    }

    fn new(shape: Shape, form: Form) -> Self {
        let mut shared = Shared::default();
        let paths: Vec<(String, Value)> =
            paths(shape).into_iter().map(|(path, item)| (path, item.render(form, &mut shared))).collect();
        let (own, common) =
            std::mem::take(&mut shared.responses).into_iter().partition::<Vec<_>, _>(|(name, _)| has_slots(name));
        shared.responses.extend(common);
        Self { paths: Template::new(paths), responses: Template::new(own), shared }
    }
}

const MEDIA: &[&str] = &["application/json", "application/yaml"];
const MEDIA_PATCH: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

const OBJECT: Schema = Schema::Named(slot::OBJECT, slot::KIND);
const LIST: Schema = Schema::Named(slot::LIST, slot::LIST);

fn paths(shape: Shape) -> Vec<(String, PathItem)> {
    let (place, scope) = match shape.namespaced {
        true => (Place::Namespaced, "/namespaces/{namespace}"),
        false => (Place::Cluster, ""),
    };
    let base = format!("/apis/{}/{}", slot::GROUP, slot::VERSION);
    let collection = format!("{base}{scope}/{}", slot::PLURAL);
    let object = format!("{collection}/{{name}}");
    let on_object = vec![read(place, "", OBJECT), replace(place, "", OBJECT), delete(place), patch(place, "", OBJECT)];
    let mut paths =
        vec![(collection, vec![list(place), create(place), delete_collection(place)]), (object.clone(), on_object)];
    let mut subresource = |name: &str, suffix: &str, schema: Schema| {
        let operations =
            vec![read(place, suffix, schema), replace(place, suffix, schema), patch(place, suffix, schema)];
        paths.push((format!("{object}/{name}"), operations));
    };
    if shape.scale {
        subresource("scale", "Scale", scale().map_or(OBJECT, Schema::Definition));
    }
    if shape.status {
        subresource("status", "Status", OBJECT);
    }
    if shape.namespaced {
        paths.push((format!("{base}/{}", slot::PLURAL), vec![list(Place::AllNamespaces)]));
    }
    paths.into_iter().map(|(path, operations)| (path, PathItem { operations })).collect()
}

/// The kind of the scale subresource.
pub(super) fn scale() -> Option<Definition> {
    Types::native().by_gvk("autoscaling", "v1", "Scale").map(Definition::Native)
}

fn list(place: Place) -> Operation {
    let mut operation = operation(place, "get", "list", ("list", "", ""));
    operation.parameters = Parameter::all(parameters::LIST, place, Target::Collection);
    operation.responses = answers(&["200"], LIST);
    operation
}

fn create(place: Place) -> Operation {
    let mut operation = operation(place, "post", "post", ("create", "", ""));
    operation.parameters = Parameter::all(parameters::WRITE, place, Target::Collection);
    operation.body = Some(body(OBJECT, MEDIA));
    operation.responses = answers(&["200", "201", "202"], OBJECT);
    operation
}

fn delete_collection(place: Place) -> Operation {
    let mut operation = operation(place, "delete", "deletecollection", ("delete", "Collection", ""));
    // Upstream documents the parameters of a list here, and no body.
    operation.parameters = Parameter::all(parameters::LIST, place, Target::Collection);
    operation.responses = answers(&["200"], status());
    operation
}

fn read(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "get", "get", ("read", "", suffix));
    operation.parameters = Parameter::all(&["pretty", "resourceVersion"], place, Target::Object);
    operation.responses = answers(&["200"], schema);
    operation
}

fn replace(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "put", "put", ("replace", "", suffix));
    operation.parameters = Parameter::all(parameters::WRITE, place, Target::Object);
    operation.body = Some(body(schema, MEDIA));
    operation.responses = answers(&["200", "201"], schema);
    operation
}

fn patch(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "patch", "patch", ("patch", "", suffix));
    operation.parameters = Parameter::all(parameters::PATCH, place, Target::Object);
    operation.body = Some(body(Schema::Definition(Definition::Leaf(Leaf::Patch)), MEDIA_PATCH));
    operation.consumes = MEDIA_PATCH;
    operation.responses = answers(&["200"], schema);
    operation
}

fn delete(place: Place) -> Operation {
    let mut operation = operation(place, "delete", "delete", ("delete", "", ""));
    operation.parameters = Parameter::all(parameters::DELETE, place, Target::Object);
    let options = Schema::Definition(Definition::Native(Types::native().delete_options()));
    operation.body = Some(Body { required: false, ..body(options, MEDIA) });
    operation.responses = answers(&["200", "202"], status());
    operation
}

/// An operation; the id is made of a verb, what stands before the scope and what stands after the kind. It has no text, which
/// a thousand kinds would repeat and could not say more than the id and the action do.
fn operation(
    place: Place,
    method: &'static str,
    action: &'static str,
    (verb, before, after): (&str, &str, &str),
) -> Operation {
    Operation {
        method,
        id: operation_id(verb, slot::GROUP_VERSION, before, place, slot::KIND, after),
        text: String::new(),
        tag: slot::TAG.to_owned(),
        action: Some((action, json!({"group": slot::GROUP, "version": slot::VERSION, "kind": slot::KIND}))),
        parameters: Vec::new(),
        body: None,
        responses: Vec::new(),
        consumes: MEDIA,
        produces: MEDIA,
    }
}

fn body(schema: Schema, media_types: &'static [&'static str]) -> Body {
    Body { schema, required: true, media_types }
}

fn status() -> Schema {
    Schema::Definition(Definition::Native(Types::native().status()))
}

fn answers(codes: &[&'static str], schema: Schema) -> Vec<(&'static str, Content)> {
    codes.iter().map(|code| (*code, Content::Schema(schema))).chain([UNAUTHORIZED]).collect()
}
