//! Servers that misbehave: silent ones, and relays in front of a healthy server that spoil what passes. Their threads end with
//! the process.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::world::{self, CROOKED_SOURCE};

/// The healthy server behind the relays.
const HEALTHY: &str = "205.251.192.1:53";
/// How late the slow server is.
const SLOWNESS: Duration = Duration::from_millis(350);

/// The sockets that stay open and say nothing.
pub(crate) struct Faults {
    _silent: (UdpSocket, TcpListener),
}

/// What a relay does to a question and its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Answers from another address.
    OtherSource,
    /// Drops questions with EDNS.
    DropsEdns,
    /// Answers questions with EDNS with FORMERR.
    RefusesEdns,
    /// Truncates every answer that is longer than 512 bytes and has no TCP.
    NoTcp,
    /// Takes its time.
    Slow,
    /// Writes every name in small letters.
    Lowercases,
    /// Drops questions for AAAA.
    DropsAaaa,
    /// Answers questions for AAAA with NOTIMP.
    RefusesAaaa,
    /// Takes every version of EDNS for the one it knows.
    AnyEdns,
    /// Leaves EDNS out of its answers.
    StripsEdns,
    /// Answers names in mixed case, versions, options and flags that it does not know with REFUSED.
    Strict,
    /// Answers questions for the SOA with REFUSED, and all others.
    RefusesSoa,
    /// Has two SOA records.
    TwoSoas,
}

impl Faults {
    pub(crate) fn start() -> Result<Self> {
        let silent = SocketAddr::new(address("silent.op-c.net")?, 53);
        let faults = [
            ("crooked.op-c.net", Fault::OtherSource),
            ("noedns.op-c.net", Fault::DropsEdns),
            ("formerr.op-c.net", Fault::RefusesEdns),
            ("notcp.op-c.net", Fault::NoTcp),
            ("slow.op-c.net", Fault::Slow),
            ("lowercase.op-c.net", Fault::Lowercases),
            ("dropsaaaa.op-c.net", Fault::DropsAaaa),
            ("noaaaa.op-c.net", Fault::RefusesAaaa),
            ("anyedns.op-c.net", Fault::AnyEdns),
            ("stripsedns.op-c.net", Fault::StripsEdns),
            ("strict.op-c.net", Fault::Strict),
            ("nosoa.op-c.net", Fault::RefusesSoa),
            ("twosoas.op-c.net", Fault::TwoSoas),
        ];
        for (host, fault) in faults {
            relay(SocketAddr::new(address(host)?, 53), fault)?;
        }
        Ok(Self { _silent: (UdpSocket::bind(silent)?, TcpListener::bind(silent)?) })
    }
}

pub(crate) fn address(host: &str) -> Result<IpAddr> {
    Ok(world::addresses_of(host).first().with_context(|| format!("no address for {host}"))?.parse()?)
}

fn relay(listen: SocketAddr, fault: Fault) -> Result<()> {
    let socket = UdpSocket::bind(listen)?;
    let other = UdpSocket::bind((CROOKED_SOURCE, 0))?;
    std::thread::Builder::new().name(format!("fault {listen}")).spawn(move || {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let Some(question) = buffer.get(..length).map(<[u8]>::to_vec) else { continue };
            let Ok(answering) = if fault == Fault::OtherSource { &other } else { &socket }.try_clone() else {
                continue;
            };
            // One who takes his time does not make others wait for theirs.
            std::thread::spawn(move || {
                if let Some(answer) = spoilt(&question, fault) {
                    let _ = answering.send_to(&answer, from);
                }
            });
        }
    })?;
    if fault != Fault::NoTcp {
        relay_tcp(listen)?;
    }
    Ok(())
}

/// The answer as this fault leaves it.
fn spoilt(question: &[u8], fault: Fault) -> Option<Vec<u8>> {
    let has_edns = question.get(11).is_some_and(|additional| *additional > 0);
    match fault {
        Fault::DropsEdns if has_edns => return None,
        Fault::RefusesEdns if has_edns => {
            // The header alone, as servers from before EDNS sent it: a response, FORMERR, no records.
            let mut answer = question.get(..12)?.to_vec();
            answer[2] |= 0x80;
            answer[3] = 1;
            answer[4..12].fill(0);
            return Some(answer);
        }
        Fault::Slow => std::thread::sleep(SLOWNESS),
        Fault::DropsAaaa if qtype(question) == Some(AAAA) => return None,
        Fault::RefusesAaaa if qtype(question) == Some(AAAA) => return refusal(question, NOTIMP),
        Fault::RefusesSoa if qtype(question) == Some(SOA) => return refusal(question, REFUSED),
        Fault::Strict if is_odd(question) => return refusal(question, REFUSED),
        _ => {}
    }
    let mut question = question.to_vec();
    if fault == Fault::AnyEdns
        && let Some(version) = edns_at(&question).and_then(|at| question.get_mut(at + 6))
    {
        *version = 0;
    }
    let question = question.as_slice();
    let upstream = UdpSocket::bind("0.0.0.0:0").ok()?;
    upstream.connect(HEALTHY).ok()?;
    upstream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    upstream.send(question).ok()?;
    let mut answer = vec![0; 65_535];
    let length = upstream.recv(&mut answer).ok()?;
    answer.truncate(length);
    match fault {
        Fault::Lowercases => {
            let end = 12 + question_bytes(&answer)?;
            answer.get_mut(12..end)?.make_ascii_lowercase();
        }
        // The record of EDNS is the last of an answer.
        Fault::StripsEdns if has_edns => {
            let at = edns_at(&answer)?;
            answer.truncate(at);
            let count = u16::from_be_bytes([*answer.get(10)?, *answer.get(11)?]).saturating_sub(1);
            answer.get_mut(10..12)?.copy_from_slice(&count.to_be_bytes());
        }
        Fault::TwoSoas if qtype(question) == Some(SOA) => return with_second_soa(&answer),
        _ => {}
    }
    Some(answer)
}

/// The answer with its first record twice, the second time with another serial. What follows is left out, but for EDNS: names in
/// it would point to where they no longer are.
fn with_second_soa(answer: &[u8]) -> Option<Vec<u8>> {
    let begin = 12 + question_bytes(answer)? + 4;
    // The owner is a pointer to the question, then type, class and TTL.
    let length =
        answer.get(begin + 10..begin + 12).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))?;
    let end = begin + 12 + length;
    let mut second = answer.get(begin..end)?.to_vec();
    let serial = second.len().checked_sub(SERIAL_FROM_END)?;
    *second.get_mut(serial)? ^= 1;
    let edns = edns_at(answer).and_then(|at| answer.get(at..)).unwrap_or_default();
    let mut doubled = answer.get(..end)?.to_vec();
    doubled.extend(second);
    doubled.extend(edns);
    let counts = [2_u16, 0, u16::from(!edns.is_empty())];
    for (count, at) in counts.iter().zip([6, 8, 10]) {
        doubled.get_mut(at..at + 2)?.copy_from_slice(&count.to_be_bytes());
    }
    Some(doubled)
}

/// Where the last byte of the serial is: before four times of four bytes each.
const SERIAL_FROM_END: usize = 17;
const SOA: u16 = 6;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;

/// The bytes of the name in the question, its end included.
fn question_bytes(message: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1 - 12),
            length => at += usize::from(length) + 1,
        }
    }
}

fn qtype(question: &[u8]) -> Option<u16> {
    let at = 12 + question_bytes(question)?;
    Some(u16::from_be_bytes([*question.get(at)?, *question.get(at + 1)?]))
}

/// Where the record of EDNS begins: a root name and its type, behind everything else.
fn edns_at(message: &[u8]) -> Option<usize> {
    let begin = 12 + question_bytes(message)? + 4;
    (begin..message.len().saturating_sub(10)).rev().find(|at| {
        let [high, low] = OPT.to_be_bytes();
        let header = message.get(*at..*at + 3).is_some_and(|bytes| bytes == [0, high, low]);
        let length = message.get(*at + 9..*at + 11).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
        header && length.is_some_and(|length| *at + 11 + length == message.len())
    })
}

/// Capital letters in the name, another version, an option, or a flag beside the one for signatures.
fn is_odd(question: &[u8]) -> bool {
    let name = question_bytes(question).and_then(|length| question.get(12..12 + length)).unwrap_or_default();
    if name.iter().any(u8::is_ascii_uppercase) {
        return true;
    }
    let Some(edns) = edns_at(question).and_then(|at| question.get(at..)) else { return false };
    let (version, flags, options) = (edns.get(6), edns.get(7..9), edns.get(9..11));
    version != Some(&0) || !matches!(flags, Some([0 | 0x80, 0])) || !matches!(options, Some([0, 0]))
}

/// An answer without records.
fn refusal(question: &[u8], code: u8) -> Option<Vec<u8>> {
    let mut answer = question.get(..12 + question_bytes(question)? + 4)?.to_vec();
    answer[2] |= 0x80;
    answer[3] = code;
    answer[6..12].fill(0);
    Some(answer)
}

fn relay_tcp(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen)?;
    std::thread::Builder::new().name(format!("fault tcp {listen}")).spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(pass(stream)));
        }
    })?;
    Ok(())
}

/// Passes one question and its answer.
fn pass(mut client: TcpStream) -> Result<()> {
    let mut upstream = TcpStream::connect(HEALTHY)?;
    for stream in [&client, &upstream] {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    }
    let question = framed(&mut client)?;
    upstream.write_all(&question)?;
    let answer = framed(&mut upstream)?;
    Ok(client.write_all(&answer)?)
}

/// A message with its length in front.
fn framed(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    stream.read_exact(message.get_mut(2..).unwrap_or_default())?;
    Ok(message)
}
