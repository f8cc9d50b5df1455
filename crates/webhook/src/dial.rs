//! Where webhooks that tenants configure may lead. Whoever may create a webhook configuration makes the server open
//! connections; it must not reach what only the server can: metadata services of clouds, the store behind it.
//!
//! [`DialPolicy`] judges addresses after names are resolved, so that a name cannot lead where its address may not.
//! Proxies of the environment are not used.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::services::{Location, Locations};

/// How long one of several addresses may take to answer before the next is tried: packets to a machine that is gone are
/// answered by nobody.
const NEXT_LOCATION_AFTER: Duration = Duration::from_secs(2);

/// A range of addresses, `10.0.0.0/8`; an address alone is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix_len: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of addresses, such as 10.0.0.0/8")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError(text.to_owned());
        let (address, prefix_len) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let network: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if network.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.map_or(Ok(bits), |text| text.parse().map_err(|_| wrong()))?;
        if prefix_len > bits { Err(wrong()) } else { Ok(Self { network, prefix_len }) }
    }
}

impl Cidr {
    /// Whether an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let equal_bits = match (self.network, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        equal_bits >= u32::from(self.prefix_len)
    }
}

/// What no webhook has business with.
const DENIED: &[(&str, &str)] = &[
    ("0.0.0.0/8", "unspecified"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("100.100.100.200/32", "a metadata service"),
    ("192.0.0.192/32", "a metadata service"),
    ("168.63.129.16/32", "a metadata service"),
    ("::/128", "unspecified"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("fd00:ec2::254/128", "a metadata service"),
    ("fd20:ce::254/128", "a metadata service"),
];

#[derive(Clone, Debug)]
struct Rule {
    range: Cidr,
    verdict: Verdict,
    /// Rules of the operator come before ours when both name the same range.
    rank: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied(String),
}

/// Which addresses may be called. Of several rules about an address the narrowest range decides; the operator's before
/// ours, a denial before a permission.
#[derive(Clone, Debug)]
pub struct DialPolicy {
    rules: Vec<Rule>,
    /// Single services that are not to be called, such as our own store.
    denied_sockets: Vec<SocketAddr>,
}

impl Default for DialPolicy {
    /// Everything but link-local, metadata, multicast and unspecified addresses.
    fn default() -> Self {
        let rule = |(range, what): &(&str, &str)| {
            let range = range.parse().expect("invariant: the ranges above are ranges");
            Rule { range, verdict: Verdict::Denied((*what).to_owned()), rank: 0 }
        };
        Self { rules: DENIED.iter().map(rule).collect(), denied_sockets: Vec::new() }
    }
}

impl DialPolicy {
    /// The default with the operator's ranges.
    pub fn new(allow: &[Cidr], deny: &[Cidr], denied_sockets: Vec<SocketAddr>) -> Self {
        let mut policy = Self { denied_sockets, ..Self::default() };
        let allowed = allow.iter().map(|range| Rule { range: *range, verdict: Verdict::Allowed, rank: 1 });
        policy.rules.extend(allowed);
        let denied = |range: &Cidr| Rule { range: *range, verdict: Verdict::Denied("denied by flag".into()), rank: 2 };
        policy.rules.extend(deny.iter().map(denied));
        policy
    }

    /// Whether the address may be called; why not, if not.
    pub fn check(&self, address: SocketAddr) -> Result<(), Denied> {
        let ip = effective(address.ip());
        if self.denied_sockets.iter().any(|denied| (effective(denied.ip()), denied.port()) == (ip, address.port())) {
            return Err(Denied("a service of the server itself".into()));
        }
        let matching = self.rules.iter().filter(|rule| rule.range.contains(ip));
        match matching.max_by_key(|rule| (rule.range.prefix_len, rule.rank)).map(|rule| &rule.verdict) {
            Some(Verdict::Denied(what)) => Err(Denied(what.clone())),
            Some(Verdict::Allowed) | None => Ok(()),
        }
    }
}

/// The address that is really reached: IPv6 has several ways to write an IPv4 address.
fn effective(address: IpAddr) -> IpAddr {
    /// Translated to IPv4 on the way, RFC 6052.
    const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
    let IpAddr::V6(v6) = address else { return address };
    let segments = v6.segments();
    let low = Ipv4Addr::from_bits((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    let embedded = v6.to_ipv4_mapped().or_else(|| (segments[..6] == NAT64).then_some(low));
    // "IPv4-compatible", long gone but still dialled by some stacks; ::1 and :: are addresses of their own.
    let compatible = (segments[..6] == [0; 6] && v6 != Ipv6Addr::LOCALHOST && !v6.is_unspecified()).then_some(low);
    embedded.or(compatible).map_or(address, IpAddr::V4)
}

/// An address that must not be called. Says of what kind it is, not which: names are resolved where tenants cannot see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its address must not be called: {0}")]
pub struct Denied(String);

impl Denied {
    /// Of what kind the address is.
    pub fn kind(&self) -> &str {
        &self.0
    }
}

/// The policy for webhooks that tenants configure, of the whole process.
fn tenants_policy() -> &'static RwLock<Arc<DialPolicy>> {
    static POLICY: OnceLock<RwLock<Arc<DialPolicy>>> = OnceLock::new();
    POLICY.get_or_init(RwLock::default)
}

/// Sets where webhooks that tenants configure may lead, for connections opened from now on.
pub fn set_tenants_policy(policy: DialPolicy) {
    *tenants_policy().write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(policy);
}

/// Who chose where an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An object in the API: the tenants' policy holds.
    Tenant,
    /// The operator, by flag or file: anywhere.
    Operator,
}

/// Opens connections to where they may lead.
#[derive(Clone, Debug)]
pub struct Dialer {
    origin: Origin,
    /// Where to connect whatever the URL says.
    locations: Option<Locations>,
}

impl Dialer {
    pub fn new(origin: Origin, locations: Option<Locations>) -> Self {
        Self { origin, locations }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Some(locations) = self.locations.clone() {
            return Box::pin(async move { dial_any(&locations).await.map(TokioIo::new) });
        }
        let origin = self.origin;
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
            dial(origin, &host, port).await.map(TokioIo::new)
        })
    }
}

/// The first that can be reached; the last failure if none can.
async fn dial_any(locations: &Locations) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for Location { host, port, origin } in locations.iter() {
        let dialled = match locations.is_single() {
            true => dial(*origin, host, *port).await,
            false => match tokio::time::timeout(NEXT_LOCATION_AFTER, dial(*origin, host, *port)).await {
                Ok(dialled) => dialled,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")),
            },
        };
        match dialled {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn dial(origin: Origin, host: &str, port: u16) -> io::Result<TcpStream> {
    let policy = match origin {
        Origin::Tenant => Some(tenants_policy().read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()),
        Origin::Operator => None,
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("lookup {host}: no such host"));
    for address in tokio::net::lookup_host((host, port)).await? {
        if let Some(Err(denied)) = policy.as_ref().map(|policy| policy.check(address)) {
            failure = io::Error::new(io::ErrorKind::PermissionDenied, denied);
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests;
