//! The native API types: what Bailiwick knows of each resource it serves besides its schema.
//!
//! Entry point is [`catalogue::native_resources`], the descriptors of every built-in resource: names, verbs, defaulting,
//! preparation, validation and printer columns, as kube-apiserver v1.36 has them. Hooks are pure functions over JSON
//! values; nothing here knows of HTTP, the store, or how a request is authorized.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod catalogue;
pub mod certificates;
pub mod columns;
mod conditions;
pub mod configmap;
mod descriptor;
pub mod event;
mod field_errors;
mod fields;
pub mod flowcontrol;
mod go_shape;
mod go_url;
pub mod lease;
pub mod namespace;
pub mod rbac;
#[cfg(test)]
mod recorded;
pub mod resourcequota;
pub mod review;
pub mod secret;
pub mod serviceaccount;
#[cfg(test)]
mod testing;
mod webhook_client;

pub use catalogue::native_resources;
