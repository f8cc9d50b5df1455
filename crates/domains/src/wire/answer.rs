//! An answer: the bytes that came, and what they say.

use bytes::Bytes;
use hickory_proto::op::{Edns, Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde::Serialize;

use super::Ask;

/// The option of extended DNS errors (RFC 8914).
const EXTENDED_ERROR: u16 = 15;

/// A section of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The records that were asked for.
    Answer,
    /// The SOA of a negative answer, or the NS of a referral.
    Authority,
    /// What else may help, such as glue.
    Additional,
}

/// A reason that a resolver gives for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtendedError {
    /// The registered number.
    pub code: u16,
    /// What the number means.
    pub meaning: &'static str,
    /// What the resolver adds in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Bytes that are no DNS message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a valid DNS message: {reason}")]
pub struct MalformedAnswer {
    reason: String,
}

/// A parsed answer with its bytes.
#[derive(Clone, Debug)]
pub struct Answer {
    wire: Bytes,
    message: Message,
}

impl Answer {
    /// Parses a message.
    pub fn parse(wire: Bytes) -> Result<Self, MalformedAnswer> {
        match Message::from_vec(&wire) {
            Ok(message) => Ok(Self { wire, message }),
            Err(error) => Err(MalformedAnswer { reason: error.to_string() }),
        }
    }

    /// The bytes as they came.
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Whether this answers that question with that id. A server that cannot parse a question may leave it out.
    pub fn answers(&self, id: u16, ask: &Ask) -> bool {
        if self.message.metadata.id != id || self.message.metadata.message_type != MessageType::Response {
            return false;
        }
        match self.message.queries.as_slice() {
            [query] => {
                query.query_type() == ask.question.rtype
                    && query.query_class() == ask.class
                    && *query.name() == ask.question.name
            }
            [] => matches!(
                self.rcode(),
                ResponseCode::FormErr | ResponseCode::NotImp | ResponseCode::ServFail | ResponseCode::Refused
            ),
            _ => false,
        }
    }

    /// The name in the question, with the case that the server sent back.
    pub fn echoed_name(&self) -> Option<&Name> {
        self.message.queries.first().map(|query| query.name())
    }

    /// The response code, extended bits included.
    pub fn rcode(&self) -> ResponseCode {
        self.message.metadata.response_code
    }

    /// The answer is the server's own (AA).
    pub fn is_authoritative(&self) -> bool {
        self.message.metadata.authoritative
    }

    /// The answer did not fit (TC).
    pub fn is_truncated(&self) -> bool {
        self.message.metadata.truncation
    }

    /// The server offers to ask others (RA).
    pub fn offers_recursion(&self) -> bool {
        self.message.metadata.recursion_available
    }

    /// The resolver says that it has validated the answer (AD).
    pub fn is_authentic_data(&self) -> bool {
        self.message.metadata.authentic_data
    }

    /// The records of a section.
    pub fn section(&self, section: Section) -> &[Record] {
        match section {
            Section::Answer => &self.message.answers,
            Section::Authority => &self.message.authorities,
            Section::Additional => &self.message.additionals,
        }
    }

    /// The records with this owner and type.
    pub fn rrset<'a, 'n>(
        &'a self,
        section: Section,
        name: &'n Name,
        rtype: RecordType,
    ) -> impl Iterator<Item = &'a Record> + use<'a, 'n> {
        self.section(section).iter().filter(move |record| record.record_type() == rtype && record.name == *name)
    }

    /// The first SOA of the authority section.
    pub fn negative_soa(&self) -> Option<(&Record, &hickory_proto::rr::rdata::SOA)> {
        self.section(Section::Authority).iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some((record, soa)),
            _ => None,
        })
    }

    /// The EDNS part of the answer.
    pub fn edns(&self) -> Option<&Edns> {
        self.message.edns.as_ref()
    }

    /// The identity of the server that answered (NSID), as text where it is text.
    pub fn server_identity(&self) -> Option<String> {
        let EdnsOption::NSID(payload) = self.edns()?.option(EdnsCode::NSID)? else { return None };
        let bytes: &[u8] = payload.as_ref();
        if bytes.is_empty() {
            return None;
        }
        Some(match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
            _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// The reasons that a resolver gives.
    pub fn extended_errors(&self) -> Vec<ExtendedError> {
        let Some(edns) = self.edns() else { return Vec::new() };
        let options = edns.options().get_all(EdnsCode::Unknown(EXTENDED_ERROR));
        options.into_iter().filter_map(extended_error).collect()
    }
}

fn extended_error(option: &EdnsOption) -> Option<ExtendedError> {
    let EdnsOption::Unknown(_, data) = option else { return None };
    let (code, text) = data.split_first_chunk::<2>()?;
    let code = u16::from_be_bytes(*code);
    let text = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
    Some(ExtendedError { code, meaning: extended_error_meaning(code), text })
}

/// What IANA's registry says of a code, in our words.
fn extended_error_meaning(code: u16) -> &'static str {
    match code {
        0 => "other error",
        1 => "unsupported DNSKEY algorithm",
        2 => "unsupported DS digest type",
        3 => "stale answer",
        4 => "forged answer",
        5 => "DNSSEC indeterminate",
        6 => "DNSSEC bogus",
        7 => "signature expired",
        8 => "signature not yet valid",
        9 => "DNSKEY missing",
        10 => "signatures missing",
        11 => "no zone key",
        12 => "NSEC missing",
        13 => "cached error",
        14 => "not ready",
        15 => "blocked by the resolver's operator",
        16 => "censored by an outside order",
        17 => "filtered at the client's wish",
        18 => "prohibited for this client",
        19 => "stale NXDOMAIN answer",
        20 => "not authoritative",
        21 => "not supported",
        22 => "no reachable authority",
        23 => "network error",
        24 => "invalid data",
        25 => "signature expired before it was valid",
        26 => "too early",
        27 => "unsupported NSEC3 iterations",
        28 => "cannot conform to policy",
        29 => "synthesised",
        _ => "unregistered code",
    }
}
