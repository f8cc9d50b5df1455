//! What is asked, and how a question is written as a message.

use hickory_proto::op::{Edns as CodecEdns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RecordType};

use super::{show_name, type_text};

/// The UDP payload that passes every path without fragments (DNS flag day 2020).
pub const SAFE_PAYLOAD_BYTES: u16 = 1232;
/// The code of the option that asks a server for its identity (RFC 5001).
const NSID: u16 = 3;

/// A name and a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name asked for.
    pub name: Name,
    /// The type asked for.
    pub rtype: RecordType,
}

impl Question {
    /// A question in class IN.
    pub fn new(name: Name, rtype: RecordType) -> Self {
        Self { name, rtype }
    }
}

impl std::fmt::Display for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", show_name(&self.name), type_text(self.rtype))
    }
}

/// Whether the server should ask others for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// Answer from what it is authoritative for.
    Off,
    /// Find the answer.
    Desired,
}

/// The EDNS part of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest UDP answer that is accepted.
    pub payload_bytes: u16,
    /// Signatures are wanted.
    pub dnssec_ok: bool,
    /// The EDNS version; 0 except in tests of servers.
    pub version: u8,
    /// Flags that nobody has defined; 0 except in tests of servers.
    pub flags: u16,
    /// Options by code.
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Default for Edns {
    fn default() -> Self {
        Self { payload_bytes: SAFE_PAYLOAD_BYTES, dnssec_ok: true, version: 0, flags: 0, options: Vec::new() }
    }
}

/// One question to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What is asked.
    pub question: Question,
    /// IN, except for the questions about the server itself.
    pub class: DNSClass,
    /// Whether the server should ask others.
    pub recursion: Recursion,
    /// The EDNS part; absent for plain old DNS.
    pub edns: Option<Edns>,
    /// Answers that fail validation are wanted too.
    pub checking_disabled: bool,
}

impl Ask {
    /// As an iterative resolver asks an authoritative server.
    pub fn authoritative(question: Question) -> Self {
        Self {
            question,
            class: DNSClass::IN,
            recursion: Recursion::Off,
            edns: Some(Edns::default()),
            checking_disabled: false,
        }
    }

    /// As a client asks a recursive resolver, with the resolver's identity asked for.
    pub fn recursive(question: Question) -> Self {
        let edns = Edns { options: vec![(NSID, Vec::new())], ..Edns::default() };
        Self { recursion: Recursion::Desired, edns: Some(edns), ..Self::authoritative(question) }
    }

    /// The same question without EDNS.
    pub fn without_edns(&self) -> Self {
        Self { edns: None, ..self.clone() }
    }

    /// The message with this id.
    pub fn encode(&self, id: u16) -> Result<Vec<u8>, hickory_proto::ProtoError> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = self.recursion == Recursion::Desired;
        message.metadata.checking_disabled = self.checking_disabled;
        let mut query = Query::query(self.question.name.clone(), self.question.rtype);
        query.set_query_class(self.class);
        message.add_query(query);
        if let Some(edns) = &self.edns {
            let mut opt = CodecEdns::new();
            opt.set_max_payload(edns.payload_bytes).set_version(edns.version);
            opt.flags_mut().dnssec_ok = edns.dnssec_ok;
            opt.flags_mut().z = edns.flags;
            for (code, data) in &edns.options {
                opt.options_mut().insert(EdnsOption::Unknown(*code, data.clone()));
            }
            message.set_edns(opt);
        }
        message.to_vec()
    }
}
