//! OpenAPI out: definitions of types for version 2 and version 3 documents, and the protobuf form of both.
//!
//! Nothing here is kept: a definition is made when a document is written and dropped after. Which paths exist is the
//! server's to say; this module only knows types.

mod custom;
mod definition;
mod descriptions;
pub mod gnostic;
mod leaf;
#[cfg(test)]
mod tests;

pub use custom::{CustomDefinition, CustomDefinitions, custom_name};
pub use definition::{Definition, closure};
pub use descriptions::Descriptions;
pub use leaf::Leaf;

/// Which OpenAPI a definition is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Swagger 2.0: no defaults, references with siblings, no choice of types.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Form {
    /// The reference to a definition of this name.
    pub fn reference(self, name: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{name}"),
            Self::V3 => format!("#/components/schemas/{name}"),
        }
    }
}
