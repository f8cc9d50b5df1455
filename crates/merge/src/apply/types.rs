//! What server-side apply must know of a type: which kinds of value may stand there and how lists and maps merge.
//!
//! A [`TypeRef`] points into the tables of native types or into the structural schema of a custom resource; resolving
//! one is a lookup without allocation, so that walks over objects ask at every step.

use bailiwick_schema::structural::{Additional, Kind, ListType as StructuralList, MapType, Schema};
use bailiwick_schema::types::{Field, FieldType, ListType, Type, Types};
use serde_json::Value;

/// The type at one place of an object.
#[derive(Clone, Copy, Debug)]
pub struct TypeRef<'a>(pub(super) At<'a>);

#[derive(Clone, Copy, Debug)]
pub(super) enum At<'a> {
    Struct(&'static Type),
    Field(&'static Field),
    Native(FieldType),
    Structural {
        schema: &'a Schema,
        /// Whether this node or one above it preserves unknown fields.
        preserves: bool,
        role: Role,
    },
    /// `apiVersion` and `kind`.
    Text,
    /// Whatever the value is: maps field by field, lists as a whole.
    Deduced,
    /// Whatever the value is, as a whole.
    Untyped,
}

/// Whether a structural node is an object of the API with the fields all of them have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Object,
}

impl<'a> TypeRef<'a> {
    /// A native type.
    pub fn native(ty: &'static Type) -> Self {
        Self(At::Struct(ty))
    }

    /// A custom resource: the structural schema, with `apiVersion`, `kind` and `metadata` of every object.
    pub fn custom(schema: &'a Schema) -> Self {
        Self(At::Structural { schema, preserves: schema.preserve_unknown_fields, role: Role::Object })
    }

    /// A custom resource without a schema.
    pub fn deduced() -> Self {
        Self(At::Deduced)
    }

    /// Whether the schema may have changed since the fields of an object were recorded.
    pub(super) fn may_change(self) -> bool {
        !matches!(self.0, At::Struct(_))
    }

    pub(super) fn resolve(self) -> Atom<'a> {
        match self.0 {
            At::Struct(ty) => Atom::map(MapAtom { fields: Fields::Struct(ty), element: None, is_atomic: ty.atomic }),
            At::Field(field) => native_atom(field.ty, Some(field)),
            At::Native(ty) => native_atom(ty, None),
            At::Structural { schema, preserves, role } => structural_atom(schema, preserves, role),
            At::Text => Atom::scalar(Scalar::String),
            At::Deduced => Atom::any(Fields::None, TypeRef(At::Deduced), false),
            At::Untyped => Atom::any(Fields::None, TypeRef(At::Untyped), true),
        }
    }
}

/// The kinds of value a type allows. Few allow more than one.
#[derive(Clone, Copy)]
pub(super) struct Atom<'a> {
    pub(super) map: Option<MapAtom<'a>>,
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListAtom<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
pub(super) struct MapAtom<'a> {
    fields: Fields<'a>,
    /// The type of what is not declared; `None` where nothing else may be.
    pub(super) element: Option<TypeRef<'a>>,
    pub(super) is_atomic: bool,
}

#[derive(Clone, Copy)]
enum Fields<'a> {
    None,
    Struct(&'static Type),
    Structural { schema: &'a Schema, preserves: bool, role: Role },
}

#[derive(Clone, Copy)]
pub(super) struct ListAtom<'a> {
    pub(super) merging: ListMerging<'a>,
    pub(super) element: TypeRef<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum ListMerging<'a> {
    Atomic,
    Set,
    Keys(KeyNames<'a>),
}

#[derive(Clone, Copy)]
pub(super) enum KeyNames<'a> {
    Native(&'static [&'static str]),
    One(&'static str),
    Structural(&'a [Box<str>]),
}

/// Which kind of value a walk treats a node as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Map,
    Scalar,
    List,
    /// The type allows nothing.
    Nothing,
}

impl<'a> Atom<'a> {
    fn map(map: MapAtom<'a>) -> Self {
        Self { map: Some(map), scalar: None, list: None }
    }

    fn scalar(scalar: Scalar) -> Self {
        Self { map: None, scalar: Some(scalar), list: None }
    }

    fn list(list: ListAtom<'a>) -> Self {
        Self { map: None, scalar: None, list: Some(list) }
    }

    /// Any value; the lists in it are merged as a whole.
    fn any(fields: Fields<'a>, element: TypeRef<'a>, is_atomic: bool) -> Self {
        Self {
            map: Some(MapAtom { fields, element: Some(element), is_atomic }),
            scalar: Some(Scalar::Any),
            list: Some(ListAtom { merging: ListMerging::Atomic, element: TypeRef(At::Untyped) }),
        }
    }

    /// The kind of value to treat `value` as: its own if the type allows that, else the first the type does allow.
    pub(super) fn shape(&self, value: &Value) -> Shape {
        match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) if self.scalar.is_some() => Shape::Scalar,
            Value::Array(_) if self.list.is_some() => Shape::List,
            Value::Object(_) if self.map.is_some() => Shape::Map,
            _ => self.first_shape(),
        }
    }

    pub(super) fn first_shape(&self) -> Shape {
        if self.map.is_some() {
            Shape::Map
        } else if self.scalar.is_some() {
            Shape::Scalar
        } else if self.list.is_some() {
            Shape::List
        } else {
            Shape::Nothing
        }
    }
}

impl<'a> MapAtom<'a> {
    /// The type of a declared field.
    pub(super) fn field(&self, name: &str) -> Option<TypeRef<'a>> {
        match self.fields {
            Fields::None => None,
            Fields::Struct(ty) => ty.field(name).map(|field| TypeRef(At::Field(field))),
            Fields::Structural { schema, preserves, role } => {
                if role == Role::Object || schema.embedded_resource {
                    match name {
                        "apiVersion" | "kind" => return Some(TypeRef(At::Text)),
                        "metadata" => return Some(TypeRef(At::Struct(Types::native().object_meta()))),
                        _ => {}
                    }
                }
                schema.property(name).map(|schema| structural(schema, preserves))
            }
        }
    }

    /// The type of a field, declared or not.
    pub(super) fn field_or_element(&self, name: &str) -> Option<TypeRef<'a>> {
        self.field(name).or(self.element)
    }

    /// Whether nothing is declared and anything allowed.
    pub(super) fn is_deduced(&self) -> bool {
        let declares_nothing = match self.fields {
            Fields::None => true,
            Fields::Struct(ty) => ty.fields.is_empty(),
            Fields::Structural { schema, role, .. } => {
                schema.properties.is_empty() && role == Role::Plain && !schema.embedded_resource
            }
        };
        declares_nothing && matches!(self.element, Some(TypeRef(At::Deduced)))
    }
}

impl<'a> ListAtom<'a> {
    /// The default of a key field, if there is one.
    pub(super) fn key_default(&self, name: &str) -> Option<KeyDefault<'a>> {
        match self.element.0 {
            At::Struct(ty) | At::Native(FieldType::Struct(ty)) => {
                let field = ty.field(name).filter(|field| field.has_zero_default())?;
                Some(KeyDefault::Zero(field.ty))
            }
            At::Structural { schema, .. } => schema.property(name)?.default.as_ref().map(KeyDefault::Declared),
            _ => None,
        }
    }
}

/// What stands for a key field that is not given.
pub(super) enum KeyDefault<'a> {
    /// Go's zero value of the field's type.
    Zero(FieldType),
    Declared(&'a Value),
}

impl<'a> KeyNames<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = &'a str> {
        let (native, structural): (&[&str], &'a [Box<str>]) = match self {
            Self::Native(names) => (names, &[]),
            Self::One(_) => (&[], &[]),
            Self::Structural(names) => (&[], names),
        };
        let one = if let Self::One(name) = self { Some(name) } else { None };
        native.iter().copied().chain(one).chain(structural.iter().map(|name| &**name))
    }
}

fn native_atom<'a>(ty: FieldType, field: Option<&'static Field>) -> Atom<'a> {
    match ty {
        FieldType::String | FieldType::Bytes => Atom::scalar(Scalar::String),
        FieldType::Bool => Atom::scalar(Scalar::Boolean),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => Atom::scalar(Scalar::Numeric),
        FieldType::Time | FieldType::MicroTime | FieldType::Quantity => Atom::scalar(Scalar::Any),
        FieldType::RawExtension => TypeRef(At::Untyped).resolve(),
        FieldType::FieldsV1 => {
            Atom::map(MapAtom { fields: Fields::None, element: Some(TypeRef(At::Deduced)), is_atomic: false })
        }
        FieldType::Json
        | FieldType::Any
        | FieldType::SchemaOrBool
        | FieldType::SchemaOrArray
        | FieldType::SchemaOrStringArray => TypeRef(At::Deduced).resolve(),
        FieldType::Struct(ty) => TypeRef(At::Struct(ty)).resolve(),
        FieldType::Map(element) => {
            Atom::map(MapAtom { fields: Fields::None, element: Some(TypeRef(At::Native(*element))), is_atomic: false })
        }
        FieldType::List(element) | FieldType::WrappedList(element) => {
            Atom::list(ListAtom { merging: native_list(field), element: TypeRef(At::Native(*element)) })
        }
    }
}

fn native_list<'a>(field: Option<&'static Field>) -> ListMerging<'a> {
    let Some(field) = field else { return ListMerging::Atomic };
    match field.list_type() {
        Some(ListType::Atomic) => ListMerging::Atomic,
        Some(ListType::Set) => ListMerging::Set,
        Some(ListType::Map(keys)) => ListMerging::Keys(KeyNames::Native(keys)),
        // Where the list type is not declared, the strategy of strategic merge patch stands in for it.
        None if field.merges_in_patch() => {
            field.patch_merge_key().map_or(ListMerging::Set, |key| ListMerging::Keys(KeyNames::One(key)))
        }
        None => ListMerging::Atomic,
    }
}

fn structural(schema: &Schema, inherited: bool) -> TypeRef<'_> {
    let preserves = inherited || schema.preserve_unknown_fields;
    TypeRef(At::Structural { schema, preserves, role: Role::Plain })
}

fn structural_atom(schema: &Schema, preserves: bool, role: Role) -> Atom<'_> {
    match schema.kind {
        Some(Kind::Object) => Atom::map(structural_map(schema, preserves, role)),
        Some(Kind::Array) => Atom::list(structural_list(schema, preserves)),
        Some(Kind::Integer | Kind::Number) => Atom::scalar(Scalar::Numeric),
        Some(Kind::Boolean) => Atom::scalar(Scalar::Boolean),
        Some(Kind::String) => {
            let format = schema.validation.as_ref().map_or("", |validation| &*validation.format);
            Atom::scalar(if matches!(format, "" | "byte") { Scalar::String } else { Scalar::Any })
        }
        None if role == Role::Object => Atom::map(structural_map(schema, preserves, role)),
        None => Atom {
            map: Some(structural_map(schema, preserves, role)),
            scalar: Some(Scalar::Any),
            list: Some(structural_list(schema, preserves)),
        },
    }
}

fn structural_map(schema: &Schema, preserves: bool, role: Role) -> MapAtom<'_> {
    let declares_nothing = schema.properties.is_empty() && role == Role::Plain && !schema.embedded_resource;
    let element = match &schema.additional_properties {
        Additional::Schema(element) => Some(structural(element, preserves)),
        Additional::Allowed(true) => Some(TypeRef(At::Deduced)),
        Additional::Allowed(false) => None,
        Additional::Absent if preserves || declares_nothing => Some(TypeRef(At::Deduced)),
        Additional::Absent => None,
    };
    MapAtom {
        fields: Fields::Structural { schema, preserves, role },
        element,
        is_atomic: schema.map_type == Some(MapType::Atomic),
    }
}

fn structural_list(schema: &Schema, preserves: bool) -> ListAtom<'_> {
    let merging = match &schema.list_type {
        None | Some(StructuralList::Atomic) => ListMerging::Atomic,
        Some(StructuralList::Set) => ListMerging::Set,
        Some(StructuralList::Map(keys)) => ListMerging::Keys(KeyNames::Structural(keys)),
    };
    let element = schema.items.as_ref().map_or(TypeRef(At::Untyped), |items| structural(items, preserves));
    ListAtom { merging, element }
}
