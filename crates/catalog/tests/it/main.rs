//! The outside view: opm's goldens and, where it is installed, opm itself.

mod batch;
mod differential;
mod differential_templates;
mod fuzz;
mod golden_render;
mod golden_validate;
mod grpc_client;
mod mutation;
mod paths;
mod platform;
mod registry;
mod registry_access;
mod serving;
