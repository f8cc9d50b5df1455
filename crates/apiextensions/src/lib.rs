//! CustomResourceDefinitions at work: a definition compiles to the same descriptor a native type has.
//!
//! [`Definition::parse`] reads a stored definition, [`Definition::resources`] gives what it serves. Nothing is compiled
//! until somebody uses the resource. Who watches definitions and gives them their conditions is elsewhere.

pub mod columns;
pub mod conversion;
pub mod definition;
pub mod jsonpath;
mod strategy;

pub use definition::{Definition, DefinitionError};
