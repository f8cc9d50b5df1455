//! The server's own metrics, by upstream's names where the meaning is the same.

mod exposition;
mod measured;
mod series;

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use exposition::Exposition;
pub use measured::{Course, Measuring};

use self::series::Series;
use crate::cache::Caches;

/// Upstream's buckets, in seconds.
const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Upstream's, from a kilobyte to a gigabyte.
const SIZE_BUCKETS: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
    subresource: Arc<str>,
    scope: &'static str,
    component: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
    subresource: Arc<str>,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubjectLabels {
    verb: &'static str,
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
    subresource: Arc<str>,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    request_kind: &'static str,
}

/// What a request counts as.
#[derive(Clone, Debug)]
pub struct Subject {
    pub verb: &'static str,
    /// `All`, or empty for a request that is meant.
    pub dry_run: &'static str,
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub resource: Arc<str>,
    pub subresource: Arc<str>,
    pub scope: &'static str,
}

/// All metrics of one server.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    own_durations: Family<SubjectLabels, Histogram, fn() -> Histogram>,
    response_sizes: Family<SubjectLabels, Histogram, fn() -> Histogram>,
    /// The four above, together for each kind of request.
    series: Series,
    long_running: Family<SubjectLabels, Gauge>,
    watch_events: Family<ResourceLabels, Counter>,
    inflight: Family<KindLabel, Gauge>,
    pub panics: Counter,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        let own_durations = Family::new_with_constructor(own_duration_histogram as fn() -> Histogram);
        let response_sizes = Family::new_with_constructor(size_histogram as fn() -> Histogram);
        let long_running = Family::default();
        let watch_events = Family::default();
        let inflight = Family::default();
        let panics = Counter::default();
        // The library appends `_total` to counters on its own.
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and response code",
            Family::clone(&requests),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Response latency by verb and resource",
            Family::clone(&durations),
        );
        registry.register(
            "apiserver_request_sli_duration_seconds",
            "Response latency by verb and resource, without the time spent in queues and on admission webhooks",
            Family::clone(&own_durations),
        );
        registry.register(
            "apiserver_response_sizes",
            "Bytes of the answers to reads, by verb and resource",
            Family::clone(&response_sizes),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Watches that are open, by resource",
            Family::clone(&long_running),
        );
        registry.register(
            "apiserver_watch_events",
            "Events sent to watchers, by resource",
            Family::clone(&watch_events),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being served, by kind",
            Family::clone(&inflight),
        );
        registry.register("apiserver_request_panics", "Panics caught while serving requests", panics.clone());
        Self {
            registry,
            requests,
            durations,
            own_durations,
            response_sizes,
            series: Series::default(),
            long_running,
            watch_events,
            inflight,
            panics,
        }
    }

    fn long_running(&self, subject: &Subject) -> Gauge {
        self.long_running.get_or_create(&subject.labels()).clone()
    }

    fn watch_events(&self, subject: &Subject) -> Counter {
        let Subject { group, version, resource, .. } = subject.clone();
        self.watch_events.get_or_create(&ResourceLabels { group, version, resource }).clone()
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn begin(&self, mutating: bool) -> InflightGuard {
        let request_kind = if mutating { "mutating" } else { "readOnly" };
        let gauge = self.inflight.get_or_create(&KindLabel { request_kind }).clone();
        gauge.inc();
        InflightGuard(gauge)
    }

    /// Parts of the text that scrapers get, see [`Exposition::document`].
    pub fn encode(&self, caches: &Caches) -> String {
        let mut text = String::new();
        if prometheus_client::encoding::text::encode_registry(&mut text, &self.registry).is_err() {
            tracing::error!("metrics could not be encoded");
        }
        append_process_metrics(&mut text);
        append_storage_metrics(&mut text, caches);
        text
    }
}

impl Subject {
    fn labels(&self) -> SubjectLabels {
        let Self { verb, dry_run: _, group, version, resource, subresource, scope } = self.clone();
        SubjectLabels { verb, group, version, resource, subresource, scope, component: "apiserver" }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Ends the in-flight count of a request.
pub struct InflightGuard(Gauge);

impl Drop for InflightGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn duration_histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

/// The same from 50 ms on, as upstream.
fn own_duration_histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS.into_iter().skip(2))
}

fn size_histogram() -> Histogram {
    Histogram::new(SIZE_BUCKETS)
}

/// Counts by resource, over all control planes: how many there are must not decide how long this text is.
fn append_storage_metrics(text: &mut String, caches: &Caches) {
    use std::fmt::Write;
    let mut counts: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for cache in caches.all() {
        let prefix = String::from_utf8_lossy(&cache.spec.prefix).into_owned();
        let mut parts = prefix.trim_end_matches('/').split('/').skip(1);
        let group = parts.next().filter(|group| *group != "core").unwrap_or_default().to_owned();
        let resource = parts.next().unwrap_or_default().to_owned();
        let (objects, watchers) = cache.counts();
        let sum = counts.entry((group, resource)).or_default();
        *sum = (sum.0 + objects, sum.1 + watchers);
    }
    let mut write = |name: &str, help: &str, value: &dyn Fn(usize, usize) -> usize| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for ((group, resource), (objects, watchers)) in &counts {
            let value = value(*objects, *watchers);
            let _ = writeln!(text, "{name}{{group=\"{group}\",resource=\"{resource}\"}} {value}");
        }
    };
    write("apiserver_resource_objects", "Objects in memory by resource", &|objects, _| objects);
    write("apiserver_registered_watchers", "Watchers by resource", &|_, watchers| watchers);
    let _ = writeln!(text, "# HELP apiserver_store_revision Newest store revision applied to the caches");
    let _ = writeln!(text, "# TYPE apiserver_store_revision gauge\napiserver_store_revision {}", caches.applied());
}

/// How many project control planes are in memory.
pub(crate) fn append_tenant_metrics(text: &mut String, open: usize) {
    use std::fmt::Write;
    let name = "bailiwick_open_project_control_planes";
    let _ = writeln!(text, "# HELP {name} Project control planes in memory\n# TYPE {name} gauge\n{name} {open}");
}

/// What every Prometheus client exports about its process; `/proc` is there on Linux only.
pub(crate) fn append_process_metrics(text: &mut String) {
    use std::fmt::Write;
    /// Linux reports process times in hundredths of a second on every architecture.
    const TICKS_PER_SECOND: f64 = 100.0;
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    // The command name is in parentheses and may hold anything, so fields are counted after it.
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let mut write = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    let cpu = (number(11) + number(12)) / TICKS_PER_SECOND;
    write("process_cpu_seconds_total", "counter", "Processor time used", cpu);
    write("process_resident_memory_bytes", "gauge", "Memory in use", number(21) * 4096.0);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count());
    write("process_open_fds", "gauge", "Open files", open as f64);
    if let Some(most) = open_files_limit() {
        write("process_max_fds", "gauge", "Files that may be open at once", most as f64);
    }
    // Counted from when the machine started, whose time `/proc/stat` has.
    let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let machine = machine.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    if let Some(machine) = machine {
        let started = machine + number(19) / TICKS_PER_SECOND;
        write("process_start_time_seconds", "gauge", "When it started, in seconds since 1970", started);
    }
}

/// How many files this process may have open; `None` where there is no limit.
fn open_files_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
