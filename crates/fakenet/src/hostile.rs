//! A server that attacks whoever asks it, by the first label of the name: endless aliases, referrals to many servers of a victim,
//! giant and never-ending answers, messages that are none. And the victim, which counts what reaches it. Their threads end
//! with the process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::faults::address;
use crate::message::{A, CNAME, NS, NXDOMAIN, Reply, SOA, TXT, name, serve, soa};

/// The servers that a fanning referral names: as many as fit.
const FAN: u32 = 60;
/// Between two bytes of an answer that does not end.
const DRIP: Duration = Duration::from_millis(200);
/// The strings of a giant TXT record: as many as a message can carry.
const GIANT_STRINGS: usize = 250;

/// What reached the victim.
pub(crate) struct Hostile {
    victim: Arc<AtomicU64>,
}

impl Hostile {
    pub(crate) fn start() -> Result<Self> {
        let hostile = SocketAddr::new(address("hostile.op-c.net")?, 53);
        let counter = Arc::new(AtomicU32::new(0));
        serve(hostile, move |question, _| attack(question, &counter))?;
        serve_tcp(hostile)?;
        let victim = Arc::new(AtomicU64::new(0));
        let count = victim.clone();
        serve(SocketAddr::new(address("victim.op-c.net")?, 53), move |question, _| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut reply = Reply::to(question)?;
            reply.code = NXDOMAIN;
            reply.authority(&name("victim.com"), SOA, &soa());
            Some(reply.message())
        })?;
        Ok(Self { victim })
    }

    /// Questions that the victim was asked so far.
    pub(crate) fn victim_questions(&self) -> u64 {
        self.victim.load(Ordering::Relaxed)
    }
}

/// The answer by UDP.
fn attack(question: &[u8], counter: &AtomicU32) -> Option<Vec<u8>> {
    let mut reply = Reply::to(question)?;
    let (owner, rtype) = (reply.name.clone(), reply.rtype);
    let next = counter.fetch_add(1, Ordering::Relaxed);
    match reply.first_label().as_str() {
        "loop" => reply.answer(&owner, CNAME, &name("loop2.hostile.com")),
        "loop2" => reply.answer(&owner, CNAME, &name("loop.hostile.com")),
        label if label.starts_with("bomb") => {
            reply.answer(&owner, CNAME, &name(&format!("bomb{next}.hostile.com")));
        }
        // Far more aliases in one answer than anybody needs.
        "chain" => {
            for link in 0..40 {
                let from = if link == 0 { owner.clone() } else { name(&format!("c{link}.hostile.com")) };
                reply.answer(&from, CNAME, &name(&format!("c{}.hostile.com", link + 1)));
            }
        }
        "fan" => {
            reply.authoritative = false;
            for server in 0..FAN {
                reply.authority(&name("fan.hostile.com"), NS, &name(&format!("x{next}-{server}.victim.com")));
            }
        }
        // Each label deeper, for ever.
        "deep" => {
            reply.authoritative = false;
            reply.authority(&owner, NS, &name("hostile.op-c.net"));
        }
        "giant" | "drip" | "mute" => reply.truncated = true,
        "garbage" => {
            let mut packet = question.get(..2)?.to_vec();
            packet.extend((0..100_u8).map(|byte| byte.wrapping_mul(37)));
            return Some(packet);
        }
        // A name that points to itself.
        "pointer" => {
            let at = u16::try_from(reply.question.len()).ok()?;
            reply.answer(&(0xc000_u16 | at).to_be_bytes(), A, &[203, 0, 113, 66]);
        }
        "short" => {
            let mut packet = reply.message();
            packet.get_mut(6..8)?.copy_from_slice(&1000_u16.to_be_bytes());
            return Some(packet);
        }
        // What nobody asked for, in the hope that somebody believes it.
        "stuffed" => {
            reply.answer(&owner, A, &[203, 0, 113, 7]);
            for victim in ["good.com", "www.good.com", "com", "ns1.op-a.net"] {
                reply.answer(&name(victim), A, &[6, 6, 6, 6]);
                reply.authority(&name(victim), NS, &name("hostile.op-c.net"));
            }
        }
        _ if rtype == SOA => reply.answer(&owner, SOA, &soa()),
        _ if rtype == NS => reply.answer(&owner, NS, &name("hostile.op-c.net")),
        _ => reply.authority(&name("hostile.com"), SOA, &soa()),
    }
    Some(reply.message())
}

/// By TCP: a giant, an answer that does not end, or nothing at all.
fn serve_tcp(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen)?;
    std::thread::Builder::new().name(format!("hostile tcp {listen}")).spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(converse(stream)));
        }
    })?;
    Ok(())
}

fn converse(mut stream: TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question)?;
    let Some(mut reply) = Reply::to(&question) else { return Ok(()) };
    match reply.first_label().as_str() {
        "giant" => {
            let string: Vec<u8> = std::iter::once(255).chain(std::iter::repeat_n(b'x', 255)).collect();
            let owner = reply.name.clone();
            reply.answer(&owner, TXT, &string.repeat(GIANT_STRINGS));
        }
        "drip" => {
            stream.write_all(&[0xff, 0xff])?;
            loop {
                stream.write_all(&[0])?;
                std::thread::sleep(DRIP);
            }
        }
        "mute" => {
            let _ = stream.read(&mut length);
            return Ok(());
        }
        _ => {}
    }
    let message = reply.message();
    stream.write_all(&u16::try_from(message.len())?.to_be_bytes())?;
    Ok(stream.write_all(&message)?)
}
