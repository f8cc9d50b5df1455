//! Whether a name is proved, by what every authoritative server said to every vantage point. A pure function: the same
//! answers give the same verdict, and the answers are kept with it. The site's file is judged in [`super::site`] and, by the
//! same rule, in `visitors`.
//!
//! The rule is that of certificate authorities (multi-perspective corroboration): a place counts when all servers that
//! answered it have the proof; one place may disagree from three places on, two from seven on.

mod nameserver;

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, EvidenceAnswer, EvidenceDelegation};
use super::slip::{Slip, recognise, recognise_split};
use super::{Challenge, Method};
use crate::authority::{RecordKind, RecordValue, Said, Security, ServerAnswer, Survey};
use crate::name::DomainName;
use crate::quote::quote;

/// What was looked at, from one vantage point.
#[derive(Clone, Debug)]
pub struct Look {
    pub vantage_point: String,
    pub place: Place,
    /// What was seen, or why nothing was.
    pub seen: Result<Survey, String>,
}

/// Where the proof may stand, or may stand by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// `_<brand>-challenge.<domain>`.
    Challenge,
    /// The domain itself.
    Apex,
    /// The zone was typed although the form appends it.
    DoubledZone,
    /// Without the underscore in front.
    NoUnderscore,
    /// Below `www`.
    BelowWww,
}

impl Place {
    /// Where a proof counts.
    pub const REAL: [Self; 2] = [Self::Challenge, Self::Apex];
    /// Where it is looked for when it is not there.
    pub const MISTAKEN: [Self; 3] = [Self::DoubledZone, Self::NoUnderscore, Self::BelowWww];

    /// The name to ask for; none when there is no such name.
    pub fn name(self, challenge: &Challenge, zone: &DomainName) -> Option<DomainName> {
        let right = challenge.record_name();
        match self {
            Self::Challenge => Some(right),
            Self::Apex => Some(challenge.domain.clone()),
            Self::DoubledZone => DomainName::parse(&format!("{right}.{zone}")).ok(),
            Self::NoUnderscore => DomainName::parse(right.as_str().trim_start_matches('_')).ok(),
            Self::BelowWww => {
                let label = right.as_str().strip_suffix(challenge.domain.as_str())?;
                DomainName::parse(&format!("{label}www.{}", challenge.domain)).ok()
            }
        }
    }
}

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub outcome: Outcome,
    /// What the owner is told, the most useful first.
    pub findings: Vec<Finding>,
    pub evidence: Evidence,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Verified(Method),
    /// Not yet, or not everywhere.
    Pending,
    /// The token is too old: a new one is needed.
    Expired,
}

/// Something the owner should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finding {
    /// Every server of every place has it.
    Everywhere { name: DomainName, servers: usize, vantage_points: usize },
    /// Some servers have it and some do not.
    OnSomeServers { with: Vec<DomainName>, without: Vec<DomainName> },
    /// Some places see it and some do not.
    FromSomePlaces { with: Vec<String>, without: Vec<String> },
    /// A value that is nearly right.
    NearlyRight { name: DomainName, seen: String, expected: String, slip: Slip },
    /// The proof, or nearly it, stands at another name.
    WrongName { found_at: DomainName, expected_at: DomainName, place: Place },
    /// A record of another type stands there.
    WrongType { name: DomainName, kind: RecordKind, value: String },
    /// Nothing stands there.
    Absent { name: DomainName, negative_ttl: Option<u32> },
    /// A server did not answer.
    Silent { server: DomainName, address: IpAddr, reason: String },
    /// Nothing could be asked from a place.
    Unreachable { vantage_point: String, reason: String },
    /// Signatures do not fit: resolvers that check them see nothing.
    Bogus { zone: DomainName },
    /// The domain's parent delegates it to the nameserver that proves it.
    Delegated { domain: DomainName, nameserver: DomainName, vantage_points: usize },
    /// It delegates it to another nameserver of the same zone.
    OtherNameserver { domain: DomainName, seen: DomainName, expected: DomainName },
    /// The file is on the site, for all places or nearly all.
    OnSite { url: String, vantage_points: usize },
    /// The file is on the site for some places and not for others.
    OnSiteForSome { url: String, with: Vec<String>, without: Vec<String> },
    /// What is the matter with the site's file.
    Site { problem: String },
    /// The token's life is over.
    TokenExpired { at: Timestamp },
}

/// What one server's answer is to the challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Present(Method),
    Absent,
    Unknown,
}

/// How many vantage points may fail to see the proof.
pub(super) fn misses_allowed(vantage_points: usize) -> usize {
    match vantage_points {
        0..=2 => 0,
        3..=6 => 1,
        _ => 2,
    }
}

/// Decides. `looks` at real places count; those at mistaken ones only explain. A token whose life is over makes no new proof;
/// for one that holds already, decide with [`Challenge::of_held_proof`].
pub fn decide(challenge: &Challenge, looks: &[Look], now: Timestamp) -> Verdict {
    let evidence = evidence(challenge, looks, now);
    if challenge.is_expired(now) {
        let findings = vec![Finding::TokenExpired { at: challenge.expires_at }];
        return Verdict { outcome: Outcome::Expired, findings, evidence };
    }
    for place in Place::REAL {
        let here: Vec<&Look> = looks.iter().filter(|look| look.place == place).collect();
        let method = here.iter().find_map(|look| corroborates(challenge, look, now));
        let agreeing = here.iter().filter(|look| corroborates(challenge, look, now).is_some()).count();
        if let Some(method) = method
            && agreeing > 0
            && here.len() - agreeing <= misses_allowed(here.len())
        {
            let name = place.name(challenge, &challenge.domain).unwrap_or_else(|| challenge.domain.clone());
            let surveys = here.iter().filter_map(|look| look.seen.as_ref().ok());
            let servers = surveys.map(|survey| survey.answered().count()).max().unwrap_or(0);
            let mut findings = vec![Finding::Everywhere { name, servers, vantage_points: agreeing }];
            findings.extend(troubles(&here));
            return Verdict { outcome: Outcome::Verified(method), findings, evidence };
        }
    }
    if let Some(findings) = nameserver::proof(challenge, looks) {
        return Verdict { outcome: Outcome::Verified(Method::DnsNameserver), findings, evidence };
    }
    Verdict { outcome: Outcome::Pending, findings: explain(challenge, looks, now), evidence }
}

/// The method by which one vantage point sees the proof, if all servers that answered it do.
fn corroborates(challenge: &Challenge, look: &Look, now: Timestamp) -> Option<Method> {
    let survey = look.seen.as_ref().ok()?;
    if survey.security == Security::Bogus {
        return None;
    }
    let proofs: Vec<Proof> = survey.answers.iter().map(|answer| proof(challenge, look.place, answer, now)).collect();
    let answered = proofs.iter().filter(|proof| **proof != Proof::Unknown).count();
    // Most of the servers must have answered: one that is reachable alone may be the one that was taken over.
    if answered * 2 < proofs.len() || proofs.contains(&Proof::Absent) {
        return None;
    }
    proofs.iter().find_map(|proof| if let Proof::Present(method) = proof { Some(*method) } else { None })
}

fn proof(challenge: &Challenge, place: Place, answer: &ServerAnswer, now: Timestamp) -> Proof {
    let records = match &answer.said {
        Said::Records(records) => records,
        Said::NoData | Said::NoSuchName => return Proof::Absent,
        Said::Nothing(_) => return Proof::Unknown,
    };
    let by_text = if place == Place::Apex { Method::DnsTxtApex } else { Method::DnsTxt };
    let target = challenge.delegation_target();
    let found = records.iter().find_map(|record| match &record.value {
        RecordValue::Text(strings) if challenge.accepts(&strings.concat(), now) => Some(by_text),
        RecordValue::Name(name) if record.kind == RecordKind::Cname && Some(name) == target.as_ref() => {
            Some(Method::DnsDelegation)
        }
        _ => None,
    });
    found.map_or(Proof::Absent, Proof::Present)
}

fn evidence(challenge: &Challenge, looks: &[Look], now: Timestamp) -> Evidence {
    let mut answers = Vec::new();
    for look in looks.iter().filter(|look| Place::REAL.contains(&look.place)) {
        let Ok(survey) = &look.seen else { continue };
        answers.extend(survey.answers.iter().map(|answer| {
            let proof = proof(challenge, look.place, answer, now);
            EvidenceAnswer {
                vantage_point: look.vantage_point.clone(),
                name: survey.name.clone(),
                server: answer.server.clone(),
                address: answer.address,
                has_proof: matches!(proof, Proof::Present(_)),
                silent: proof == Proof::Unknown,
                security: survey.security,
                packet_sha256: answer.packet_sha256.clone(),
            }
        }));
    }
    let delegations = looks.iter().filter_map(|look| {
        let has_proof = nameserver::delegated(challenge, look)?;
        let survey = look.seen.as_ref().ok()?;
        Some(EvidenceDelegation {
            vantage_point: look.vantage_point.clone(),
            zone: survey.zone.clone(),
            nameservers: survey.nameservers.clone(),
            has_proof,
        })
    });
    let delegations = delegations.collect();
    Evidence { at: now, token: challenge.token.clone(), answers, delegations, site: None, sites_elsewhere: Vec::new() }
}

/// Servers and places that did not answer, and signatures that do not fit.
fn troubles(looks: &[&Look]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut tell = |finding: Finding| {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    };
    for look in looks {
        let survey = match &look.seen {
            Ok(survey) => survey,
            Err(reason) => {
                tell(Finding::Unreachable { vantage_point: look.vantage_point.clone(), reason: reason.clone() });
                continue;
            }
        };
        if survey.security == Security::Bogus {
            tell(Finding::Bogus { zone: survey.zone.clone() });
        }
        for answer in &survey.answers {
            if let Said::Nothing(reason) = &answer.said {
                tell(Finding::Silent {
                    server: answer.server.clone(),
                    address: answer.address,
                    reason: reason.clone(),
                });
            }
        }
    }
    findings
}

fn explain(challenge: &Challenge, looks: &[Look], now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in Place::REAL {
        let here: Vec<&Look> = looks.iter().filter(|look| look.place == place).collect();
        findings.extend(partial(challenge, &here, now));
    }
    for look in looks {
        let Ok(survey) = &look.seen else { continue };
        for finding in
            misplaced(challenge, look.place, survey, now).into_iter().chain(nearly(challenge, look.place, survey, now))
        {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings.extend(nameserver::nearly(challenge, looks));
    if findings.is_empty() {
        findings.extend(absent(challenge, looks, now));
    }
    let real: Vec<&Look> = looks.iter().filter(|look| Place::REAL.contains(&look.place)).collect();
    findings.extend(troubles(&real));
    findings
}

/// Present somewhere and not everywhere.
fn partial(challenge: &Challenge, looks: &[&Look], now: Timestamp) -> Vec<Finding> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut seeing, mut blind) = (Vec::new(), Vec::new());
    for look in looks {
        let Ok(survey) = &look.seen else { continue };
        let mut any = false;
        for answer in &survey.answers {
            match proof(challenge, look.place, answer, now) {
                Proof::Present(_) => {
                    any = true;
                    with.push(answer.server.clone());
                }
                Proof::Absent => without.push(answer.server.clone()),
                Proof::Unknown => {}
            }
        }
        if any { seeing.push(look.vantage_point.clone()) } else { blind.push(look.vantage_point.clone()) }
    }
    let mut findings = Vec::new();
    for list in [&mut with, &mut without] {
        list.sort();
        list.dedup();
    }
    if !with.is_empty() && !without.is_empty() {
        without.retain(|server| !with.contains(server));
        if without.is_empty() {
            // The same servers answer differently, depending on who asks.
            findings.push(Finding::FromSomePlaces { with: seeing, without: blind });
        } else {
            findings.push(Finding::OnSomeServers { with, without });
        }
    } else if !with.is_empty() && !blind.is_empty() {
        findings.push(Finding::FromSomePlaces { with: seeing, without: blind });
    }
    findings
}

/// The proof, or nearly it, where it does not count.
fn misplaced(challenge: &Challenge, place: Place, survey: &Survey, now: Timestamp) -> Option<Finding> {
    if Place::REAL.contains(&place) {
        return None;
    }
    let meant = survey.records().into_iter().any(|record| match &record.value {
        RecordValue::Text(strings) => {
            let text = strings.concat();
            challenge.accepts(&text, now) || recognise(challenge, &text).is_some()
        }
        _ => false,
    });
    let expected_at = challenge.record_name();
    meant.then(|| Finding::WrongName { found_at: survey.name.clone(), expected_at, place })
}

/// Values that are nearly the proof, and records of another type.
fn nearly(challenge: &Challenge, place: Place, survey: &Survey, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !Place::REAL.contains(&place) {
        return findings;
    }
    let expected = if place == Place::Apex { challenge.apex_value() } else { challenge.token.clone() };
    let records = survey.records();
    let texts: Vec<String> = records
        .iter()
        .filter_map(|record| if let RecordValue::Text(strings) = &record.value { Some(strings.concat()) } else { None })
        .collect();
    if texts.iter().any(|text| challenge.accepts(text, now)) {
        return findings;
    }
    for text in &texts {
        if let Some(slip) = recognise(challenge, text) {
            findings.push(Finding::NearlyRight {
                name: survey.name.clone(),
                seen: quote(text),
                expected: expected.clone(),
                slip,
            });
        }
    }
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    if let Some(slip) = recognise_split(challenge, &borrowed) {
        findings.retain(|finding| !matches!(finding, Finding::NearlyRight { slip: Slip::Truncated { .. }, .. }));
        findings.push(Finding::NearlyRight {
            name: survey.name.clone(),
            seen: quote(&borrowed.join(" | ")),
            expected,
            slip,
        });
    }
    // At the domain itself other types are its own business.
    if place == Place::Challenge {
        let other = records.iter().find(|record| record.kind != RecordKind::Txt);
        findings.extend(other.map(|record| Finding::WrongType {
            name: survey.name.clone(),
            kind: record.kind,
            value: quote(&record.value.to_string()),
        }));
    }
    findings
}

/// Nothing there, when somebody answered and nobody has it.
fn absent(challenge: &Challenge, looks: &[Look], now: Timestamp) -> Option<Finding> {
    let look = looks.iter().find(|look| look.place == Place::Challenge && look.seen.is_ok())?;
    let survey = look.seen.as_ref().ok()?;
    survey.answered().next()?;
    if survey.answered().any(|answer| proof(challenge, look.place, answer, now) != Proof::Absent) {
        return None;
    }
    let negative_ttl = survey.soa.as_ref().map(|soa| soa.ttl.min(soa.minimum));
    Some(Finding::Absent { name: challenge.record_name(), negative_ttl })
}

impl Finding {
    /// What the owner reads.
    pub fn sentence(&self) -> String {
        let list = |names: &[DomainName]| names.iter().map(DomainName::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Self::Everywhere { name, servers, vantage_points } => {
                format!(
                    "{name}: the record is on all {servers} servers that answered, seen from {vantage_points} places"
                )
            }
            Self::OnSomeServers { with, without } => {
                format!("{} has it, {} not yet: wait until the provider has copied the zone", list(with), list(without))
            }
            Self::FromSomePlaces { with, without } => {
                format!(
                    "seen from {}, not from {}: the servers answer differently depending on who asks",
                    with.join(", "),
                    without.join(", ")
                )
            }
            Self::NearlyRight { name, seen, expected, slip } => {
                format!("{name} has {seen:?} and should have {expected:?}: {}", slip.explain())
            }
            Self::WrongName { found_at, expected_at, place } => {
                let why = match place {
                    Place::DoubledZone => "the form appends the zone by itself, so it is there twice",
                    Place::NoUnderscore => "the underscore in front is missing",
                    Place::BelowWww => "it stands below www",
                    Place::Challenge | Place::Apex => "it is another name",
                };
                format!("the record is at {found_at} and should be at {expected_at}: {why}")
            }
            Self::WrongType { name, kind, value } => {
                format!(
                    "{name} has a {kind} record to {value} and should have a TXT record: delete it and make a TXT record"
                )
            }
            Self::Absent { name, negative_ttl: Some(seconds) } => format!(
                "there is no record at {name} yet; we ask the zone's own servers, so nothing is cached here, but resolvers \
                 that ask before it exists remember that for up to {}",
                crate::advice::words(*seconds)
            ),
            Self::Absent { name, negative_ttl: None } => format!("there is no record at {name} yet"),
            Self::Silent { server, address, reason } => format!("{server} ({address}) does not answer: {reason}"),
            Self::Unreachable { vantage_point, reason } => {
                format!("nothing could be asked from {vantage_point}: {reason}")
            }
            Self::Bogus { zone } => {
                format!(
                    "the DNSSEC signatures of {zone} do not fit: resolvers that check them see nothing of it; mend them first"
                )
            }
            Self::Delegated { domain, nameserver, vantage_points } => {
                format!("{domain} is delegated to {nameserver}, seen from {vantage_points} places")
            }
            Self::OtherNameserver { domain, seen, expected } => {
                format!(
                    "{domain} is delegated to {seen} and should be to {expected}: that is the nameserver of another token"
                )
            }
            Self::OnSite { url, vantage_points: 0 | 1 } => format!("the file is at {url}"),
            Self::OnSite { url, vantage_points } => format!("the file is at {url}, seen from {vantage_points} places"),
            Self::OnSiteForSome { url, with, without } => {
                format!(
                    "the file at {url} is seen from {}, not from {}: the site must be the same for everybody",
                    with.join(", "),
                    without.join(", ")
                )
            }
            Self::Site { problem } => problem.clone(),
            Self::TokenExpired { at } => format!("the token expired at {at}: ask for a new one"),
        }
    }
}

#[cfg(test)]
mod tests;
