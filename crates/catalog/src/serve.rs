//! Serves catalogs: OLM's gRPC registry and OLM v1's HTTP API, on one port for each catalog.
//!
//! A catalog is turned into an index file once: every document as one line of JSON, a small protobuf for each bundle,
//! and a record for each package with the places of both. The names of packages are in memory, everything else is read
//! from the file when somebody asks, so that a server needs little more than its program.

mod answers;
mod build;
mod csv_stub;
mod directory;
mod documents;
mod grpc;
mod http_api;
mod index;
mod lookup;
pub mod messages;
mod open;
mod record;
mod reflection;
mod server;
mod view;

pub use build::{BuildError, build_index};
pub use index::{Fingerprint, Index, IndexError, open_or_build};
pub use lookup::ChannelVersion;
pub use open::{WhenStale, index_path, open_reference};
pub use server::{CatalogServer, serve};
pub use view::Facts;
