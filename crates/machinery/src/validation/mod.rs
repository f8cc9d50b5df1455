//! The rules for names and metadata that hold for every type, with the texts Kubernetes clients know.

pub mod metadata;
pub mod names;

pub use metadata::{validate_core_finalizers, validate_object_meta, validate_object_meta_update};
