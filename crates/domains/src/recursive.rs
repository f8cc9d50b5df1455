//! Queries to recursive resolvers, and what their caches make of the truth: same, stale, negative, filtered or bogus, with the
//! time at which it will be right. The truth is what the authoritative servers say, asked without a cache.

mod judge;
mod own;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::engine::{DNS_PORT, Engine};
use crate::seams::PublicResolver;
use crate::transport::Exchange;
use crate::wire::{Ask, Question};

pub use judge::{Judged, Standing, Truth, judge};
pub use own::{CacheLook, Outgoing, look_into_cache, outgoing};

/// The ports of DNS over TLS and DNS over HTTPS.
const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;

/// How a resolver is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Plain DNS.
    #[default]
    Udp,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
}

/// A resolver that is known only by its address.
pub fn by_address(address: IpAddr) -> PublicResolver {
    PublicResolver {
        name: address.to_string(),
        address,
        tls_name: None,
        doh_path: None,
        filters: false,
        max_negative_ttl: None,
    }
}

/// Asks a resolver. One that has no TLS name is asked by plain DNS whatever is wished.
pub async fn ask(engine: &Engine, resolver: &PublicResolver, question: &Question, via: Via) -> Exchange {
    ask_exactly(engine, resolver, &Ask::recursive(question.clone()), via).await
}

/// Asks a resolver for what fails validation too.
pub async fn ask_unchecked(engine: &Engine, resolver: &PublicResolver, question: &Question) -> Exchange {
    let ask = Ask { checking_disabled: true, ..Ask::recursive(question.clone()) };
    ask_exactly(engine, resolver, &ask, Via::Udp).await
}

async fn ask_exactly(engine: &Engine, resolver: &PublicResolver, ask: &Ask, via: Via) -> Exchange {
    let at = |port| SocketAddr::new(resolver.address, port);
    let transport = engine.transport();
    match (via, &resolver.tls_name) {
        (Via::Tls, Some(name)) => transport.ask_tls(at(TLS_PORT), name, ask).await,
        (Via::Https, Some(name)) => {
            let path = resolver.doh_path.as_deref().unwrap_or("/dns-query");
            transport.ask_https(at(HTTPS_PORT), name, path, ask).await
        }
        _ => transport.ask(at(DNS_PORT), ask).await,
    }
}

/// The resolvers of this machine: those of the roots, else those of `/etc/resolv.conf`.
pub fn of_this_machine(engine: &Engine) -> std::io::Result<Vec<IpAddr>> {
    if !engine.roots().system_resolvers.is_empty() {
        return Ok(engine.roots().system_resolvers.clone());
    }
    let text = std::fs::read_to_string("/etc/resolv.conf")?;
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    Ok(servers.filter_map(|server| server.split('%').next()?.trim().parse().ok()).collect())
}
