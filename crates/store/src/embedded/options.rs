//! What can be tuned on an embedded store, with the reason for each default.

use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, SystemClock};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Settings of an [`EmbeddedStore`](super::EmbeddedStore). [`Options::default`] suits a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size at which a log segment is closed and the next begun. Large enough that a roll (three syncs) is rare, small
    /// enough that one segment fits in memory during recovery without notice.
    pub segment_bytes: u64,
    /// A fresh segment takes disk space in steps of this size, so that a new data directory stays small and running
    /// out of space is noticed before a commit is written rather than in the middle of it.
    pub reserve_step_bytes: u64,
    /// History older than this is forgotten.
    pub history_age_max: Duration,
    /// At most this many changes are kept as history; a change costs about 200 bytes besides its value.
    pub history_changes_max: usize,
    /// At most this many bytes of superseded values are kept as history.
    pub history_bytes_max: u64,
    /// A checkpoint is due when the log since the last one is at least this large ...
    pub checkpoint_log_bytes_min: u64,
    /// ... and at least this percentage of the live data, so that a large store is not rewritten over and over.
    pub checkpoint_log_percent_min: u64,
    /// Keys and values of one transaction together; the default leaves room for any object an API server accepts.
    pub txn_bytes_max: usize,
    /// Unused segments kept for reuse: writing into existing blocks spares the file system its own journal.
    pub recycled_segments_max: usize,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * MIB,
            reserve_step_bytes: 256 * KIB,
            history_age_max: Duration::from_secs(300),
            history_changes_max: 300_000,
            history_bytes_max: 256 * MIB,
            checkpoint_log_bytes_min: 64 * MIB,
            checkpoint_log_percent_min: 50,
            txn_bytes_max: 16 * MIB as usize,
            recycled_segments_max: 2,
            clock: Arc::new(SystemClock),
        }
    }
}
