//! A cache of blobs by digest. What is in it has been checked; downloads in progress have another name, so that an
//! interrupted one is taken up and never mistaken for a whole one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::registry::OciError;

/// A directory of blobs.
#[derive(Clone, Debug)]
pub struct BlobCache {
    directory: PathBuf,
}

impl BlobCache {
    /// Uses a directory, which is made when needed.
    pub fn new(directory: &Path) -> Self {
        BlobCache { directory: directory.join("blobs/sha256") }
    }

    /// The user's own: `$XDG_CACHE_HOME/bailiwick` or `~/.cache/bailiwick`.
    pub fn of_user() -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
        let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
        BlobCache::new(&cache.unwrap_or_else(std::env::temp_dir).join("bailiwick"))
    }

    pub(super) fn path_of(&self, digest: &Digest) -> PathBuf {
        self.directory.join(digest.hex())
    }

    fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(format!("{}.part", digest.hex()))
    }

    /// A blob that is there.
    pub fn get(&self, digest: &Digest) -> Option<PathBuf> {
        Some(self.path_of(digest)).filter(|path| path.is_file())
    }

    pub(super) fn partial(&self, digest: &Digest) -> Result<File, OciError> {
        let path = self.partial_path(digest);
        let at = |error| OciError::File { path: path.clone(), error };
        fs::create_dir_all(&self.directory).map_err(at)?;
        File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(at)
    }

    pub(super) fn finish(&self, digest: &Digest) -> Result<PathBuf, OciError> {
        let path = self.path_of(digest);
        fs::rename(self.partial_path(digest), &path).map_err(|error| OciError::File { path: path.clone(), error })?;
        Ok(path)
    }

    pub(super) fn discard(&self, digest: &Digest) {
        let _ = fs::remove_file(self.partial_path(digest));
    }
}
