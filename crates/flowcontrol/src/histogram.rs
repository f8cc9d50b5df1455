//! A histogram that many threads add to without locks, in Prometheus' text form.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of observations up to each bound, in seconds.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: [f64; N],
    counts: [AtomicU64; N],
    over: AtomicU64,
    sum_ns: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    pub fn new(bounds: [f64; N]) -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, counts, over: AtomicU64::new(0), sum_ns: AtomicU64::new(0) }
    }

    pub fn observe_ns(&self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).and_then(|at| self.counts.get(at));
        bucket.unwrap_or(&self.over).fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Writes its lines; `labels` without braces.
    pub fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        total += self.over.load(Ordering::Relaxed);
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}");
        let sum = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let histogram = Histogram::new([0.1, 1.0]);
        for ms in [50, 100, 500, 5000] {
            histogram.observe_ns(ms * 1_000_000);
        }
        let mut text = String::new();
        histogram.write(&mut text, "h", "a=\"b\"");
        assert_eq!(
            text,
            "h_bucket{a=\"b\",le=\"0.1\"} 2\nh_bucket{a=\"b\",le=\"1\"} 3\nh_bucket{a=\"b\",le=\"+Inf\"} 4\n\
             h_sum{a=\"b\"} 5.65\nh_count{a=\"b\"} 4\n"
        );
    }
}
