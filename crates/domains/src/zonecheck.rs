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
mod grounds;
#[cfg(test)]
mod levels;
mod nameserver;
mod probe;
mod spf;
mod syntax;
mod undelegated;
mod zone;

use std::collections::HashSet;
use std::net::IpAddr;

use serde::Serialize;

use self::probe::{Probe, Server};
use crate::evidence::Evidence;
use crate::resolve::Run;
use crate::verdict::Severity;
use crate::wire::{Name, show_name};

pub use facts::Facts;
pub use undelegated::{Undelegated, UndelegatedError};

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
    /// The server that it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The address of that server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// What was asked and answered; nothing for mere information. A packet is with the worst finding that rests on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
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

/// Exchanges that one finding rests on and that are told: more of the same prove nothing more.
const EVIDENCE_MAX: usize = 4;
/// Bytes of packets in one report.
const PACKETS_BYTES_MAX: usize = 96 * 1024;

/// Collects what a case finds.
pub(crate) struct Findings {
    case: &'static str,
    all: Vec<Finding>,
    cases: Vec<&'static str>,
    /// What the next finding is about.
    about: Option<(String, IpAddr)>,
    evidence: Vec<Evidence>,
}

impl Findings {
    fn new() -> Self {
        Self { case: "", all: Vec::new(), cases: Vec::new(), about: None, evidence: Vec::new() }
    }

    /// The next finding is about this server, by its answer to this probe.
    fn at(&mut self, server: &Server, probe: Probe) -> &mut Self {
        self.about = Some((show_name(&server.name), server.address));
        self.evidence = server.evidence(probe).into_iter().collect();
        self
    }

    /// The next finding rests on these exchanges.
    fn by(&mut self, evidence: impl IntoIterator<Item = Evidence>) -> &mut Self {
        self.evidence = evidence.into_iter().take(EVIDENCE_MAX).collect();
        self
    }

    /// What follows belongs to this case.
    fn case(&mut self, case: &'static str) -> &mut Self {
        self.case = case;
        self.cases.push(case);
        self
    }

    fn add(&mut self, tag: &'static str, severity: Severity, message: impl Into<String>) {
        let (server, address) = self.about.take().unzip();
        let evidence = std::mem::take(&mut self.evidence);
        self.all.push(Finding { case: self.case, tag, severity, message: message.into(), server, address, evidence });
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
    judged(run, zone, Facts::gather(run, zone).await)
}

/// Checks a zone as if its parent delegated it like this.
pub async fn check_undelegated(run: &Run<'_>, zone: &Name, like: &Undelegated) -> ZoneCheck {
    judged(run, zone, Facts::gather_undelegated(run, zone, like).await)
}

fn judged(run: &Run<'_>, zone: &Name, facts: Facts) -> ZoneCheck {
    let mut findings = Findings::new();
    judge(&facts, &mut findings);
    let Findings { all: mut findings, cases, .. } = findings;
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.case.cmp(b.case)));
    findings.dedup();
    for finding in findings.iter_mut().filter(|finding| finding.severity == Severity::Info) {
        finding.evidence.clear();
    }
    let told = findings.iter_mut().filter(|finding| finding.severity > Severity::Info);
    for finding in told.filter(|finding| finding.evidence.is_empty()) {
        finding.evidence = grounds::of(&facts, finding.case).into_iter().take(EVIDENCE_MAX).collect();
    }
    keep_packets_once(&mut findings);
    ZoneCheck { zone: show_name(zone), findings, cases, questions: run.budget().asked() }
}

/// Leaves a packet only with the worst finding that rests on it.
fn keep_packets_once(findings: &mut [Finding]) {
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    for finding in findings {
        for evidence in &mut finding.evidence {
            let Some(packet) = &evidence.packet else { continue };
            let is_new = evidence.packet_sha256.as_ref().is_some_and(|digest| !seen.contains(digest));
            if is_new && bytes + packet.len() <= PACKETS_BYTES_MAX {
                bytes += packet.len();
                seen.extend(evidence.packet_sha256.clone());
            } else {
                evidence.packet = None;
            }
        }
    }
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
