//! What Kubernetes objects look like: native types as data, typed decoding, the protobuf mapping and OpenAPI out.
//!
//! Pure functions over JSON values; knows nothing of HTTP or the store. [`field`] holds the paths and errors that
//! validation everywhere speaks in.

pub mod decode;
pub mod field;
pub mod openapi;
pub mod protobuf;
pub mod structural;
pub mod time;
pub mod types;

pub use bailiwick_quantity as quantity;
