//! One handler per verb, for every resource there is.

pub mod admission_host;
pub mod admit;
pub mod apply;
pub mod body;
pub mod create;
pub mod delete;
pub mod delete_collection;
pub mod get;
pub mod grants;
pub mod list;
pub mod managed_fields;
pub mod patch;
pub mod policy_host;
pub mod request;
pub mod review;
pub mod scale;
pub mod token;
pub mod update;
pub mod watch;
pub mod write;
