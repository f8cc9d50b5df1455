//! What an agent shows of itself, in Prometheus' text form: whether its lease holds, and what became of its work.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::agent::LEASE_SECONDS;

/// Outcomes of work: each is shown from the start, so that a rate can be taken.
const OUTCOMES: [&str; 3] = ["answered", "failed", "late"];

/// The metrics of one agent. Give [`AgentMetrics::append`] to whoever serves `/metrics`.
#[derive(Default)]
pub struct AgentMetrics(Mutex<Counted>);

impl std::fmt::Debug for AgentMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentMetrics").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Counted {
    renewed: Option<Instant>,
    at_work: u64,
    probes: BTreeMap<&'static str, u64>,
    questions: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
}

/// A piece of work that an agent is at; counted by its outcome when it ends, however it ends.
pub(crate) struct AtWork {
    pub outcome: &'static str,
    metrics: Arc<AgentMetrics>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut counted = self.metrics.lock();
        counted.at_work = counted.at_work.saturating_sub(1);
        *counted.probes.entry(self.outcome).or_default() += 1;
    }
}

impl AgentMetrics {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        // Numbers are changed one by one; none is ever half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the number of questions asked of name servers comes from.
    pub(crate) fn count_questions(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        self.lock().questions = Some(Box::new(source));
    }

    /// The lease is held from now on.
    pub(crate) fn renewed(&self) {
        self.lock().renewed = Some(Instant::now());
    }

    /// A piece of work begins.
    pub(crate) fn begin(self: Arc<Self>) -> AtWork {
        self.lock().at_work += 1;
        AtWork { outcome: "failed", metrics: self }
    }

    /// Whether the service gives it work, in a word: the answer of `/readyz`.
    pub fn readiness(&self) -> Result<&'static str, &'static str> {
        readiness(self.lock().renewed, Instant::now())
    }

    /// Appends everything to a scrape.
    pub fn append(&self, text: &mut String) {
        let counted = self.lock();
        let registered = u64::from(readiness(counted.renewed, Instant::now()).is_ok());
        one(text, "bailiwick_dns_agent_registered", "gauge", "Whether the lease of this agent holds", registered);
        one(text, "bailiwick_dns_agent_probes_at_work", "gauge", "Pieces of work that are being done", counted.at_work);
        let questions = counted.questions.as_ref().map_or(0, |read| read());
        let help = "Questions asked of name servers";
        one(text, "bailiwick_dns_agent_dns_queries_total", "counter", help, questions);
        let name = "bailiwick_dns_agent_probes_total";
        let _ = writeln!(text, "# HELP {name} Pieces of work, by outcome\n# TYPE {name} counter");
        for outcome in OUTCOMES {
            let count = counted.probes.get(outcome).copied().unwrap_or_default();
            let _ = writeln!(text, "{name}{{outcome=\"{outcome}\"}} {count}");
        }
    }
}

fn one(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

fn readiness(renewed: Option<Instant>, now: Instant) -> Result<&'static str, &'static str> {
    const LEASE: Duration = Duration::from_secs(LEASE_SECONDS.unsigned_abs() as u64);
    match renewed {
        None => Err("not registered"),
        Some(renewed) if now.saturating_duration_since(renewed) >= LEASE => Err("its lease has ended"),
        Some(_) => Ok("registered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_ready_while_its_lease_holds() {
        let now = Instant::now();
        assert_eq!(readiness(None, now), Err("not registered"));
        assert_eq!(readiness(Some(now), now + Duration::from_secs(29)), Ok("registered"));
        assert_eq!(readiness(Some(now), now + Duration::from_secs(30)), Err("its lease has ended"));
    }

    #[test]
    fn work_is_counted_by_how_it_ends() {
        let metrics = Arc::new(AgentMetrics::default());
        metrics.count_questions(|| 42);
        let mut done = metrics.clone().begin();
        let dropped = metrics.clone().begin();
        let mut text = String::new();
        metrics.append(&mut text);
        assert!(text.contains("bailiwick_dns_agent_probes_at_work 2\n"), "{text}");
        done.outcome = "answered";
        drop((done, dropped));
        let mut text = String::new();
        metrics.append(&mut text);
        for line in [
            "bailiwick_dns_agent_registered 0\n",
            "bailiwick_dns_agent_probes_at_work 0\n",
            "bailiwick_dns_agent_dns_queries_total 42\n",
            "bailiwick_dns_agent_probes_total{outcome=\"answered\"} 1\n",
            "bailiwick_dns_agent_probes_total{outcome=\"failed\"} 1\n",
            "bailiwick_dns_agent_probes_total{outcome=\"late\"} 0\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
        }
    }
}
