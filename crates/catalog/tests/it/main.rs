//! The outside view: opm's goldens and, where it is installed, opm itself.

mod differential;
mod golden_render;
mod golden_validate;
mod grpc_client;
mod paths;
mod registry;
mod serving;
