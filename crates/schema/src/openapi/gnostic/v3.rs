//! The messages of OpenAPI version 3 by field number. Complete for schemas, parameters and operations as Kubernetes
//! uses them.

use super::Kind::{Any, AnyWhole, Bool, Default, Double, Int, Map, Message, OneOf, SchemaOrBool, String, Wrap};
use super::{Kind, NO_EXTENSIONS, is_reference};

/// Field numbers of a document, which is written piece by piece.
pub mod document {
    pub const OPENAPI: u32 = 1;
    pub const INFO: u32 = 2;
    pub const PATHS: u32 = 4;
    /// Within the message of [`PATHS`].
    pub const PATH: u32 = 1;
    pub const COMPONENTS: u32 = 5;
    /// Within the message of [`COMPONENTS`].
    pub const SCHEMAS: u32 = 1;
    /// Within the message of [`COMPONENTS`].
    pub const RESPONSES: u32 = 2;
    /// Within the message of [`COMPONENTS`].
    pub const PARAMETERS: u32 = 3;
    /// Within the message of [`COMPONENTS`].
    pub const REQUEST_BODIES: u32 = 5;
    /// Within the message of [`COMPONENTS`].
    pub const SECURITY_SCHEMES: u32 = 7;
    /// Within the messages of [`SCHEMAS`], [`RESPONSES`], [`PARAMETERS`] and [`REQUEST_BODIES`].
    pub const ENTRY: u32 = 1;
}

pub static TEXT: Kind = String;

pub static INFO: Kind =
    Message(&[("title", 1, &String), ("description", 2, &String), ("version", 6, &String)], NO_EXTENSIONS);

pub static SECURITY_SCHEMES: Kind = Map(1, &OneOf(|_| (1, &SECURITY_SCHEME)));

static SECURITY_SCHEME: Kind = Message(
    &[
        ("type", 1, &String),
        ("description", 2, &String),
        ("name", 3, &String),
        ("in", 4, &String),
        ("scheme", 5, &String),
    ],
    NO_EXTENSIONS,
);

pub static PATH_ITEM: Kind = Message(
    &[
        ("summary", 2, &String),
        ("description", 3, &String),
        ("get", 4, &OPERATION),
        ("put", 5, &OPERATION),
        ("post", 6, &OPERATION),
        ("delete", 7, &OPERATION),
        ("options", 8, &OPERATION),
        ("head", 9, &OPERATION),
        ("patch", 10, &OPERATION),
        ("parameters", 13, &PARAMETER_OR_REFERENCE),
    ],
    14,
);

static OPERATION: Kind = Message(
    &[
        ("tags", 1, &String),
        ("summary", 2, &String),
        ("description", 3, &String),
        ("operationId", 5, &String),
        ("parameters", 6, &PARAMETER_OR_REFERENCE),
        ("requestBody", 7, &REQUEST_BODY_OR_REFERENCE),
        ("responses", 8, &RESPONSES),
        ("deprecated", 10, &Bool),
    ],
    13,
);

pub static REQUEST_BODY_OR_REFERENCE: Kind =
    OneOf(|value| if is_reference(value) { (2, &REFERENCE) } else { (1, &REQUEST_BODY) });

static REQUEST_BODY: Kind =
    Message(&[("description", 1, &String), ("content", 2, &MEDIA_TYPES), ("required", 3, &Bool)], 4);

static RESPONSES: Kind = Map(2, &RESPONSE_OR_REFERENCE);

pub static RESPONSE_OR_REFERENCE: Kind =
    OneOf(|value| if is_reference(value) { (2, &REFERENCE) } else { (1, &RESPONSE) });

static RESPONSE: Kind = Message(&[("description", 1, &String), ("content", 3, &MEDIA_TYPES)], 5);

static MEDIA_TYPES: Kind = Map(1, &MEDIA_TYPE);

static MEDIA_TYPE: Kind = Message(&[("schema", 1, &SCHEMA_OR_REFERENCE)], 5);

pub static PARAMETER_OR_REFERENCE: Kind =
    OneOf(|value| if is_reference(value) { (2, &REFERENCE) } else { (1, &PARAMETER) });

static PARAMETER: Kind = Message(
    &[
        ("name", 1, &String),
        ("in", 2, &String),
        ("description", 3, &String),
        ("required", 4, &Bool),
        ("schema", 10, &SCHEMA_OR_REFERENCE),
    ],
    14,
);

static REFERENCE: Kind = Message(&[("$ref", 1, &String)], NO_EXTENSIONS);

pub static SCHEMA_OR_REFERENCE: Kind = OneOf(|value| if is_reference(value) { (2, &REFERENCE) } else { (1, &SCHEMA) });

static SCHEMA: Kind = Message(
    &[
        ("nullable", 1, &Bool),
        ("readOnly", 3, &Bool),
        ("writeOnly", 4, &Bool),
        ("externalDocs", 6, &EXTERNAL_DOCS),
        ("example", 7, &AnyWhole),
        ("deprecated", 8, &Bool),
        ("title", 9, &String),
        ("multipleOf", 10, &Double),
        ("maximum", 11, &Double),
        ("exclusiveMaximum", 12, &Bool),
        ("minimum", 13, &Double),
        ("exclusiveMinimum", 14, &Bool),
        ("maxLength", 15, &Int),
        ("minLength", 16, &Int),
        ("pattern", 17, &String),
        ("maxItems", 18, &Int),
        ("minItems", 19, &Int),
        ("uniqueItems", 20, &Bool),
        ("maxProperties", 21, &Int),
        ("minProperties", 22, &Int),
        ("required", 23, &String),
        ("enum", 24, &Any),
        ("type", 25, &String),
        ("allOf", 26, &SCHEMA_OR_REFERENCE),
        ("oneOf", 27, &SCHEMA_OR_REFERENCE),
        ("anyOf", 28, &SCHEMA_OR_REFERENCE),
        ("not", 29, &SCHEMA),
        ("items", 30, &Wrap(1, &SCHEMA_OR_REFERENCE)),
        ("properties", 31, &Map(1, &SCHEMA_OR_REFERENCE)),
        ("additionalProperties", 32, &SchemaOrBool(&SCHEMA_OR_REFERENCE)),
        ("default", 33, &Default),
        ("description", 34, &String),
        ("format", 35, &String),
    ],
    36,
);

static EXTERNAL_DOCS: Kind = Message(&[("description", 1, &String), ("url", 2, &String)], NO_EXTENSIONS);
