//! Opens what a reference names, a directory or an image, through an index in a cache.

use std::path::{Path, PathBuf};

use super::build::build_index;
use super::index::{Fingerprint, Index, IndexError};
use crate::oci::{Digest, Images};
use crate::render::{CONFIGS_LABEL, ImageSource};

/// What may be done when the index in the cache is not that of the catalog as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStale {
    Rebuild,
    Refuse,
}

/// Where the index of a reference is kept below a cache directory.
pub fn index_path(cache: &Path, reference: &str) -> PathBuf {
    let path = Path::new(reference);
    let name = path.canonicalize().map_or_else(|_| reference.to_owned(), |path| path.display().to_string());
    let digest = Digest::of(name.as_bytes());
    cache.join(format!("catalog-{}.index", digest.hex().get(..16).unwrap_or_default()))
}

/// Opens a catalog directory or image. Images are pulled only when the index in the cache is of another one.
pub fn open_reference(
    reference: &str,
    index_path: &Path,
    stale: WhenStale,
    images: &mut Images,
) -> Result<Index, IndexError> {
    let directory = Path::new(reference);
    let fingerprint = if directory.is_dir() {
        Fingerprint::of(directory).map_err(|error| IndexError::Read { path: directory.to_path_buf(), error })?
    } else {
        Fingerprint::of_image(&images.identity(reference).map_err(IndexError::Image)?)
    };
    match Index::open(index_path) {
        Ok(index) if index.is_of(&fingerprint) => return Ok(index),
        Ok(_) if stale == WhenStale::Refuse => return Err(IndexError::Stale { path: index_path.to_path_buf() }),
        Err(error) if stale == WhenStale::Refuse => return Err(error),
        _ => {}
    }
    if directory.is_dir() {
        build_index(directory, index_path, fingerprint)?;
        return Index::open(index_path);
    }
    let unpacked = images.unpack(reference).map_err(IndexError::Image)?;
    let configs = unpacked.labels.get(CONFIGS_LABEL);
    let configs = configs
        .ok_or_else(|| IndexError::Image(format!("{reference} is no catalog: it has no label {CONFIGS_LABEL}")))?;
    let root = crate::render::inside(unpacked.directory.path(), configs).map_err(IndexError::Image)?;
    build_index(&root, index_path, fingerprint)?;
    Index::open(index_path)
}
