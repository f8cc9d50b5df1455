//! Controllers that fail are started anew: whatever they knew may be wrong, and nobody else does their part.

use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use futures::future::Shared;
use kube::Client;
use tokio::task::JoinSet;

use crate::metrics::Metrics;
use crate::{Options, run};

/// Between a failure and the next start: what fails at once must not keep a processor busy, and somebody may be waiting.
const PAUSE: Duration = Duration::from_secs(5);

/// A controller panicked or ended, and all of them were stopped.
#[derive(Debug, thiserror::Error)]
#[error("a controller failed: {0}")]
pub struct Failed(String);

/// Runs the chosen controllers until `shutdown` is over, however often they fail meanwhile.
pub async fn run_restarting(client: Client, options: Options, shutdown: impl Future<Output = ()>) {
    restarting(|ended| run(client.clone(), options.clone(), ended), shutdown).await;
}

async fn restarting<S, F>(mut attempt: impl FnMut(Shared<S>) -> F, shutdown: S)
where
    S: Future<Output = ()>,
    F: Future<Output = Result<(), Failed>>,
{
    let shutdown = shutdown.shared();
    while let Err(error) = attempt(shutdown.clone()).await {
        tracing::error!(%error, pause_seconds = PAUSE.as_secs(), "controllers are started anew");
        tokio::select! {
            () = shutdown.clone() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Controllers that run, and show their queues.
pub(crate) struct Tasks {
    metrics: Metrics,
    set: JoinSet<()>,
}

impl Tasks {
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, set: JoinSet::new() }
    }

    pub fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(self.metrics.clone().scope(work));
    }

    /// Waits for the end that `shutdown` asks for, or for a task that ends on its own; then ends all of them.
    pub async fn supervise(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Failed> {
        let result = tokio::select! {
            () = shutdown => Ok(()),
            // Tasks run forever; one that ends has panicked, and the others cannot do its part.
            Some(ended) = self.set.join_next() => {
                Err(Failed(ended.map_or_else(|error| error.to_string(), |()| "it ended".to_owned())))
            }
        };
        self.set.shutdown().await;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_panic_in_one_controller_ends_all_and_is_told() {
        let mut tasks = Tasks::new(Metrics::default());
        tasks.spawn(std::future::pending());
        tasks.spawn(async { panic!("a bug") });
        let failed = tasks.supervise(std::future::pending()).await.expect_err("one panicked");
        assert!(failed.to_string().contains("panicked"), "{failed}");
    }

    #[tokio::test]
    async fn an_end_that_was_asked_for_is_no_failure() {
        let mut tasks = Tasks::new(Metrics::default());
        tasks.spawn(std::future::pending());
        assert!(tasks.supervise(std::future::ready(())).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_come_back_after_each_failure_until_the_end() {
        let starts = AtomicUsize::new(0);
        let shutdown = tokio::time::sleep(PAUSE * 100);
        restarting(
            |ended| {
                let start = starts.fetch_add(1, Ordering::Relaxed);
                async move {
                    if start < 3 {
                        return Err(Failed("a bug".to_owned()));
                    }
                    ended.await;
                    Ok(())
                }
            },
            shutdown,
        )
        .await;
        assert_eq!(starts.load(Ordering::Relaxed), 4, "three failed and the last one worked to the end");
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_during_the_pause_is_not_waited_for() {
        let began = tokio::time::Instant::now();
        let shutdown = tokio::time::sleep(PAUSE / 2);
        restarting(|_| std::future::ready(Err(Failed("a bug".to_owned()))), shutdown).await;
        assert_eq!(began.elapsed(), PAUSE / 2);
    }
}
