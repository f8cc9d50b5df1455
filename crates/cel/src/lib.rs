//! The Common Expression Language as Kubernetes speaks it: parser, type checker, evaluator over borrowed JSON, costs.
//!
//! It knows nothing of HTTP, stores or schemas: types of documents come in as [`DeclType`]s, functions beyond the
//! standard ones as [`library::Library`]s. Behaviour, costs and messages are those of cel-go 0.26 with the options
//! kube-apiserver sets.

pub mod admission;
pub mod ast;
mod checker;
pub mod cost;
pub mod decl;
mod env;
mod error;
mod estimate;
pub mod library;
pub mod operations;
pub mod parser;
mod program;
pub mod regexes;
mod source;
mod standard;
mod types;
mod value;

pub use decl::{DeclField, DeclKind, DeclType, ListSemantics};
pub use env::{AggregateLiterals, Checking, Env, EnvBuilder, LiteralValidation, Messages};
pub use error::EvalError;
pub use library::{CallContext, Library, Overload};
pub use parser::{Feature, Macros};
pub use program::{Bindings, Budget, Checked, LazyVariable, LazyVariables, PlanError, Program};
pub use source::{Issue, Issues, Location};
pub use types::{OPTIONAL_TYPE, ObjectType, OpaqueType, Primitive, Type};
pub use value::{
    Bytes, Duration, Key, LargeIntegers, List, Map, Opaque, OwnedMap, Str, Structure, Timestamp, Value, ZoneError,
};
