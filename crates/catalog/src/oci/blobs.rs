//! A cache of blobs by digest. What is in it has been checked; downloads in progress have another name, so that an
//! interrupted one is taken up and never mistaken for a whole one. When a blob was last asked for is the time of its file,
//! so that those that nobody needs can go.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
        let path = Some(self.path_of(digest)).filter(|path| path.is_file())?;
        touch(&path);
        Some(path)
    }

    /// Removes what nobody has asked for since a time, and downloads that were not taken up.
    pub fn remove_unused(&self, since: SystemTime) -> io::Result<()> {
        remove_older(&self.directory, since)
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

/// Notes that a file was used just now. One that cannot be written is used all the same.
pub fn touch(path: &Path) {
    let _ = File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes the files of a directory, if there is one, that were last written or used before a time.
pub fn remove_older(directory: &Path, than: SystemTime) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let facts = entry.metadata()?;
        if facts.is_file() && facts.modified()? < than {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn blobs_that_nobody_asks_for_go() {
        let directory = tempfile::tempdir().unwrap();
        let cache = BlobCache::new(directory.path());
        let [unused, used] = ["unused", "used"].map(|text| Digest::of(text.as_bytes()));
        let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
        for digest in [&unused, &used] {
            cache.partial(digest).unwrap();
            let path = cache.finish(digest).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(yesterday).unwrap();
        }
        cache.get(&used).expect("it is there");
        cache.remove_unused(SystemTime::now() - Duration::from_secs(60)).unwrap();
        assert!(cache.get(&unused).is_none() && cache.get(&used).is_some());
        BlobCache::new(&directory.path().join("none")).remove_unused(SystemTime::now()).unwrap();
    }
}
