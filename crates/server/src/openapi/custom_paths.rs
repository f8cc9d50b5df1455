//! The paths of custom resources, as templates. The paths of two custom resources differ in names only, so they are made once
//! for each shape with slots for the names, which costs next to nothing to fill for a thousand resources.

use std::sync::OnceLock;

use bailiwick_schema::openapi::{Definition, Form, Leaf, gnostic};
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::operation::{Body, Content, Operation, PathItem, Schema, SharedParameters};
use super::parameters::{self, Parameter};
use super::paths::{Place, UNAUTHORIZED, operation_id};

/// What decides which paths there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub namespaced: bool,
    pub status: bool,
    pub scale: bool,
}

/// Names that fill the slots; in the order of [`slot`].
pub(super) struct Names(pub [String; SLOTS]);

const SLOTS: usize = 9;

/// Slots are characters of Unicode's private use area, which no text and no name has.
mod slot {
    pub const FIRST: char = '\u{E000}';
    pub const GROUP: &str = "\u{E000}";
    pub const VERSION: &str = "\u{E001}";
    pub const PLURAL: &str = "\u{E002}";
    pub const KIND: &str = "\u{E003}";
    /// With its article.
    pub const A_KIND: &str = "\u{E004}";
    /// The definitions' names.
    pub const OBJECT: &str = "\u{E005}";
    pub const LIST: &str = "\u{E006}";
    pub const TAG: &str = "\u{E007}";
    /// Group and version inside operation ids.
    pub const GROUP_VERSION: &str = "\u{E008}";
}

/// The paths of all custom resources of one shape in one form.
pub(super) struct Template {
    /// The members of the document's `paths` as JSON, cut at the slots: a text and the slot after it.
    json: Vec<(Box<str>, Option<usize>)>,
    /// The same as values.
    paths: Vec<(String, Value)>,
    /// The parameters version 2 keeps apart.
    pub shared: SharedParameters,
}

impl Template {
    /// The template of a shape; made when first wanted.
    pub(super) fn of(shape: Shape, form: Form) -> &'static Self {
        static TEMPLATES: [OnceLock<Template>; 16] = [const { OnceLock::new() }; 16];
        let bits = [shape.namespaced, shape.status, shape.scale, form == Form::V2];
        let at = bits.iter().fold(0, |at, bit| at * 2 + usize::from(*bit));
        TEMPLATES[at].get_or_init(|| Self::new(shape, form))
    }

    fn new(shape: Shape, form: Form) -> Self {
        let mut shared = SharedParameters::new();
        let paths: Vec<(String, Value)> = paths(shape)
            .into_iter()
            .map(|(path, item)| match form {
                Form::V2 => (path, item.v2(&mut shared)),
                Form::V3 => (path, item.v3()),
            })
            .collect();
        let members: Vec<String> = paths.iter().map(|(path, item)| format!("{}:{item}", json!(path))).collect();
        Self { json: cut(&members.join(",")), paths, shared }
    }

    /// The paths as members of a JSON object.
    pub(super) fn json(&self, names: &Names) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.json.iter().map(|(text, _)| text.len() + 24).sum());
        for (text, slot) in &self.json {
            out.extend_from_slice(text.as_bytes());
            if let Some(name) = slot.and_then(|slot| names.0.get(slot)) {
                out.extend_from_slice(name.as_bytes());
            }
        }
        out
    }

    /// The paths as entries of the protobuf document.
    pub(super) fn protobuf(&self, names: &Names, form: Form) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, item) in &self.paths {
            let (path, item) = (filled(path, names), filled_value(item, names));
            match form {
                Form::V2 => {
                    gnostic::put_entry(&mut out, gnostic::v2::document::PATH, &gnostic::v2::PATH_ITEM, &path, &item);
                }
                Form::V3 => {
                    gnostic::put_entry(&mut out, gnostic::v3::document::PATH, &gnostic::v3::PATH_ITEM, &path, &item);
                }
            }
        }
        out
    }
}

fn slot_of(letter: char) -> Option<usize> {
    let slot = (letter as usize).checked_sub(slot::FIRST as usize)?;
    (slot < SLOTS).then_some(slot)
}

fn cut(text: &str) -> Vec<(Box<str>, Option<usize>)> {
    text.split_inclusive(|letter| slot_of(letter).is_some())
        .map(|part| {
            let slot = part.chars().next_back().and_then(slot_of);
            let text = if slot.is_some() { part.trim_end_matches(|letter| slot_of(letter).is_some()) } else { part };
            (text.into(), slot)
        })
        .collect()
}

fn filled(text: &str, names: &Names) -> String {
    let mut out = String::with_capacity(text.len() + 24);
    for letter in text.chars() {
        match slot_of(letter).and_then(|slot| names.0.get(slot)) {
            Some(name) => out.push_str(name),
            None => out.push(letter),
        }
    }
    out
}

fn filled_value(value: &Value, names: &Names) -> Value {
    match value {
        Value::String(text) => filled(text, names).into(),
        Value::Array(items) => items.iter().map(|item| filled_value(item, names)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| (name.clone(), filled_value(value, names))).collect()
        }
        other => other.clone(),
    }
}

const MEDIA: &[&str] = &["application/json", "application/yaml"];
const MEDIA_PATCH: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

const OBJECT: Schema = Schema::Named(slot::OBJECT);

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
    let mut operation =
        operation(place, "get", "list", ("list", "", ""), format!("List or watch {} objects.", slot::KIND));
    operation.parameters = parameters(parameters::LIST, place, "");
    operation.responses = answers(&["200"], Schema::Named(slot::LIST));
    operation
}

fn create(place: Place) -> Operation {
    let mut operation = operation(place, "post", "post", ("create", "", ""), format!("Create {}.", slot::A_KIND));
    operation.parameters = parameters(parameters::WRITE, place, "");
    operation.body = Some(body(OBJECT, MEDIA));
    operation.responses = answers(&["200", "201", "202"], OBJECT);
    operation
}

fn delete_collection(place: Place) -> Operation {
    let text = format!("Delete the {} objects that match.", slot::KIND);
    let mut operation = operation(place, "delete", "deletecollection", ("delete", "Collection", ""), text);
    // Upstream documents the parameters of a list here, and no body.
    operation.parameters = parameters(parameters::LIST, place, "");
    operation.responses = answers(&["200"], status());
    operation
}

fn read(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "get", "get", ("read", "", suffix), on("Read", suffix));
    operation.parameters = parameters(&["pretty", "resourceVersion"], place, slot::KIND);
    operation.responses = answers(&["200"], schema);
    operation
}

fn replace(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "put", "put", ("replace", "", suffix), on("Replace", suffix));
    operation.parameters = parameters(parameters::WRITE, place, slot::KIND);
    operation.body = Some(body(schema, MEDIA));
    operation.responses = answers(&["200", "201"], schema);
    operation
}

fn patch(place: Place, suffix: &str, schema: Schema) -> Operation {
    let mut operation = operation(place, "patch", "patch", ("patch", "", suffix), on("Change parts of", suffix));
    operation.parameters = parameters(parameters::PATCH, place, slot::KIND);
    operation.body = Some(body(Schema::Definition(Definition::Leaf(Leaf::Patch)), MEDIA_PATCH));
    operation.consumes = MEDIA_PATCH;
    operation.responses = answers(&["200"], schema);
    operation
}

fn delete(place: Place) -> Operation {
    let mut operation = operation(place, "delete", "delete", ("delete", "", ""), on("Delete", ""));
    operation.parameters = parameters(parameters::DELETE, place, slot::KIND);
    let options = Schema::Definition(Definition::Native(Types::native().delete_options()));
    operation.body = Some(Body { required: false, ..body(options, MEDIA) });
    operation.responses = answers(&["200", "202"], status());
    operation
}

/// What an operation on an object or, by the end of its id, on one of its subresources does.
fn on(does: &str, suffix: &str) -> String {
    match suffix.is_empty() {
        true => format!("{does} {}.", slot::A_KIND),
        false => format!("{does} the {} of {}.", suffix.to_ascii_lowercase(), slot::A_KIND),
    }
}

/// An operation; the id is made of a verb, what stands before the scope and what stands after the kind.
fn operation(
    place: Place,
    method: &'static str,
    action: &'static str,
    (verb, before, after): (&str, &str, &str),
    text: String,
) -> Operation {
    Operation {
        method,
        id: operation_id(verb, slot::GROUP_VERSION, before, place, slot::KIND, after),
        text,
        tag: slot::TAG.to_owned(),
        action: Some((action, json!({"group": slot::GROUP, "version": slot::VERSION, "kind": slot::KIND}))),
        parameters: Vec::new(),
        body: None,
        responses: Vec::new(),
        consumes: MEDIA,
        produces: MEDIA,
    }
}

fn parameters(names: &[&'static str], place: Place, object: &str) -> Vec<Parameter> {
    Parameter::all(names, place, Some(object).filter(|kind| !kind.is_empty()))
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
