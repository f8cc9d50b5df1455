//! Declared types of JSON documents: what a schema says about them, as far as expressions care.
//!
//! A [`DeclType`] types an expression ([`DeclType::cel_type`]), bounds sizes for cost estimates and turns borrowed
//! JSON into values when an expression looks at it. Types have no names of their own, so equal ones can be shared;
//! the names that messages show come from the path at which a type is found, unless a type insists on one.

mod escape;
mod view;

use std::sync::Arc;

use crate::types::{ObjectType, Type};

pub use escape::{escape, is_reserved, unescape};
pub(crate) use view::DYN;
pub use view::dynamic;

/// What a schema node holds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DeclType {
    pub kind: DeclKind,
    /// Whether null may stand here. Null members of objects count as absent in any case.
    pub nullable: bool,
    /// The largest size a value may have: bytes of a string, items, entries. Zero for what has no size.
    pub max_elements: u64,
    /// The fewest bytes of JSON a value takes.
    pub min_serialized_size: u64,
}

/// The kinds of nodes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum DeclKind {
    /// JSON of any shape, seen as it is: objects are maps, numbers are ints where they are whole and doubles else.
    Dyn,
    /// Claims of a token: JSON of any shape whose numbers are all doubles, as Go decodes them, and whose members at any
    /// depth may be called by their [`escape`]d names.
    Claims,
    /// `x-kubernetes-int-or-string`: dynamic, but only these two may occur.
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    /// A string of format `byte`.
    Bytes,
    /// A string of format `duration`.
    Duration,
    /// A string of format `date`.
    Date,
    /// A string of format `date-time`.
    DateTime,
    List {
        element: Arc<DeclType>,
        semantics: ListSemantics,
    },
    Map {
        value: Arc<DeclType>,
    },
    Object {
        /// Sorted by name.
        fields: Box<[DeclField]>,
        /// The name messages show wherever the type is found; by its path if it has none.
        name: Option<Box<str>>,
    },
    /// Data without a type that expressions can use; whole objects that hold it can still be compared.
    Preserved,
}

/// `x-kubernetes-list-type`: how lists compare and concatenate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListSemantics {
    Atomic,
    Set,
    /// By these members.
    Map(Box<[Box<str>]>),
}

/// A member of an object.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DeclField {
    /// The name in JSON; expressions use its [`escape`]d form.
    pub name: Box<str>,
    pub decl: Arc<DeclType>,
    pub required: bool,
}

impl DeclType {
    /// A type of this kind, not nullable and without size limits of its own.
    pub fn new(kind: DeclKind) -> Self {
        let min_serialized_size = match &kind {
            DeclKind::Dyn | DeclKind::Claims | DeclKind::IntOrString | DeclKind::Preserved => 1,
            DeclKind::Int | DeclKind::Double => limits::MIN_NUMBER_SIZE,
            DeclKind::Bool => limits::MIN_BOOL_SIZE,
            DeclKind::String | DeclKind::Bytes => limits::MIN_STRING_SIZE,
            DeclKind::Duration => limits::MIN_DURATION_SIZE,
            DeclKind::Date => limits::DATE_SIZE,
            DeclKind::DateTime => limits::MIN_DATE_TIME_SIZE,
            DeclKind::List { .. } | DeclKind::Map { .. } | DeclKind::Object { .. } => limits::MIN_CONTAINER_SIZE,
        };
        Self { kind, nullable: false, max_elements: 0, min_serialized_size }
    }

    /// The same with a largest size.
    #[must_use]
    pub fn with_max_elements(mut self, max_elements: u64) -> Self {
        self.max_elements = max_elements;
        self
    }

    /// A list.
    pub fn list(element: Arc<DeclType>, semantics: ListSemantics, max_items: u64) -> Self {
        Self::new(DeclKind::List { element, semantics }).with_max_elements(max_items)
    }

    /// A map with text keys.
    pub fn map(value: Arc<DeclType>, max_properties: u64) -> Self {
        Self::new(DeclKind::Map { value }).with_max_elements(max_properties)
    }

    /// An object with these fields, in any order.
    pub fn object(mut fields: Vec<DeclField>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self::new(DeclKind::Object { fields: fields.into_boxed_slice(), name: None })
    }

    /// An object that messages call `name` wherever it is found.
    pub fn named_object(name: &str, mut fields: Vec<DeclField>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self::new(DeclKind::Object { fields: fields.into_boxed_slice(), name: Some(name.into()) })
    }

    /// The type an expression sees, or `None` for data it cannot reach. `name` becomes the name of an object here;
    /// objects further inside are named by their path from it.
    pub fn cel_type(self: &Arc<Self>, name: &str) -> Option<Type> {
        Some(match &self.kind {
            DeclKind::Dyn | DeclKind::Claims | DeclKind::IntOrString => Type::Dyn,
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Duration => Type::Duration,
            DeclKind::Date | DeclKind::DateTime => Type::Timestamp,
            DeclKind::List { element, .. } => Type::list(element.cel_type(&format!("{name}.@idx"))?),
            DeclKind::Map { value } => Type::map(Type::String, value.cel_type(&format!("{name}.@elem"))?),
            DeclKind::Object { name: own, .. } => {
                let name = Arc::from(own.as_deref().unwrap_or(name));
                Type::Object(Arc::new(ObjectType { name, decl: self.clone() }))
            }
            DeclKind::Preserved => return None,
        })
    }

    /// The field with this name in JSON.
    pub fn field(&self, name: &str) -> Option<&DeclField> {
        match &self.kind {
            DeclKind::Object { fields, .. } => {
                fields.binary_search_by(|field| (*field.name).cmp(name)).ok().and_then(|at| fields.get(at))
            }
            _ => None,
        }
    }

    /// The field an expression calls `escaped`. Keywords that the grammar takes after a dot need not be escaped there.
    pub fn field_by_escaped(&self, escaped: &str) -> Option<&DeclField> {
        if is_reserved(escaped) {
            return self.field(escaped);
        }
        let name = unescape(escaped)?;
        let field = self.field(&name)?;
        (escape(&field.name)? == escaped).then_some(field)
    }

    /// The type at the end of a cost path: field names, `@items`, `@values`, `@keys`.
    pub fn max_elements_at<'p>(&self, path: impl IntoIterator<Item = &'p str>) -> Option<u64> {
        let mut node = self;
        for step in path {
            node = match (step, &node.kind) {
                ("@items" | "@values", DeclKind::List { element, .. }) => element,
                ("@items" | "@values", DeclKind::Map { value }) => value,
                // Keys are strings without a declared length.
                ("@keys", DeclKind::Map { .. }) => return Some(0),
                (name, DeclKind::Object { .. }) => &node.field_by_escaped(name)?.decl,
                _ => return None,
            };
        }
        Some(node.max_elements)
    }
}

/// Sizes of JSON texts that Kubernetes' estimates rest on.
pub mod limits {
    /// `0`
    pub const MIN_NUMBER_SIZE: u64 = 1;
    /// `true`
    pub const MIN_BOOL_SIZE: u64 = 4;
    /// `""`
    pub const MIN_STRING_SIZE: u64 = 2;
    /// `"0"`
    pub const MIN_DURATION_SIZE: u64 = 3;
    /// The longest duration that is expected, quotation marks included.
    pub const MAX_DURATION_SIZE: u64 = 32;
    /// `"2006-01-02"`
    pub const DATE_SIZE: u64 = 12;
    /// The shortest date-time as Kubernetes counts it.
    pub const MIN_DATE_TIME_SIZE: u64 = 21;
    /// The longest date-time, quotation marks included.
    pub const MAX_DATE_TIME_SIZE: u64 = 32;
    /// `{}` and `[]`
    pub const MIN_CONTAINER_SIZE: u64 = 2;
    /// The largest request, from which unbounded sizes are derived.
    pub const MAX_REQUEST_SIZE_BYTES: u64 = 3 * 1024 * 1024;
}

impl DeclType {
    /// The position and the JSON name of the field an expression calls `escaped`.
    pub(crate) fn declared_position(&self, escaped: &str) -> Option<(u32, &str)> {
        let field = self.field_by_escaped(escaped)?;
        let DeclKind::Object { fields, .. } = &self.kind else { return None };
        let position = fields.binary_search_by(|known| known.name.cmp(&field.name)).ok()?;
        Some((u32::try_from(position).ok()?, &field.name))
    }

    /// The field at a position, if it has this name.
    pub(crate) fn field_at(&self, position: u32, name: &str) -> Option<&DeclField> {
        match &self.kind {
            DeclKind::Object { fields, .. } => fields.get(position as usize).filter(|field| *field.name == *name),
            _ => None,
        }
    }
}
