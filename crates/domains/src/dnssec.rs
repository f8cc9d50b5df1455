//! DNSSEC validation from the trust anchor (RFC 4035, RFC 5155, RFC 6840): secure, insecure, bogus or indeterminate, always with
//! a sentence that says why. Signature times are judged by the injected clock; the work that a hostile zone can cause is bounded.

mod denial;
mod keys;
mod nsec3;
mod signature;
mod zones;

use hickory_proto::dnssec::rdata::DNSSECRData;
use jiff::Timestamp;
use serde::Serialize;

use crate::resolve::{AliasKind, Resolution, Run, Says, Step};
use crate::wire::{Answer, Name, RData, Record, RecordType, Section, show_name, type_text};

pub(crate) use keys::{dnskeys, ds_records};
pub(crate) use signature::full_time;
pub use zones::{ZoneSecurity, ZoneState};

/// How far something can be trusted (RFC 4033 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Signed, with a chain of trust from the anchor.
    Secure,
    /// Proven not to be signed.
    Insecure,
    /// Could not be decided, because something did not answer.
    Indeterminate,
    /// Signed, and the signatures or proofs are wrong: validating resolvers refuse it.
    Bogus,
}

impl Status {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Secure => "secure",
            Self::Insecure => "insecure",
            Self::Indeterminate => "indeterminate",
            Self::Bogus => "BOGUS",
        }
    }
}

/// What validation found, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// How far the answer can be trusted.
    pub status: Status,
    /// Why, in a sentence.
    pub reason: String,
    /// The zones of the chain of trust, from the root down.
    pub zones: Vec<ZoneSecurity>,
    /// Each alias and the final answer by itself, in the order of the chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerSecurity>,
    /// When the first of the signatures ends that the answer depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// How far one answer of a chain can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerSecurity {
    /// The name that was asked for.
    pub name: String,
    /// How far the answer can be trusted.
    pub status: Status,
    /// Why.
    pub reason: String,
}

/// A judgement on a part: a status and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) status: Status,
    pub(crate) reason: String,
}

impl Judgement {
    fn new(status: Status, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

/// Validates everything that a resolution depends on: each alias and the final answer.
pub async fn validate(run: &Run<'_>, resolution: &Resolution) -> Validation {
    let mut zones = zones::Zones::new(run);
    let mut worst: Option<Judgement> = None;
    let mut answers = Vec::new();
    for step in deciding_steps(resolution) {
        let judgement = judge_step(&mut zones, step).await;
        let Judgement { status, reason } = judgement.clone();
        answers.push(AnswerSecurity { name: show_name(&step.question.name), status, reason });
        if worst.as_ref().is_none_or(|worst| judgement.status > worst.status) {
            worst = Some(judgement);
        }
    }
    let worst = worst.unwrap_or_else(|| Judgement::new(Status::Indeterminate, "there is no answer to validate"));
    let expires = zones.earliest_expiration();
    Validation { status: worst.status, reason: worst.reason, zones: zones.into_report(), answers, expires }
}

/// Validates the keys of one zone, with the chain above it.
pub async fn validate_zone(run: &Run<'_>, zone: &Name) -> Validation {
    let mut zones = zones::Zones::new(run);
    let state = zones.state(zone).await;
    let Judgement { status, reason } = state.judgement(zone);
    let expires = zones.earliest_expiration();
    Validation { status, reason, zones: zones.into_report(), answers: Vec::new(), expires }
}

/// The steps whose answers are believed: aliases and the last one.
fn deciding_steps(resolution: &Resolution) -> impl Iterator<Item = &Step> {
    let decides = |step: &&Step| step.chosen_reply().is_some_and(|reply| !matches!(reply.says, Says::Referral(_)));
    resolution.steps.iter().filter(decides)
}

async fn judge_step(zones: &mut zones::Zones<'_, '_>, step: &Step) -> Judgement {
    let Some(reply) = step.chosen_reply() else {
        return Judgement::new(Status::Indeterminate, "no server answered");
    };
    let Some(answer) = reply.exchange.answer() else {
        return Judgement::new(Status::Indeterminate, "no server answered");
    };
    let name = &step.question.name;
    match &reply.says {
        Says::Answer if step.question.rtype == RecordType::CNAME => {
            // A CNAME that a server made from a DNAME has no signature; the DNAME has one.
            let dname = answer.section(Section::Answer).iter().find(|record| {
                record.record_type() == RecordType::DNAME && record.name != *name && record.name.zone_of(name)
            });
            match dname {
                Some(dname) => judge_rrset(zones, step, answer, &dname.name, RecordType::DNAME).await,
                None => judge_rrset(zones, step, answer, name, RecordType::CNAME).await,
            }
        }
        Says::Answer => judge_rrset(zones, step, answer, name, step.question.rtype).await,
        Says::Alias(alias) if alias.kind == AliasKind::Dname => {
            judge_rrset(zones, step, answer, &alias.owner, RecordType::DNAME).await
        }
        Says::Alias(_) => judge_rrset(zones, step, answer, name, RecordType::CNAME).await,
        Says::NoData | Says::NxDomain => judge_denial(zones, step, answer, matches!(reply.says, Says::NxDomain)).await,
        _ => Judgement::new(Status::Indeterminate, "no server gave a usable answer"),
    }
}

/// Judges records that are there.
async fn judge_rrset(
    zones: &mut zones::Zones<'_, '_>,
    step: &Step,
    answer: &Answer,
    name: &Name,
    rtype: RecordType,
) -> Judgement {
    let records: Vec<&Record> = answer.rrset(Section::Answer, name, rtype).collect();
    let signatures = signatures_of(answer.section(Section::Answer), name, rtype);
    let what = format!("{} {}", show_name(name), type_text(rtype));
    let Some(signer) = signatures.first().map(|signature| signature.input().signer_name.to_lowercase()) else {
        return zones.judge_unsigned(&step.cut.zone, name, &what).await;
    };
    if !step.cut.zone.zone_of(&signer) || !signer.zone_of(name) {
        return Judgement::new(
            Status::Bogus,
            format!("{what} is signed by {}, which is not its zone", show_name(&signer)),
        );
    }
    let state = zones.state(&signer).await;
    let ZoneState::Secure(keys) = &state else { return state.judgement(&signer) };
    match zones.verify(&records, &signatures, keys, &signer) {
        Err(reason) => Judgement::new(Status::Bogus, format!("{what}: {reason}")),
        Ok(signature::Verified { wildcard: None }) => {
            Judgement::new(Status::Secure, format!("{what} is signed, with a chain of trust from the root"))
        }
        Ok(signature::Verified { wildcard: Some(labels) }) => {
            match denial::prove_no_closer_match(zones, answer.section(Section::Authority), keys, &signer, name, labels)
            {
                Ok(denial::Proof::Complete) => Judgement::new(
                    Status::Secure,
                    format!("{what} is made from a signed wildcard, with a chain of trust from the root"),
                ),
                Ok(denial::Proof::OptOut) => opt_out(&signer),
                Err(reason) => Judgement::new(Status::Bogus, format!("{what} comes from a wildcard, but {reason}")),
            }
        }
    }
}

/// Judges the news that something is not there.
async fn judge_denial(zones: &mut zones::Zones<'_, '_>, step: &Step, answer: &Answer, is_nxdomain: bool) -> Judgement {
    let question = &step.question;
    let what = match is_nxdomain {
        true => format!("that {} does not exist", show_name(&question.name)),
        false => format!("that {} has no {}", show_name(&question.name), type_text(question.rtype)),
    };
    let authority = answer.section(Section::Authority);
    let signer = authority.iter().find_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::RRSIG(signature)) => Some(signature.input().signer_name.to_lowercase()),
        _ => None,
    });
    let Some(signer) = signer else {
        return zones.judge_unsigned(&step.cut.zone, &question.name, &format!("the news {what}")).await;
    };
    if !step.cut.zone.zone_of(&signer) || !signer.zone_of(&question.name) {
        return Judgement::new(
            Status::Bogus,
            format!("the news {what} is signed by {}, not by its zone", show_name(&signer)),
        );
    }
    let state = zones.state(&signer).await;
    let ZoneState::Secure(keys) = &state else { return state.judgement(&signer) };
    let proof = match is_nxdomain {
        true => denial::prove_nxdomain(zones, authority, keys, &signer, &question.name),
        false => denial::prove_nodata(zones, authority, keys, &signer, &question.name, question.rtype),
    };
    match proof {
        Ok(denial::Proof::Complete) => Judgement::new(Status::Secure, format!("it is proven {what}")),
        Ok(denial::Proof::OptOut) => opt_out(&signer),
        Err(reason) => Judgement::new(Status::Bogus, format!("the proof {what} is not valid: {reason}")),
    }
}

fn opt_out(zone: &Name) -> Judgement {
    Judgement::new(Status::Insecure, format!("{} leaves unsigned names out of its proofs (opt-out)", show_name(zone)))
}

/// The signatures over an RRset.
pub(crate) fn signatures_of<'a>(
    section: &'a [Record],
    name: &Name,
    rtype: RecordType,
) -> Vec<&'a hickory_proto::dnssec::rdata::RRSIG> {
    let of = section.iter().filter(|record| record.name == *name).filter_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::RRSIG(signature)) => Some(signature),
        _ => None,
    });
    of.filter(|signature| signature.input().type_covered == rtype).collect()
}
