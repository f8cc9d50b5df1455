//! Work that goes on beside the requests and ends with its owner.

use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::AbortHandle;

/// A task that ends when this is dropped.
pub(crate) struct Background(AbortHandle);

impl Background {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How often files are looked at. Looking costs a system call per file.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Tells when files were replaced or written to.
pub(crate) struct ChangedFiles {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Fingerprint>>,
}

/// What changes with every write or replacement: when, how long, which file.
type Fingerprint = (i64, i64, u64, u64);

impl ChangedFiles {
    /// Changes from now on count.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let seen = paths.iter().map(|path| std::fs::metadata(path).ok().map(|data| fingerprint(&data))).collect();
        Self { paths, seen }
    }

    /// Returns after the next change. A file that is gone has not changed: who replaces one may remove it first.
    pub(crate) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(FILE_INTERVAL).await;
            let mut changed = false;
            for (path, seen) in self.paths.iter().zip(&mut self.seen) {
                let Ok(data) = tokio::fs::metadata(path).await else { continue };
                let now = Some(fingerprint(&data));
                changed |= *seen != now;
                *seen = now;
            }
            if changed {
                return;
            }
        }
    }

    /// Says that the last change was not taken in, so that it is reported again.
    pub(crate) fn again(&mut self) {
        self.seen.iter_mut().for_each(|seen| *seen = None);
    }
}

fn fingerprint(data: &std::fs::Metadata) -> Fingerprint {
    (data.mtime(), data.mtime_nsec(), data.size(), data.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_reported_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "a").expect("written");
        let mut files = ChangedFiles::new(vec![path.clone()]);
        let quiet = tokio::time::timeout(FILE_INTERVAL * 3, files.changed()).await;
        assert!(quiet.is_err(), "nothing has changed");
        std::fs::write(&path, "other").expect("written");
        files.changed().await;
        let quiet = tokio::time::timeout(FILE_INTERVAL * 3, files.changed()).await;
        assert!(quiet.is_err(), "reported already");
        files.again();
        files.changed().await;
    }
}
