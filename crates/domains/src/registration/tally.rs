//! How often registries were asked and how it ended, by host: for operators who want to know whom the service asks too much. The
//! number of hosts is bounded, since registrars' servers are named by registries.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Hosts with a count of their own: the registries of all large zones and the busiest registrars.
const HOSTS_MAX: usize = 200;
/// Outcomes of one host with a count of their own: statuses of HTTP that servers really send are fewer.
const CODES_MAX: usize = 16;
/// What all others are counted as.
const OTHERS: &str = "others";

/// A reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub lookups: Vec<Lookups>,
    pub budgets: Vec<Budget>,
}

/// How often a host gave one outcome: a status of HTTP, `answered` by WHOIS, `later` when it was not asked because it wants to be
/// left alone, or `failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookups {
    pub host: String,
    pub code: String,
    pub count: u64,
}

/// How many questions a host may be asked now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub host: String,
    pub left: u64,
}

/// Counts.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, BTreeMap<String, u64>>>);

impl Counts {
    pub fn count(&self, host: &str, code: &str) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let host = if hosts.len() < HOSTS_MAX || hosts.contains_key(host) { host } else { OTHERS };
        let codes = hosts.entry(host.to_owned()).or_default();
        let code = if codes.len() < CODES_MAX || codes.contains_key(code) { code } else { OTHERS };
        *codes.entry(code.to_owned()).or_default() += 1;
    }

    /// Everything that was counted.
    pub fn read(&self) -> Vec<Lookups> {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = hosts.iter().flat_map(|(host, codes)| codes.iter().map(move |(code, count)| (host, code, *count)));
        all.map(|(host, code, count)| Lookups { host: host.clone(), code: code.clone(), count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_codes_beyond_the_limits_are_counted_together() {
        let counts = Counts::default();
        for number in 0..HOSTS_MAX + 50 {
            counts.count(&format!("rdap{number:04}.example"), "200");
        }
        counts.count("rdap0000.example", "429");
        let read = counts.read();
        assert_eq!(read.len(), HOSTS_MAX + 2);
        let of =
            |host: &str, code: &str| read.iter().find(|one| one.host == host && one.code == code).map(|one| one.count);
        assert_eq!((of(OTHERS, "200"), of("rdap0000.example", "429")), (Some(50), Some(1)));
    }
}
