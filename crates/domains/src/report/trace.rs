//! `dns trace`: every step of an uncached resolution.

use std::fmt::Write;

use serde::Serialize;

use super::{Colour, Style, Table};
use crate::dnssec::{Status, Validation};
use crate::name::DomainName;
use crate::provider::{Detection, detect};
use crate::resolve::{AddressSource, AliasKind, Outcome, Reply, Resolution, Says, Step};
use crate::seams::Family;
use crate::verdict::{self, Severity, Verdict};
use crate::wire::{Name, RecordView, Section, show_name, type_text};

/// A server in a step.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerReport {
    /// Its name.
    pub server: String,
    /// Its address.
    pub address: String,
    /// Which internet.
    pub family: Family,
    /// How long the answer took, in milliseconds.
    pub rtt_ms: f64,
    /// Whether it answered at all.
    pub answered: bool,
    /// What it said.
    pub says: String,
    /// What is to be said about it.
    pub verdicts: Vec<Verdict>,
    /// The answer's bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
}

/// A cut.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// The zone.
    pub zone: String,
    /// What its servers were asked.
    pub question: String,
    /// What they led to, in a sentence.
    pub conclusion: String,
    /// Whether usable answers differed.
    pub servers_disagree: bool,
    /// Servers without addresses.
    pub without_address: Vec<String>,
    /// The servers.
    pub servers: Vec<ServerReport>,
}

/// A link of an alias chain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AliasReport {
    /// The name.
    pub name: String,
    /// The owner of the record: the name, or with a DNAME a name above it.
    pub owner: String,
    /// CNAME or DNAME.
    pub kind: AliasKind,
    /// What it stands for.
    pub target: String,
    /// For how long that may be remembered.
    pub ttl: u32,
    /// The zone that says so.
    pub zone: String,
    /// Who serves that zone, where it is somebody known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How far this link can be trusted, where that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<Status>,
}

/// The whole trace.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceReport {
    /// What was asked.
    pub name: String,
    /// What was asked.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The steps from the root.
    pub steps: Vec<StepReport>,
    /// The aliases on the way.
    pub aliases: Vec<AliasReport>,
    /// How it ended.
    pub outcome: Outcome,
    /// The records found.
    pub records: Vec<RecordView>,
    /// How far they can be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<Validation>,
    /// Questions asked.
    pub questions: usize,
}

impl TraceReport {
    /// Of a resolution and, when it was made, its validation.
    pub fn new(resolution: &Resolution, dnssec: Option<Validation>) -> Self {
        Self {
            name: show_name(&resolution.question.name),
            rtype: type_text(resolution.question.rtype),
            steps: resolution.steps.iter().map(step_report).collect(),
            aliases: alias_reports(resolution, dnssec.as_ref()),
            outcome: resolution.outcome.clone(),
            records: resolution.records.iter().map(RecordView::from).collect(),
            dnssec,
            questions: resolution.questions,
        }
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let _ = writeln!(
                text,
                "{} {}",
                style.paint(Colour::Bold, &format!("{} ", if step.zone == "." { "the root" } else { &step.zone })),
                style.paint(Colour::Dim, &format!("asked for {}", step.question))
            );
            text.push_str(&servers_table(step).render(style));
            for server in &step.without_address {
                let _ = writeln!(text, "  {server}  {}", style.paint(Colour::Red, "has no address"));
            }
            if step.servers_disagree {
                let _ = writeln!(text, "  {}", style.paint(Colour::Yellow, "the servers do not agree"));
            }
            let _ = writeln!(text, "  → {}\n", step.conclusion);
        }
        text.push_str(&self.summary(style));
        text
    }

    /// How it ended, in a sentence.
    pub fn conclusion(&self) -> String {
        match &self.outcome {
            Outcome::Found => {
                let data: Vec<&str> = self.records.iter().map(|record| record.data.as_str()).collect();
                format!("{} {} is {}", self.name, self.rtype, data.join(" "))
            }
            Outcome::NoData => format!("{} exists and has no {}", self.name, self.rtype),
            Outcome::NxDomain => format!("{} does not exist", self.name),
            Outcome::Broken { reason } => reason.to_string(),
        }
    }

    fn summary(&self, style: Style) -> String {
        let mut text = String::new();
        match &self.outcome {
            Outcome::Found => {
                let mut table = Table::indented(0);
                for record in &self.records {
                    let ttl = (record.ttl.to_string(), Some(Colour::Dim));
                    table.row([
                        (record.name.clone(), None),
                        ttl,
                        (record.rtype.clone(), None),
                        (record.data.clone(), None),
                    ]);
                }
                text.push_str(&table.render(style));
            }
            Outcome::NoData => {
                let _ = writeln!(text, "{} exists but has no {} records.", self.final_name(), self.rtype);
            }
            Outcome::NxDomain => {
                let _ = writeln!(text, "{} does not exist.", self.final_name());
            }
            Outcome::Broken { reason } => {
                let _ = writeln!(text, "{}", style.paint(Colour::Red, &format!("No answer: {reason}.")));
            }
        }
        if let Some(dnssec) = &self.dnssec {
            let _ = writeln!(text, "{}", dnssec_line(dnssec, style));
        }
        let _ = writeln!(
            text,
            "{}",
            style.paint(Colour::Dim, &format!("{} questions asked, no cache used", self.questions))
        );
        text
    }

    fn final_name(&self) -> &str {
        self.aliases.last().map_or(&self.name, |alias| &alias.target)
    }
}

/// One line about how far an answer can be trusted.
pub(super) fn dnssec_line(dnssec: &Validation, style: Style) -> String {
    let colour = match dnssec.status {
        Status::Secure => Colour::Green,
        Status::Insecure => Colour::Dim,
        Status::Indeterminate => Colour::Yellow,
        Status::Bogus => Colour::Red,
    };
    format!("DNSSEC {}: {}", style.paint(colour, dnssec.status.word()), dnssec.reason)
}

/// The aliases of a resolution, each with what its validation found about it.
pub(super) fn alias_reports(resolution: &Resolution, dnssec: Option<&Validation>) -> Vec<AliasReport> {
    let report = |alias: &crate::resolve::Alias| {
        let name = show_name(&alias.name);
        let judged = dnssec.and_then(|dnssec| dnssec.answers.iter().find(|answer| answer.name == name));
        AliasReport {
            owner: show_name(&alias.owner),
            kind: alias.kind,
            target: show_name(&alias.target),
            ttl: alias.ttl,
            zone: show_name(&alias.zone),
            provider: match provider_of(resolution, &alias.zone) {
                Detection::Unknown => None,
                known => Some(known.display()),
            },
            dnssec: judged.map(|answer| answer.status),
            name,
        }
    };
    resolution.aliases.iter().map(report).collect()
}

/// Who serves a zone that the resolution passed, by the names of its servers.
pub(super) fn provider_of(resolution: &Resolution, zone: &Name) -> Detection {
    let step = resolution.steps.iter().find(|step| step.cut.zone == *zone);
    let servers = step.iter().flat_map(|step| &step.cut.servers);
    let names: Vec<DomainName> =
        servers.filter_map(|server| DomainName::parse(&show_name(&server.name)).ok()).collect();
    detect(&names, &[])
}

fn servers_table(step: &StepReport) -> Table {
    let mut table = Table::indented(2);
    for server in &step.servers {
        let worst = server.verdicts.iter().map(Verdict::severity).max().unwrap_or(Severity::Info);
        let words: Vec<String> = server.verdicts.iter().map(Verdict::to_string).collect();
        let rtt = if server.answered { format!("{:.1} ms", server.rtt_ms) } else { "-".to_owned() };
        table.row([
            (server.server.clone(), None),
            (server.address.clone(), None),
            (rtt, Some(Colour::Dim)),
            (server.says.clone(), None),
            (words.join("; "), Some(Colour::of(worst))),
        ]);
    }
    table
}

fn step_report(step: &Step) -> StepReport {
    let without_address = step.cut.servers.iter().filter(|server| server.addresses.is_empty());
    StepReport {
        zone: show_name(&step.cut.zone),
        question: step.question.to_string(),
        conclusion: conclusion(step),
        servers_disagree: step.groups.len() > 1,
        without_address: without_address.map(|server| show_name(&server.name)).collect(),
        servers: step.replies.iter().map(server_report).collect(),
    }
}

/// One server's part in a step.
pub(super) fn server_report(reply: &Reply) -> ServerReport {
    use base64::Engine as _;
    let address = reply.exchange.server.ip();
    let wire = reply.exchange.answer().map(|answer| base64::engine::general_purpose::STANDARD.encode(answer.wire()));
    ServerReport {
        server: show_name(&reply.server),
        address: address.to_string(),
        family: Family::of(address),
        rtt_ms: reply.exchange.rtt.as_secs_f64() * 1000.0,
        answered: reply.exchange.answer().is_some(),
        says: says_text(reply),
        verdicts: verdict::judge(reply),
        wire,
    }
}

fn says_text(reply: &Reply) -> String {
    match &reply.says {
        Says::Referral(zone) => format!("refers to {}", show_name(zone)),
        Says::Answer => "answers".to_owned(),
        Says::Alias(alias) => format!("alias of {}", show_name(&alias.target)),
        Says::AliasTooLong(_) => "alias too long".to_owned(),
        Says::NoData => "no such records".to_owned(),
        Says::NxDomain => "no such name".to_owned(),
        Says::Lame(_) => "no use".to_owned(),
        Says::Silent => "-".to_owned(),
    }
}

fn conclusion(step: &Step) -> String {
    let Some(reply) = step.chosen_reply() else {
        return "no usable answer".to_owned();
    };
    match &reply.says {
        Says::Referral(zone) => {
            let answer = reply.exchange.answer();
            let names = answer
                .into_iter()
                .flat_map(|answer| answer.rrset(Section::Authority, zone, crate::wire::RecordType::NS));
            let names: Vec<String> =
                names.map(|record| crate::wire::rdata_text(record).trim_end_matches('.').to_owned()).collect();
            format!("{} is delegated to {}", show_name(zone), names.join(", "))
        }
        Says::Answer => "the answer".to_owned(),
        Says::Alias(alias) => match alias.kind {
            AliasKind::Cname => format!("{} is an alias of {}", show_name(&alias.name), show_name(&alias.target)),
            AliasKind::Dname => format!(
                "all names below {} are aliases; this one of {}",
                show_name(&alias.owner),
                show_name(&alias.target)
            ),
        },
        Says::AliasTooLong(owner) => format!("the DNAME at {} makes a name that is too long", show_name(owner)),
        Says::NoData => format!("there is no {}", step.question),
        Says::NxDomain => format!("{} does not exist", show_name(&step.question.name)),
        Says::Lame(_) | Says::Silent => "no usable answer".to_owned(),
    }
}

/// How the address of a server was learnt, in a word.
pub fn source_text(source: AddressSource) -> &'static str {
    match source {
        AddressSource::Hint => "hint",
        AddressSource::Glue => "glue",
        AddressSource::Lookup => "lookup",
    }
}
