//! What stands between an authorized write and the store: plugins that change or refuse it.
//!
//! Entry types: [`Chain`] runs [`Plugin`]s over [`Attributes`]. Plugins see stored objects through [`Lookup`], which the
//! server implements over its cache. What an admitted request must write besides its own object comes back as
//! [`Effects`], to be committed in the same transaction; what the server does for plugins is its [`Host`]. Knows nothing of store engines or HTTP.

mod attributes;
pub mod cel_request;
mod chain;
mod host;
pub mod matching;
mod namespace_lifecycle;
mod notes;
mod options;
pub mod plugins;
pub mod policy;
mod reinvocation;
mod resource_quota;
#[cfg(test)]
mod testing;
pub mod webhook;

pub use attributes::{Attributes, DryRun, EquivalentsCell, KindRef, Operation, ResourceRef, forbidden};
pub use chain::{Chain, Effects, Lookup, NamespaceState, Phase, Plugin, StatusWrite};
pub use host::{Equivalent, Host, Mapping, Versioned};
pub use namespace_lifecycle::NamespaceLifecycle;
pub use notes::{AnnotationLevel, AuditAnnotation, Notes};
pub use options::OperationOptions;
pub use reinvocation::{Reinvocation, Run};
pub use resource_quota::{ResourceQuota, usage_names};
