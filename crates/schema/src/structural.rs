//! Structural schemas of custom resources: compiled once from a version's `openAPIV3Schema`, then used to prune, default
//! and validate objects, to type CEL rules and to tell server-side apply what it merges.
//!
//! Everything here is pure and works on JSON values. Equal sub-schemas are stored once.

mod schema;

pub use schema::{Additional, Junctors, Kind, ListType, MapType, Rule, Schema, ValueValidation};
