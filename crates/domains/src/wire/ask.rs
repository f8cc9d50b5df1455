//! What is asked, and how a question is written as a message.

use hickory_proto::rr::{DNSClass, Name, RecordType};

use super::{show_name, type_text};

/// The UDP payload that passes every path without fragments (DNS flag day 2020).
pub const SAFE_PAYLOAD_BYTES: u16 = 1232;
/// The code of the option that asks a server for its identity (RFC 5001).
const NSID: u16 = 3;
/// Flags of the header (RFC 1035 §4.1.1, RFC 4035 §3.2.2) and of EDNS (RFC 3225).
const RECURSION_DESIRED: u16 = 0x0100;
const CHECKING_DISABLED: u16 = 0x0010;
const DNSSEC_OK: u16 = 0x8000;
/// Room for most questions, so that writing one is one allocation.
const QUESTION_BYTES: usize = 96;

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
        Self { recursion: Recursion::Desired, ..Self::authoritative(question).with_identity() }
    }

    /// The same question, with the server's identity asked for.
    pub fn with_identity(mut self) -> Self {
        if let Some(edns) = &mut self.edns {
            edns.options.push((NSID, Vec::new()));
        }
        self
    }

    /// The same question without EDNS.
    pub fn without_edns(&self) -> Self {
        Self { edns: None, ..self.clone() }
    }

    /// The message with this id.
    pub fn encode(&self, id: u16) -> Vec<u8> {
        let mut message = Vec::with_capacity(QUESTION_BYTES);
        let recursion = if self.recursion == Recursion::Desired { RECURSION_DESIRED } else { 0 };
        let checking = if self.checking_disabled { CHECKING_DISABLED } else { 0 };
        let additional = u16::from(self.edns.is_some());
        for field in [id, recursion | checking, 1, 0, 0, additional] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        for label in self.question.name.iter() {
            // A label has at most 63 bytes: the type sees to it.
            message.push(u8::try_from(label.len()).unwrap_or(0));
            message.extend_from_slice(label);
        }
        message.push(0);
        message.extend_from_slice(&u16::from(self.question.rtype).to_be_bytes());
        message.extend_from_slice(&u16::from(self.class).to_be_bytes());
        if let Some(edns) = &self.edns {
            edns.encode(&mut message);
        }
        message
    }
}

impl Edns {
    /// The OPT record (RFC 6891 §6.1.2).
    fn encode(&self, message: &mut Vec<u8>) {
        message.push(0);
        message.extend_from_slice(&u16::from(RecordType::OPT).to_be_bytes());
        message.extend_from_slice(&self.payload_bytes.to_be_bytes());
        message.extend_from_slice(&[0, self.version]);
        let flags = if self.dnssec_ok { DNSSEC_OK } else { 0 } | (self.flags & !DNSSEC_OK);
        message.extend_from_slice(&flags.to_be_bytes());
        let length: usize = self.options.iter().map(|(_, data)| data.len() + 4).sum();
        message.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
        for (code, data) in &self.options {
            message.extend_from_slice(&code.to_be_bytes());
            message.extend_from_slice(&u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
            message.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{Message, MessageType, OpCode};
    use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};

    use super::*;
    use crate::wire::parse_name;

    #[test]
    fn a_question_is_read_by_a_decoder_as_it_was_meant() {
        let edns = Edns { version: 1, flags: 3, options: vec![(137, vec![1, 2, 3])], ..Edns::default() };
        let question = Question::new(parse_name("a-label.of.some.example").expect("a name"), RecordType::CAA);
        let ask = Ask { edns: Some(edns), checking_disabled: true, ..Ask::recursive(question.clone()) };
        let read = Message::from_vec(&ask.encode(4711)).expect("a message");
        assert_eq!((read.metadata.id, read.metadata.message_type), (4711, MessageType::Query));
        assert_eq!(read.metadata.op_code, OpCode::Query);
        assert!(read.metadata.recursion_desired && read.metadata.checking_disabled);
        let [query] = read.queries.as_slice() else { panic!("one question") };
        assert_eq!(
            (query.name(), query.query_type(), query.query_class()),
            (&question.name, RecordType::CAA, DNSClass::IN)
        );
        let opt = read.edns.expect("an EDNS part");
        assert_eq!((opt.max_payload(), opt.version(), opt.flags().dnssec_ok, opt.flags().z), (1232, 1, true, 3));
        assert_eq!(opt.option(EdnsCode::Unknown(137)), Some(&EdnsOption::Unknown(137, vec![1, 2, 3])));
    }

    #[test]
    fn a_plain_question_has_no_edns_part() {
        let ask = Ask::authoritative(Question::new(Name::root(), RecordType::NS)).without_edns();
        assert_eq!(ask.encode(0x0102), [1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
    }
}
