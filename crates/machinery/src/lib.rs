//! The vocabulary of the Kubernetes API: resource descriptors and their hooks, `Status` errors, selectors, metadata rules.
//!
//! Entry types are [`resource::Resource`] (what the generic handler serves) and [`status::ApiError`] (how anything
//! fails). Knows nothing of HTTP servers or store engines.

pub mod audit;
pub mod continue_token;
pub mod custom;
pub mod list_options;
pub mod media;
pub mod names;
pub mod object;
pub mod origin;
pub mod query;
pub mod resource;
pub mod scale;
pub mod selector;
pub mod sensitivity;
pub mod status;
pub mod strategy;
pub mod table;
pub mod user;
pub mod validation;
pub mod versions;
pub mod write_options;
pub mod yaml;

pub use bailiwick_schema::field;
pub use origin::Origin;
pub use resource::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, Resource, Scope, Subresource};
pub use status::ApiError;
pub use strategy::{Context, Strategy};
pub use user::UserInfo;
