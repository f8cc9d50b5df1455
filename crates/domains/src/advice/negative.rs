//! Negative caching (RFC 2308): who asks for a name before it exists keeps the news that it does not, for as long as the
//! zone's SOA record says. The most common reason why "it works for me and not for my customer".

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::words;
use crate::authority::Soa;
use crate::name::DomainName;

/// A resolver program and the longest time for which it keeps a "does not exist", whatever the zone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolverCap {
    pub resolver: &'static str,
    pub cap: u32,
}

/// As the programs come; operators may have changed it.
pub const RESOLVER_CAPS: [ResolverCap; 4] = [
    ResolverCap { resolver: "BIND", cap: 10_800 },
    ResolverCap { resolver: "Unbound", cap: 3_600 },
    ResolverCap { resolver: "PowerDNS Recursor", cap: 3_600 },
    ResolverCap { resolver: "Windows DNS Server", cap: 900 },
];

/// How long this zone's "does not exist" is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NegativeCaching {
    pub zone: DomainName,
    /// The TTL of the SOA record.
    pub soa_ttl: u32,
    /// Its last field.
    pub soa_minimum: u32,
    /// The smaller of both, which counts.
    pub ttl: u32,
    /// What the programs make of it.
    pub resolvers: Vec<Effective>,
}

/// What one program makes of the zone's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effective {
    pub resolver: String,
    pub ttl: u32,
}

/// Zones above this make people wait; the usual advice is below an hour.
const LONG: u32 = 3_600;
/// And below this, every typo asks the servers again.
const SHORT: u32 = 60;

impl NegativeCaching {
    pub fn of(soa: &Soa) -> Self {
        let ttl = soa.ttl.min(soa.minimum);
        let effective = |cap: &ResolverCap| Effective { resolver: cap.resolver.to_owned(), ttl: ttl.min(cap.cap) };
        Self {
            zone: soa.zone.clone(),
            soa_ttl: soa.ttl,
            soa_minimum: soa.minimum,
            ttl,
            resolvers: RESOLVER_CAPS.iter().map(effective).collect(),
        }
    }

    /// Until when somebody who asks now remembers that a name does not exist.
    pub fn remembered_until(&self, now: Timestamp) -> Timestamp {
        now.checked_add(SignedDuration::from_secs(i64::from(self.ttl))).unwrap_or(now)
    }

    /// The explanation that every page, command and object shows: one source, this zone's numbers.
    pub fn explain(&self, now: Timestamp) -> Vec<String> {
        let until = self.remembered_until(now).strftime("%H:%M:%S UTC");
        let mut lines = vec![format!(
            "Whoever asks for a name in {} before it exists remembers for {} that it does not: create records first, look \
             them up afterwards. Asked now, that lasts until {until}.",
            self.zone,
            words(self.ttl)
        )];
        let which = if self.soa_ttl < self.soa_minimum {
            "the record's own TTL is the smaller one"
        } else if self.soa_ttl > self.soa_minimum {
            "its minimum is the smaller one"
        } else {
            "both are the same"
        };
        lines.push(format!(
            "The number comes from the SOA record: TTL {} ({}), minimum {} ({}); {which} and counts (RFC 2308).",
            self.soa_ttl,
            words(self.soa_ttl),
            self.soa_minimum,
            words(self.soa_minimum)
        ));
        let capped: Vec<String> = self
            .resolvers
            .iter()
            .filter(|resolver| resolver.ttl < self.ttl)
            .map(|resolver| format!("{} keeps it {}", resolver.resolver, words(resolver.ttl)))
            .collect();
        if !capped.is_empty() {
            lines.push(format!("Some resolvers stop earlier by default: {}.", capped.join(", ")));
        }
        if self.ttl > LONG {
            lines.push(format!(
                "{} is long: a record that is missing for a moment stays missing for that long. 5 to 15 minutes are usual; \
                 lower the SOA minimum.",
                words(self.ttl)
            ));
        } else if self.ttl < SHORT {
            lines.push(format!(
                "{} is short: every typo asks your nameservers again. 5 to 15 minutes are usual.",
                words(self.ttl)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn soa(ttl: u32, minimum: u32) -> Soa {
        let name = |text: &str| DomainName::parse(text).expect("a name");
        Soa {
            zone: name("example.com"),
            ttl,
            primary: name("ns1.example.com"),
            mailbox: "hostmaster.example.com".into(),
            serial: 1,
            refresh: 7200,
            retry: 3600,
            expire: 1_209_600,
            minimum,
        }
    }

    fn now() -> Timestamp {
        "2026-11-16T14:17:10Z".parse().expect("a time")
    }

    #[test]
    fn the_smaller_of_both_values_counts() {
        assert_eq!(NegativeCaching::of(&soa(3600, 900)).ttl, 900);
        assert_eq!(NegativeCaching::of(&soa(300, 3600)).ttl, 300);
    }

    #[test]
    fn the_explanation_has_this_zones_numbers_and_a_time() {
        assert_eq!(
            NegativeCaching::of(&soa(3600, 900)).explain(now()),
            [
                "Whoever asks for a name in example.com before it exists remembers for 15 minutes that it does not: create records \
                 first, look them up afterwards. Asked now, that lasts until 14:32:10 UTC.",
                "The number comes from the SOA record: TTL 3600 (1 hour), minimum 900 (15 minutes); its minimum is the smaller one \
                 and counts (RFC 2308).",
            ]
        );
    }

    #[test]
    fn long_values_are_capped_by_some_resolvers_and_come_with_advice() {
        let lines = NegativeCaching::of(&soa(86_400, 86_400)).explain(now());
        assert_eq!(
            lines[2],
            "Some resolvers stop earlier by default: BIND keeps it 3 hours, Unbound keeps it 1 hour, PowerDNS Recursor keeps it \
             1 hour, Windows DNS Server keeps it 15 minutes."
        );
        assert!(lines[3].starts_with("1 day is long"), "{lines:?}");
    }

    proptest! {
        #[test]
        fn no_resolver_keeps_it_longer_than_the_zone_says(ttl: u32, minimum: u32) {
            let caching = NegativeCaching::of(&soa(ttl, minimum));
            prop_assert!(caching.resolvers.iter().all(|resolver| resolver.ttl <= caching.ttl));
            prop_assert!(!caching.explain(now()).is_empty());
        }
    }
}
