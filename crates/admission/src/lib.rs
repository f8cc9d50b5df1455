//! What stands between an authorized write and the store: plugins that change or refuse it.
//!
//! Entry types: [`Chain`] runs [`Plugin`]s over [`Attributes`]. Plugins see stored objects through [`Lookup`], which the
//! server implements over its cache. What an admitted request must write besides its own object comes back as
//! [`Effects`], to be committed in the same transaction. Knows nothing of store engines or HTTP.

mod attributes;
mod chain;
mod namespace_lifecycle;
mod resource_quota;
#[cfg(test)]
mod testing;

pub use attributes::{Attributes, DryRun, Operation, forbidden};
pub use chain::{Chain, Effects, Lookup, NamespaceState, Phase, Plugin, StatusWrite};
pub use namespace_lifecycle::NamespaceLifecycle;
pub use resource_quota::{ResourceQuota, usage_names};
