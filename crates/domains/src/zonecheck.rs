//! Zonemaster's test cases, with its tags and severities: everything that can be said about a zone by asking its parent's
//! servers and its own. All questions are asked first ([`Facts`]); the cases are pure functions of the answers.

mod address;
mod basic;
mod connectivity;
mod consistency;
mod delegation;
mod dnssec;
mod dnssec_cds;
mod dnssec_chain;
mod facts;
mod nameserver;
mod probe;
mod spf;
mod syntax;
mod zone;

use serde::Serialize;

use crate::resolve::Run;
use crate::verdict::Severity;
use crate::wire::{Name, show_name};

pub use facts::Facts;

/// Questions that one check may ask: some twenty for each server, and a zone has up to thirteen with two addresses each.
pub const MAX_CHECK_QUESTIONS: usize = 1500;

/// Something that a test case found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The test case, such as `DELEGATION01`.
    pub case: &'static str,
    /// Zonemaster's tag for the message.
    pub tag: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, in words.
    pub message: String,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneCheck {
    /// The zone.
    pub zone: String,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// The test cases that were run.
    pub cases: Vec<&'static str>,
    /// Questions asked.
    pub questions: usize,
}

impl ZoneCheck {
    /// The worst severity found.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Info)
    }
}

/// Collects what a case finds.
pub(crate) struct Findings {
    case: &'static str,
    all: Vec<Finding>,
    cases: Vec<&'static str>,
}

impl Findings {
    fn new() -> Self {
        Self { case: "", all: Vec::new(), cases: Vec::new() }
    }

    /// What follows belongs to this case.
    fn case(&mut self, case: &'static str) -> &mut Self {
        self.case = case;
        self.cases.push(case);
        self
    }

    fn add(&mut self, tag: &'static str, severity: Severity, message: impl Into<String>) {
        self.all.push(Finding { case: self.case, tag, severity, message: message.into() });
    }

    fn info(&mut self, tag: &'static str, message: impl Into<String>) {
        self.add(tag, Severity::Info, message);
    }

    fn notice(&mut self, tag: &'static str, message: impl Into<String>) {
        self.add(tag, Severity::Notice, message);
    }

    fn warning(&mut self, tag: &'static str, message: impl Into<String>) {
        self.add(tag, Severity::Warning, message);
    }

    fn error(&mut self, tag: &'static str, message: impl Into<String>) {
        self.add(tag, Severity::Error, message);
    }

    fn critical(&mut self, tag: &'static str, message: impl Into<String>) {
        self.add(tag, Severity::Critical, message);
    }
}

/// Checks a zone.
pub async fn check(run: &Run<'_>, zone: &Name) -> ZoneCheck {
    let facts = Facts::gather(run, zone).await;
    let mut findings = Findings::new();
    judge(&facts, &mut findings);
    let Findings { all: mut findings, cases, .. } = findings;
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.case.cmp(b.case)));
    findings.dedup();
    ZoneCheck { zone: show_name(zone), findings, cases, questions: run.budget().asked() }
}

/// All cases, in Zonemaster's order.
fn judge(facts: &Facts, findings: &mut Findings) {
    basic::check(facts, findings);
    if facts.servers.is_empty() {
        return;
    }
    address::check(facts, findings);
    connectivity::check(facts, findings);
    consistency::check(facts, findings);
    dnssec::check(facts, findings);
    dnssec_chain::check(facts, findings);
    dnssec_cds::check(facts, findings);
    delegation::check(facts, findings);
    nameserver::check(facts, findings);
    syntax::check(facts, findings);
    zone::check(facts, findings);
}
