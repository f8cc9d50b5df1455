//! `dns zone-check`: the findings, the worst first.

use std::fmt::Write;

use super::{Colour, Style, Table};
use crate::verdict::Severity;
use crate::zonecheck::{Finding, ZoneCheck};

/// For people.
pub fn text(check: &ZoneCheck, style: Style) -> String {
    let mut table = Table::default();
    table.heading(&["LEVEL", "CASE", "FINDING"]);
    for finding in &check.findings {
        table.row([
            (finding.severity.to_string(), Some(Colour::of(finding.severity))),
            (finding.case.to_owned(), Some(Colour::Dim)),
            (finding.message.clone(), None),
            (said_by(finding), Some(Colour::Dim)),
        ]);
    }
    let mut text = table.render(style);
    let _ = writeln!(text, "\n{} ({} questions asked).", verdict(check), check.questions);
    text
}

/// Servers that are named beside a finding; all of them are in JSON.
const SERVERS_SHOWN: usize = 4;

/// The servers whose answers show it, where the message does not name the one that it is about.
fn said_by(finding: &Finding) -> String {
    if finding.server.is_some() {
        return String::new();
    }
    let mut servers: Vec<String> = finding.evidence.iter().map(|evidence| evidence.server.clone()).collect();
    servers.dedup();
    let more = servers.len().saturating_sub(SERVERS_SHOWN);
    servers.truncate(SERVERS_SHOWN);
    servers.extend((more > 0).then(|| format!("{more} more")));
    if servers.is_empty() { String::new() } else { format!("said by {}", servers.join(", ")) }
}

/// In a sentence.
pub fn verdict(check: &ZoneCheck) -> String {
    let count = |severity| check.findings.iter().filter(|finding| finding.severity == severity).count();
    let verdict = match check.worst() {
        Severity::Info | Severity::Notice => format!("{} is in good order", check.zone),
        Severity::Warning => format!("{} works, but not as well as it could", check.zone),
        Severity::Error => format!("{} has faults that hurt", check.zone),
        Severity::Critical => format!("{} does not work", check.zone),
    };
    format!(
        "{verdict}: {} critical, {} errors, {} warnings, {} notices in {} test cases",
        count(Severity::Critical),
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Notice),
        check.cases.len()
    )
}
