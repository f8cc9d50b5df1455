//! CEL types as the checker sees them. They are cheap to clone and print exactly as cel-go prints them in messages.

use std::fmt;
use std::sync::Arc;

use crate::decl::DeclType;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Anything; checked when the expression runs.
    Dyn,
    /// What a failed check yields; agrees with everything so that one mistake gives one message.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// A primitive or null: `wrapper(int)`.
    Wrapper(Primitive),
    /// A library's type whose inside is invisible, `net.IP`, or a generic one, `optional_type(int)`.
    Opaque(Arc<OpaqueType>),
    /// A library's named structure without selectable fields, `kubernetes.URL`.
    Struct(Arc<str>),
    /// An object with declared fields. Two are the same type when their names are the same.
    Object(Arc<ObjectType>),
    /// A type variable of a function declaration.
    Param(Arc<str>),
    /// A type variable of a check that is under way.
    Variable(u32),
    /// The type of types.
    Type(Option<Arc<Type>>),
}

/// The types that wrappers exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
}

/// A named type with parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueType {
    pub name: Arc<str>,
    pub params: Box<[Type]>,
}

/// A named object; the name is the path at which its declaration was found.
#[derive(Clone, Debug)]
pub struct ObjectType {
    pub name: Arc<str>,
    pub decl: Arc<DeclType>,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectType {}

impl std::hash::Hash for ObjectType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The name of the optional type.
pub const OPTIONAL_TYPE: &str = "optional_type";

impl Type {
    /// `list(element)`
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(inner)`
    pub fn optional(inner: Type) -> Self {
        Self::Opaque(Arc::new(OpaqueType { name: Arc::from(OPTIONAL_TYPE), params: Box::new([inner]) }))
    }

    /// An opaque type without parameters.
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(Arc::new(OpaqueType { name: Arc::from(name), params: Box::new([]) }))
    }

    /// A named structure without selectable fields.
    pub fn structure(name: &str) -> Self {
        Self::Struct(Arc::from(name))
    }

    /// A type variable.
    pub fn param(name: &str) -> Self {
        Self::Param(Arc::from(name))
    }

    /// The type of types whose values are the type `inner`.
    pub fn type_of(inner: Type) -> Self {
        Self::Type(Some(Arc::new(inner)))
    }

    /// The inner type of an optional.
    pub fn optional_inner(&self) -> Option<&Type> {
        match self {
            Self::Opaque(opaque) if &*opaque.name == OPTIONAL_TYPE => opaque.params.first(),
            _ => None,
        }
    }

    /// The element type of a list, the key type of a map, or the first parameter of an opaque type.
    pub fn first_parameter(&self) -> Option<&Type> {
        match self {
            Self::List(element) => Some(element),
            Self::Map(entry) => Some(&entry.0),
            Self::Opaque(opaque) => opaque.params.first(),
            _ => None,
        }
    }

    /// The name that `type(x)` shows at run time, without parameters.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "*error*",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Wrapper(primitive) => primitive.type_name(),
            Self::Opaque(opaque) => &opaque.name,
            Self::Struct(name) | Self::Param(name) => name,
            Self::Object(object) => &object.name,
            Self::Variable(_) => "_var",
            Self::Type(_) => "type",
        }
    }

    /// Whether a value of unknown type may stand here.
    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Whether checks pass whatever the other type is.
    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl Primitive {
    fn type_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
        }
    }

    /// The wrapped type.
    pub fn as_type(self) -> Type {
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Wrapper(primitive) => write!(f, "wrapper({})", primitive.type_name()),
            Self::Opaque(opaque) if !opaque.params.is_empty() => {
                write!(f, "{}(", opaque.name)?;
                for (at, param) in opaque.params.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{param}")?;
                }
                f.write_str(")")
            }
            Self::Variable(number) => write!(f, "_var{number}"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            other => f.write_str(other.type_name()),
        }
    }
}
