//! Where everything starts: root hints, trust anchor, RDAP bootstrap, WHOIS server, certificate authorities, and the public
//! resolvers that people ask. Those of the real internet are compiled in; a file replaces them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::VantagePoint;

/// Names the file that replaces the compiled-in roots.
pub const ROOTS_ENV: &str = "BAILIWICK_DNS_ROOTS";

/// One server of the root zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootServer {
    /// Its host name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A DS record of the root zone's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anchor {
    /// The tag of the key.
    pub key_tag: u16,
    /// The algorithm's number.
    pub algorithm: u8,
    /// The digest type's number.
    pub digest_type: u8,
    /// The digest in hexadecimal.
    pub digest: String,
}

/// A recursive resolver that many people use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicResolver {
    /// What people call it.
    pub name: String,
    /// The address it answers at, on port 53 and, with `tls_name`, on 853.
    pub address: IpAddr,
    /// The name in its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_name: Option<String>,
    /// The path of its DNS-over-HTTPS service at `tls_name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doh_path: Option<String>,
    /// Refuses names that it thinks are harmful.
    #[serde(default)]
    pub filters: bool,
    /// The longest time it keeps the news that a name does not exist, in seconds, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_negative_ttl: Option<u32>,
}

/// A name whose TXT record is the address that asks for it: behind a resolver, the resolver's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Whoami {
    /// The name, or the zone in which every name is like that.
    pub name: String,
    /// A label that nobody used before may stand in front, so that no cache knows the answer.
    #[serde(default)]
    pub one_time: bool,
}

/// What is believed without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Roots {
    /// The servers of the root zone.
    pub hints: Vec<RootServer>,
    /// The keys of the root zone.
    pub anchors: Vec<Anchor>,
    /// Where the list of RDAP servers of top-level domains is (RFC 9224).
    pub rdap_bootstrap: String,
    /// The WHOIS server that knows the servers of top-level domains.
    pub whois: String,
    /// Certificate authorities in PEM, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The resolvers that `compare` asks.
    pub resolvers: Vec<PublicResolver>,
    /// Places to ask from; this machine alone when empty.
    #[serde(default)]
    pub vantage_points: Vec<VantagePoint>,
    /// The resolvers of this machine, instead of those of /etc/resolv.conf.
    #[serde(default)]
    pub system_resolvers: Vec<IpAddr>,
    /// How this machine's resolver is found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whoami: Option<Whoami>,
    /// Addresses that are not public may be asked: only a test bed says so.
    #[serde(default)]
    pub private_addresses: bool,
}

/// Why a roots file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file cannot be read.
    #[error("cannot read the roots file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("the roots file {} is not valid: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// `(letter, IPv4, IPv6)` of the servers `<letter>.root-servers.net`.
const ROOT_SERVERS: [(char, &str, &str); 13] = [
    ('a', "198.41.0.4", "2001:503:ba3e::2:30"),
    ('b', "170.247.170.2", "2801:1b8:10::b"),
    ('c', "192.33.4.12", "2001:500:2::c"),
    ('d', "199.7.91.13", "2001:500:2d::d"),
    ('e', "192.203.230.10", "2001:500:a8::e"),
    ('f', "192.5.5.241", "2001:500:2f::f"),
    ('g', "192.112.36.4", "2001:500:12::d0d"),
    ('h', "198.97.190.53", "2001:500:1::53"),
    ('i', "192.36.148.17", "2001:7fe::53"),
    ('j', "192.58.128.30", "2001:503:c27::2:30"),
    ('k', "193.0.14.129", "2001:7fd::1"),
    ('l', "199.7.83.42", "2001:500:9f::42"),
    ('m', "202.12.27.33", "2001:dc3::35"),
];

/// `(key tag, digest)` of the root's keys of 2017 and 2024; both are RSASHA256 with SHA-256 digests.
const ROOT_KEYS: [(u16, &str); 2] = [
    (20326, "E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"),
    (38696, "683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16"),
];

impl Roots {
    /// Those of the real internet.
    pub fn internet() -> Self {
        let parse = |text: &str| text.parse().expect("invariant: compiled-in addresses are valid");
        Self {
            hints: ROOT_SERVERS
                .iter()
                .map(|(letter, v4, v6)| RootServer {
                    name: format!("{letter}.root-servers.net."),
                    addresses: vec![parse(v4), parse(v6)],
                })
                .collect(),
            anchors: ROOT_KEYS
                .iter()
                .map(|(key_tag, digest)| Anchor {
                    key_tag: *key_tag,
                    algorithm: 8,
                    digest_type: 2,
                    digest: (*digest).to_owned(),
                })
                .collect(),
            rdap_bootstrap: "https://data.iana.org/rdap/dns.json".to_owned(),
            whois: "whois.iana.org".to_owned(),
            ca_file: None,
            resolvers: vec![
                resolver("Cloudflare", parse("1.1.1.1"), "one.one.one.one", false),
                resolver("Google", parse("8.8.8.8"), "dns.google", false),
                resolver("Quad9", parse("9.9.9.9"), "dns.quad9.net", true),
                resolver("OpenDNS", parse("208.67.222.222"), "dns.opendns.com", true),
            ],
            vantage_points: Vec::new(),
            system_resolvers: Vec::new(),
            // It is answered for a minute at most, so it needs no label of its own.
            whoami: Some(Whoami { name: "o-o.myaddr.l.google.com".to_owned(), one_time: false }),
            private_addresses: false,
        }
    }

    /// Those of a file.
    pub fn from_file(path: &Path) -> Result<Self, RootsError> {
        let text = std::fs::read(path).map_err(|source| RootsError::Read { path: path.to_owned(), source })?;
        serde_json::from_slice(&text).map_err(|source| RootsError::Parse { path: path.to_owned(), source })
    }

    /// Those of the file that [`ROOTS_ENV`] names, else those of the real internet.
    pub fn from_environment() -> Result<Self, RootsError> {
        match std::env::var_os(ROOTS_ENV).filter(|path| !path.is_empty()) {
            Some(path) => Self::from_file(Path::new(&path)),
            None => Ok(Self::internet()),
        }
    }

    /// Where questions are asked from: at least this machine.
    pub fn vantage_points(&self) -> Vec<VantagePoint> {
        if self.vantage_points.is_empty() { vec![VantagePoint::here()] } else { self.vantage_points.clone() }
    }
}

fn resolver(name: &str, address: IpAddr, tls_name: &str, filters: bool) -> PublicResolver {
    PublicResolver {
        name: name.to_owned(),
        address,
        tls_name: Some(tls_name.to_owned()),
        doh_path: Some("/dns-query".to_owned()),
        filters,
        max_negative_ttl: None,
    }
}
