//! The operator catalog: everything opm does with file-based catalogs, as a library.
//!
//! [`fbc`] loads and writes catalogs, [`model`] validates them, [`bundle`] renders bundles into them, [`template`] makes
//! them from short descriptions. What opm prints is behaviour: texts, order and messages are its, except where the
//! documentation says otherwise. Nothing here knows the API server.

pub mod bundle;
pub mod ci;
pub mod diff;
pub mod dockerfile;
pub mod fbc;
pub mod go;
pub mod graph;
pub mod list;
pub mod model;
pub mod oci;
pub mod platform;
pub mod property;
pub mod reference;
pub mod render;
pub mod resolve;
pub mod serve;
pub mod template;
pub mod verify;
pub mod version;
pub mod workspace;
