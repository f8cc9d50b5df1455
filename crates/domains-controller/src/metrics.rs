//! What the service counts, in Prometheus' text form.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_domains::registration::Tally;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::index::Oldest;

/// From a cached answer to a check that ran into its limit, in seconds.
const DURATION_BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    tool: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabel {
    tool: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// Numbers that are read when somebody asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    pub domains: u64,
    pub overdue: u64,
    pub checks: u64,
    pub agents_alive: u64,
    pub agents_absent: u64,
    pub questions: u64,
    pub oldest: Oldest,
    pub registries: Tally,
}

type LevelSource = Arc<dyn Fn() -> Levels + Send + Sync>;

/// Counters of one service. Give [`Metrics::append`] to whoever serves `/metrics`.
pub struct Metrics {
    registry: Registry,
    checks: Family<CheckLabels, Counter>,
    check_seconds: Family<ToolLabel, Histogram, fn() -> Histogram>,
    looks: Family<KindLabel, Counter>,
    verdicts: Family<KindLabel, Counter>,
    notices: Family<KindLabel, Counter>,
    probes: Family<KindLabel, Counter>,
    levels: Mutex<Option<LevelSource>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let check_seconds = Family::new_with_constructor((|| Histogram::new(DURATION_BUCKETS)) as fn() -> Histogram);
        let metrics = Self {
            checks: Family::default(),
            check_seconds,
            looks: Family::default(),
            verdicts: Family::default(),
            notices: Family::default(),
            probes: Family::default(),
            levels: Mutex::default(),
            registry: Registry::default(),
        };
        // The library appends `_total` to counters on its own.
        let mut counter = |name: &str, help: &str, family: &Family<KindLabel, Counter>| {
            registry.register(name, help, Family::clone(family));
        };
        counter("bailiwick_domains_looks", "Looks at domains, by who was asked", &metrics.looks);
        counter("bailiwick_domains_verdicts", "Looks for proofs of ownership, by verdict", &metrics.verdicts);
        counter("bailiwick_domains_notices", "Events told about domains, by type", &metrics.notices);
        counter("bailiwick_domains_probes", "Pieces of work for agents, by outcome", &metrics.probes);
        let help = "Checks that were run, by tool and outcome";
        registry.register("bailiwick_domains_checks", help, Family::clone(&metrics.checks));
        let help = "How long checks took, by tool";
        registry.register("bailiwick_domains_check_duration_seconds", help, Family::clone(&metrics.check_seconds));
        Self { registry, ..metrics }
    }
}

impl Metrics {
    pub(crate) fn checked(&self, tool: &'static str, outcome: &'static str, seconds: f64) {
        self.checks.get_or_create(&CheckLabels { tool, outcome }).inc();
        self.check_seconds.get_or_create(&ToolLabel { tool }).observe(seconds);
    }

    pub(crate) fn refused(&self, tool: &'static str, reason: &'static str) {
        self.checks.get_or_create(&CheckLabels { tool, outcome: reason }).inc();
    }

    pub(crate) fn looked(&self, kind: &'static str) {
        self.looks.get_or_create(&KindLabel { kind }).inc();
    }

    pub(crate) fn judged(&self, kind: &'static str) {
        self.verdicts.get_or_create(&KindLabel { kind }).inc();
    }

    pub(crate) fn told(&self, kind: &'static str) {
        self.notices.get_or_create(&KindLabel { kind }).inc();
    }

    pub(crate) fn probed(&self, kind: &'static str) {
        self.probes.get_or_create(&KindLabel { kind }).inc();
    }

    /// Where the numbers come from that are read when somebody asks.
    pub(crate) fn set_levels(&self, source: impl Fn() -> Levels + Send + Sync + 'static) {
        *self.levels.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(source));
    }

    /// Appends everything to a scrape.
    pub fn append(&self, text: &mut String) {
        let mut own = String::new();
        if prometheus_client::encoding::text::encode(&mut own, &self.registry).is_err() {
            tracing::error!("metrics of domains could not be encoded");
        }
        text.push_str(own.strip_suffix("# EOF\n").unwrap_or(&own));
        let source = self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let levels = source.map(|read| read()).unwrap_or_default();
        let named = [
            ("bailiwick_domains_known", "gauge", "Domains that are watched over"),
            ("bailiwick_domains_overdue", "gauge", "Domains whose time to be looked at has passed"),
            ("bailiwick_domains_checks_kept", "gauge", "Checks that exist, finished ones included"),
            ("bailiwick_domains_agents_alive", "gauge", "Agents with a lease that holds"),
            ("bailiwick_domains_agents_absent", "gauge", "Agents whose lease has ended"),
            ("bailiwick_domains_dns_queries_total", "counter", "Questions asked of name servers and resolvers"),
        ];
        let values = [
            levels.domains,
            levels.overdue,
            levels.checks,
            levels.agents_alive,
            levels.agents_absent,
            levels.questions,
        ];
        for ((name, kind, help), value) in named.into_iter().zip(values) {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        append_queues(text, levels.oldest);
        append_registries(text, &levels.registries);
    }
}

fn append_queues(text: &mut String, oldest: Oldest) {
    let name = "bailiwick_domains_queue_age_seconds";
    let _ = writeln!(
        text,
        "# HELP {name} For how long the domain that has waited longest has been due\n# TYPE {name} gauge"
    );
    for (lane, age) in [("watched", oldest.watched), ("awaited", oldest.awaited)] {
        let _ = writeln!(text, "{name}{{lane=\"{lane}\"}} {}", age.as_secs());
    }
}

/// Hosts and codes are words of other people's servers; the tally has a limit on both.
fn append_registries(text: &mut String, tally: &Tally) {
    let name = "bailiwick_domains_registry_lookups_total";
    let _ = writeln!(
        text,
        "# HELP {name} Questions asked of RDAP and WHOIS servers, by host and outcome\n# TYPE {name} counter"
    );
    for lookups in &tally.lookups {
        let (host, code) = (escaped(&lookups.host), escaped(&lookups.code));
        let _ = writeln!(text, "{name}{{host=\"{host}\",code=\"{code}\"}} {}", lookups.count);
    }
    let name = "bailiwick_domains_registry_budget_left";
    let _ = writeln!(
        text,
        "# HELP {name} Questions that a host may be asked now before others have to come back later\n# TYPE {name} gauge"
    );
    for budget in &tally.budgets {
        let _ = writeln!(text, "{name}{{host=\"{}\"}} {}", escaped(&budget.host), budget.left);
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use bailiwick_domains::registration::{Budget, Lookups};

    use super::*;

    #[test]
    fn everything_that_was_counted_is_in_the_text_once() {
        let metrics = Metrics::default();
        metrics.checked("scan", "succeeded", 0.2);
        metrics.judged("verified");
        metrics.set_levels(|| Levels {
            questions: 42,
            oldest: Oldest { awaited: std::time::Duration::from_secs(3), ..Oldest::default() },
            registries: Tally {
                lookups: vec![Lookups { host: "rdap.\"x".into(), code: "200".into(), count: 7 }],
                budgets: vec![Budget { host: "rdap.x".into(), left: 4 }],
            },
            ..Levels::default()
        });
        let mut text = "before 1\n".to_owned();
        metrics.append(&mut text);
        for line in [
            "before 1\n",
            "bailiwick_domains_checks_total{tool=\"scan\",outcome=\"succeeded\"} 1\n",
            "bailiwick_domains_verdicts_total{kind=\"verified\"} 1\n",
            "bailiwick_domains_dns_queries_total 42\n",
            "bailiwick_domains_queue_age_seconds{lane=\"awaited\"} 3\n",
            "bailiwick_domains_registry_lookups_total{host=\"rdap.\\\"x\",code=\"200\"} 7\n",
            "bailiwick_domains_registry_budget_left{host=\"rdap.x\"} 4\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
        }
        assert!(!text.contains("EOF"));
    }
}
