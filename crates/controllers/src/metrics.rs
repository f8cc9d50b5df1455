//! What controllers show of themselves, by client-go's names: who leads, what waits in queues, how often work is tried again.
//!
//! Queues need not be told where: those that are worked on within [`Metrics::scope`] are shown there.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const LEADS: &str = "leader_election_master_status";
const DEPTH: &str = "workqueue_depth";
const RETRIES: &str = "workqueue_retries_total";

tokio::task_local! {
    /// Where the queues that this task works on are shown.
    static CURRENT: Metrics;
}

/// How a program stands to the work of its controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not come to the work yet.
    Starting,
    /// Another program does it, and this one would take over.
    Waiting,
    /// It does it.
    Leading,
}

/// The metrics of the controllers of one program. Give [`Metrics::append`] to whoever serves `/metrics`.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    /// Whether this program leads, by lease.
    leases: BTreeMap<String, bool>,
    /// By name. Queues of the same name count together, and those that are gone not at all.
    queues: BTreeMap<&'static str, Vec<Weak<QueueCounts>>>,
}

/// What a queue counts.
#[derive(Debug, Default)]
pub(crate) struct QueueCounts {
    /// Keys that wait for a worker.
    pub depth: AtomicUsize,
    /// Keys put back because their work failed.
    pub retries: AtomicU64,
}

impl Metrics {
    /// Does `work` and shows the queues that are worked on in it, but for those of tasks that it spawns.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Appends all of it in Prometheus' text form. Names are our own words, so that nothing needs escaping.
    pub fn append(&self, out: &mut String) {
        let shown = self.lock();
        describe(out, LEADS, "gauge", "Whether this program is the leader, by lease.");
        for (name, leads) in &shown.leases {
            let _ = writeln!(out, "{LEADS}{{name=\"{name}\"}} {}", u8::from(*leads));
        }
        describe(out, DEPTH, "gauge", "Keys that wait for a worker, by queue.");
        for (name, queues) in &shown.queues {
            let depth: usize = alive(queues).map(|counts| counts.depth.load(Ordering::Relaxed)).sum();
            let _ = writeln!(out, "{DEPTH}{{name=\"{name}\"}} {depth}");
        }
        describe(out, RETRIES, "counter", "How often work was tried again, by queue.");
        for (name, queues) in &shown.queues {
            let retries: u64 = alive(queues).map(|counts| counts.retries.load(Ordering::Relaxed)).sum();
            let _ = writeln!(out, "{RETRIES}{{name=\"{name}\"}} {retries}");
        }
    }

    /// How this program stands by what is shown. Who shares the work with nobody leads as soon as it works.
    pub fn standing(&self) -> Standing {
        let shown = self.lock();
        match shown.leases.values().max() {
            Some(true) => Standing::Leading,
            Some(false) => Standing::Waiting,
            None if shown.queues.is_empty() => Standing::Starting,
            None => Standing::Leading,
        }
    }

    /// Whether this program leads now.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.lock().leases.insert(lease.to_owned(), leads);
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        // Entries are changed one by one; none is ever half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows a queue that this task works on, if its queues are shown at all.
pub(crate) fn show(name: &'static str, counts: &Arc<QueueCounts>) {
    let shown = CURRENT.try_with(|metrics| {
        let mut shown = metrics.lock();
        let queues = shown.queues.entry(name).or_default();
        queues.retain(|counts| counts.strong_count() > 0);
        queues.push(Arc::downgrade(counts));
    });
    if shown.is_err() {
        tracing::trace!(name, "a queue that is not shown");
    }
}

fn alive(queues: &[Weak<QueueCounts>]) -> impl Iterator<Item = Arc<QueueCounts>> {
    queues.iter().filter_map(Weak::upgrade)
}

fn describe(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;
    use crate::work_queue::{Outcome, WorkQueue};

    fn values(metrics: &Metrics) -> Vec<String> {
        let mut text = String::new();
        metrics.append(&mut text);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn queues_show_what_waits_and_what_was_tried_again() {
        let (metrics, queue) = (Metrics::default(), WorkQueue::new());
        queue.add(1);
        let tries = AtomicUsize::new(0);
        let work = queue.work("test", 1, |_| {
            let outcome = if tries.fetch_add(1, Ordering::Relaxed) < 2 { Outcome::Backoff } else { Outcome::Done };
            async move { Ok::<_, Error>(outcome) }
        });
        tokio::select! {
            () = metrics.clone().scope(work) => unreachable!("works forever"),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        assert_eq!(values(&metrics), ["workqueue_depth{name=\"test\"} 0", "workqueue_retries_total{name=\"test\"} 2"]);
        queue.add(1);
        queue.add(2);
        assert_eq!(values(&metrics)[0], "workqueue_depth{name=\"test\"} 2");
    }

    #[test]
    fn who_shares_the_work_with_nobody_leads_as_soon_as_it_works() {
        let metrics = Metrics::default();
        assert_eq!(metrics.standing(), Standing::Starting);
        CURRENT.sync_scope(metrics.clone(), || show("test", &Arc::default()));
        assert_eq!(metrics.standing(), Standing::Leading);
    }

    #[test]
    fn who_leads_is_shown_by_lease() {
        let metrics = Metrics::default();
        metrics.leads("a", false);
        assert_eq!(metrics.standing(), Standing::Waiting);
        metrics.leads("b", true);
        let leads = |name: &str, value: u8| format!("leader_election_master_status{{name=\"{name}\"}} {value}");
        assert_eq!(values(&metrics), [leads("a", 0), leads("b", 1)]);
        assert_eq!(metrics.standing(), Standing::Leading);
    }
}
