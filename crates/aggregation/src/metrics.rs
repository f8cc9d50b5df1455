//! Metrics of availability, in upstream's names: which APIServices cannot be used, and how often they became so and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api_service::ApiService;
use crate::availability::{Condition, ConditionStatus};
use crate::table::Table;

const UNAVAILABLE: &str = "aggregator_unavailable_apiservice";
const UNAVAILABLE_TOTAL: &str = "aggregator_unavailable_apiservice_total";

/// Counts how often services became unavailable, by name and reason. Those of services that are gone are forgotten.
#[derive(Default)]
pub(crate) struct Interruptions(Mutex<BTreeMap<String, BTreeMap<String, u64>>>);

impl Interruptions {
    /// A new condition was written to a service. Only that it can no longer be used counts, not that it never could.
    pub fn written(&self, before: &ApiService, now: &Condition) {
        if before.is_available() && now.status != ConditionStatus::True {
            let mut counts = self.lock();
            let reasons = counts.entry(before.name.clone()).or_default();
            *reasons.entry(now.reason.clone().into_owned()).or_default() += 1;
        }
    }

    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, u64>>> {
        // Counts change one by one; none is ever half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends all of it. Names are DNS names and reasons are words, so that nothing needs escaping.
pub(crate) fn write(out: &mut String, table: &Table, interruptions: &Interruptions) {
    let _ = writeln!(out, "# HELP {UNAVAILABLE} APIServices that cannot be used, by name.\n# TYPE {UNAVAILABLE} gauge");
    for service in table.services() {
        let unavailable = u8::from(service.remote.is_some() && !service.is_available());
        let _ = writeln!(out, "{UNAVAILABLE}{{name=\"{}\"}} {unavailable}", service.name);
    }
    let counts = interruptions.lock();
    if counts.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "# HELP {UNAVAILABLE_TOTAL} How often APIServices became unavailable, by name and reason.\n# TYPE {UNAVAILABLE_TOTAL} counter"
    );
    for (name, reasons) in counts.iter() {
        for (reason, count) in reasons {
            let _ = writeln!(out, "{UNAVAILABLE_TOTAL}{{name=\"{name}\",reason=\"{reason}\"}} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn service(name: &str, available: Option<&str>) -> ApiService {
        let conditions = available.map(|status| json!([{"type": "Available", "status": status}]));
        let object = json!({
            "metadata": {"name": name}, "status": {"conditions": conditions},
            "spec": {"group": "g", "version": "v1", "service": {"namespace": "n", "name": "s"}},
        });
        ApiService::parse(object.to_string().as_bytes()).expect("an APIService")
    }

    #[test]
    fn only_the_change_to_unavailable_counts() {
        let failed =
            Condition { status: ConditionStatus::False, reason: "ServiceNotFound".into(), message: String::new() };
        let interruptions = Interruptions::default();
        interruptions.written(&service("v1.never", None), &failed);
        interruptions.written(&service("v1.still", Some("False")), &failed);
        interruptions.written(&service("v1.lost", Some("True")), &failed);
        interruptions.written(&service("v1.lost", Some("True")), &failed);
        interruptions.written(&service("v1.gone", Some("True")), &failed);
        interruptions.forget("v1.gone");
        let table = Table::default().with(Arc::new(service("v1.lost", Some("False"))), None);
        let mut text = String::new();
        write(&mut text, &table, &interruptions);
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            values,
            [
                "aggregator_unavailable_apiservice{name=\"v1.lost\"} 1",
                "aggregator_unavailable_apiservice_total{name=\"v1.lost\",reason=\"ServiceNotFound\"} 2",
            ]
        );
    }
}
