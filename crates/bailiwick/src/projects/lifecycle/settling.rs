//! How long deletions of projects have still to settle: from when this server closed the control plane, by its own clock. Times of
//! objects are whole seconds of whichever server wrote them, which is too coarse for a tenth of one and trusts clocks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Deletions under way; as many as there are projects being deleted.
pub(super) struct Settling {
    time: Duration,
    /// By the path of what is deleted: its uid, and since when.
    since: Mutex<HashMap<String, (String, Instant)>>,
}

impl Settling {
    /// Everything settles within `time`.
    pub fn new(time: Duration) -> Self {
        Self { time, since: Mutex::default() }
    }

    /// How long a deletion has still to settle; the first question begins it.
    pub fn left(&self, path: &str, uid: &str) -> Duration {
        let mut since = self.lock();
        let (of, began) = since.entry(path.to_owned()).or_insert_with(|| (uid.to_owned(), Instant::now()));
        if of != uid {
            (*of, *began) = (uid.to_owned(), Instant::now());
        }
        self.time.saturating_sub(began.elapsed())
    }

    /// There is no such deletion any more.
    pub fn ended(&self, path: &str) {
        self.lock().remove(path);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (String, Instant)>> {
        // Entries are changed one by one; none is ever half changed.
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_deletion_settles_from_when_it_was_first_seen() {
        let settling = Settling::new(TIME);
        assert_eq!(settling.left("shop", "1"), TIME);
        tokio::time::advance(TIME - Duration::from_secs(1)).await;
        assert_eq!(settling.left("shop", "1"), Duration::from_secs(1), "looking again does not begin it again");
        tokio::time::advance(TIME).await;
        assert_eq!(settling.left("shop", "1"), Duration::ZERO);
        assert_eq!(settling.left("other", "2"), TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_project_of_the_name_settles_by_itself() {
        let settling = Settling::new(TIME);
        settling.left("shop", "1");
        tokio::time::advance(TIME).await;
        assert_eq!(settling.left("shop", "2"), TIME);
        settling.ended("shop");
        assert!(settling.lock().is_empty());
    }
}
