//! When to look next. Pure, so that the politeness of ten thousand domains can be tested without waiting.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use bailiwick_domains::name::DomainName;
use bailiwick_domains::registration::Concern;
use bailiwick_domains::scan::Scan;
use bailiwick_domains::verification::standing::Standing;
use jiff::{SignedDuration, Timestamp};

use crate::status::{DomainStatus, VerificationStatus};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_SECONDS: i64 = 3_600;
/// Registries are asked this often when all is well.
const REGISTRATION_CALM: SignedDuration = SignedDuration::from_hours(24);
/// And this often when something is the matter, or they did not answer.
const REGISTRATION_WORRIED: SignedDuration = SignedDuration::from_hours(1);
/// A person may have a domain looked at again after this.
const RESCAN_GAP: SignedDuration = SignedDuration::from_mins(5);
/// How often a proof is looked for, by the age of its token: it is noticed within five seconds while its owner is at it.
const PROOF_LOOKS: [(SignedDuration, SignedDuration); 3] = [
    (SignedDuration::from_mins(10), SignedDuration::from_secs(4)),
    (SignedDuration::from_hours(1), SignedDuration::from_secs(30)),
    (SignedDuration::from_hours(24), SignedDuration::from_mins(5)),
];
const PROOF_LOOK_LATER: SignedDuration = SignedDuration::from_hours(1);

/// Who was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    DnsAlone,
    Everybody,
}

/// When to look next at a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    dns: Timestamp,
    registration: Timestamp,
    proof: Timestamp,
    /// The last value of the annotation, and when it was obeyed.
    rescan: Option<String>,
    rescanned: Timestamp,
}

fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.checked_add(wait).unwrap_or(start)
}

/// The next time at which the second of the hour is the domain's own.
fn slot(domain: &DomainName, now: Timestamp) -> Timestamp {
    let mut hasher = std::hash::DefaultHasher::new();
    domain.as_str().hash(&mut hasher);
    let own = i64::try_from(hasher.finish() % 3_600).unwrap_or(0);
    let wait = (own - now.as_second()).rem_euclid(HOUR_SECONDS);
    after(now, SignedDuration::from_secs(if wait == 0 { HOUR_SECONDS } else { wait }))
}

impl Next {
    /// For a domain that this process meets for the first time: at once if nobody ever looked, else when its turn comes.
    pub fn first(domain: &DomainName, status: &DomainStatus, rescan: Option<&String>, now: Timestamp) -> Self {
        let (dns, registration) = match status.last_scan {
            None => (now, now),
            Some(last) => (slot(domain, now), after(last, REGISTRATION_CALM)),
        };
        let holds = status.verification.as_ref().is_some_and(|verification| verification.standing.holds());
        let proof = if holds { dns } else { now };
        Self { dns, registration, proof, rescan: rescan.cloned(), rescanned: after(now, -RESCAN_GAP) }
    }

    /// Whether somebody asks for a look now; everything is then due.
    pub fn take_rescan(&mut self, annotation: Option<&String>, now: Timestamp) -> bool {
        if annotation == self.rescan.as_ref() || now.duration_since(self.rescanned) < RESCAN_GAP {
            return false;
        }
        self.rescan = annotation.cloned();
        self.rescanned = now;
        (self.dns, self.registration, self.proof) = (now, now, now);
        true
    }

    pub fn dns_due(&self, now: Timestamp) -> bool {
        now >= self.dns
    }

    pub fn registration_due(&self, now: Timestamp) -> bool {
        now >= self.registration
    }

    pub fn proof_due(&self, now: Timestamp) -> bool {
        now >= self.proof
    }

    /// After a look.
    pub fn looked(&mut self, scan: &Scan, asked: Asked, domain: &DomainName) {
        self.dns = slot(domain, scan.at);
        if asked == Asked::Everybody {
            let worried = match &scan.registration {
                Some(registration) => registration.concern(scan.at) >= Concern::Warning,
                None => true,
            };
            self.registration = after(scan.at, if worried { REGISTRATION_WORRIED } else { REGISTRATION_CALM });
        }
    }

    /// After a look for the proof.
    pub fn proof_looked(&mut self, verification: Option<&VerificationStatus>, now: Timestamp) {
        self.proof = match verification {
            Some(verification) if !matches!(verification.standing, Standing::Proved { .. }) => {
                let age = now.duration_since(verification.challenge.issued_at);
                let wait =
                    PROOF_LOOKS.iter().find(|(young, _)| age < *young).map_or(PROOF_LOOK_LATER, |(_, wait)| *wait);
                after(now, wait)
            }
            _ => self.dns,
        };
    }

    /// Until something is due.
    pub fn wait(&self, now: Timestamp) -> Duration {
        let left = self.dns.min(self.proof).duration_since(now);
        Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    #[test]
    fn domains_are_spread_evenly_over_the_hour() {
        let mut minutes = [0_usize; 60];
        for number in 0..6_000 {
            let domain = DomainName::parse(&format!("domain{number}.com")).expect("a name");
            let wait = slot(&domain, at(0)).duration_since(at(0)).as_secs();
            assert!((1..=HOUR_SECONDS).contains(&wait));
            minutes[usize::try_from((wait - 1) / 60).expect("in range")] += 1;
        }
        assert!(minutes.iter().all(|count| (50..200).contains(count)), "{minutes:?}");
    }

    #[test]
    fn each_domain_has_its_turn_once_an_hour() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let first = slot(&domain, at(0));
        assert_eq!(slot(&domain, first).duration_since(first).as_secs(), HOUR_SECONDS);
    }

    #[test]
    fn a_new_domain_is_looked_at_at_once_and_a_known_one_when_its_turn_comes() {
        let domain = DomainName::parse("q7.io").expect("a name");
        assert!(Next::first(&domain, &DomainStatus::default(), None, at(0)).dns_due(at(0)));
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let next = Next::first(&domain, &known, None, at(0));
        assert!(!next.dns_due(at(0)) && next.dns_due(at(HOUR_SECONDS)) && !next.registration_due(at(HOUR_SECONDS)));
    }

    #[test]
    fn a_rescan_is_obeyed_once_and_not_more_often_than_every_five_minutes() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let mut next = Next::first(&domain, &known, None, at(0));
        let (one, two) = ("1".to_owned(), "2".to_owned());
        assert!(next.take_rescan(Some(&one), at(1)) && next.dns_due(at(1)) && next.registration_due(at(1)));
        assert!(!next.take_rescan(Some(&one), at(400)));
        assert!(!next.take_rescan(Some(&two), at(100)));
        assert!(next.take_rescan(Some(&two), at(400)));
    }
}
