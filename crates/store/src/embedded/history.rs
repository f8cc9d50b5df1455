//! The changes since the compaction floor, in order: what watches replay and what bounds how far back reads may go.
//!
//! Watchers share it: each is a position in this list, so an event is stored once however many follow it.

use std::collections::VecDeque;
use std::time::Duration;

use super::options::Options;
use crate::{Change, Event, KeyRange, Revision};

/// Commits this close together count as simultaneous for retention, which keeps the list of times short.
const TIME_RESOLUTION_MS: u64 = 1000;

/// How much history to keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub age_max: Duration,
    pub changes_max: usize,
    pub bytes_max: u64,
}

impl Retention {
    pub fn new(options: &Options) -> Self {
        Self {
            age_max: options.history_age_max,
            changes_max: options.history_changes_max,
            bytes_max: options.history_bytes_max,
        }
    }

    /// For those who only want the newest state.
    pub const NOTHING: Self = Self { age_max: Duration::ZERO, changes_max: 0, bytes_max: 0 };
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    /// When each commit happened, by its last revision.
    times: VecDeque<(Revision, u64)>,
    superseded_bytes: u64,
}

impl History {
    pub fn push(&mut self, event: Event) {
        self.superseded_bytes += superseded_bytes(&event);
        self.events.push_back(event);
    }

    /// Notes that everything up to `revision` was there at `time_ms`.
    pub fn mark_time(&mut self, revision: Revision, time_ms: u64) {
        match self.times.back_mut() {
            Some((last, at)) if time_ms < at.saturating_add(TIME_RESOLUTION_MS) => *last = revision,
            _ => self.times.push_back((revision, time_ms)),
        }
    }

    /// Changes after `revision`, oldest first.
    pub fn after(&self, revision: Revision) -> impl Iterator<Item = &Event> {
        self.events.range(self.position_after(revision)..)
    }

    fn position_after(&self, revision: Revision) -> usize {
        self.events.partition_point(|event| event.revision() <= revision)
    }

    /// By how much the number of live keys in `range` has grown since `revision`.
    pub fn growth_since(&self, revision: Revision, range: &KeyRange) -> i64 {
        self.after(revision)
            .filter(|event| range.contains(event.key()))
            .map(|event| match (&event.change, &event.previous) {
                (Change::Put(_), None) => 1,
                (Change::Put(_), Some(_)) => 0,
                (Change::Delete { .. }, _) => -1,
            })
            .sum()
    }

    /// The oldest change at or below `floor`, taken out.
    pub fn pop_through(&mut self, floor: Revision) -> Option<Event> {
        if !self.reaches(floor) {
            return None;
        }
        let event = self.events.pop_front()?;
        self.superseded_bytes -= superseded_bytes(&event);
        Some(event)
    }

    /// Whether there is something at or below `floor`.
    pub fn reaches(&self, floor: Revision) -> bool {
        self.events.front().is_some_and(|event| event.revision() <= floor)
    }

    /// The revision through which history should be given up, if any. Cuts a tenth below a limit that was reached, so
    /// that this is not due again at once.
    pub fn excess(&mut self, retention: &Retention, now_ms: u64) -> Option<Revision> {
        let age_max_ms = u64::try_from(retention.age_max.as_millis()).unwrap_or(u64::MAX);
        let mut excess = None;
        while let Some((revision, time_ms)) = self.times.front()
            && time_ms.saturating_add(age_max_ms) < now_ms
        {
            excess = Some(*revision);
            self.times.pop_front();
        }
        if self.events.len() > retention.changes_max {
            let keep = retention.changes_max / 10 * 9;
            excess = excess.max(self.events.get(self.events.len() - keep - 1).map(Event::revision));
        }
        if self.superseded_bytes > retention.bytes_max {
            let keep = retention.bytes_max / 10 * 9;
            let mut left = self.superseded_bytes;
            let last_to_go = self.events.iter().find(|event| {
                left -= superseded_bytes(event);
                left <= keep
            });
            excess = excess.max(last_to_go.map(Event::revision));
        }
        excess
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }
}

/// The memory that goes free with this event.
fn superseded_bytes(event: &Event) -> u64 {
    event.previous.as_ref().map_or(0, |previous| (previous.key.len() + previous.value.len()) as u64)
}
