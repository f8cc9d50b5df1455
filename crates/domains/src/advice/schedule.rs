//! When a change is seen everywhere, and the order that makes it painless: lower the TTL, wait until the old one has run
//! out everywhere, change, watch, raise it again. With dates.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::words;

/// When everybody sees something, and why then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub by: Timestamp,
    pub because: String,
}

/// A TTL that is short enough to change things and long enough not to burden anybody.
const LOWERED_TTL: u32 = 300;
/// What records go back to once nothing is changing.
const RAISED_TTL: u32 = 3_600;
/// How long a change is watched before its TTL is raised.
const WATCHED: SignedDuration = SignedDuration::from_hours(24);

fn after(start: Timestamp, seconds: u32) -> Timestamp {
    start.checked_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(start)
}

/// A record that did not exist: visible to all once the last "does not exist" has run out.
pub fn forecast_new(created: Timestamp, negative_ttl: u32) -> Forecast {
    Forecast {
        by: after(created, negative_ttl),
        because: format!(
            "who asked just before it existed remembers that for {}; everybody else sees it at once",
            words(negative_ttl)
        ),
    }
}

/// A record that had another value: visible to all once the old TTL has run out.
pub fn forecast_change(changed: Timestamp, old_ttl: u32) -> Forecast {
    Forecast {
        by: after(changed, old_ttl),
        because: format!("who asked just before the change keeps the old value for its TTL of {}", words(old_ttl)),
    }
}

/// Nameservers that were changed at the registrar: the parent's TTL, the old servers' own TTL and the records on them count.
pub fn forecast_nameservers(changed: Timestamp, parent_ttl: u32, child_ttl: u32) -> Forecast {
    let longest = parent_ttl.max(child_ttl);
    Forecast {
        by: after(changed, longest),
        because: format!(
            "resolvers keep the old nameservers for up to {} (the parent zone says {}, the old zone {}); keep the old servers \
             answering until then",
            words(longest),
            words(parent_ttl),
            words(child_ttl)
        ),
    }
}

/// One step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Not before this time.
    pub at: Timestamp,
    pub action: Action,
    /// What to do and why, with the numbers.
    pub text: String,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Lower,
    Wait,
    Change,
    Seen,
    Raise,
}

/// The order in which to change a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub steps: Vec<Step>,
}

impl Schedule {
    /// For a record whose TTL is `ttl` now, at a provider that takes no TTL below `ttl_min`.
    pub fn for_change(ttl: u32, ttl_min: u32, now: Timestamp) -> Self {
        let lowered = LOWERED_TTL.max(ttl_min);
        let mut steps = Vec::new();
        let mut step = |at: Timestamp, action: Action, text: String| steps.push(Step { at, action, text });
        let (change_at, effective) = if ttl > lowered {
            step(now, Action::Lower, format!("lower the TTL from {ttl} to {lowered} seconds and change nothing else"));
            let ready = after(now, ttl);
            step(ready, Action::Wait, format!("wait {}: by then nobody remembers the long TTL", words(ttl)));
            (ready, lowered)
        } else {
            (now, ttl)
        };
        step(change_at, Action::Change, "change the value".to_owned());
        let seen = after(change_at, effective);
        step(
            seen,
            Action::Seen,
            format!("everybody sees the new value: the last old answer lived {}", words(effective)),
        );
        let raised = RAISED_TTL.max(effective);
        if raised > effective {
            let raise_at = seen.checked_add(WATCHED).unwrap_or(seen);
            step(raise_at, Action::Raise, format!("raise the TTL to {raised} seconds, once it has worked for a day"));
        }
        Self { steps }
    }

    /// For a record that does not exist yet.
    pub fn for_creation(negative_ttl: u32, ttl_min: u32, now: Timestamp) -> Self {
        let lowered = LOWERED_TTL.max(ttl_min);
        let forecast = forecast_new(now, negative_ttl);
        let raise_at = forecast.by.checked_add(WATCHED).unwrap_or(forecast.by);
        let mut steps = vec![
            Step {
                at: now,
                action: Action::Change,
                text: format!("create the record with a TTL of {lowered} seconds"),
            },
            Step { at: forecast.by, action: Action::Seen, text: format!("everybody sees it: {}", forecast.because) },
        ];
        if RAISED_TTL > lowered {
            let text = format!("raise the TTL to {RAISED_TTL} seconds, once it has worked for a day");
            steps.push(Step { at: raise_at, action: Action::Raise, text });
        }
        Self { steps }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T10:00:00Z".parse().expect("a time")
    }

    fn told(schedule: &Schedule) -> Vec<String> {
        schedule.steps.iter().map(|step| format!("{} {}", step.at, step.text)).collect()
    }

    #[test]
    fn a_long_ttl_is_lowered_waited_for_changed_and_raised() {
        assert_eq!(
            told(&Schedule::for_change(86_400, 60, now())),
            [
                "2026-11-16T10:00:00Z lower the TTL from 86400 to 300 seconds and change nothing else",
                "2026-11-17T10:00:00Z wait 1 day: by then nobody remembers the long TTL",
                "2026-11-17T10:00:00Z change the value",
                "2026-11-17T10:05:00Z everybody sees the new value: the last old answer lived 5 minutes",
                "2026-11-18T10:05:00Z raise the TTL to 3600 seconds, once it has worked for a day",
            ]
        );
    }

    #[test]
    fn a_short_ttl_is_changed_at_once_and_the_providers_minimum_is_kept() {
        let steps = told(&Schedule::for_change(300, 60, now()));
        assert_eq!(steps[0], "2026-11-16T10:00:00Z change the value");
        let steps = told(&Schedule::for_change(7200, 600, now()));
        assert_eq!(steps[0], "2026-11-16T10:00:00Z lower the TTL from 7200 to 600 seconds and change nothing else");
    }

    #[test]
    fn forecasts_have_a_time_and_a_reason() {
        let forecast = forecast_new(now(), 900);
        assert_eq!(forecast.by.to_string(), "2026-11-16T10:15:00Z");
        let forecast = forecast_nameservers(now(), 172_800, 3_600);
        assert_eq!(forecast.by.to_string(), "2026-11-18T10:00:00Z");
        assert!(forecast.because.contains("the parent zone says 2 days, the old zone 1 hour"));
    }

    proptest! {
        #[test]
        fn steps_are_in_order_and_nobody_sees_the_old_value_at_the_end(ttl in 0_u32..2_000_000, ttl_min in 0_u32..20_000) {
            let schedule = Schedule::for_change(ttl, ttl_min, now());
            prop_assert!(schedule.steps.is_sorted_by_key(|step| step.at));
            let at = |action| schedule.steps.iter().find(|step| step.action == action).map(|step| step.at);
            let (change, seen) = (at(Action::Change).expect("a change"), at(Action::Seen).expect("an end"));
            // At the change, every cached answer has at most the lowered TTL left.
            let lowered = ttl.min(LOWERED_TTL.max(ttl_min));
            prop_assert!(seen.duration_since(change).as_secs() >= i64::from(lowered));
        }
    }
}
