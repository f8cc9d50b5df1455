//! The messages of OpenAPI version 2 by field number. Complete for schemas, parameters and operations as Kubernetes
//! uses them.

use serde_json::Value;

use super::Kind::{Any, AnyWhole, Bool, Double, Int, Map, Message, OneOf, SchemaOrBool, String, Wrap};
use super::{Kind, NO_EXTENSIONS, is_reference};

/// Field numbers of a document, which is written piece by piece.
pub mod document {
    pub const SWAGGER: u32 = 1;
    pub const INFO: u32 = 2;
    pub const PATHS: u32 = 8;
    /// Within the message of [`PATHS`].
    pub const PATH: u32 = 2;
    pub const DEFINITIONS: u32 = 9;
    pub const PARAMETERS: u32 = 10;
    /// Within the messages of [`DEFINITIONS`] and [`PARAMETERS`].
    pub const ENTRY: u32 = 1;
    pub const SECURITY: u32 = 12;
    pub const SECURITY_DEFINITIONS: u32 = 13;
}

pub static TEXT: Kind = String;

pub static INFO: Kind =
    Message(&[("title", 1, &String), ("version", 2, &String), ("description", 3, &String)], NO_EXTENSIONS);

pub static SECURITY: Kind = Map(1, &Wrap(1, &String));

pub static SECURITY_DEFINITIONS: Kind = Map(1, &OneOf(|_| (2, &API_KEY)));

static API_KEY: Kind = Message(
    &[("type", 1, &String), ("name", 2, &String), ("in", 3, &String), ("description", 4, &String)],
    NO_EXTENSIONS,
);

pub static PATH_ITEM: Kind = Message(
    &[
        ("get", 2, &OPERATION),
        ("put", 3, &OPERATION),
        ("post", 4, &OPERATION),
        ("delete", 5, &OPERATION),
        ("options", 6, &OPERATION),
        ("head", 7, &OPERATION),
        ("patch", 8, &OPERATION),
        ("parameters", 9, &PARAMETERS_ITEM),
    ],
    10,
);

static OPERATION: Kind = Message(
    &[
        ("tags", 1, &String),
        ("summary", 2, &String),
        ("description", 3, &String),
        ("operationId", 5, &String),
        ("produces", 6, &String),
        ("consumes", 7, &String),
        ("parameters", 8, &PARAMETERS_ITEM),
        ("responses", 9, &RESPONSES),
        ("schemes", 10, &String),
        ("deprecated", 11, &Bool),
        ("security", 12, &SECURITY),
    ],
    13,
);

static RESPONSES: Kind = Map(1, &OneOf(|_| (1, &RESPONSE)));

static RESPONSE: Kind = Message(&[("description", 1, &String), ("schema", 2, &OneOf(|_| (1, &SCHEMA)))], NO_EXTENSIONS);

static PARAMETERS_ITEM: Kind = OneOf(|value| if is_reference(value) { (2, &JSON_REFERENCE) } else { (1, &PARAMETER) });

static JSON_REFERENCE: Kind = Message(&[("$ref", 1, &String), ("description", 2, &String)], NO_EXTENSIONS);

pub static PARAMETER: Kind = OneOf(|value| if location(value) == "body" { (1, &BODY) } else { (2, &NON_BODY) });

static BODY: Kind = Message(
    &[
        ("description", 1, &String),
        ("name", 2, &String),
        ("in", 3, &String),
        ("required", 4, &Bool),
        ("schema", 5, &SCHEMA),
    ],
    6,
);

static NON_BODY: Kind =
    OneOf(|value| if location(value) == "path" { (4, &PATH_PARAMETER) } else { (3, &QUERY_PARAMETER) });

static QUERY_PARAMETER: Kind = Message(
    &[
        ("required", 1, &Bool),
        ("in", 2, &String),
        ("description", 3, &String),
        ("name", 4, &String),
        ("type", 6, &String),
        ("format", 7, &String),
        ("uniqueItems", 20, &Bool),
    ],
    23,
);

static PATH_PARAMETER: Kind = Message(
    &[
        ("required", 1, &Bool),
        ("in", 2, &String),
        ("description", 3, &String),
        ("name", 4, &String),
        ("type", 5, &String),
        ("format", 6, &String),
        ("uniqueItems", 19, &Bool),
    ],
    22,
);

fn location(value: &Value) -> &str {
    value.get("in").and_then(Value::as_str).unwrap_or_default()
}

pub static SCHEMA: Kind = Message(
    &[
        ("$ref", 1, &String),
        ("format", 2, &String),
        ("title", 3, &String),
        ("description", 4, &String),
        ("default", 5, &AnyWhole),
        ("multipleOf", 6, &Double),
        ("maximum", 7, &Double),
        ("exclusiveMaximum", 8, &Bool),
        ("minimum", 9, &Double),
        ("exclusiveMinimum", 10, &Bool),
        ("maxLength", 11, &Int),
        ("minLength", 12, &Int),
        ("pattern", 13, &String),
        ("maxItems", 14, &Int),
        ("minItems", 15, &Int),
        ("uniqueItems", 16, &Bool),
        ("maxProperties", 17, &Int),
        ("minProperties", 18, &Int),
        ("required", 19, &String),
        ("enum", 20, &Any),
        ("additionalProperties", 21, &SchemaOrBool(&SCHEMA)),
        ("type", 22, &Wrap(1, &String)),
        ("items", 23, &Wrap(1, &SCHEMA)),
        ("allOf", 24, &SCHEMA),
        ("properties", 25, &Map(1, &SCHEMA)),
        ("discriminator", 26, &String),
        ("readOnly", 27, &Bool),
        ("externalDocs", 29, &EXTERNAL_DOCS),
        ("example", 30, &AnyWhole),
    ],
    31,
);

static EXTERNAL_DOCS: Kind = Message(&[("description", 1, &String), ("url", 2, &String)], NO_EXTENSIONS);
