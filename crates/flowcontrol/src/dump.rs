//! What operators see under `/debug/api_priority_and_fairness/`: tables of levels and of their queues.

use crate::flow_control::FlowControl;

/// The tables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    PriorityLevels,
    Queues,
}

impl Dump {
    /// The table at a path.
    pub fn of_path(path: &str) -> Option<Self> {
        match path.strip_prefix("/debug/api_priority_and_fairness/")? {
            "dump_priority_levels" => Some(Self::PriorityLevels),
            "dump_queues" => Some(Self::Queues),
            _ => None,
        }
    }
}

const LEVEL_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];

const QUEUE_COLUMNS: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];

impl FlowControl {
    /// A table of the present state, columns padded as upstream's.
    pub fn dump(&self, dump: Dump) -> String {
        match dump {
            Dump::PriorityLevels => table(&LEVEL_COLUMNS, self.level_rows()),
            Dump::Queues => table(&QUEUE_COLUMNS, self.queue_rows()),
        }
    }

    fn level_rows(&self) -> Vec<Vec<String>> {
        let configuration = self.configuration.load();
        let row = |name: &str, state: &crate::configuration::LevelState| {
            let set = state.level.lock();
            let totals = set.totals();
            let active = set.queues().filter(|queue| queue.waiting > 0).count();
            vec![
                name.to_string(),
                active.to_string(),
                (totals.waiting == 0 && totals.executing == 0).to_string(),
                false.to_string(),
                totals.waiting.to_string(),
                totals.executing.to_string(),
                totals.dispatched.to_string(),
                totals.rejected.to_string(),
                0.to_string(),
                totals.timed_out.to_string(),
            ]
        };
        configuration.levels.iter().map(|(name, state)| row(name, state)).collect()
    }

    /// Only queues with something in them: the others do not exist.
    fn queue_rows(&self) -> Vec<Vec<String>> {
        let configuration = self.configuration.load();
        let mut rows = Vec::new();
        for (name, state) in &configuration.levels {
            for queue in state.level.lock().queues() {
                rows.push(vec![
                    name.to_string(),
                    queue.index.to_string(),
                    queue.waiting.to_string(),
                    queue.executing.to_string(),
                    queue.seats_in_use.to_string(),
                    format!("{:.8}ss", queue.next_start_seconds),
                    queue.seats_waiting.to_string(),
                    queue.seats_waiting.to_string(),
                    format!("{:.8}ss", f64::from(queue.seats_waiting) * 0.001),
                ]);
            }
        }
        rows
    }
}

/// Cells end with a comma and are padded to the widest of their column, at least eight, plus one.
fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    const CELL_WIDTH_MIN: usize = 8;
    let head = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.len() + 2).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).max(CELL_WIDTH_MIN)).collect();
    let mut text = String::new();
    for row in &rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if at + 1 == row.len() {
                text.push_str(cell);
            } else {
                text.push_str(&format!("{:<width$}", format!("{cell},")));
            }
        }
        text.push('\n');
    }
    text
}
