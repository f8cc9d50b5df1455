//! Server-side apply and field management: who set which field of an object, and how configurations are merged into it.
//!
//! [`FieldManager`] is the entry point: `create` and `update` keep `metadata.managedFields` of a written object right,
//! `apply` merges a configuration and finds conflicts. Everything is a function of its arguments; what a field merges
//! like is told by a [`TypeRef`], other versions of an object by a [`VersionConverter`].

mod applied;
mod atomics;
mod compare;
mod conflict;
mod entries;
mod error;
#[cfg(test)]
mod evolution_tests;
mod field_manager;
mod fields_v1;
mod go_number;
mod last_applied;
mod list_key;
mod managers;
mod member;
mod merging;
mod path;
mod prune;
mod reconcile;
mod removal;
mod scale;
mod set;
#[cfg(test)]
mod set_tests;
mod stored_fields;
#[cfg(test)]
mod tests;
mod timestamps;
mod types;
mod validation;
mod value;

pub use applied::Applied;
pub use atomics::atomics;
pub use compare::{Comparison, compare};
pub use conflict::{Conflict, Conflicts, ManagerId, Operation};
pub use entries::validate_managed_fields;
pub use error::{ApplyError, TypeError, TypeErrors, UpdateError};
pub use field_manager::{FieldManager, Force, NoOtherVersions, ResetFields, VersionConverter};
pub use fields_v1::FieldsError;
pub use managers::{MAX_MANAGER_NAME_BYTES, manager_of_user_agent};
pub use member::field_set;
pub use merging::merge_configuration;
pub use path::{Path, PathElement};
pub use removal::{extract_items, remove_items};
pub use scale::{ReplicasPaths, entries_of_scale, entries_of_scaled_object};
pub use set::FieldSet;
pub use timestamps::{equal_ignoring_managed_times, revert_managed_times};
pub use types::TypeRef;
pub use validation::{Duplicates, validate};
