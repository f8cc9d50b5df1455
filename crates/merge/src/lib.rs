//! How patches change objects: JSON patch, JSON merge patch, strategic merge patch and server-side apply, on JSON values.
//!
//! Entry points are [`JsonPatch`], [`merge_patch`] and [`strategic_merge_patch`]; each fails with a [`PatchError`] that
//! says what Status it becomes. [`apply`] holds server-side apply and who owns which field. Pure functions: no HTTP, no
//! store.

pub mod apply;
mod error;
pub mod go_format;
mod json_patch;
mod merge_patch;
mod strategic;

pub use error::PatchError;
pub use json_patch::{JsonPatch, MAX_OPERATIONS};
pub use merge_patch::merge_patch;
pub use strategic::strategic_merge_patch;
