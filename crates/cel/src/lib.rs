//! The Common Expression Language as Kubernetes speaks it: parser, type checker, evaluator over borrowed JSON, costs.
//!
//! It knows nothing of HTTP, stores or schemas: types of documents come in as [`DeclType`]s, functions beyond the
//! standard ones as [`library::Library`]s. Behaviour, costs and messages are those of cel-go 0.26 with the options
//! kube-apiserver sets.

pub mod cost;
pub mod decl;
mod error;
pub mod library;
mod parser;
pub mod regexes;
mod types;
mod value;

pub use decl::{DeclField, DeclKind, DeclType, ListSemantics};
pub use error::EvalError;
pub use library::{CallContext, Library, Overload};
pub use parser::Macros;
pub use types::{OPTIONAL_TYPE, ObjectType, OpaqueType, Primitive, Type};
pub use value::{Bytes, Duration, Key, List, Map, Opaque, OwnedMap, Str, Timestamp, Value, ZoneError};
