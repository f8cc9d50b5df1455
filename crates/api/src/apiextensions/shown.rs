//! Versions and schemas of a definition as error messages show them: JSON of upstream's internal types.

use serde_json::Value;

use super::versions::Hoisted;
use crate::go_shape::{self, Field, Shape, shown_list};

/// A schema as messages show it.
pub(super) fn shown_schema(schema: &Value) -> String {
    go_shape::shown(schema, &SCHEMA)
}

/// Versions as messages show them. What they have in common stands elsewhere in the internal type.
pub(super) fn shown_versions(versions: &[Value], hoisted: &Hoisted) -> String {
    let mut versions = versions.to_vec();
    for fields in versions.iter_mut().filter_map(Value::as_object_mut) {
        for (name, moved) in [
            ("schema", hoisted.schema),
            ("subresources", hoisted.subresources),
            ("additionalPrinterColumns", hoisted.columns),
            ("selectableFields", hoisted.selectable_fields),
        ] {
            if moved {
                fields.remove(name);
            }
        }
    }
    shown_list(&versions, VERSION)
}

const VERSION: &[Field] = &[
    ("Name", "name", Shape::Text),
    ("Served", "served", Shape::Flag),
    ("Storage", "storage", Shape::Flag),
    ("Deprecated", "deprecated", Shape::Flag),
    ("DeprecationWarning", "deprecationWarning", Shape::Optional),
    ("Schema", "schema", Shape::Pointer(&[("OpenAPIV3Schema", "openAPIV3Schema", Shape::Pointer(&SCHEMA))])),
    (
        "Subresources",
        "subresources",
        Shape::Pointer(&[
            ("Status", "status", Shape::Pointer(&[])),
            (
                "Scale",
                "scale",
                Shape::Pointer(&[
                    ("SpecReplicasPath", "specReplicasPath", Shape::Text),
                    ("StatusReplicasPath", "statusReplicasPath", Shape::Text),
                    ("LabelSelectorPath", "labelSelectorPath", Shape::Optional),
                ]),
            ),
        ]),
    ),
    (
        "AdditionalPrinterColumns",
        "additionalPrinterColumns",
        Shape::List(&[
            ("Name", "name", Shape::Text),
            ("Type", "type", Shape::Text),
            ("Format", "format", Shape::Text),
            ("Description", "description", Shape::Text),
            ("Priority", "priority", Shape::Integer),
            ("JSONPath", "jsonPath", Shape::Text),
        ]),
    ),
    ("SelectableFields", "selectableFields", Shape::List(&[("JSONPath", "jsonPath", Shape::Text)])),
];

static SCHEMA: [Field; 44] = [
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Optional),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Flag),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Optional),
    ("Maximum", "maximum", Shape::Optional),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Flag),
    ("Minimum", "minimum", Shape::Optional),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Flag),
    ("MaxLength", "maxLength", Shape::Optional),
    ("MinLength", "minLength", Shape::Optional),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Optional),
    ("MinItems", "minItems", Shape::Optional),
    ("UniqueItems", "uniqueItems", Shape::Flag),
    ("MultipleOf", "multipleOf", Shape::Optional),
    ("Enum", "enum", Shape::Texts),
    ("MaxProperties", "maxProperties", Shape::Optional),
    ("MinProperties", "minProperties", Shape::Optional),
    ("Required", "required", Shape::Texts),
    ("Items", "items", Shape::OneOrList(&SCHEMA)),
    ("AllOf", "allOf", Shape::List(&SCHEMA)),
    ("OneOf", "oneOf", Shape::List(&SCHEMA)),
    ("AnyOf", "anyOf", Shape::List(&SCHEMA)),
    ("Not", "not", Shape::Pointer(&SCHEMA)),
    ("Properties", "properties", Shape::Map(&SCHEMA)),
    ("AdditionalProperties", "additionalProperties", Shape::OneOrFlag(&SCHEMA)),
    ("PatternProperties", "patternProperties", Shape::Map(&SCHEMA)),
    ("Dependencies", "dependencies", Shape::Optional),
    ("AdditionalItems", "additionalItems", Shape::OneOrFlag(&SCHEMA)),
    ("Definitions", "definitions", Shape::Map(&SCHEMA)),
    (
        "ExternalDocs",
        "externalDocs",
        Shape::Pointer(&[("Description", "description", Shape::Text), ("URL", "url", Shape::Text)]),
    ),
    ("Example", "example", Shape::Optional),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Shape::Optional),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Shape::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Texts),
    ("XListType", "x-kubernetes-list-type", Shape::Optional),
    ("XMapType", "x-kubernetes-map-type", Shape::Optional),
    (
        "XValidations",
        "x-kubernetes-validations",
        Shape::List(&[
            ("Rule", "rule", Shape::Text),
            ("Message", "message", Shape::Text),
            ("MessageExpression", "messageExpression", Shape::Text),
            ("Reason", "reason", Shape::Optional),
            ("FieldPath", "fieldPath", Shape::Text),
            ("OptionalOldSelf", "optionalOldSelf", Shape::Optional),
        ]),
    ),
];
