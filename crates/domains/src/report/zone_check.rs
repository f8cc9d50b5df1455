//! `dns zone-check`: the findings, the worst first.

use std::fmt::Write;

use super::{Colour, Style, Table};
use crate::verdict::Severity;
use crate::zonecheck::ZoneCheck;

/// For people.
pub fn text(check: &ZoneCheck, style: Style) -> String {
    let mut table = Table::default();
    table.heading(&["LEVEL", "CASE", "FINDING"]);
    for finding in &check.findings {
        table.row([
            (finding.severity.to_string(), Some(Colour::of(finding.severity))),
            (finding.case.to_owned(), Some(Colour::Dim)),
            (finding.message.clone(), None),
        ]);
    }
    let mut text = table.render(style);
    let count = |severity| check.findings.iter().filter(|finding| finding.severity == severity).count();
    let verdict = match check.worst() {
        Severity::Info | Severity::Notice => format!("{} is in good order", check.zone),
        Severity::Warning => format!("{} works, but not as well as it could", check.zone),
        Severity::Error => format!("{} has faults that hurt", check.zone),
        Severity::Critical => format!("{} does not work", check.zone),
    };
    let _ = writeln!(
        text,
        "\n{verdict}: {} critical, {} errors, {} warnings, {} notices in {} test cases ({} questions asked).",
        count(Severity::Critical),
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Notice),
        check.cases.len(),
        check.questions
    );
    text
}
