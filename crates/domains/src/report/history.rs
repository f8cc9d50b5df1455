//! `dns history`: what was known of a domain at a time, or all that changed.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;

use super::{Colour, Style, Table};
use crate::history::past::{Fact, Past, Recorded, not_looked_at, second};
use crate::history::{Change, Field, HISTORY_MAX, OWNERSHIP_HISTORY_MAX};

/// What the history says.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum HistoryReport {
    /// What was known at a time.
    Then(Past),
    /// Everything that is kept.
    All(Changes),
}

/// All changes that are kept, the latest first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    pub domain: String,
    /// Nothing is known of what was before, nor of anything while it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_scan: Option<Timestamp>,
    /// Since when all changes are kept, where earlier ones were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_since: Option<Timestamp>,
    pub changes: Vec<Change>,
}

impl HistoryReport {
    /// All that changed.
    pub fn all(domain: &str, recorded: Recorded) -> Self {
        let kept_since = recorded.kept_since(Field::Health);
        let Recorded { first_scan, history: changes, .. } = recorded;
        Self::All(Changes { domain: domain.to_owned(), first_scan, kept_since, changes })
    }

    /// In a sentence.
    pub fn summary(&self) -> String {
        match self {
            Self::Then(Past { unknown: Some(why), .. }) => format!("unknown: {why}"),
            Self::Then(past) => {
                let known = past.facts.iter().filter(|fact| fact.value.is_some()).count();
                let (domain, at) = (&past.domain, second(past.at));
                format!("{domain} as it was known at {at}: {known} of {} facts", past.facts.len())
            }
            Self::All(report) if report.first_scan.is_none() => not_looked_at(&report.domain),
            Self::All(Changes { domain, changes, .. }) if changes.is_empty() => {
                format!("{domain}: nothing has changed")
            }
            Self::All(Changes { domain, changes, .. }) => format!("{domain}: {} changes are kept", changes.len()),
        }
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        match self {
            Self::Then(past) => then(past, style),
            Self::All(changes) => all(changes, style),
        }
    }
}

fn then(past: &Past, style: Style) -> String {
    let title = format!("{} as it was known at {}", past.domain, second(past.at));
    let mut text = format!("{}\n", style.paint(Colour::Bold, &title));
    if let Some(why) = &past.unknown {
        let _ = writeln!(text, "  unknown: {why}");
        return text;
    }
    let mut table = Table::indented(2);
    table.heading(&["WHAT", "VALUE", "KNOWN FROM", "UNTIL"]);
    for Fact { field, value, unknown, since, until } in &past.facts {
        let (value, colour) = match (value, unknown) {
            (Some(value), _) => (shown(value), None),
            (None, Some(why)) => (format!("unknown: {why}"), Some(Colour::Yellow)),
            (None, None) => ("unknown".to_owned(), Some(Colour::Yellow)),
        };
        let time = |at: &Option<Timestamp>| at.map(second).unwrap_or_default();
        table.row([
            (field.words().to_owned(), None),
            (value, colour),
            (time(since), Some(Colour::Dim)),
            (time(until), Some(Colour::Dim)),
        ]);
    }
    text.push_str(&table.render(style));
    text
}

fn all(report: &Changes, style: Style) -> String {
    let mut text = format!("{}\n", style.paint(Colour::Bold, &report.domain));
    if report.first_scan.is_none() {
        let _ = writeln!(text, "  unknown: {}", not_looked_at(&report.domain));
    }
    if report.changes.is_empty() && report.first_scan.is_some() {
        text.push_str("  nothing has changed\n");
    }
    if !report.changes.is_empty() {
        let mut table = Table::indented(2);
        table.heading(&["NOTICED", "WHAT", "FROM", "TO"]);
        for change in &report.changes {
            table.row([
                (second(change.at), Some(Colour::Dim)),
                (change.field.words().to_owned(), None),
                (shown(&change.old), None),
                (shown(&change.new), None),
            ]);
        }
        text.push_str(&table.render(style));
    }
    if let Some(since) = report.kept_since {
        let _ = writeln!(
            text,
            "The last {HISTORY_MAX} changes are kept, and {OWNERSHIP_HISTORY_MAX} of who has the domain: before {} some are missing.",
            second(since)
        );
    }
    if let Some(first) = report.first_scan {
        let _ = writeln!(text, "It was looked at for the first time at {}; nothing is known of before.", second(first));
    }
    text
}

fn shown(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(status: Value) -> (String, String) {
        let domain = json!({"metadata": {"creationTimestamp": "2026-11-18T10:00:00Z"}, "status": status});
        let report = HistoryReport::all("q7.io", Recorded::of(&domain).expect("a status"));
        (report.summary(), report.text(Style::Plain))
    }

    #[test]
    fn of_a_domain_that_nobody_has_looked_at_nothing_is_known_rather_than_nothing_changed() {
        let waiting = json!({"conditions": [
            {"type": "Healthy", "status": "Unknown", "reason": "QuotaExceeded", "message": "", "lastTransitionTime": null},
        ]});
        for status in [Value::Null, waiting] {
            let (summary, text) = told(status);
            assert_eq!(summary, "q7.io has not been looked at yet");
            assert_eq!(text, "q7.io\n  unknown: q7.io has not been looked at yet\n");
        }
    }

    #[test]
    fn of_a_domain_that_was_looked_at_it_is_said_since_when() {
        let scan = json!({"firstScan": "2026-11-18T11:00:00Z", "lastScan": "2026-11-18T12:00:00Z"});
        let (summary, text) = told(scan);
        assert_eq!(summary, "q7.io: nothing has changed");
        assert!(text.contains("for the first time at 2026-11-18T11:00:00Z"), "{text}");
        // A status of a version that did not write down when it began.
        let (_, text) = told(json!({"lastScan": "2026-11-18T12:00:00Z"}));
        assert!(text.contains("for the first time at 2026-11-18T10:00:00Z"), "{text}");
    }
}
