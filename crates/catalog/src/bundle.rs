//! Bundles in the registry+v1 format: a directory with `manifests/` and `metadata/`, and how it becomes an
//! `olm.bundle` object of a catalog.

mod apis;
mod csv;
pub(crate) mod csv_shape;
mod directory;
mod generate;
mod migrate;
mod render;

pub use apis::ApiKey;
pub use csv::Csv;
pub use directory::{BundleContent, BundleError, Dependency, Effect, Fault, read_directory};
pub use generate::{BundleLabels, media_type, relative};
pub use migrate::{Migration, migrate};
pub use render::render;

pub(crate) use csv::{is_csv, manifest_json, substitutes_another};
