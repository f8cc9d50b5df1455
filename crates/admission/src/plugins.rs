//! The plugins of the server itself, besides namespaces, quotas, webhooks and policies, and which of upstream's names are
//! known.

pub mod certificates;
pub mod event_rate_limit;
mod names;
pub mod owner_references;

pub use names::{Known, UnknownPlugins, check_names, known};
