//! What one answer means to somebody who asks the servers of a zone about a name.

use serde::Serialize;

use super::alias::{self, Alias};
use crate::transport::Exchange;
use crate::wire::{Answer, Name, Question, RecordType, ResponseCode, Section, rcode_text, show_name};

/// Why a server's answer is of no use although it is listed for the zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Lame {
    /// It will not answer (REFUSED).
    Refused,
    /// It cannot answer (SERVFAIL).
    ServFail,
    /// It says that it is not responsible (NOTAUTH).
    NotAuth,
    /// Another error code.
    Code {
        /// The code's mnemonic.
        code: String,
    },
    /// It sends us up or sideways instead of down.
    UpwardReferral {
        /// Where to.
        zone: String,
    },
    /// It has an answer, but not its own (AA is not set).
    NotAuthoritative,
    /// It says nothing at all.
    Empty,
}

impl std::fmt::Display for Lame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused => f.write_str("refuses to answer (REFUSED)"),
            Self::ServFail => f.write_str("fails (SERVFAIL)"),
            Self::NotAuth => f.write_str("says it is not responsible (NOTAUTH)"),
            Self::Code { code } => write!(f, "answers with the error {code}"),
            Self::UpwardReferral { zone } => write!(f, "refers back up to {zone}"),
            Self::NotAuthoritative => f.write_str("answers without authority (no AA flag)"),
            Self::Empty => f.write_str("gives an empty answer"),
        }
    }
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// Ask the servers of this deeper zone.
    Referral(Name),
    /// Here are the records.
    Answer,
    /// The name is another name.
    Alias(Box<Alias>),
    /// A DNAME makes a name that is too long.
    AliasTooLong(Name),
    /// The name has no records of this type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// Of no use.
    Lame(Lame),
    /// No answer came.
    Silent,
}

impl Says {
    /// Whether a resolution can go on with it.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Self::Lame(_) | Self::Silent)
    }
}

/// What an exchange with a server of `zone` means for `question`.
pub fn classify(exchange: &Exchange, zone: &Name, question: &Question) -> Says {
    match exchange.answer() {
        Some(answer) => classify_answer(answer, zone, question),
        None => Says::Silent,
    }
}

fn classify_answer(answer: &Answer, zone: &Name, question: &Question) -> Says {
    match answer.rcode() {
        ResponseCode::NoError | ResponseCode::NXDomain | ResponseCode::YXDomain => {}
        ResponseCode::Refused => return Says::Lame(Lame::Refused),
        ResponseCode::ServFail => return Says::Lame(Lame::ServFail),
        ResponseCode::NotAuth => return Says::Lame(Lame::NotAuth),
        code => return Says::Lame(Lame::Code { code: rcode_text(code) }),
    }
    let positive = positive(answer, question);
    if let Some(says) = positive {
        return if answer.is_authoritative() { says } else { Says::Lame(Lame::NotAuthoritative) };
    }
    if answer.rcode() == ResponseCode::NXDomain {
        return if answer.is_authoritative() { Says::NxDomain } else { Says::Lame(Lame::NotAuthoritative) };
    }
    let has_soa = answer.negative_soa().is_some();
    if !has_soa && let Some(owner) = referral_owner(answer) {
        if zone.zone_of(owner) && zone != owner && owner.zone_of(&question.name) {
            return Says::Referral(owner.to_lowercase());
        }
        if !answer.is_authoritative() {
            return Says::Lame(Lame::UpwardReferral { zone: show_name(owner) });
        }
    }
    match (answer.is_authoritative(), has_soa) {
        (true, _) => Says::NoData,
        (false, true) => Says::Lame(Lame::NotAuthoritative),
        (false, false) => Says::Lame(Lame::Empty),
    }
}

/// Records of the type, or an alias instead of them.
fn positive(answer: &Answer, question: &Question) -> Option<Says> {
    let records = answer.section(Section::Answer);
    let is_asked = |rtype| rtype == question.rtype || question.rtype == RecordType::ANY;
    if records.iter().any(|record| is_asked(record.record_type()) && record.name == question.name) {
        return Some(Says::Answer);
    }
    match alias::of(records, &question.name) {
        Some(Ok(alias)) => Some(Says::Alias(Box::new(alias))),
        Some(Err(owner)) => Some(Says::AliasTooLong(owner)),
        None => None,
    }
}

/// The owner of the NS records in the authority section.
fn referral_owner(answer: &Answer) -> Option<&Name> {
    let authority = answer.section(Section::Authority);
    authority.iter().find(|record| record.record_type() == RecordType::NS).map(|record| &record.name)
}
