//! Where connections run. All begin in the caller's runtime. One that sends long answers moves, as long as it does, to a
//! runtime of its own kind with as many threads: a hundred clients that list everything then stand in each other's way,
//! and who only wants an object is not in that queue. Between the two the kernel shares out the cores, to the slow lane what
//! the others leave.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

/// How long after its last long answer a connection goes back to the others: longer than a client takes from one page of a
/// list to the next.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// How much nicer to others the threads of long answers are. A list takes all of a core while nobody else wants it, and a
/// tenth beside somebody who does: whoever has waited for one object does not wait for a turn of a list as well.
const NICENESS: i32 = 10;

/// What a connection's long answers say about it. The connection and its answers share it.
#[derive(Default)]
pub struct Length(Mutex<Long>);

#[derive(Default)]
struct Long {
    open: usize,
    /// When the last one ended.
    ended: Option<Instant>,
}

impl Length {
    fn with<T>(&self, use_it: impl FnOnce(&mut Long) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An answer of the connection turns out to be long.
    pub fn began(&self) {
        self.with(|long| long.open += 1);
    }

    /// That answer is complete, or given up.
    pub fn ended(&self) {
        self.with(|long| {
            long.open = long.open.saturating_sub(1);
            long.ended = Some(Instant::now());
        });
    }

    fn lane(&self) -> Lane {
        self.with(|long| match long.ended {
            _ if long.open > 0 => Lane::Slow,
            Some(ended) if ended.elapsed() < SETTLED_AFTER => Lane::Slow,
            Some(_) => {
                long.ended = None;
                Lane::Quick
            }
            None => Lane::Quick,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Lane {
    Quick,
    Slow,
}

/// The runtime of connections with long answers, started for the first of them.
#[derive(Default)]
pub struct Lanes(OnceLock<Option<Runtime>>);

impl Lanes {
    /// Serves a connection to its end, wherever its answers belong.
    pub async fn run<C, T>(&self, connection: C, length: impl Fn(&C) -> &Length + Clone + Send + Unpin + 'static) -> T
    where
        C: Future<Output = T> + Send + Unpin + 'static,
        T: Send + 'static,
    {
        let mut connection = connection;
        loop {
            let stretch = Stretch { connection: Some(connection), lane: Lane::Quick, length: length.clone() };
            connection = match stretch.await {
                Left::Ended(outcome) => return outcome,
                Left::For(connection) => connection,
            };
            let stretch = Stretch { connection: Some(connection), lane: Lane::Slow, length: length.clone() };
            let left = match self.slow() {
                Some(slow) => slow.spawn(stretch).await,
                // Without threads of its own it stays where it is.
                None => Ok(stretch.await),
            };
            connection = match left {
                Ok(Left::Ended(outcome)) => return outcome,
                Ok(Left::For(connection)) => connection,
                Err(failed) => match failed.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The slow lane is being closed with the listener, and this connection with it.
                    Err(_) => std::future::pending().await,
                },
            };
        }
    }

    fn slow(&self) -> Option<&Handle> {
        let runtime = self.0.get_or_init(|| {
            let threads = Handle::current().metrics().num_workers();
            let runtime = Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("bailiwick-lists")
                .on_thread_start(|| {
                    // For Linux, and only there, a thread is a process of its own in this.
                    if cfg!(target_os = "linux")
                        && let Err(error) = rustix::process::nice(NICENESS)
                    {
                        tracing::debug!(%error, "long answers are as important as others");
                    }
                })
                .enable_all()
                .build()
                .inspect_err(|error| tracing::warn!(%error, "long answers get no threads of their own"));
            runtime.ok()
        });
        runtime.as_ref().map(Runtime::handle)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which is not allowed where others run.
        if let Some(runtime) = self.0.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// A connection's time in one lane.
struct Stretch<C, L> {
    connection: Option<C>,
    lane: Lane,
    length: L,
}

enum Left<C, T> {
    Ended(T),
    /// It belongs to the other lane now.
    For(C),
}

impl<C, L, T> Future for Stretch<C, L>
where
    C: Future<Output = T> + Unpin,
    L: Fn(&C) -> &Length + Unpin,
{
    type Output = Left<C, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(connection) = this.connection.take_if(|connection| (this.length)(connection).lane() != this.lane) {
            return Poll::Ready(Left::For(connection));
        }
        match &mut this.connection {
            Some(connection) => Pin::new(connection).poll(cx).map(Left::Ended),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Notes where it is polled, is long from its second turn on, and ends with its third.
    struct Connection {
        length: Arc<Length>,
        turns: usize,
        threads: Vec<String>,
    }

    impl Future for Connection {
        type Output = Vec<String>;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<String>> {
            self.turns += 1;
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.threads.push(name);
            if self.turns == 2 {
                self.length.began();
            }
            if self.turns == 4 {
                return Poll::Ready(std::mem::take(&mut self.threads));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_connection_with_a_long_answer_moves_aside() {
        let lanes = Lanes::default();
        let connection = Connection { length: Arc::default(), turns: 0, threads: Vec::new() };
        let threads = lanes.run(connection, |connection: &Connection| &*connection.length).await;
        let aside: Vec<bool> = threads.iter().map(|name| name.starts_with("bailiwick-lists")).collect();
        assert_eq!(aside, [false, false, true, true]);
    }

    #[test]
    fn it_comes_back_when_it_has_been_quiet() {
        let length = Length::default();
        assert!(length.lane() == Lane::Quick);
        length.began();
        length.began();
        length.ended();
        assert!(length.lane() == Lane::Slow, "another one is open");
        length.ended();
        assert!(length.lane() == Lane::Slow, "the next page may follow");
        length.with(|long| long.ended = Instant::now().checked_sub(SETTLED_AFTER));
        assert!(length.lane() == Lane::Quick);
    }
}
