//! `DomainCheck` as the controller reads and writes it, and what a run makes of the runs before. Pure: the same status, report
//! and time always give the same answer, so that a restart repeats nothing.

use std::time::Duration;

use bailiwick_domains::check::{Outlook, Point};
use bailiwick_domains::registration::Concern;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::TTL_DEFAULT_SECONDS;
use crate::judge::Notice;
use crate::status::{Announcement, Condition, Trouble};
use crate::troubles::{Difference, texts};

/// The condition of a check.
const CONDITION: &str = "Healthy";
/// The condition of a plan whose names are live: whether what they lead to serves them.
const SERVED: &str = "Served";
/// Troubles of one check that are kept, as the definition has it.
const TROUBLES_MAX: usize = 256;
/// Between two runs, whatever happens.
const RUN_GAP: SignedDuration = SignedDuration::from_secs(10);
/// How often somebody may have it run.
const RESCAN_GAP: SignedDuration = SignedDuration::from_mins(5);
/// How often it is run while something is the matter and somebody is likely to be at it.
const WORRIED: SignedDuration = SignedDuration::from_mins(5);
/// For how long somebody is.
const WORRIED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// How often it is run while nobody has proved that the names are theirs.
const UNPROVED: SignedDuration = SignedDuration::from_hours(24);

/// What a check's object says besides the tool's arguments.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckSpec {
    pub gateway: Option<String>,
    pub vantage_points: Option<Vec<String>>,
    ttl_seconds_after_finished: Option<u32>,
    repeat_seconds: Option<u32>,
}

impl CheckSpec {
    /// How long it stays when it has finished.
    pub fn time_to_live(&self) -> Duration {
        Duration::from_secs(u64::from(self.ttl_seconds_after_finished.unwrap_or(TTL_DEFAULT_SECONDS)))
    }

    /// How often it is run; once where nothing is said.
    pub fn repeats(&self) -> Option<SignedDuration> {
        self.repeat_seconds.map(|seconds| SignedDuration::from_secs(i64::from(seconds)))
    }
}

/// What is written back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CheckStatus {
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    /// When it is run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What is the matter, and since when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How it stood when that was last known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands: Option<Stands>,
    /// The same two of the services behind a plan's names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<Trouble>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serves: Option<Stands>,
    /// When what is waited for was said to be over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_rescan: Option<String>,
    /// When it was obeyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescanned: Option<Timestamp>,
    /// The digest of what was planned for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_service: Option<String>,
    /// Events that are still to be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unannounced: Vec<Announcement>,
}

/// How a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stands {
    /// Nothing is the matter; a plan is fulfilled.
    Well,
    /// Something is.
    Ill,
}

/// What a check is about, in the words of those who are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    /// A plan is fulfilled, or not yet, or no more.
    Plan,
    /// Troubles begin and end.
    Health,
}

/// Whether somebody has proved that the names are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Proved,
    Claimed,
}

impl CheckStatus {
    /// What is left of it for the next run to compare with.
    pub fn before_run(self, start: Timestamp) -> Self {
        Self {
            phase: String::new(),
            reason: None,
            message: None,
            start_time: Some(start),
            completion_time: None,
            next_run: None,
            summary: None,
            report: None,
            result: None,
            ..self
        }
    }

    fn condition(&self) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == CONDITION)
    }

    fn set_condition(&mut self, status: &str, reason: &str, message: String, now: Timestamp) {
        self.set(CONDITION, status, reason, message, now);
    }

    /// Takes what was seen of the services behind a plan's names, and says what to tell of it. What could not be seen, and a
    /// place that is away, neither mends nor breaks anything.
    fn take_served(&mut self, served: Option<&Outlook>, subject: &str, now: Timestamp) -> Option<Notice> {
        let Some(served) = served else {
            self.conditions.retain(|condition| condition.kind != SERVED);
            (self.unserved, self.serves) = (Vec::new(), None);
            return None;
        };
        let since = self.conditions.iter().find(|condition| condition.kind == SERVED && condition.status == "True");
        let since = since.map(|condition| format!("; it was served since {}", condition.last_transition_time));
        let found = served.points.iter().take(TROUBLES_MAX).cloned();
        let found = found.map(|Point { topic, concern, text }| (topic, concern, text));
        let unseen = |topic: &str| served.unseen.iter().chain(&served.away).any(|unseen| unseen == topic);
        self.unserved = Difference::of(std::mem::take(&mut self.unserved), found, unseen, now).now;
        self.unserved.truncate(TROUBLES_MAX);
        let told = texts(&self.unserved);
        let notice = |concern, reason: &str, note: String| Some(Notice { concern, reason: reason.to_owned(), note });
        let before = self.serves;
        match (self.unserved.is_empty(), served.unseen.is_empty()) {
            (false, _) => {
                self.serves = Some(Stands::Ill);
                self.set(SERVED, "False", "NotServed", told.clone(), now);
                let note = format!("{subject}: {told}{}", since.unwrap_or_default());
                if before == Some(Stands::Well) { notice(Concern::Warning, "ServiceFailing", note) } else { None }
            }
            (true, false) => {
                self.set(SERVED, "Unknown", "NotObserved", "no place could look".to_owned(), now);
                None
            }
            (true, true) => {
                self.serves = Some(Stands::Well);
                let message = "visitors are served, from every place that was asked".to_owned();
                self.set(SERVED, "True", "Served", message.clone(), now);
                let note = format!("{subject}: {message}");
                if before == Some(Stands::Ill) { notice(Concern::None, "ServiceRestored", note) } else { None }
            }
        }
    }

    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String, now: Timestamp) {
        let condition = Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: now,
            observed_generation: None,
        };
        condition.put_into(&mut self.conditions);
    }

    /// A run that found nothing out.
    pub fn take_failure(&mut self, reason: &str, message: &str, now: Timestamp) {
        self.set_condition("Unknown", reason, message.to_owned(), now);
    }

    /// Takes what a run found. `subject` is what it is about.
    pub fn take(&mut self, outlook: &Outlook, story: Story, subject: &str, now: Timestamp) -> Vec<Notice> {
        let found = outlook.points.iter().take(TROUBLES_MAX).cloned();
        let found = found.map(|Point { topic, concern, text }| (topic, concern, text));
        let unseen = |topic: &str| outlook.unseen.iter().chain(&outlook.away).any(|unseen| unseen == topic);
        let mut difference = Difference::of(std::mem::take(&mut self.troubles), found, unseen, now);
        self.troubles = std::mem::take(&mut difference.now);
        self.troubles.truncate(TROUBLES_MAX);
        let is_ill = self.troubles.iter().any(|trouble| trouble.concern >= Concern::Warning);
        let must_wait = !self.troubles.is_empty() || !outlook.unseen.is_empty();
        let before = self.stands;
        self.stands = match (is_ill, must_wait) {
            (true, _) => Some(Stands::Ill),
            (false, false) => Some(Stands::Well),
            // What has to be waited for, and what could not be seen, changes nothing.
            (false, true) => before,
        };
        let since = self.condition().map(|condition| condition.last_transition_time);
        let was_fulfilled = self.condition().is_some_and(|one| ["Fulfilled", "Broken"].contains(&one.reason.as_str()));
        let told = texts(&self.troubles);
        let forecast = outlook.over_at.or(self.forecast);
        self.forecast = forecast.filter(|_| self.stands != Some(Stands::Well));
        match (story, self.stands) {
            (Story::Plan, Some(Stands::Well)) if told.is_empty() => {
                self.set_condition("True", "Fulfilled", "everything is as planned, for everybody".to_owned(), now);
            }
            (Story::Plan, Some(Stands::Well)) => self.set_condition("True", "Fulfilled", told.clone(), now),
            (Story::Plan, _) if is_ill && was_fulfilled => self.set_condition("False", "Broken", told.clone(), now),
            (Story::Plan, _) if is_ill => self.set_condition("False", "NotFulfilled", told.clone(), now),
            (Story::Plan, _) => self.set_condition("False", "Waiting", told.clone(), now),
            (Story::Health, Some(Stands::Well)) => {
                self.set_condition("True", "Healthy", "nothing to worry about".to_owned(), now);
            }
            (Story::Health, Some(Stands::Ill)) => self.set_condition("False", "Troubles", told.clone(), now),
            (Story::Health, None) => self.set_condition("Unknown", "NotObserved", "nobody answered".to_owned(), now),
        }
        match story {
            Story::Plan => {
                let fulfilled = plan_notice(before, self.stands, subject, &told, forecast, since, now);
                let served = self.take_served(outlook.served.as_deref(), subject, now);
                fulfilled.into_iter().chain(served).collect()
            }
            // The first run finds what it finds; it is in the status.
            Story::Health if before.is_none() => Vec::new(),
            Story::Health => difference.notices(subject),
        }
    }

    /// When it is run next, every `calm` when all is well.
    pub fn plan_next(&mut self, calm: SignedDuration, owned: Owned, now: Timestamp) {
        let calm = if owned == Owned::Proved { calm } else { calm.max(UNPROVED) };
        let recently = self.condition().is_none_or(|one| now.duration_since(one.last_transition_time) < WORRIED_FOR);
        let is_well = self.condition().is_some_and(|one| one.status == "True");
        let wait = if !is_well && recently { calm.min(WORRIED) } else { calm };
        let turn = after(now, wait);
        // What was forecast is looked at when it should have come.
        let over = self.forecast.map_or(turn, |over| after(over, SignedDuration::from_secs(1)));
        self.next_run = Some(turn.min(over).max(after(now, RUN_GAP)));
    }

    /// Takes note that what somebody asked for is done.
    pub fn obeyed(&mut self, rescan: Option<&String>, now: Timestamp) {
        if rescan.is_some() && rescan != self.observed_rescan.as_ref() {
            self.rescanned = Some(now);
        }
        self.observed_rescan = rescan.cloned();
    }

    /// When a check that was run is due again: at its turn, or sooner if somebody asks or what it is about has changed.
    pub fn due_at(&self, rescan: Option<&String>, service: Option<&String>, now: Timestamp) -> Timestamp {
        let ended = self.completion_time.unwrap_or(Timestamp::UNIX_EPOCH);
        let turn = self.next_run.unwrap_or(now);
        let asked = rescan.is_some() && rescan != self.observed_rescan.as_ref();
        let again = self.rescanned.map_or(ended, |rescanned| after(rescanned, RESCAN_GAP));
        let asked = if asked { again.max(after(ended, RUN_GAP)) } else { turn };
        let changed = self.observed_service.as_ref().is_some_and(|known| service.is_some_and(|now| now != known));
        let changed = if changed { after(ended, RUN_GAP) } else { turn };
        turn.min(asked).min(changed)
    }
}

fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.checked_add(wait).unwrap_or(start)
}

fn plan_notice(
    before: Option<Stands>,
    stands: Option<Stands>,
    subject: &str,
    told: &str,
    forecast: Option<Timestamp>,
    since: Option<Timestamp>,
    now: Timestamp,
) -> Option<Notice> {
    match (before, stands) {
        (None | Some(Stands::Ill), Some(Stands::Well)) => {
            let forecast = forecast.map(|at| format!("; that was forecast for {at}, and seen at {now}"));
            let note = format!("{subject}: everything is as planned, for everybody{}", forecast.unwrap_or_default());
            Some(Notice { concern: Concern::None, reason: "PlanFulfilled".to_owned(), note })
        }
        (Some(Stands::Well), Some(Stands::Ill)) => {
            let since = since.map(|since| format!("; it was as planned since {since}")).unwrap_or_default();
            let note = format!("{subject}: {told}{since}");
            Some(Notice { concern: Concern::Warning, reason: "PlanBroken".to_owned(), note })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
