//! One tool with its arguments, and what it found. The command line, request objects of the API and the portal all make a
//! [`Check`] and show its [`Report`], so that they cannot disagree: one function runs each tool.

mod outlook;
mod run;

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dial;
use crate::plan::analysis::{Analysis, State};
use crate::plan::export::{self, Format};
use crate::plan::{Plan, ZoneFacts};
use crate::recursive::Via;
use crate::report::compare::CompareReport;
use crate::report::fqdn::{Endpoints, FqdnReport};
use crate::report::history::HistoryReport;
use crate::report::trace::TraceReport;
use crate::report::{Style, plan, scan, verification, zone_check};
use crate::scan::Scan;
use crate::verdict::Severity;
use crate::verification::challenge::DEFAULT_BRAND;
use crate::verification::decision::Outcome as Proof;
use crate::verification::{Challenge, Scope, Verdict};
use crate::zonecheck::ZoneCheck;

pub use outlook::{Outlook, Point};
pub use run::run;

/// Types that one analysis may ask for.
pub const TYPES_MAX: usize = 8;
/// Targets of a plan, and further resolvers of a comparison.
pub const LIST_MAX: usize = 16;

/// A tool and its arguments, as request objects write them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Check {
    /// Registration, delegation and SOA of a domain.
    Scan {
        /// A domain, or anything in it.
        name: String,
    },
    /// What to publish to prove control, and with a token, whether it is there.
    Verify {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        #[serde(default = "default_brand")]
        brand: String,
        /// The verifier's zone that a CNAME at the challenge name may lead into instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delegation_zone: Option<String>,
        /// The verifier's zone that has a nameserver for each token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nameserver_zone: Option<String>,
        #[serde(default)]
        scope: Scope,
        /// A label in front of the record's name that keeps several accounts apart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account_label: Option<String>,
    },
    /// The records that make a name lead somewhere.
    Plan {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Addresses or a host.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        targets: Vec<String>,
        /// Gateways and HTTPRoutes that name hosts and addresses, and Domains that are to be proved with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        objects: Vec<Value>,
        /// Look at what is live.
        #[serde(default)]
        analyze: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        export: Option<Format>,
    },
    /// What a name means from many places.
    Fqdn {
        name: String,
        #[serde(default = "default_types")]
        types: Vec<String>,
        #[serde(default)]
        endpoints: Endpoints,
    },
    /// The authoritative servers beside resolvers.
    Compare {
        name: String,
        #[serde(rename = "type", default = "default_type")]
        rtype: String,
        /// Further resolvers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resolvers: Vec<IpAddr>,
        #[serde(default)]
        via: Via,
    },
    /// Zonemaster's test cases.
    ZoneCheck {
        name: String,
        /// The least severity that is told.
        #[serde(default = "default_level")]
        level: Severity,
        /// Servers, as `NAME[/ADDRESS]`, that the parent is taken to delegate to instead of those it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        servers: Vec<String>,
        /// DS records that the parent would have with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        signers: Vec<String>,
    },
    /// What was known of a domain that is watched over, at a time, or all that changed.
    History {
        name: String,
        /// A day or a moment; all changes where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// The Domain, which whoever runs the check puts here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        objects: Vec<Value>,
    },
    /// Every question from the root down.
    Trace {
        name: String,
        #[serde(rename = "type", default = "default_type")]
        rtype: String,
        #[serde(default)]
        dnssec: Signatures,
    },
}

/// Whether signatures are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signatures {
    #[default]
    Check,
    Ignore,
}

fn default_brand() -> String {
    DEFAULT_BRAND.to_owned()
}

fn default_type() -> String {
    "A".to_owned()
}

fn default_types() -> Vec<String> {
    vec!["A".to_owned(), "AAAA".to_owned()]
}

fn default_level() -> Severity {
    Severity::Notice
}

/// Why a check gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The arguments are wrong; asking again changes nothing.
    #[error("{0}")]
    Arguments(String),
    /// Nothing could be found out; it may be different next time.
    #[error("{0}")]
    Failed(String),
}

impl Check {
    /// The tool's name, as it is written in requests.
    pub fn tool(&self) -> &'static str {
        match self {
            Self::Scan { .. } => "scan",
            Self::Verify { .. } => "verify",
            Self::Plan { .. } => "plan",
            Self::Fqdn { .. } => "fqdn",
            Self::Compare { .. } => "compare",
            Self::ZoneCheck { .. } => "zoneCheck",
            Self::History { .. } => "history",
            Self::Trace { .. } => "trace",
        }
    }

    /// A resolver that is named and is not public. Whoever runs checks for others refuses those: they lead into the network
    /// of the one who runs them.
    pub fn private_resolver(&self) -> Option<IpAddr> {
        match self {
            Self::Compare { resolvers, .. } => {
                resolvers.iter().copied().find(|address| dial::not_public(*address).is_some())
            }
            _ => None,
        }
    }

    /// The names that are asked about.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Scan { name }
            | Self::Verify { name, .. }
            | Self::Fqdn { name, .. }
            | Self::Compare { name, .. }
            | Self::ZoneCheck { name, .. }
            | Self::History { name, .. }
            | Self::Trace { name, .. } => vec![name.as_str()],
            Self::Plan { name, .. } => name.iter().map(String::as_str).collect(),
        }
    }
}

/// What a tool found.
#[derive(Clone, Debug)]
pub enum Report {
    Scan(Box<Scan>),
    /// What to publish.
    Instructions {
        challenge: Box<Challenge>,
        zone: Box<ZoneFacts>,
        at: Timestamp,
    },
    Verdict {
        challenge: Box<Challenge>,
        verdict: Box<Verdict>,
    },
    Plans {
        plans: Vec<Plan>,
        at: Timestamp,
        export: Option<Format>,
    },
    /// How plans stand, each beside its analysis.
    Analyses {
        plans: Vec<Plan>,
        analyses: Vec<Analysis>,
        at: Timestamp,
    },
    Fqdn(Vec<FqdnReport>),
    Compare(Box<CompareReport>),
    ZoneCheck(Box<ZoneCheck>),
    History(Box<HistoryReport>),
    Trace(Box<TraceReport>),
}

/// For programs: what `-o json` prints.
impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scan(scan) => scan.serialize(serializer),
            Self::Instructions { challenge, .. } => challenge.serialize(serializer),
            Self::Verdict { verdict, .. } => verdict.serialize(serializer),
            Self::Plans { plans, .. } => plans.serialize(serializer),
            Self::Analyses { analyses, .. } => analyses.serialize(serializer),
            Self::Fqdn(reports) => reports.serialize(serializer),
            Self::Compare(report) => report.serialize(serializer),
            Self::ZoneCheck(check) => check.serialize(serializer),
            Self::History(report) => report.serialize(serializer),
            Self::Trace(report) => report.serialize(serializer),
        }
    }
}

impl Report {
    /// For people: what the command line prints.
    pub fn text(&self, style: Style) -> String {
        match self {
            Self::Scan(found) => scan::text(found, style),
            Self::Instructions { challenge, zone, at } => {
                let told = verification::instructions(challenge, &zone.zone, zone.provider.provider(), *at, style);
                format!("{told}\nThen: {}\n", verification::command(challenge))
            }
            Self::Verdict { challenge, verdict } => verification::verdict(challenge, verdict, style),
            Self::Plans { plans, export: Some(format), .. } => {
                plans.iter().map(|plan| export::export(plan, *format)).collect()
            }
            Self::Plans { plans, at, .. } => plans.iter().map(|planned| plan::plan(planned, *at, style)).collect(),
            Self::Analyses { plans, analyses, at } => {
                let told = plans.iter().zip(analyses).map(|(planned, found)| match found.is_done() {
                    true => plan::analysis(found, style),
                    // What is still to be done stands before how far it is.
                    false => format!("{}{}", plan::plan(planned, *at, style), plan::analysis(found, style)),
                });
                told.collect()
            }
            Self::Fqdn(reports) => reports.iter().map(|report| report.text(style)).collect::<Vec<_>>().join("\n"),
            Self::Compare(report) => report.text(style),
            Self::ZoneCheck(check) => zone_check::text(check, style),
            Self::History(report) => report.text(style),
            Self::Trace(report) => report.text(style),
        }
    }

    /// In a sentence or two.
    pub fn summary(&self) -> String {
        match self {
            Self::Scan(scan) => match scan.findings.first() {
                Some(worst) => format!("{}: {}", scan.subject.registered, worst.text),
                None => format!("{}: nothing to worry about", scan.subject.registered),
            },
            Self::Instructions { challenge, .. } => {
                format!("create TXT {} with {}", challenge.record_name(), challenge.record_value())
            }
            Self::Verdict { challenge, verdict } => {
                let domain = &challenge.domain;
                let why = verdict.findings.first().map(|finding| finding.sentence()).unwrap_or_default();
                match verdict.outcome {
                    Proof::Verified(_) => format!("{domain} is verified: {why}"),
                    Proof::Pending => format!("{domain} is not verified yet: {why}"),
                    Proof::Expired => format!("the token for {domain} is too old"),
                }
            }
            Self::Plans { plans, .. } => {
                let records: usize = plans.iter().map(|plan| plan.records.len() + plan.proofs.len()).sum();
                let refused = plans.iter().flat_map(|plan| &plan.refusals).map(|refusal| refusal.reason.clone());
                let told = (records > 0).then(|| format!("{records} records to create"));
                told.into_iter().chain(refused).collect::<Vec<_>>().join("; ")
            }
            Self::Analyses { analyses, .. } => {
                let all = analyses.iter().flat_map(|analysis| &analysis.records);
                let (count, live) = all.fold((0, 0), |(count, live), report| {
                    (count + 1, live + usize::from(matches!(report.state, State::Match)))
                });
                let standing = match analyses.iter().all(Analysis::is_done) {
                    true => "everything is as planned, for everybody".to_owned(),
                    false => format!("{live} of {count} records are as planned"),
                };
                let services = analyses.iter().flat_map(|analysis| &analysis.services);
                let unready = services.flat_map(|service| {
                    let unready = service.endpoints.iter().filter(|endpoint| !endpoint.is_ready);
                    unready.map(|one| format!("https://{} at {}: {}", service.host, one.address, one.verdict))
                });
                std::iter::once(standing).chain(unready).collect::<Vec<_>>().join("; ")
            }
            Self::Fqdn(reports) => reports
                .iter()
                .map(|report| format!("{}: {}", report.rtype, report.summary))
                .collect::<Vec<_>>()
                .join(" "),
            Self::Compare(report) => report.summary.clone(),
            Self::ZoneCheck(check) => zone_check::verdict(check),
            Self::History(report) => report.summary(),
            Self::Trace(report) => report.conclusion(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Check {
        serde_json::from_value(value).expect("a check")
    }

    #[test]
    fn a_request_needs_a_tool_and_a_name_and_has_defaults_for_the_rest() {
        assert_eq!(read(json!({"tool": "scan", "name": "q7.io"})), Check::Scan { name: "q7.io".into() });
        let fqdn =
            Check::Fqdn { name: "q7.io".into(), types: vec!["A".into(), "AAAA".into()], endpoints: Endpoints::Look };
        assert_eq!(read(json!({"tool": "fqdn", "name": "q7.io", "ttlSecondsAfterFinished": 3})), fqdn);
        let zone = Check::ZoneCheck {
            name: "q7.io".into(),
            level: Severity::Notice,
            servers: Vec::new(),
            signers: Vec::new(),
        };
        assert_eq!(read(json!({"tool": "zoneCheck", "name": "q7.io"})), zone);
        let compare =
            read(json!({"tool": "compare", "name": "q7.io", "type": "MX", "via": "tls", "resolvers": ["9.9.9.9"]}));
        assert!(matches!(compare, Check::Compare { rtype, via: Via::Tls, .. } if rtype == "MX"));
        assert!(serde_json::from_value::<Check>(json!({"tool": "guess", "name": "q7.io"})).is_err());
    }

    #[test]
    fn resolvers_inside_a_network_are_recognised() {
        let compare =
            |address: &str| read(json!({"tool": "compare", "name": "q7.io", "resolvers": ["9.9.9.9", address]}));
        assert_eq!(compare("1.1.1.1").private_resolver(), None);
        for address in ["10.0.0.53", "169.254.169.254", "::1"] {
            assert_eq!(compare(address).private_resolver().map(|found| found.to_string()).as_deref(), Some(address));
        }
    }

    #[test]
    fn every_form_of_export_has_the_name_that_the_definition_has() {
        for name in ["zoneFile", "dnscontrol", "octodns", "domainConnect"] {
            let plan = read(json!({"tool": "plan", "name": "q7.io", "targets": ["192.0.2.1"], "export": name}));
            assert_eq!(serde_json::to_value(&plan).expect("JSON")["export"], name);
        }
    }
}
