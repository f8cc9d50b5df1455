//! Definitions that are not structs: times, quantities and values of any shape.

use serde_json::{Map, Value, json};

use super::Form;
use crate::types::FieldType;

/// A definition without fields of its own.
#[derive(Clone, Copy, Debug)]
pub enum Leaf {
    /// A scalar of the API that is defined by name, such as a time.
    Field(FieldType),
    /// The body of a patch.
    Patch,
    /// The answer of `/version`, whose fields come from the descriptions as a whole.
    VersionInfo,
}

impl Leaf {
    /// The definition's name; empty for scalars that have none.
    pub fn name(self) -> &'static str {
        match self {
            Self::Field(ty) => ty.definition_name().unwrap_or_default(),
            Self::Patch => "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
            Self::VersionInfo => "io.k8s.apimachinery.pkg.version.Info",
        }
    }

    /// The definition without its description.
    pub(super) fn shape(self, form: Form) -> Map<String, Value> {
        let shape = match self {
            Self::Field(FieldType::Time | FieldType::MicroTime) => json!({"type": "string", "format": "date-time"}),
            Self::Field(FieldType::Quantity) if form == Form::V3 => {
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
            }
            Self::Field(FieldType::Quantity) => json!({"type": "string"}),
            Self::Field(FieldType::RawExtension | FieldType::FieldsV1) | Self::Patch | Self::VersionInfo => {
                json!({"type": "object"})
            }
            Self::Field(_) => json!({}),
        };
        match shape {
            Value::Object(shape) => shape,
            _ => Map::new(),
        }
    }
}
