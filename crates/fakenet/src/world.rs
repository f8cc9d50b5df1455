//! The world: which zones there are, who serves them and with which faults, and who resolves names for people.

use std::net::IpAddr;

use crate::generated;
use crate::ill;
use crate::zone::Operator::{Geo, OpA, OpB, Root, Stale, Tld};
use crate::zone::{Ds, Signing, Zone};

/// The root servers and their addresses.
pub(crate) const ROOT_SERVERS: &[(&str, &[&str])] =
    &[("a.root-servers.net", &["198.41.0.4", "2001:503:ba3e::2:30"]), ("b.root-servers.net", &["170.247.170.2"])];

/// Every other host that a server's name leads to.
pub(crate) const HOSTS: &[(&str, &[&str])] = &[
    ("a.gtld-servers.net", &["192.5.6.30", "2001:503:a83e::2:30"]),
    ("b.gtld-servers.net", &["192.33.14.30"]),
    // Asked only when there is a crowd.
    ("c.gtld-servers.net", &["192.26.92.30", "2001:503:83eb::30"]),
    ("d.gtld-servers.net", &["192.31.80.30", "2001:500:856e::30"]),
    ("e.gtld-servers.net", &["192.12.94.30", "2001:502:1ca1::30"]),
    ("f.gtld-servers.net", &["192.35.51.30", "2001:503:d414::30"]),
    ("g.gtld-servers.net", &["192.42.93.30", "2001:503:eea3::30"]),
    ("h.gtld-servers.net", &["192.54.112.30", "2001:502:8cc::30"]),
    ("i.gtld-servers.net", &["192.43.172.30", "2001:503:39c1::30"]),
    ("j.gtld-servers.net", &["192.48.79.30", "2001:502:7094::30"]),
    ("k.gtld-servers.net", &["192.52.178.30", "2001:503:d2d::30"]),
    ("l.gtld-servers.net", &["192.41.162.30", "2001:500:d937::30"]),
    ("m.gtld-servers.net", &["192.55.83.30", "2001:501:b1f9::30"]),
    ("ns1.op-a.net", &["205.251.192.1", "2600:9000:5300::1"]),
    ("ns2.op-a.net", &["205.251.193.1"]),
    ("ns1.digitalocean.com", &["173.245.58.51"]),
    ("ns2.digitalocean.com", &["173.245.59.41"]),
    ("ns3.digitalocean.com", &["198.41.222.173"]),
    ("ns1.op-b.org", &["108.162.192.1"]),
    ("ns2.op-b.org", &["172.64.32.1"]),
    ("ns1.geo-dns.net", &["162.159.24.1"]),
    ("lame.op-c.net", &["45.54.64.5"]),
    ("silent.op-c.net", &["45.54.64.6"]),
    ("closed.op-c.net", &["45.54.64.7"]),
    ("crooked.op-c.net", &["45.54.64.8"]),
    ("upward.op-c.net", &["45.54.64.10"]),
    ("stale.op-c.net", &["45.54.64.11"]),
    ("open.op-c.net", &["45.54.64.12"]),
    ("noedns.op-c.net", &["45.54.64.13"]),
    ("formerr.op-c.net", &["45.54.64.14"]),
    ("notcp.op-c.net", &["45.54.64.15"]),
    ("slow.op-c.net", &["45.54.64.16"]),
    ("hostile.op-c.net", &["45.54.64.17"]),
    ("victim.op-c.net", &["45.54.64.18"]),
    ("ns.whoami.op-c.net", &["45.54.64.19"]),
    ("lowercase.op-c.net", &["45.54.64.20"]),
    ("dropsaaaa.op-c.net", &["45.54.64.21"]),
    ("noaaaa.op-c.net", &["45.54.64.22"]),
    ("anyedns.op-c.net", &["45.54.64.23"]),
    ("stripsedns.op-c.net", &["45.54.64.24"]),
    ("strict.op-c.net", &["45.54.64.25"]),
    ("nosoa.op-c.net", &["45.54.64.26"]),
    ("twosoas.op-c.net", &["45.54.64.27"]),
];

/// Where the fault relay of `crooked.op-c.net` answers from.
pub(crate) const CROOKED_SOURCE: &str = "45.54.64.9";
/// Web servers, registries and what else has an address.
pub(crate) const RDAP_ADDRESS: &str = "192.30.45.30";
pub(crate) const WHOIS_ADDRESSES: &[(&str, &str)] = &[
    ("whois.iana.org", "192.0.32.59"),
    ("whois.registry.net", "192.30.45.31"),
    ("whois.registrar.net", "192.30.45.32"),
];
/// A resolver of another family (bind9), as a second opinion in comparisons.
pub const SECOND_OPINION: &str = "4.2.2.2";
/// A web server whose certificate names its hosts.
pub(crate) const WEB_ADDRESS: &str = "151.101.1.10";
/// A web server whose certificate is for somebody else.
pub(crate) const WRONG_CERTIFICATE_ADDRESS: &str = "151.101.1.11";
/// Its certificate is by an authority with the name of one that CAA records know.
pub(crate) const OTHER_ISSUER_ADDRESS: &str = "151.101.1.14";
/// A web server that answers 503.
pub(crate) const BROKEN_WEB_ADDRESS: &str = "151.101.1.12";
/// A web server with a machine at each place: that in Singapore was forgotten when the certificate was changed, that in São Paulo
/// hangs up.
pub(crate) const PLACES_WEB_ADDRESS: &str = "151.101.1.15";
/// Where those machines take visitors from.
pub(crate) const FORGOTTEN_PLACE: &str = "100.64.3.1";
pub(crate) const SILENT_PLACE: &str = "100.64.4.1";

/// The token at `_bailiwick-challenge.geo.com`, which only Frankfurt does not get.
pub const PROOF_EXCEPT_IN_FRANKFURT: &str = "mzxw6ytboi4dsnrzgqytcnbqgezdgnbv";

/// Places that questions can be asked from: `(name, source address)`.
pub const VANTAGE_POINTS: &[(&str, &str)] = &[
    ("fra", "100.64.1.1"),
    ("iad", "100.64.2.1"),
    ("sin", "100.64.3.1"),
    ("gru", "100.64.4.1"),
    ("lhr", "100.64.5.1"),
    ("nrt", "100.64.6.1"),
    ("syd", "100.64.7.1"),
    ("jnb", "100.64.8.1"),
    ("sjc", "100.64.9.1"),
    ("yyz", "100.64.10.1"),
];

/// A resolver that people use.
pub struct Resolver {
    /// What people call it.
    pub name: &'static str,
    /// Where it answers.
    pub address: &'static str,
    /// The name in its certificate.
    pub tls_name: &'static str,
    /// It refuses harmful names.
    pub filters: bool,
    /// Its cap for negative answers.
    pub max_negative_ttl: u32,
    /// Its configuration beyond what all have.
    pub(crate) extra: &'static str,
}

/// The public resolvers. Quad9 filters `malware.com`; OpenDNS has a poisoned answer for `poisoned.com`.
pub const RESOLVERS: &[Resolver] = &[
    Resolver {
        name: "Cloudflare",
        address: "1.1.1.1",
        tls_name: "one.one.one.one",
        filters: false,
        max_negative_ttl: 3600,
        extra: "",
    },
    Resolver {
        name: "Google",
        address: "8.8.8.8",
        tls_name: "dns.google",
        filters: false,
        max_negative_ttl: 300,
        extra: "",
    },
    Resolver {
        name: "Quad9",
        address: "9.9.9.9",
        tls_name: "dns.quad9.net",
        filters: true,
        max_negative_ttl: 3600,
        extra: "local-zone: \"malware.com.\" always_nxdomain\n",
    },
    Resolver {
        name: "OpenDNS",
        address: "208.67.222.222",
        tls_name: "dns.opendns.com",
        filters: true,
        max_negative_ttl: 3600,
        // It shows its cache to whoever asks without wanting recursion.
        extra: "access-control: 100.64.0.0/10 allow_snoop\nlocal-zone: \"poisoned.com.\" transparent\nlocal-data: \"poisoned.com. 240 IN A 6.6.6.6\"\n\
                local-data: '_bailiwick-challenge.poisoned.com. 240 IN TXT \"mzxw6ytboi4dsnrzgqytcnbqgezdgnbv\"'\n",
    },
];

/// Every address that the namespace has.
pub(crate) fn all_addresses() -> Vec<IpAddr> {
    let hosts = ROOT_SERVERS.iter().chain(HOSTS).flat_map(|(_, addresses)| addresses.iter().copied());
    let others = [
        RDAP_ADDRESS,
        WEB_ADDRESS,
        WRONG_CERTIFICATE_ADDRESS,
        OTHER_ISSUER_ADDRESS,
        BROKEN_WEB_ADDRESS,
        PLACES_WEB_ADDRESS,
        CROOKED_SOURCE,
        SECOND_OPINION,
    ];
    let all = hosts
        .chain(others)
        .chain(WHOIS_ADDRESSES.iter().map(|(_, address)| *address))
        .chain(VANTAGE_POINTS.iter().map(|(_, address)| *address))
        .chain(RESOLVERS.iter().map(|resolver| resolver.address));
    let mut addresses: Vec<IpAddr> =
        all.map(|text| text.parse().expect("invariant: the world's addresses are valid")).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// The addresses of a host.
pub(crate) fn addresses_of(host: &str) -> &'static [&'static str] {
    ROOT_SERVERS.iter().chain(HOSTS).find(|(name, _)| *name == host).map_or(&[], |(_, addresses)| *addresses)
}

/// The hosts whose names end so.
pub(crate) fn hosts_below(ending: &'static str) -> impl Iterator<Item = &'static str> {
    HOSTS.iter().map(|(host, _)| *host).filter(move |host| host.ends_with(ending))
}

/// The address records of all hosts below `zone`.
fn hosts_in(zone: &str) -> String {
    let mut text = String::new();
    let ending = format!(".{zone}");
    for (host, addresses) in ROOT_SERVERS.iter().chain(HOSTS).filter(|(host, _)| host.ends_with(&ending)) {
        for address in *addresses {
            text.push_str(&format!("{host}. 3600 IN {} {address}\n", if address.contains(':') { "AAAA" } else { "A" }));
        }
    }
    text
}

/// `PTR` records and origin AS records of the servers.
fn reverse() -> (String, String) {
    let (mut ptr, mut origins) = (String::new(), String::new());
    for (host, addresses) in ROOT_SERVERS.iter().chain(HOSTS) {
        for address in addresses.iter().filter_map(|address| address.parse::<std::net::Ipv4Addr>().ok()) {
            let [a, b, c, d] = address.octets();
            // The faulty servers have no reverse names.
            if !host.ends_with(".op-c.net") {
                ptr.push_str(&format!("{d}.{c}.{b}.{a}.in-addr IN PTR {host}.\n"));
            }
            let asn = 64_500 + u32::from(a);
            origins.push_str(&format!(
                "{d}.{c}.{b}.{a}.origin IN TXT \"{asn} | {a}.{b}.{c}.0/24 | US | arin | 2010-01-01\"\n"
            ));
        }
    }
    (ptr, origins)
}

/// All zones.
pub(crate) fn zones() -> Vec<Zone> {
    let mut zones = infrastructure();
    zones.extend(healthy());
    zones.extend(faulty());
    zones.extend(ill::zones());
    zones.extend(generated::zones());
    zones
}

const BOTH: [&str; 2] = ["ns1.op-a.net", "ns2.op-b.org"];

fn infrastructure() -> Vec<Zone> {
    let root: Vec<&str> = ROOT_SERVERS.iter().map(|(name, _)| *name).collect();
    let tld = ["a.gtld-servers.net", "b.gtld-servers.net"];
    let a = ["ns1.op-a.net", "ns2.op-a.net"];
    let b = ["ns1.op-b.org", "ns2.op-b.org"];
    let (ptr, origins) = reverse();
    vec![
        Zone::new(".", &root, &[Root]).signed(Signing::Nsec, Ds::Absent).soa(86_400, 86_400),
        Zone::new("com", &tld, &[Tld]).signed(Signing::OptOut, Ds::Right).soa(900, 900),
        Zone::new("net", &tld, &[Tld]).signed(Signing::OptOut, Ds::Right).soa(900, 900),
        Zone::new("org", &tld, &[Tld]).signed(Signing::Nsec, Ds::Right),
        Zone::new("io", &tld, &[Tld]).signed(Signing::Nsec3, Ds::Right),
        Zone::new("arpa", &tld, &[Tld]).records(&ptr),
        Zone::new("root-servers.net", &root, &[Root]).records(&hosts_in("root-servers.net")),
        Zone::new("gtld-servers.net", &tld, &[Tld]).records(&hosts_in("gtld-servers.net")),
        Zone::new("op-a.net", &a, &[OpA]).records(&hosts_in("op-a.net")),
        Zone::new("op-b.org", &b, &[OpB]).records(&hosts_in("op-b.org")).signed(Signing::Nsec, Ds::Right),
        Zone::new("op-c.net", &a, &[OpA]).records(&format!("{}alias IN CNAME ns2.op-a.net.\n", hosts_in("op-c.net"))),
        Zone::new("geo-dns.net", &a, &[OpA]).records(&hosts_in("geo-dns.net")),
        Zone::new(
            "digitalocean.com",
            &["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"],
            &[OpA],
        )
        .records(&hosts_in("digitalocean.com")),
        Zone::new("iana.org", &a, &[OpA])
            .records(&format!("data IN A {RDAP_ADDRESS}\nwhois IN A {}", WHOIS_ADDRESSES[0].1)),
        Zone::new("registry.net", &a, &[OpA])
            .records(&format!("rdap IN A {RDAP_ADDRESS}\nwhois IN A {}", WHOIS_ADDRESSES[1].1)),
        Zone::new("registrar.net", &a, &[OpA]).records(&format!(
            "rdap IN A {RDAP_ADDRESS}\nconnect IN A {RDAP_ADDRESS}\nwhois IN A {}",
            WHOIS_ADDRESSES[2].1
        )),
        Zone::new("cymru.com", &a, &[OpA]).records(&format!("$ORIGIN asn.cymru.com.\n{origins}")),
    ]
}

fn healthy() -> Vec<Zone> {
    let a = ["ns1.op-a.net", "ns2.op-a.net"];
    let big: String = (0..14).map(|index| format!("@ IN TXT \"part-{index:02}-{}\"\n", "x".repeat(230))).collect();
    vec![
        Zone::new("good.com", &BOTH, &[OpA, OpB])
            .signed(Signing::Nsec, Ds::Right)
            .records(&format!(
                "@ IN A {WEB_ADDRESS}\n@ IN MX 10 mail\n@ IN TXT \"v=spf1 mx -all\"\n@ IN CAA 0 issue \"letsencrypt.org\"\n\
                 mail IN A {WEB_ADDRESS}\nwww 600 IN CNAME edge.target.net.\nshop 60 IN A {WEB_ADDRESS}\n\
                 *.apps IN A {WEB_ADDRESS}\ndeep.empty IN TXT \"below an empty name\"\n\
                 status IN CNAME gone.target.net.\nlegacy IN DNAME new.target.net.\n\
                 bank IN A {OTHER_ISSUER_ADDRESS}"
            )),
        Zone::new("target.net", &["ns1.op-b.org", "ns2.op-b.org"], &[OpB])
            .signed(Signing::Nsec3, Ds::Right)
            .records(&format!(
                "@ IN A {WEB_ADDRESS}\nedge 30 IN CNAME pop\npop 20 IN A {WEB_ADDRESS}\npop 20 IN A {WRONG_CERTIFICATE_ADDRESS}\n\
                 a.new IN A {WEB_ADDRESS}\nb.new IN A {BROKEN_WEB_ADDRESS}"
            )),
        Zone::new("q7.io", &["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"], &[OpA])
            .soa(1800, 1800)
            .records(&format!(
                "@ 1800 IN A {WEB_ADDRESS}\n@ 1800 IN MX 10 mail.q7.io.\nmail 1800 IN A {WEB_ADDRESS}\nblog 300 IN CNAME edge.target.net."
            )),
        Zone::new("plain.com", &a, &[OpA]).records(&format!(
            "@ IN A {WEB_ADDRESS}\nwww 3600 IN A {WEB_ADDRESS}\npops IN A {PLACES_WEB_ADDRESS}\n_domainconnect IN TXT \"connect.registrar.net\""
        )),
        Zone::new("negative.com", &a, &[OpA]).soa(300, 3600).records(&format!("@ IN A {WEB_ADDRESS}")),
        Zone::new("moving.com", &a, &[OpA]).records(&format!("@ 3600 IN A {WEB_ADDRESS}\nwww 3600 IN A {WEB_ADDRESS}")),
        Zone::new("fresh.com", &a, &[OpA]).records(&format!("@ IN A {WEB_ADDRESS}")),
        Zone::new("claims.com", &a, &[OpA]).records(&format!("@ IN A {WEB_ADDRESS}\n@ IN TXT \"bailiwick-verification=abc\"")),
        Zone::new("big.com", &a, &[OpA]).records(&big),
        Zone::new("malware.com", &a, &[OpA]).records(&format!("@ IN A {BROKEN_WEB_ADDRESS}")),
        Zone::new("poisoned.com", &a, &[OpA]).records(&format!("@ IN A {WEB_ADDRESS}")),
        Zone::new("down.com", &a, &[OpA]).records(&format!("@ IN A {BROKEN_WEB_ADDRESS}\nwww IN A {WRONG_CERTIFICATE_ADDRESS}")),
        Zone::new("xn--bcher-kva.com", &a, &[OpA]).records(&format!("@ IN A {WEB_ADDRESS}")),
        Zone::new("geo.com", &["ns1.geo-dns.net"], &[Geo]).records(&format!(
            "@ 60 IN A 203.0.113.2\nwww 60 IN A 203.0.113.2\n_bailiwick-challenge 60 IN TXT \"{PROOF_EXCEPT_IN_FRANKFURT}\"",
        )),
    ]
}

fn faulty() -> Vec<Zone> {
    let web = format!("@ IN A {WEB_ADDRESS}\nwww IN A {WEB_ADDRESS}");
    let with = |origin: &str, other: &str| Zone::new(origin, &["ns1.op-a.net", other], &[OpA]).records(&web);
    let a = ["ns1.op-a.net", "ns2.op-a.net"];
    vec![
        with("lame.com", "lame.op-c.net"),
        with("silent.com", "silent.op-c.net"),
        with("closed.com", "closed.op-c.net"),
        with("crooked.com", "crooked.op-c.net"),
        with("upward.com", "upward.op-c.net"),
        with("open.com", "open.op-c.net"),
        with("noedns.com", "noedns.op-c.net"),
        with("formerr.com", "formerr.op-c.net"),
        with("slow.com", "slow.op-c.net"),
        Zone::new("notcp.com", &["notcp.op-c.net"], &[OpA]).records(
            &(0..14).map(|index| format!("@ IN TXT \"part-{index:02}-{}\"\n", "x".repeat(230))).collect::<String>(),
        ),
        Zone::new("broken.com", &["lame.op-c.net", "silent.op-c.net", "closed.op-c.net"], &[OpA]),
        Zone::new("single.com", &["ns1.op-a.net"], &[OpA]).records(&web),
        Zone::new("stale.com", &["ns1.op-a.net", "stale.op-c.net"], &[OpA]).records(&web),
        Zone::new("stale.com", &["ns1.op-a.net", "stale.op-c.net"], &[Stale])
            .serial(2_026_110_101)
            .records("@ IN A 203.0.113.9\nwww IN A 203.0.113.9"),
        Zone::new("mismatch.com", &["ns1.op-a.net", "ns2.op-a.net"], &[OpA, OpB])
            .delegated_to(&["ns1.op-a.net", "ns1.op-b.org"])
            .records(&web),
        Zone::new("wrongglue.com", &["ns1.wrongglue.com", "ns2.wrongglue.com"], &[OpA])
            .glue("ns1.wrongglue.com", "205.251.192.1")
            .glue("ns2.wrongglue.com", "45.54.64.6")
            .records(&format!("ns1 IN A 205.251.192.1\nns2 IN A 205.251.193.1\n{web}")),
        Zone::new("loop.com", &a, &[OpA]).records("a IN CNAME b\nb IN CNAME c\nc IN CNAME a\nself IN CNAME self"),
        Zone::new("circle.com", &["ns1.circle.net"], &[OpA]).records(&web),
        Zone::new("circle.net", &["ns1.circle.com"], &[OpA]).records(&web),
        Zone::new("expired.com", &a, &[OpA]).signed(Signing::Expired, Ds::Right).records(&web),
        Zone::new("wrongds.com", &a, &[OpA]).signed(Signing::Nsec, Ds::Wrong).records(&web),
        Zone::new("island.com", &a, &[OpA]).signed(Signing::Nsec, Ds::Absent).records(&web),
        Zone::new("unsigned-ds.com", &a, &[OpA]).signed(Signing::None, Ds::Wrong).records(&web),
        Zone::new("private.com", &["ns1.private.com"], &[OpA])
            .glue("ns1.private.com", "127.0.0.1")
            .records("ns1 IN A 127.0.0.1"),
        // Served by nobody's program: see `hostile`.
        Zone::new("hostile.com", &["hostile.op-c.net"], &[]),
        Zone::new("victim.com", &["victim.op-c.net"], &[]),
        Zone::new("whoami.net", &["ns.whoami.op-c.net"], &[]),
        Zone::new("ill.com", &a, &[OpA]).soa(60, 86_400).records(
            "@ IN MX 10 alias\nalias IN CNAME www\nwww IN A 203.0.113.7\n@ IN TXT \"v=spf1 include:gone.ill.com +all\"",
        ),
    ]
}
