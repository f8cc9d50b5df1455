//! A plan and its analysis as text.

use jiff::Timestamp;

use crate::advice::Schedule;
use crate::plan::analysis::{Analysis, State, Way};
use crate::plan::{Plan, Refusal};
use crate::provider::Detection;

use super::fqdn::endpoints_table;
use super::{Colour, Style, Table, time_text};

/// The records to create, what is refused, and when to do what.
pub fn plan(plan: &Plan, now: Timestamp, style: Style) -> String {
    let provider = plan.zone.provider.provider();
    let mut out = String::new();
    if !plan.records.is_empty() || !plan.proofs.is_empty() {
        let zone = &plan.zone.zone;
        let title = match &plan.zone.provider {
            Detection::Unknown => format!("Create in {zone}"),
            known => format!("Create in {zone} at {}", known.display()),
        };
        out.push_str(&format!("{}\n", style.paint(Colour::Bold, &title)));
        let mut table = Table::indented(2);
        table.heading(&["TYPE", &provider.labels.name.to_uppercase(), &provider.labels.value.to_uppercase(), "TTL"]);
        for record in &plan.records {
            table.row([
                (record.kind.as_str().to_owned(), None),
                (provider.show_name(&record.typed.name), None),
                (record.typed.value.clone(), None),
                (record.ttl.to_string(), None),
            ]);
        }
        for proof in &plan.proofs {
            table.row([
                ("TXT".to_owned(), None),
                (provider.show_name(&proof.typed.name), None),
                (proof.typed.value.clone(), None),
                (proof.ttl.to_string(), None),
            ]);
        }
        out.push_str(&table.render(style));
        for note in &plan.notes {
            out.push_str(&format!("  {note}\n"));
        }
    }
    out.push_str(&refusals(&plan.refusals, style));
    if !plan.records.is_empty() && !plan.schedule.steps.is_empty() {
        out.push_str(&format!("{}\n", style.paint(Colour::Bold, "When")));
        out.push_str(&schedule(&plan.schedule, now, style));
    }
    for change in &plan.changes {
        let title = format!(
            "When {} changes from {} (TTL {}) to {}",
            change.host,
            change.found.join(", "),
            change.ttl,
            change.planned.join(", ")
        );
        out.push_str(&format!("{}\n", style.paint(Colour::Bold, &title)));
        out.push_str(&schedule(&change.schedule, now, style));
        let at_once = time_text(change.seen.by, now);
        out.push_str(&format!("  changed at once, everybody sees it by {at_once}: {}\n", change.seen.because));
        out.push_str(&format!("  {}\n", change.rollback));
    }
    out
}

fn schedule(schedule: &Schedule, now: Timestamp, style: Style) -> String {
    let mut table = Table::indented(2);
    for step in &schedule.steps {
        table.row([(time_text(step.at, now), Some(Colour::Dim)), (step.text.clone(), None)]);
    }
    table.render(style)
}

fn refusals(refusals: &[Refusal], style: Style) -> String {
    let mut out = String::new();
    for refusal in refusals {
        out.push_str(&format!("{}\n", style.paint(Colour::Red, &format!("Not possible: {}", refusal.reason))));
        for alternative in &refusal.alternatives {
            out.push_str(&format!("  instead: {alternative}\n"));
        }
    }
    out
}

/// The way to a planned name, zone by zone.
fn way(way: &Way, style: Style) -> String {
    let title = format!("{}, asked from the root without any cache", way.question);
    let mut table = Table::indented(2);
    for step in &way.steps {
        let answered = step.servers.iter().filter(|server| server.answered).count();
        let zone = if step.zone == "." { "the root".to_owned() } else { step.zone.clone() };
        let count = format!("{answered} of {} servers", step.servers.len());
        table.row([(zone, None), (count, Some(Colour::Dim)), (step.conclusion.clone(), None)]);
    }
    format!("{}\n{}", style.paint(Colour::Bold, &title), table.render(style))
}

/// How each record stands.
pub fn analysis(analysis: &Analysis, style: Style) -> String {
    let mut table = Table::default();
    table.heading(&["RECORD", "TYPE", "WANTED", "STATE", ""]);
    for report in &analysis.records {
        let (colour, state, detail) = match &report.state {
            State::Match => (Colour::Green, "Match", String::new()),
            State::Missing => (Colour::Red, "Missing", String::new()),
            State::Wrong { found } => (Colour::Red, "Wrong", format!("found {found}")),
            State::Masked { by, found } => (Colour::Yellow, "Masked", format!("by {by}: found {found}")),
            State::Partial { with, without } => {
                let list = |names: &[crate::name::DomainName]| {
                    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                };
                (Colour::Yellow, "Partial", format!("on {}, not on {}", list(with), list(without)))
            }
            State::BlockedByCache { until, .. } => {
                (Colour::Yellow, "Blocked by cache", format!("until {}", time_text(*until, analysis.at)))
            }
            State::Unknown => (Colour::Yellow, "Unknown", String::new()),
        };
        table.row([
            (report.record.host.to_string(), None),
            (report.record.kind.as_str().to_owned(), None),
            (report.record.value.to_string(), None),
            (state.to_owned(), Some(colour)),
            (detail, None),
        ]);
    }
    for extra in &analysis.extras {
        table.row([
            (extra.name.to_string(), None),
            (extra.kind.to_string(), None),
            ("-".to_owned(), None),
            ("Extra".to_owned(), Some(Colour::Yellow)),
            (format!("found {}: {}", extra.value, extra.note), None),
        ]);
    }
    let mut out = table.render(style);
    for report in &analysis.records {
        for note in &report.notes {
            out.push_str(&format!("{}: {note}\n", report.record.host));
        }
    }
    out.push_str(&refusals(&analysis.refusals, style));
    for one in &analysis.ways {
        out.push_str(&way(one, style));
    }
    for service in &analysis.services {
        let title = format!("https://{}, called from every place", service.host);
        out.push_str(&format!(
            "{}\n{}",
            style.paint(Colour::Bold, &title),
            endpoints_table(&service.endpoints).render(style)
        ));
    }
    if analysis.is_done() {
        out.push_str(&format!("{}\n", style.paint(Colour::Green, "everything is as planned, for everybody")));
    }
    out
}
