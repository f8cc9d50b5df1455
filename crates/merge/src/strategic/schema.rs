//! Where in a native type a merge is, and what the type says about each field there.

use bailiwick_schema::types::{Field, FieldType, Type};

use crate::error::PatchError;

/// What the JSON value at hand is in the Go API.
#[derive(Clone, Copy)]
pub enum Place {
    Struct(&'static Type),
    /// Not a struct: nothing below it has merge rules. Carries Go's name for its kind.
    Other(&'static str),
}

/// The rules for one field.
#[derive(Clone, Copy)]
pub struct Rules {
    /// The field's own place, for maps; for lists the place of their elements.
    pub place: Place,
    pub strategy: Strategy,
    pub merge_key: Option<&'static str>,
}

/// How a field is merged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Objects merge, lists are replaced.
    Default,
    Merge,
    Replace,
}

impl Place {
    /// The rules for a field that holds an object.
    pub fn of_object(self, key: &str) -> Result<Rules, PatchError> {
        let field = self.field(key)?;
        Ok(rules(field, place_of(field.ty)))
    }

    /// The rules for a field that holds a list.
    pub fn of_list(self, key: &str) -> Result<Rules, PatchError> {
        let field = self.field(key)?;
        let element = match field.ty {
            FieldType::List(element) | FieldType::WrappedList(element) => match place_of(*element) {
                Place::Other("slice") => return Err(unforeseen("unexpected slice of slice")),
                place => place,
            },
            _ => return Err(unforeseen("expected slice or array type, but got: struct")),
        };
        Ok(rules(field, element))
    }

    /// Go's name for the kind of this place.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Other(kind) => kind,
        }
    }

    fn field(self, key: &str) -> Result<&'static Field, PatchError> {
        let ty = match self {
            Self::Struct(ty) => ty,
            Self::Other(kind) => {
                return Err(unforeseen(format!(
                    "merging an object in json but data type is not struct, instead is: {kind}"
                )));
            }
        };
        ty.field(key).or_else(|| ty.json_fields().find(|f| f.name.eq_ignore_ascii_case(key))).ok_or_else(|| {
            let name = ty.short_go_name();
            unforeseen(format!("unable to find api field in struct {name} for the json field {key:?}"))
        })
    }
}

fn rules(field: &'static Field, place: Place) -> Rules {
    let strategy = if field.merges_in_patch() {
        Strategy::Merge
    } else if field.patch_strategies().contains(&"replace") {
        Strategy::Replace
    } else {
        Strategy::Default
    };
    Rules { place, strategy, merge_key: field.patch_merge_key() }
}

fn place_of(ty: FieldType) -> Place {
    match ty {
        FieldType::Struct(ty) => Place::Struct(ty),
        FieldType::List(_) | FieldType::WrappedList(_) | FieldType::Bytes => Place::Other("slice"),
        FieldType::Map(_) => Place::Other("map"),
        FieldType::String => Place::Other("string"),
        FieldType::Bool => Place::Other("bool"),
        FieldType::Int32 => Place::Other("int32"),
        FieldType::Int64 => Place::Other("int64"),
        FieldType::Double => Place::Other("float64"),
        FieldType::Any => Place::Other("interface"),
        // Structs to Go, but without fields that JSON could name.
        _ => Place::Other("struct"),
    }
}

pub fn unforeseen(text: impl Into<String>) -> PatchError {
    PatchError::Unforeseen(text.into())
}
