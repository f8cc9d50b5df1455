//! What a run found: counts of what happened, and every promise that was broken.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::machine::Started;

/// Broken promises printed in full; the rest are counted.
const PRINTED_MAX: usize = 40;

/// See the module.
#[derive(Default)]
pub struct Findings {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    violations: Vec<String>,
    /// Lines of the summary, in this order.
    counts: BTreeMap<&'static str, u64>,
    faults: BTreeMap<String, u64>,
    retries: BTreeMap<&'static str, u64>,
    write_times: Vec<Duration>,
    last_write: Option<Instant>,
    longest_gap: Duration,
    starts: Vec<Duration>,
    drains: Vec<Duration>,
    notes: Vec<String>,
}

impl Findings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something promised did not hold.
    pub fn violation(&self, what: String) {
        let mut inner = self.lock();
        if inner.violations.len() < PRINTED_MAX {
            println!("BROKEN: {what}");
        }
        inner.violations.push(what);
    }

    pub fn violations(&self) -> usize {
        self.lock().violations.len()
    }

    pub fn count(&self, what: &'static str, by: u64) {
        *self.lock().counts.entry(what).or_default() += by;
    }

    /// An attempt of a client did not succeed and was followed by another.
    pub fn retried(&self, why: &'static str) {
        *self.lock().retries.entry(why).or_default() += 1;
    }

    pub fn fault(&self, what: String) {
        *self.lock().faults.entry(what).or_default() += 1;
    }

    /// A line of the summary.
    pub fn note(&self, line: String) {
        self.lock().notes.push(line);
    }

    /// A write was acknowledged.
    pub fn wrote(&self, took: Duration) {
        let mut inner = self.lock();
        let now = Instant::now();
        let gap = inner.last_write.replace(now).map_or(Duration::ZERO, |last| now - last);
        inner.longest_gap = inner.longest_gap.max(gap);
        inner.write_times.push(took);
    }

    pub fn started(&self, started: &Started) {
        let mut inner = self.lock();
        inner.starts.push(started.took);
        *inner.counts.entry("starts that failed and were repeated").or_default() += started.attempts_failed as u64;
    }

    pub fn drained(&self, took: Duration) {
        self.lock().drains.push(took);
    }

    /// Gaps between writes count only while there are writers.
    pub fn end_of_storm(&self) {
        self.lock().last_write = None;
    }

    pub fn print_progress(&self, started: Instant) {
        let inner = self.lock();
        let count = |name| inner.counts.get(name).copied().unwrap_or(0);
        println!(
            "{:4} s  {} writes, {} faults, {} events, longest gap {:.1} s, {} broken",
            started.elapsed().as_secs(),
            inner.write_times.len(),
            inner.faults.values().sum::<u64>(),
            count("watch events seen by informers"),
            inner.longest_gap.as_secs_f64(),
            inner.violations.len()
        );
    }

    pub fn print_summary(&self, seed: u64, length: Duration) {
        let mut inner = self.lock();
        println!("\n| {:.1} minutes, seed {seed} | |\n|---|---:|", length.as_secs_f64() / 60.0);
        for (what, times) in &inner.faults {
            println!("| {what} | {times} |");
        }
        let mut times = std::mem::take(&mut inner.write_times);
        times.sort_unstable();
        let at = |part: f64| {
            let index = (times.len().saturating_sub(1) as f64 * part) as usize;
            times.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
        };
        println!("| writes acknowledged | {} |", times.len());
        println!(
            "| their time, retries included: median, 99th of 100, longest | {:.0} ms, {:.0} ms, {:.1} s |",
            at(0.5),
            at(0.99),
            at(1.0) / 1000.0
        );
        println!("| longest time without any acknowledged write | {:.1} s |", inner.longest_gap.as_secs_f64());
        for (why, times) in &inner.retries {
            println!("| attempts repeated: {why} | {times} |");
        }
        for (what, times) in &inner.counts {
            println!("| {what} | {times} |");
        }
        let longest = |times: &[Duration]| times.iter().max().copied().unwrap_or_default().as_secs_f64();
        println!("| starts until healthy: number, longest | {}, {:.1} s |", inner.starts.len(), longest(&inner.starts));
        println!(
            "| SIGTERM until exit 0 (servers): number, longest | {}, {:.1} s |",
            inner.drains.len(),
            longest(&inner.drains)
        );
        for line in &inner.notes {
            println!("| {line} |");
        }
        println!("| **promises broken** | **{}** |", inner.violations.len());
    }
}
