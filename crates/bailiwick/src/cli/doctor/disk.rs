//! The disk below the data directory: how much room there is and how long it takes to keep something.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Finding, Verdict};

const MIB: u64 = 1024 * 1024;
/// Below this a log segment and a snapshot may not fit any more.
const FREE_BYTES_MIN: u64 = 256 * MIB;
/// Below this it is time to do something.
const FREE_BYTES_COMFORTABLE: u64 = 2048 * MIB;
/// How often is written to measure.
const SYNCS: usize = 30;
/// What is written each time: a small object.
const WRITE_BYTES: usize = 4096;
/// Writers wait for each sync; slower disks make writes slow.
const SYNC_COMFORTABLE: Duration = Duration::from_millis(25);

/// The directory itself, or the nearest one above it that exists.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|ancestor| ancestor.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

pub fn space(data_dir: &Path) -> Finding {
    match rustix::fs::statvfs(existing(data_dir)) {
        Ok(stat) => judge_space(stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(error) => Finding::new("disk space", Verdict::Warning, format!("cannot be told: {error}")),
    }
}

fn judge_space(free: u64) -> Finding {
    let verdict = match free {
        ..FREE_BYTES_MIN => Verdict::Failed,
        FREE_BYTES_MIN..FREE_BYTES_COMFORTABLE => Verdict::Warning,
        _ => Verdict::Ok,
    };
    Finding::new("disk space", verdict, format!("{} MiB free", free / MIB))
}

pub fn sync_latency(data_dir: &Path) -> Finding {
    let path = existing(data_dir).join(format!(".doctor-sync-{}", std::process::id()));
    let measured = measure(&path);
    // Left behind it would only be in the way.
    let _ = std::fs::remove_file(&path);
    match measured {
        Ok(mut times) => {
            times.sort_unstable();
            let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
            let (median, worst) = (at(50), times.last().copied().unwrap_or_default());
            let verdict = if median > SYNC_COMFORTABLE { Verdict::Warning } else { Verdict::Ok };
            let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
            Finding::new("disk sync", verdict, format!("median {}, slowest {} of {SYNCS}", ms(median), ms(worst)))
        }
        Err(error) => Finding::new("disk sync", Verdict::Warning, format!("cannot be measured: {error}")),
    }
}

fn measure(path: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = File::create_new(path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[0; WRITE_BYTES])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_found() {
        assert_eq!(judge_space(MIB).verdict, Verdict::Failed);
        assert_eq!(judge_space(1000 * MIB).verdict, Verdict::Warning);
        assert_eq!(judge_space(10_000 * MIB).verdict, Verdict::Ok);
    }

    #[test]
    fn measuring_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let found = sync_latency(&dir.path().join("not/yet"));
        assert!(found.detail.starts_with("median "), "{}", found.detail);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
