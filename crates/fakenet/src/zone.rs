//! A zone as a specification: what its owner wrote, where it is served, and what the parent says about it.

use std::net::IpAddr;

/// Who serves a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operator {
    /// The root servers (nsd).
    Root,
    /// The servers of the top-level domains (nsd).
    Tld,
    /// A hoster (nsd).
    OpA,
    /// Another hoster (knot).
    OpB,
    /// A hoster that answers by where the question comes from (bind9).
    Geo,
    /// A secondary that has not been told of changes (nsd).
    Stale,
}

/// How a zone is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signing {
    /// Not at all.
    None,
    /// With NSEC.
    Nsec,
    /// With NSEC3, without salt and extra iterations.
    Nsec3,
    /// With NSEC3 and opt-out.
    OptOut,
    /// With signatures that ended a month ago.
    Expired,
    /// With other options of the signer, and keys of this algorithm and size.
    With { key: &'static [&'static str], options: &'static [&'static str] },
}

/// What the parent has as DS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ds {
    /// That of the key.
    Right,
    /// That of a key that is gone.
    Wrong,
    /// Nothing.
    Absent,
    /// These, each on a line.
    Lines(&'static str),
}

/// A zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) origin: String,
    pub(crate) serial: u32,
    pub(crate) soa_ttl: u32,
    pub(crate) minimum: u32,
    /// Refresh, retry and expire.
    pub(crate) times: [u32; 3],
    /// The primary server and the mailbox of the SOA, where they are not the usual ones.
    pub(crate) primary: Option<String>,
    pub(crate) mailbox: Option<String>,
    pub(crate) ns: Vec<String>,
    /// What the parent delegates to, when it is not `ns`.
    pub(crate) delegated_to: Option<Vec<String>>,
    /// Addresses that the parent gives for servers, when they are not the right ones.
    pub(crate) glue: Vec<(String, IpAddr)>,
    pub(crate) records: String,
    pub(crate) signing: Signing,
    pub(crate) ds: Ds,
    pub(crate) on: Vec<Operator>,
}

impl Zone {
    pub(crate) fn new(origin: &str, ns: &[&str], on: &[Operator]) -> Self {
        Self {
            origin: origin.to_owned(),
            serial: 2_026_111_601,
            soa_ttl: 3600,
            minimum: 900,
            times: [7200, 1800, 1_209_600],
            primary: None,
            mailbox: None,
            ns: ns.iter().map(|name| (*name).to_owned()).collect(),
            delegated_to: None,
            glue: Vec::new(),
            records: String::new(),
            signing: Signing::None,
            ds: Ds::Right,
            on: on.to_vec(),
        }
    }

    pub(crate) fn records(mut self, records: &str) -> Self {
        self.records.push_str(records);
        self.records.push('\n');
        self
    }

    pub(crate) fn signed(mut self, signing: Signing, ds: Ds) -> Self {
        self.signing = signing;
        self.ds = ds;
        self
    }

    pub(crate) fn delegated_to(mut self, ns: &[&str]) -> Self {
        self.delegated_to = Some(ns.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    pub(crate) fn glue(mut self, host: &str, address: &str) -> Self {
        self.glue.push((host.to_owned(), address.parse().expect("invariant: the world's addresses are valid")));
        self
    }

    pub(crate) fn soa(mut self, soa_ttl: u32, minimum: u32) -> Self {
        (self.soa_ttl, self.minimum) = (soa_ttl, minimum);
        self
    }

    pub(crate) fn times(mut self, times: [u32; 3]) -> Self {
        self.times = times;
        self
    }

    pub(crate) fn primary(mut self, primary: &str) -> Self {
        self.primary = Some(primary.to_owned());
        self
    }

    pub(crate) fn mailbox(mut self, mailbox: &str) -> Self {
        self.mailbox = Some(mailbox.to_owned());
        self
    }

    pub(crate) fn serial(mut self, serial: u32) -> Self {
        self.serial = serial;
        self
    }

    /// The name of the file, without what signing adds.
    pub(crate) fn file(&self) -> String {
        match self.origin.as_str() {
            "." => "root".to_owned(),
            origin if self.is_stale() => format!("stale-{origin}"),
            origin => origin.to_owned(),
        }
    }

    /// Whether this is the old copy of a zone that is also served elsewhere.
    pub(crate) fn is_stale(&self) -> bool {
        self.on == [Operator::Stale]
    }

    /// The origin with its last dot.
    pub(crate) fn absolute(&self) -> String {
        if self.origin == "." { ".".to_owned() } else { format!("{}.", self.origin) }
    }

    /// Whether this zone is above that one.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.origin != other.origin && (self.origin == "." || other.origin.ends_with(&format!(".{}", self.origin)))
    }

    /// The zone file, before signing; `delegations` are the lines about zones below.
    pub(crate) fn text(&self, delegations: &str) -> String {
        let usual = || format!("{}.", self.ns.first().map_or("a.root-servers.net", String::as_str));
        let mname = self.primary.clone().unwrap_or_else(usual);
        let origin = self.absolute();
        let hostmaster =
            if self.origin == "." { "nstld.verisign-grs.com.".to_owned() } else { format!("hostmaster.{origin}") };
        let hostmaster = self.mailbox.clone().unwrap_or(hostmaster);
        let [refresh, retry, expire] = self.times;
        let mut text = format!(
            "$ORIGIN {origin}\n$TTL 300\n@ {} IN SOA {mname} {hostmaster} {} {refresh} {retry} {expire} {}\n",
            self.soa_ttl, self.serial, self.minimum
        );
        for ns in &self.ns {
            text.push_str(&format!("@ 3600 IN NS {ns}.\n"));
        }
        text.push_str(&self.records);
        text.push_str(delegations);
        text
    }
}
