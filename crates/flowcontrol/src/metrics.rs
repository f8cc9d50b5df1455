//! What Prometheus sees of flow control, by upstream's names.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::configuration::{Flow, LevelState};
use crate::flow_control::FlowControl;
use crate::queue_set::Reason;

const PREFIX: &str = "apiserver_flowcontrol_";

type LevelGauge = (&'static str, &'static str, fn(&LevelState) -> f64);

const LEVEL_GAUGES: &[LevelGauge] = &[
    ("nominal_limit_seats", "Seats a level is configured to have", |state| state.nominal.into()),
    ("lower_limit_seats", "Seats a level keeps when others borrow", |state| state.lower.into()),
    ("upper_limit_seats", "Seats a level may have when it borrows", |state| state.upper.into()),
    ("current_limit_seats", "Seats a level has now", |state| state.level.lock().limit().into()),
    ("demand_seats_high_watermark", "Most seats wanted in the last period", |state| demand(state).peak.into()),
    ("demand_seats_average", "Seats wanted in the last period", |state| demand(state).average),
    ("demand_seats_stdev", "Spread of the seats wanted in the last period", |state| demand(state).deviation),
    ("demand_seats_smoothed", "Seats wanted lately", |state| demand(state).smoothed),
    ("current_r", "Virtual time of the level's queues", |state| state.level.lock().virtual_seconds()),
];

type FlowValue = (&'static str, &'static str, &'static str, fn(&Flow) -> &AtomicU64);

const FLOW_VALUES: &[FlowValue] = &[
    ("dispatched_requests_total", "counter", "Requests that ran", |flow| &flow.counts.dispatched),
    ("current_inqueue_requests", "gauge", "Requests that wait", |flow| &flow.counts.waiting),
    ("current_inqueue_seats", "gauge", "Seats that are waited for", |flow| &flow.counts.seats_waiting),
    ("current_executing_requests", "gauge", "Requests that run", |flow| &flow.counts.executing),
    ("current_executing_seats", "gauge", "Seats in use", |flow| &flow.counts.seats_executing),
];

fn demand(state: &LevelState) -> crate::demand::DemandStats {
    state.level.lock().demand()
}

impl FlowControl {
    /// Appends the text that Prometheus scrapes.
    pub fn write_metrics(&self, text: &mut String) {
        let configuration = self.configuration.load();
        for (name, help, value) in LEVEL_GAUGES {
            head(text, name, "gauge", help);
            for (level, state) in &configuration.levels {
                let _ = writeln!(text, "{PREFIX}{name}{{priority_level=\"{level}\"}} {}", value(state));
            }
        }
        for (name, kind, help, value) in FLOW_VALUES {
            head(text, name, kind, help);
            for flow in &configuration.flows {
                let _ = writeln!(text, "{PREFIX}{name}{{{}}} {}", labels(flow), value(flow).load(Ordering::Relaxed));
            }
        }
        head(text, "rejected_requests_total", "counter", "Requests turned away");
        for flow in &configuration.flows {
            for (reason, count) in Reason::ALL.iter().zip(&flow.counts.rejected) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let (labels, reason) = (labels(flow), reason.as_str());
                    let _ = writeln!(text, "{PREFIX}rejected_requests_total{{{labels},reason=\"{reason}\"}} {count}");
                }
            }
        }
        head(text, "request_wait_duration_seconds", "histogram", "How long requests waited");
        for flow in configuration.flows.iter().filter(|flow| !flow.level.is_exempt()) {
            let name = format!("{PREFIX}request_wait_duration_seconds");
            flow.counts.waited.write(text, &name, &format!("{},execute=\"true\"", labels(flow)));
            flow.counts.gave_up.write(text, &name, &format!("{},execute=\"false\"", labels(flow)));
        }
        head(text, "request_execution_seconds", "histogram", "How long requests held their seats");
        for flow in &configuration.flows {
            flow.counts.executed.write(text, &format!("{PREFIX}request_execution_seconds"), &labels(flow));
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
}

/// Names of objects are DNS names, so that nothing needs escaping.
fn labels(flow: &Flow) -> String {
    format!("flow_schema=\"{}\",priority_level=\"{}\"", flow.name, flow.level.level.name)
}
