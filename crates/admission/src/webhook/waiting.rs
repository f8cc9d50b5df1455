//! How long a request waited for admission webhooks, for those who measure what the server itself takes.

use std::cell::Cell;
use std::time::{Duration, Instant};

tokio::task_local! {
    static WAITED: Cell<Duration>;
}

/// Does `work` and says how long admission webhooks were called within it.
pub async fn calls_measured<F: Future>(work: F) -> (F::Output, Duration) {
    let measured = async move {
        let output = work.await;
        (output, WAITED.with(Cell::get))
    };
    WAITED.scope(Cell::default(), measured).await
}

/// Counts the time that `calls` take, several at once as one.
pub(super) async fn calling<F: Future>(calls: F) -> F::Output {
    let started = Instant::now();
    let output = calls.await;
    // Where nobody measures there is nothing to add to.
    let _ = WAITED.try_with(|waited| waited.set(waited.get() + started.elapsed()));
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_called_counts_and_what_is_not_does_not() {
        let pause = || async {
            let before = Instant::now();
            tokio::task::yield_now().await;
            while before.elapsed().is_zero() {}
        };
        let ((), without) = calls_measured(pause()).await;
        assert_eq!(without, Duration::ZERO);
        let ((), with) = calls_measured(calling(pause())).await;
        assert!(with > Duration::ZERO);
        calling(pause()).await;
    }
}
