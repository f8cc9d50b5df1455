//! Structural schemas of custom resources: compiled once from a version's `openAPIV3Schema`, then used to prune, default
//! and validate objects, to type CEL rules and to tell server-side apply what it merges.
//!
//! Everything here is pure and works on JSON values. Equal sub-schemas are stored once.

mod compile;
mod defaulting;
mod enumeration;
mod format;
mod go_float;
mod interner;
mod list_type;
mod location;
mod numeric;
mod object_meta;
pub mod pattern;
mod prune;
pub mod rules;
mod schema;
mod validate;

pub use compile::{CompileError, MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES, compile};
pub use defaulting::default;
pub use format::Format;
pub use go_float::whole_floats;
pub(crate) use go_float::{go_float, go_json};
pub use interner::{interned_count, release_unused};
pub use list_type::validate_list_types;
pub use object_meta::{EmbeddedRules, MalformedFields, coerce, coerce_at, coerce_metadata, validate_embedded};
pub use prune::{PruneOptions, Root, UnknownFields, drop_nulls, prune};
pub use schema::{Additional, Below, Junctors, Kind, ListType, MapType, Rule, Schema, ValueValidation};
pub use validate::{validate, validate_default, validate_update};
