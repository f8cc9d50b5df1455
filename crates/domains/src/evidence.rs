//! What a finding rests on: the server that said it, what it was asked, and its answer in words and as the packet. Bounded, so
//! that a zone made to be large cannot make a report large.

use std::net::IpAddr;

use base64::Engine as _;
use serde::{Deserialize, Serialize};

use crate::resolve::Reply;
use crate::transport::Exchange;
use crate::wire::{Answer, Name, Section, class_text, rcode_text, rdata_text, show_name, type_text};

/// Characters of an answer in words: enough for a referral with four servers.
const ANSWER_CHARS_MAX: usize = 400;
/// Bytes of a packet that is kept whole: what passes every path in one datagram.
const PACKET_BYTES_MAX: usize = 1232;

/// One exchange behind a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The server's name.
    pub server: String,
    /// The address that was asked.
    pub address: IpAddr,
    /// What it was asked.
    pub question: String,
    /// What it answered, or why there is no answer.
    pub answer: String,
    /// The digest of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_sha256: Option<String>,
    /// The packet in base64, unless it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<String>,
}

impl Evidence {
    /// Of an exchange with a server.
    pub fn of(server: &Name, exchange: &Exchange) -> Self {
        let question = &exchange.ask.question;
        let class = match class_text(exchange.ask.class).as_str() {
            "IN" => String::new(),
            other => format!("{other} "),
        };
        let wire = exchange.answer().map(Answer::wire);
        Self {
            server: show_name(server),
            address: exchange.server.ip(),
            question: format!("{} {class}{}", show_name(&question.name), type_text(question.rtype)),
            answer: match &exchange.outcome {
                Ok(answer) => bounded(&in_words(answer)),
                Err(failure) => failure.to_string(),
            },
            packet_sha256: wire.map(|wire| sha256(wire)),
            packet: wire
                .filter(|wire| wire.len() <= PACKET_BYTES_MAX)
                .map(|wire| base64::engine::general_purpose::STANDARD.encode(wire)),
        }
    }

    /// Of a server's reply in a resolution.
    pub fn of_reply(reply: &Reply) -> Self {
        Self::of(&reply.server, &reply.exchange)
    }

    /// Without the packet, whose digest stays.
    #[must_use]
    pub fn without_packet(mut self) -> Self {
        self.packet = None;
        self
    }

    /// `ns1.example.net (192.0.2.1)`
    pub fn whom(&self) -> String {
        format!("{} ({})", self.server, self.address)
    }
}

/// The digest of a packet in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `NOERROR, authoritative: example.com 3600 SOA …`
fn in_words(answer: &Answer) -> String {
    let mut text = rcode_text(answer.rcode());
    if answer.is_authoritative() {
        text.push_str(", authoritative");
    }
    if answer.is_truncated() {
        text.push_str(", truncated");
    }
    let mut records: Vec<String> = Vec::new();
    let mut chars = 0;
    // Signatures are in the packet; in words they only hide the rest.
    for section in [Section::Answer, Section::Authority, Section::Additional] {
        for record in answer.section(section).iter().filter(|record| type_text(record.record_type()) != "RRSIG") {
            if chars > ANSWER_CHARS_MAX {
                break;
            }
            let line = format!(
                "{} {} {} {}",
                show_name(&record.name),
                record.ttl,
                type_text(record.record_type()),
                rdata_text(record)
            );
            chars += line.len();
            records.push(line);
        }
    }
    match records.is_empty() {
        true => text + ", no records",
        false => format!("{text}: {}", records.join("; ")),
    }
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(ANSWER_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_words_has_an_end() {
        assert_eq!(bounded("short"), "short");
        let long = "ä".repeat(ANSWER_CHARS_MAX * 2);
        assert_eq!(bounded(&long).chars().count(), ANSWER_CHARS_MAX + 1);
    }
}
