//! The names and addresses that a serving certificate is for: those every server answers to, those it is told, and, where it
//! listens on all addresses, the one by which other machines most likely reach it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// The names and addresses under which clients reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingNames {
    pub(super) dns: BTreeSet<String>,
    pub(super) ips: BTreeSet<IpAddr>,
}

/// One name or address that a client can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingName {
    Dns(String),
    Ip(IpAddr),
}

/// Why a text is no name for a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither a DNS name nor an IP address that clients could ask for")]
pub struct NotAServingName;

impl FromStr for ServingName {
    type Err = NotAServingName;

    fn from_str(host: &str) -> Result<Self, NotAServingName> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() => Err(NotAServingName),
            Ok(ip) => Ok(Self::Ip(ip)),
            Err(_) if is_dns_name(host) => Ok(Self::Dns(host.to_ascii_lowercase())),
            Err(_) => Err(NotAServingName),
        }
    }
}

impl Default for ServingNames {
    /// The names every server answers to.
    fn default() -> Self {
        let dns = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        Self { dns: dns.map(str::to_owned).into(), ips: loopback.into() }
    }
}

impl ServingNames {
    #[must_use]
    pub fn with(mut self, name: ServingName) -> Self {
        match name {
            ServingName::Dns(name) => self.dns.insert(name),
            ServingName::Ip(ip) => self.ips.insert(ip),
        };
        self
    }

    /// Adds the address that is listened on. All addresses stand for those of the default routes: which of a machine's
    /// others are meant for clients nobody knows but whoever set it up.
    #[must_use]
    pub fn with_listening(self, ip: IpAddr) -> Self {
        match ip.is_unspecified() {
            false => self.with(ServingName::Ip(ip)),
            true => default_route_addresses(ip).into_iter().map(ServingName::Ip).fold(self, Self::with),
        }
    }

    /// Adds the machine's own name, where it can be read and is one.
    #[must_use]
    pub fn with_own_hostname(self) -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        match name.and_then(|name| name.trim().parse().ok()) {
            Some(name) => self.with(name),
            None => self,
        }
    }
}

/// This machine's own addresses towards the rest of the world, of the families that a socket on the wildcard address `ip`
/// serves; none where there is no such route. Nothing is sent: the system is asked which address it would send from.
pub fn default_route_addresses(ip: IpAddr) -> Vec<IpAddr> {
    /// Of the ranges for documentation, which nobody has a route of their own for (RFC 5737, RFC 3849).
    const SOMEWHERE: [(IpAddr, IpAddr); 2] = [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
    ];
    /// Any will do.
    const PORT: u16 = 443;
    let own = |(any, somewhere): (IpAddr, IpAddr)| {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
        socket.connect(SocketAddr::new(somewhere, PORT)).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_unspecified() && !own.is_loopback()).then_some(own)
    };
    // Linux serves both families on the wildcard of the newer one.
    SOMEWHERE.into_iter().filter(|(any, _)| ip.is_ipv6() || any.is_ipv4()).filter_map(own).collect()
}

fn is_dns_name(name: &str) -> bool {
    /// RFC 1035.
    const MAX_DNS_NAME_LENGTH: usize = 253;
    !name.is_empty()
        && name.len() <= MAX_DNS_NAME_LENGTH
        && name.split('.').all(|label| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && label.len() < 64
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart_and_nonsense_is_refused() {
        let parse = |text: &str| text.parse::<ServingName>();
        assert_eq!(parse("API.example.com"), Ok(ServingName::Dns("api.example.com".to_owned())));
        assert_eq!(parse("[2001:db8::1]"), Ok(ServingName::Ip("2001:db8::1".parse().unwrap())));
        for nonsense in ["", "0.0.0.0", "::", "https://api.example.com", "a..b", "two words"] {
            assert_eq!(parse(nonsense), Err(NotAServingName), "{nonsense}");
        }
    }

    #[test]
    fn all_addresses_stand_for_those_that_others_reach_us_at() {
        let own = default_route_addresses(Ipv4Addr::UNSPECIFIED.into());
        assert!(own.len() <= 1 && own.iter().all(|ip| ip.is_ipv4() && !ip.is_loopback()), "{own:?}");
        let names = ServingNames::default().with_listening(Ipv4Addr::UNSPECIFIED.into());
        assert!(own.iter().all(|ip| names.ips.contains(ip)), "{names:?}");
        assert!(names.ips.iter().all(|ip| !ip.is_unspecified()), "no client can ask for {names:?}");
        let both = default_route_addresses(Ipv6Addr::UNSPECIFIED.into());
        assert!(own.iter().all(|ip| both.contains(ip)), "{both:?}");
    }
}
