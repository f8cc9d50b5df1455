//! Services that stand before a site and answer in its place: where one of them is in DNS, the record's own target cannot be seen,
//! so nobody can say from outside whether it is right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::authority::RecordValue;
use crate::name::DomainName;

/// `(service, network, prefix)`, as the services publish the networks that they answer from. Those are left out that also sell
/// addresses to customers for their own servers.
const NETWORKS_V4: &[(&str, Ipv4Addr, u32)] = &[
    (CLOUDFLARE, Ipv4Addr::new(103, 21, 244, 0), 22),
    (CLOUDFLARE, Ipv4Addr::new(103, 22, 200, 0), 22),
    (CLOUDFLARE, Ipv4Addr::new(103, 31, 4, 0), 22),
    (CLOUDFLARE, Ipv4Addr::new(104, 16, 0, 0), 13),
    (CLOUDFLARE, Ipv4Addr::new(104, 24, 0, 0), 14),
    (CLOUDFLARE, Ipv4Addr::new(108, 162, 192, 0), 18),
    (CLOUDFLARE, Ipv4Addr::new(131, 0, 72, 0), 22),
    (CLOUDFLARE, Ipv4Addr::new(141, 101, 64, 0), 18),
    (CLOUDFLARE, Ipv4Addr::new(162, 158, 0, 0), 15),
    (CLOUDFLARE, Ipv4Addr::new(172, 64, 0, 0), 13),
    (CLOUDFLARE, Ipv4Addr::new(173, 245, 48, 0), 20),
    (CLOUDFLARE, Ipv4Addr::new(188, 114, 96, 0), 20),
    (CLOUDFLARE, Ipv4Addr::new(190, 93, 240, 0), 20),
    (CLOUDFLARE, Ipv4Addr::new(197, 234, 240, 0), 22),
    (CLOUDFLARE, Ipv4Addr::new(198, 41, 128, 0), 17),
    (IMPERVA, Ipv4Addr::new(45, 60, 0, 0), 16),
    (IMPERVA, Ipv4Addr::new(107, 154, 0, 0), 16),
    (IMPERVA, Ipv4Addr::new(149, 126, 72, 0), 21),
    (IMPERVA, Ipv4Addr::new(192, 230, 64, 0), 18),
    (IMPERVA, Ipv4Addr::new(198, 143, 32, 0), 19),
    (IMPERVA, Ipv4Addr::new(199, 83, 128, 0), 21),
    (SUCURI, Ipv4Addr::new(192, 88, 134, 0), 23),
    (SUCURI, Ipv4Addr::new(185, 93, 228, 0), 22),
    (SUCURI, Ipv4Addr::new(66, 248, 200, 0), 22),
];

const NETWORKS_V6: &[(&str, Ipv6Addr, u32)] = &[
    (CLOUDFLARE, Ipv6Addr::new(0x2400, 0xcb00, 0, 0, 0, 0, 0, 0), 32),
    (CLOUDFLARE, Ipv6Addr::new(0x2405, 0x8100, 0, 0, 0, 0, 0, 0), 32),
    (CLOUDFLARE, Ipv6Addr::new(0x2405, 0xb500, 0, 0, 0, 0, 0, 0), 32),
    (CLOUDFLARE, Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 0), 32),
    (CLOUDFLARE, Ipv6Addr::new(0x2803, 0xf800, 0, 0, 0, 0, 0, 0), 32),
    (CLOUDFLARE, Ipv6Addr::new(0x2a06, 0x98c0, 0, 0, 0, 0, 0, 0), 29),
    (CLOUDFLARE, Ipv6Addr::new(0x2c0f, 0xf248, 0, 0, 0, 0, 0, 0), 32),
    (IMPERVA, Ipv6Addr::new(0x2a02, 0xe980, 0, 0, 0, 0, 0, 0), 29),
];

/// `(service, end of the names that it gives to its customers)`.
const HOSTS: &[(&str, &str)] = &[
    (CLOUDFLARE, "cdn.cloudflare.net"),
    (IMPERVA, "impervadns.net"),
    (IMPERVA, "incapdns.net"),
    (SUCURI, "sucuridns.com"),
    ("Akamai", "akamaiedge.net"),
    ("Akamai", "edgekey.net"),
    ("Akamai", "edgesuite.net"),
    ("Amazon CloudFront", "cloudfront.net"),
    ("Azure Front Door", "azurefd.net"),
    ("Bunny CDN", "b-cdn.net"),
    ("Fastly", "fastly.net"),
];

const CLOUDFLARE: &str = "Cloudflare";
const IMPERVA: &str = "Imperva";
const SUCURI: &str = "Sucuri";

/// The service that a record's value leads to.
pub(super) fn service(value: &RecordValue) -> Option<&'static str> {
    match value {
        RecordValue::Address(IpAddr::V4(address)) => {
            let inside = |(_, network, prefix): &&(&str, Ipv4Addr, u32)| {
                (u32::from(*address) ^ u32::from(*network)) >> (32 - prefix) == 0
            };
            NETWORKS_V4.iter().find(inside).map(|(service, ..)| *service)
        }
        RecordValue::Address(IpAddr::V6(address)) => {
            let inside = |(_, network, prefix): &&(&str, Ipv6Addr, u32)| {
                (u128::from(*address) ^ u128::from(*network)) >> (128 - prefix) == 0
            };
            NETWORKS_V6.iter().find(inside).map(|(service, ..)| *service)
        }
        RecordValue::Name(name) => HOSTS.iter().find(|(_, end)| ends_with(name, end)).map(|(service, _)| *service),
        RecordValue::Text(_) | RecordValue::Other(_) => None,
    }
}

fn ends_with(name: &DomainName, end: &str) -> bool {
    name.as_str().strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))
}

/// What to do about a record that is behind a service.
pub(super) fn note(service: &str, host: &str) -> String {
    let off = match service {
        CLOUDFLARE => "set it to \"DNS only\" (the grey cloud)",
        _ => "take the service away from this name",
    };
    format!(
        "{host} leads to {service}, which answers in its place: where it leads from there cannot be seen in DNS. If {service} is \
         meant to stand before it, see there that its origin is right; if not, {off}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<&'static str> {
        let value = match text.parse() {
            Ok(address) => RecordValue::Address(address),
            Err(_) => RecordValue::Name(DomainName::parse(text).expect("a name")),
        };
        service(&value)
    }

    #[test]
    fn services_are_told_by_their_networks_and_names() {
        assert_eq!(of("104.16.0.0"), Some("Cloudflare"));
        assert_eq!(of("104.23.255.255"), Some("Cloudflare"));
        assert_eq!(of("104.28.0.0"), None);
        assert_eq!(of("2606:4700:10::6816:1"), Some("Cloudflare"));
        assert_eq!(of("2606:4701::1"), None);
        assert_eq!(of("45.60.1.2"), Some("Imperva"));
        assert_eq!(of("d111.cloudfront.net"), Some("Amazon CloudFront"));
        assert_eq!(of("notcloudfront.net"), None);
        assert_eq!(of("203.0.113.7"), None);
    }
}
