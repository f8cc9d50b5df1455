//! The native Kubernetes types as data: which fields a kind has, what they hold and how they merge.
//!
//! The table is generated (`xtask/gen-types`) and lies in read-only memory; nothing is parsed or allocated at start.
//! Decoding, the protobuf codec, strategic merge and OpenAPI all read the same facts from here.

mod build;
mod go_type;
#[rustfmt::skip]
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

pub use go_type::GoType;

/// Group, version and kind of a native type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    pub kind: &'static str,
    pub group: &'static str,
    pub version: &'static str,
}

impl GroupVersionKind {
    /// The `apiVersion` an object of this kind carries.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// A struct of the Kubernetes API. Compare types by identity of [`Type::name`].
pub struct Type {
    /// The OpenAPI definition name: `io.k8s.api.core.v1.ConfigMap`.
    pub name: &'static str,
    /// The Go name with its package, as error messages show it: `v1.ConfigMap`.
    pub go_name: &'static str,
    /// The kinds this type is; empty for types that only occur inside others. Kinds that every group version
    /// registers (`DeleteOptions`, `WatchEvent`, …) are listed once, under `v1`.
    pub gvks: &'static [GroupVersionKind],
    /// Whether the whole struct is one value to server-side apply (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// The `x-kubernetes-unions` extension as JSON text, empty when there is none.
    pub unions: &'static str,
    /// Declared fields in Go's order. Embedded structs appear as one [`Field::is_inline`] field.
    pub fields: &'static [Field],
    /// Indexes into `fields` in the order of protobuf numbers; empty when there is no protobuf form.
    pub(crate) wire_order: &'static [u8],
}

/// One field of a [`Type`].
pub struct Field {
    /// The JSON name, or the Go name of an embedded struct.
    pub name: &'static str,
    /// The Go type where it has a name of its own (`types.UID`, `[]v1.FinalizerName`), else empty.
    go_type: &'static str,
    pub ty: FieldType,
    /// The protobuf field number; 0 for what protobuf does not carry (`apiVersion` and `kind`).
    pub number: u32,
    flags: u8,
    meta: &'static Meta,
}

mod flag {
    pub const POINTER: u8 = 1;
    pub const OMIT_EMPTY: u8 = 2;
    pub const OMIT_ZERO: u8 = 4;
    pub const REQUIRED: u8 = 8;
    pub const INLINE: u8 = 16;
    pub const ZERO_DEFAULT: u8 = 32;
}

/// What a field holds. Go's durations and int-or-string occur in no type we serve and have no variant.
#[derive(Clone, Copy)]
pub enum FieldType {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    Quantity,
    /// Any object, kept as it came.
    RawExtension,
    /// A set of field paths of server-side apply.
    FieldsV1,
    /// Any JSON value (`apiextensions.k8s.io/v1.JSON`).
    Json,
    /// A cell of a Table: any JSON value, which protobuf cannot carry.
    Any,
    /// `additionalProperties`: a schema or a bool.
    SchemaOrBool,
    /// `items`: a schema or a list of schemas.
    SchemaOrArray,
    /// `dependencies`: a schema or a list of strings.
    SchemaOrStringArray,
    Struct(&'static Type),
    List(&'static FieldType),
    /// A list that is a message of its own in protobuf (`items = 1`); in JSON a plain list.
    WrappedList(&'static FieldType),
    /// String keys to values of one type.
    Map(&'static FieldType),
}

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    /// Entries are identified by these fields.
    Map(&'static [&'static str]),
}

/// Facts few fields have: merging and enums.
struct Meta {
    list_type: Option<ListType>,
    patch_strategies: &'static [&'static str],
    merge_key: &'static str,
    enum_values: &'static [&'static str],
}

impl Meta {
    const NONE: Self = Self { list_type: None, patch_strategies: &[], merge_key: "", enum_values: &[] };
}

/// The table of native types.
#[derive(Clone, Copy, Debug)]
pub struct Types(());

impl Types {
    /// All types of the Kubernetes API that this server knows.
    pub fn native() -> Self {
        Self(())
    }

    /// The type of a kind, lists and options kinds included.
    pub fn by_gvk(self, group: &str, version: &str, kind: &str) -> Option<&'static Type> {
        let key = (kind, group, version);
        let at = table::BY_KIND.binary_search_by(|(gvk, _)| (gvk.kind, gvk.group, gvk.version).cmp(&key)).ok()?;
        table::BY_KIND.get(at).map(|(_, ty)| *ty)
    }

    /// The type of an OpenAPI definition such as `io.k8s.api.core.v1.ConfigMap`.
    pub fn by_name(self, name: &str) -> Option<&'static Type> {
        let at = table::BY_NAME.binary_search_by(|ty| ty.name.cmp(name)).ok()?;
        table::BY_NAME.get(at).copied()
    }

    /// Every type, in the order of OpenAPI names.
    pub fn iter(self) -> impl Iterator<Item = &'static Type> {
        table::BY_NAME.iter().copied()
    }

    /// Every kind with its type.
    pub fn kinds(self) -> impl Iterator<Item = (GroupVersionKind, &'static Type)> {
        table::BY_KIND.iter().copied()
    }

    pub fn object_meta(self) -> &'static Type {
        &table::META_V1_OBJECT_META
    }

    pub fn list_meta(self) -> &'static Type {
        &table::META_V1_LIST_META
    }

    pub fn status(self) -> &'static Type {
        &table::META_V1_STATUS
    }

    pub fn delete_options(self) -> &'static Type {
        &table::META_V1_DELETE_OPTIONS
    }

    pub fn partial_object_metadata(self) -> &'static Type {
        &table::META_V1_PARTIAL_OBJECT_METADATA
    }

    pub fn partial_object_metadata_list(self) -> &'static Type {
        &table::META_V1_PARTIAL_OBJECT_METADATA_LIST
    }

    pub(crate) fn json_schema_props(self) -> &'static Type {
        &table::APIEXTENSIONS_V1_JSON_SCHEMA_PROPS
    }
}

impl Type {
    /// The Go name without its package.
    pub fn short_go_name(&self) -> &'static str {
        self.go_name.rsplit('.').next().unwrap_or(self.go_name)
    }

    /// The field of a JSON name, embedded structs included.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.field_index(name).map(|(_, field)| field)
    }

    /// The field of a JSON name and its place among the fields of the JSON object. On the path of every write.
    pub(crate) fn field_index(&'static self, name: &str) -> Option<(usize, &'static Field)> {
        fn search(ty: &'static Type, name: &str, index: &mut usize) -> Option<&'static Field> {
            for field in ty.fields {
                if let (true, FieldType::Struct(inner)) = (field.is_inline(), field.ty) {
                    if let Some(found) = search(inner, name, index) {
                        return Some(found);
                    }
                } else if field.name == name {
                    return Some(field);
                } else {
                    *index += 1;
                }
            }
            None
        }
        let mut index = 0;
        search(self, name, &mut index).map(|field| (index, field))
    }

    /// The fields of the JSON object, those of embedded structs in their place.
    pub fn json_fields(&'static self) -> JsonFields {
        JsonFields { stack: [Some(self.fields.iter()), None, None] }
    }

    /// Whether this is a `…List` kind with `items` and list metadata.
    pub fn is_list(&'static self) -> bool {
        self.item_type().is_some()
    }

    /// The type of the items of a `…List` kind.
    pub fn item_type(&'static self) -> Option<&'static Type> {
        match (self.field("metadata")?.ty, self.field("items")?.ty) {
            (FieldType::Struct(metadata), FieldType::List(FieldType::Struct(item)))
                if metadata.name == table::META_V1_LIST_META.name =>
            {
                Some(item)
            }
            _ => None,
        }
    }
}

/// Iterator of [`Type::json_fields`].
pub struct JsonFields {
    // Embedding is never deeper than two in the Kubernetes API (asserted by a test).
    stack: [Option<std::slice::Iter<'static, Field>>; 3],
}

impl Iterator for JsonFields {
    type Item = &'static Field;

    #[inline]
    fn next(&mut self) -> Option<&'static Field> {
        loop {
            let level = self.stack.iter().rposition(Option::is_some)?;
            match self.stack[level].as_mut().and_then(Iterator::next) {
                Some(Field { flags, ty: FieldType::Struct(inner), .. }) if flags & flag::INLINE != 0 => {
                    if let Some(slot) = self.stack.get_mut(level + 1) {
                        *slot = Some(inner.fields.iter());
                    }
                }
                Some(field) => return Some(field),
                None => self.stack[level] = None,
            }
        }
    }
}

impl Field {
    /// Whether Go holds a pointer: absent and zero are then different.
    pub fn is_pointer(&self) -> bool {
        self.flags & flag::POINTER != 0
    }

    /// Whether OpenAPI lists the field as required.
    pub fn is_required(&self) -> bool {
        self.flags & flag::REQUIRED != 0
    }

    /// Whether this is an embedded struct whose fields belong to the outer JSON object.
    pub fn is_inline(&self) -> bool {
        self.flags & flag::INLINE != 0
    }

    /// Whether OpenAPI declares Go's zero value (`""`, `0`, `false`, `{}`) as the default. No native field has another one.
    pub fn has_zero_default(&self) -> bool {
        self.flags & flag::ZERO_DEFAULT != 0
    }

    /// Whether the field is printed even when nothing was given: no `omitempty`, or a struct, which Go never finds empty.
    pub fn always_printed(&self) -> bool {
        self.flags & flag::OMIT_ZERO == 0
            && (self.flags & flag::OMIT_EMPTY == 0 || (!self.is_pointer() && self.ty.is_go_struct()))
    }

    /// How server-side apply merges this list, if declared.
    pub fn list_type(&self) -> Option<ListType> {
        self.meta.list_type
    }

    /// The strategies of strategic merge patch: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(&self) -> &'static [&'static str] {
        self.meta.patch_strategies
    }

    /// Whether strategic merge patch merges this list instead of replacing it.
    pub fn merges_in_patch(&self) -> bool {
        self.meta.patch_strategies.contains(&"merge")
    }

    /// Whether strategic merge patch honours `$retainKeys` here.
    pub fn retains_keys_in_patch(&self) -> bool {
        self.meta.patch_strategies.contains(&"retainKeys")
    }

    /// The field by which strategic merge patch identifies the entries of this list.
    pub fn patch_merge_key(&self) -> Option<&'static str> {
        (!self.meta.merge_key.is_empty()).then_some(self.meta.merge_key)
    }

    /// The values OpenAPI allows, for the field or for the elements of a list.
    pub fn enum_values(&self) -> &'static [&'static str] {
        self.meta.enum_values
    }

    /// The Go type as error messages show it.
    pub fn go_type(&self) -> GoType {
        GoType::named(self.go_type, self.ty)
    }
}

impl FieldType {
    /// The element type of a list.
    pub fn list_element(self) -> Option<&'static FieldType> {
        match self {
            Self::List(element) | Self::WrappedList(element) => Some(element),
            _ => None,
        }
    }

    /// The struct this type is, or is a list or map of.
    pub fn reached_struct(self) -> Option<&'static Type> {
        match self {
            Self::Struct(ty) => Some(ty),
            Self::List(element) | Self::WrappedList(element) | Self::Map(element) => element.reached_struct(),
            Self::SchemaOrBool | Self::SchemaOrArray | Self::SchemaOrStringArray => {
                Some(Types::native().json_schema_props())
            }
            _ => None,
        }
    }

    /// The OpenAPI definition that a field of this type refers to; none for what is written in place.
    pub fn definition_name(self) -> Option<&'static str> {
        match self {
            Self::Time => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
            Self::MicroTime => Some("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
            Self::FieldsV1 => Some("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
            Self::Quantity => Some("io.k8s.apimachinery.pkg.api.resource.Quantity"),
            Self::RawExtension => Some("io.k8s.apimachinery.pkg.runtime.RawExtension"),
            Self::Json => Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"),
            Self::SchemaOrBool => {
                Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool")
            }
            Self::SchemaOrArray => {
                Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray")
            }
            Self::SchemaOrStringArray => {
                Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray")
            }
            Self::Struct(ty) => Some(ty.name),
            Self::String
            | Self::Bool
            | Self::Int32
            | Self::Int64
            | Self::Double
            | Self::Bytes
            | Self::Any
            | Self::List(_)
            | Self::WrappedList(_)
            | Self::Map(_) => None,
        }
    }

    fn is_go_struct(self) -> bool {
        !matches!(
            self,
            Self::String
                | Self::Bool
                | Self::Int32
                | Self::Int64
                | Self::Double
                | Self::Bytes
                | Self::Any
                | Self::List(_)
                | Self::WrappedList(_)
                | Self::Map(_)
        )
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Type({})", self.name)
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({}: {:?})", self.name, self.ty)
    }
}

impl fmt::Debug for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", GoType::of(*self))
    }
}
