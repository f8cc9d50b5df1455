//! Connections to hosts that strangers choose: RDAP servers by referral, WHOIS servers by referral, files on a customer's
//! site. Names are resolved by our own engine and every address is judged before it is called, so that nobody can make us
//! talk to our own network. Where private addresses may be called is a matter of the roots, which only a test bed changes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::{TcpSocket, TcpStream};

use crate::seams::Net;

/// Where the addresses of hosts come from.
pub trait Hosts: Send + Sync {
    /// The addresses of `host`; empty when it has none.
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>>;
}

/// Which addresses may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only those that anybody on the internet could call.
    PublicOnly,
    /// All: for a test bed.
    Anywhere,
}

/// Opens connections.
#[derive(Clone)]
pub struct Dialer {
    net: Net,
    hosts: Arc<dyn Hosts>,
    reach: Reach,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the name {host} cannot be resolved: {reason}")]
    Resolve { host: String, reason: String },
    #[error("the name {0} has no addresses")]
    NoAddresses(String),
    #[error("{host} leads to {address}, which is {kind} and is not called")]
    NotPublic { host: String, address: IpAddr, kind: &'static str },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
}

/// A host that does not take a connection within this time is tried at its next address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Addresses of one host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;

impl Dialer {
    pub fn new(net: Net, hosts: Arc<dyn Hosts>, reach: Reach) -> Self {
        Self { net, hosts, reach }
    }

    /// The same from another vantage point.
    pub fn seen_from(&self, net: Net) -> Self {
        Self { net, ..self.clone() }
    }

    /// Connects to the first address that may be called and answers, and says which that is.
    pub async fn connect(&self, host: &str, port: u16) -> Result<(TcpStream, IpAddr), DialError> {
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addresses = match literal {
            Ok(address) => vec![address],
            Err(_) => {
                let resolved = self.hosts.addresses(host).await;
                resolved.map_err(|reason| DialError::Resolve { host: host.to_owned(), reason })?
            }
        };
        let mut failure = DialError::NoAddresses(host.to_owned());
        // One private address among public ones is how names are rebound: such a name is not called at all.
        for address in &addresses {
            self.check(host, *address)?;
        }
        for address in addresses.into_iter().take(ADDRESSES_TRIED_MAX) {
            match self.open(SocketAddr::new(address, port)).await {
                Ok(stream) => return Ok((stream, address)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Whether an address may be called.
    fn check(&self, host: &str, address: IpAddr) -> Result<(), DialError> {
        match (self.reach, not_public(address)) {
            (Reach::PublicOnly, Some(kind)) => Err(DialError::NotPublic { host: host.to_owned(), address, kind }),
            _ => Ok(()),
        }
    }

    async fn open(&self, address: SocketAddr) -> Result<TcpStream, DialError> {
        let target = self.net.route(address);
        let failed = |source: io::Error| DialError::Connect { address, source };
        let socket = if target.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
        // A routed packet stays on the loopback, where the vantage point's address does not exist.
        if target == address {
            socket.bind(self.net.source(target)).map_err(failed)?;
        }
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, socket.connect(target)).await;
        let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(failed)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Ranges of IPv4 that are not public, by the registries of special addresses (RFC 6890).
const SPECIAL_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a carrier"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a metadata service"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// What kind of address it is, if it is none of the public internet.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let inside = |(network, prefix, _): &&(Ipv4Addr, u32, &str)| {
        (network.to_bits() ^ address.to_bits()).leading_zeros() >= *prefix
    };
    SPECIAL_V4.iter().find(inside).map(|(_, _, kind)| *kind)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = Ipv4Addr::from_bits((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // IPv4 in its several disguises: mapped, compatible, translated.
        [0, 0, 0, 0, 0, 0xffff | 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            special_v4(embedded).or(Some("an IPv4 address"))
        }
        [0x64, 0xff9b, 1, ..] => Some("translated locally"),
        [0x2002, high, low, ..] => {
            special_v4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))).or(Some("a tunnel"))
        }
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("for documentation"),
        [0x2001, 0..=0x1ff, ..] => Some("reserved for protocols"),
        [0x100, 0, 0, 0, ..] => Some("discarded"),
        // Global unicast is 2000::/3; the rest is private, link-local, multicast or not given out.
        [first, ..] if first & 0xe000 == 0x2000 => None,
        [first, ..] if first & 0xfe00 == 0xfc00 => Some("private"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("link-local"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("multicast"),
        _ => Some("reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<IpAddr>);

    impl Hosts for Fixed {
        fn addresses<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for address in ["1.1.1.1", "192.30.45.30", "100.128.0.1", "172.32.0.1", "2606:4700::1", "2a00:1450::1"] {
            assert_eq!(not_public(ip(address)), None, "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::127.0.0.1",
            "168.63.129.16",
            "198.18.0.1",
        ] {
            assert!(not_public(ip(address)).is_some(), "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_with_one_private_address_is_not_called_at_all() {
        let hosts = Arc::new(Fixed(vec![ip("1.1.1.1"), ip("169.254.169.254")]));
        let dialer = Dialer::new(Net::default(), hosts, Reach::PublicOnly);
        let refused = dialer.connect("rebound.example", 80).await.expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "rebound.example leads to 169.254.169.254, which is link-local and is not called"
        );
    }

    #[tokio::test]
    async fn addresses_instead_of_names_are_judged_too() {
        let dialer = Dialer::new(Net::default(), Arc::new(Fixed(Vec::new())), Reach::PublicOnly);
        let refused = dialer.connect("[::ffff:10.0.0.1]", 80).await.expect_err("refused");
        assert!(matches!(refused, DialError::NotPublic { kind: "private", .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_test_bed_routes_public_addresses_to_the_loopback() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let local = listener.local_addr().expect("its address");
        let public: SocketAddr = "192.30.45.30:443".parse().expect("an address");
        let net = Net::default().with_routes([(public, local)].into());
        let dialer = Dialer::new(net, Arc::new(Fixed(vec![public.ip()])), Reach::PublicOnly);
        let (connected, accepted) = tokio::join!(dialer.connect("rdap.example", 443), listener.accept());
        assert!(connected.is_ok() && accepted.is_ok());
    }
}
