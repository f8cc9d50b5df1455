//! Images without Docker: pulling and pushing through the distribution API, layouts on disk, unpacking layers that
//! nobody vouches for, building catalog images reproducibly.

mod auth;
mod blobs;
mod build;
mod digest;
mod guard;
mod images;
mod layout;
mod manifest;
mod registry;
mod unpack;

pub use auth::Credentials;
pub use blobs::{BlobCache, remove_older, touch};
pub use build::{BuildOptions, Image, build_catalog, build_directory};
pub use digest::Digest;
pub use guard::{Guard, NotCalled};
pub use images::{Images, Transport};
pub use layout::Layout;
pub use manifest::{Descriptor, ImageConfig, Manifest};
pub use registry::{OciError, Registry, RegistryOptions};
pub use unpack::{UnpackError, unpack_layer};
