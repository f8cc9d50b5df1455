//! The server of `whoami.net`, which tells whoever asks it where the question came from: that is how people find out which
//! resolver they sit behind.

use std::net::SocketAddr;

use anyhow::Result;

use crate::faults::address;
use crate::message::{NS, Reply, SOA, TXT, name, serve, soa};

/// The zone in which every name has a TXT record with the address that asks.
pub(crate) const ZONE: &str = "whoami.net";

pub(crate) fn start() -> Result<()> {
    serve(SocketAddr::new(address("ns.whoami.op-c.net")?, 53), |question, from| {
        let mut reply = Reply::to(question)?;
        let owner = reply.name.clone();
        match reply.rtype {
            SOA => reply.answer(&owner, SOA, &soa()),
            NS => reply.answer(&owner, NS, &name("ns.whoami.op-c.net")),
            TXT => {
                let text = from.ip().to_string();
                let mut data = vec![u8::try_from(text.len()).ok()?];
                data.extend_from_slice(text.as_bytes());
                reply.answer(&owner, TXT, &data);
            }
            _ => reply.authority(&name(ZONE), SOA, &soa()),
        }
        Some(reply.message())
    })
}
