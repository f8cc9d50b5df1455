//! The wall clock behind a trait, so that tests decide what time it is.
//!
//! Only expiry and history retention look at it; order never depends on it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the wall-clock time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The machine's own clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
}
