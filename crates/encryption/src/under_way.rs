//! Writes between being sealed and being stored. Whoever has changed the key waits here for those that did not see it yet.
//!
//! Writers wait for nobody: each takes part in the present round, and a new round begins for those who come later. A lock
//! would stop all writes behind one that the store does not answer.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

/// See the module.
#[derive(Default)]
pub(crate) struct WritesUnderWay(ArcSwap<Round>);

/// Ends when the last write of it lets go.
#[derive(Default)]
pub(crate) struct Round {
    ended: Arc<Notify>,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}

impl WritesUnderWay {
    /// Takes part. To be called before a key is chosen, and held until what it sealed is stored.
    pub fn join(&self) -> Arc<Round> {
        self.0.load_full()
    }

    /// Waits until every write that may have chosen its key before this call has ended.
    pub async fn settled(&self) {
        let before = self.0.swap(Arc::default());
        let ended = before.ended.clone();
        drop(before);
        ended.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn earlier_writes_are_waited_for_and_later_ones_are_not() {
        let writes = WritesUnderWay::default();
        let (first, second) = (writes.join(), writes.join());
        let mut settled = std::pin::pin!(writes.settled());
        assert!(settled.as_mut().now_or_never().is_none());
        let _later = writes.join();
        drop(first);
        assert!(settled.as_mut().now_or_never().is_none());
        drop(second);
        assert!(settled.now_or_never().is_some());
    }

    #[test]
    fn without_writes_there_is_nothing_to_wait_for() {
        let writes = WritesUnderWay::default();
        drop(writes.join());
        assert!(writes.settled().now_or_never().is_some());
        assert!(writes.settled().now_or_never().is_some());
    }
}
