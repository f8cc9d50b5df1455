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
        ];
        for (host, fault) in faults {
            relay(SocketAddr::new(address(host)?, 53), fault)?;
        }
        Ok(Self { _silent: (UdpSocket::bind(silent)?, TcpListener::bind(silent)?) })
    }
}

fn address(host: &str) -> Result<IpAddr> {
    Ok(world::addresses_of(host).first().with_context(|| format!("no address for {host}"))?.parse()?)
}

fn relay(listen: SocketAddr, fault: Fault) -> Result<()> {
    let socket = UdpSocket::bind(listen)?;
    let other = UdpSocket::bind((CROOKED_SOURCE, 0))?;
    std::thread::Builder::new().name(format!("fault {listen}")).spawn(move || {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let Some(question) = buffer.get(..length) else { continue };
            if let Some(answer) = spoilt(question, fault) {
                let _ = if fault == Fault::OtherSource {
                    other.send_to(&answer, from)
                } else {
                    socket.send_to(&answer, from)
                };
            }
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
        _ => {}
    }
    let upstream = UdpSocket::bind("0.0.0.0:0").ok()?;
    upstream.connect(HEALTHY).ok()?;
    upstream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    upstream.send(question).ok()?;
    let mut answer = vec![0; 65_535];
    let length = upstream.recv(&mut answer).ok()?;
    answer.truncate(length);
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
