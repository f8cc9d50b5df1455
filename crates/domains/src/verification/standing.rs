//! What becomes of a proof over time. A record that goes away does not take the name at once: it is asked for again and a
//! grace period runs. A registration that changes hands does: the new owner never published anything.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::decision::Outcome;
use super::{Method, Verdict};

/// How long a proof that cannot be seen any more still counts.
pub const GRACE: SignedDuration = SignedDuration::from_hours(72);

/// Where a claim stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Standing {
    /// No proof was seen yet.
    Unproved { since: Timestamp },
    /// Proved, and seen lately.
    Proved { method: Method, since: Timestamp, last_seen: Timestamp },
    /// Proved once; not seen since `missing_since`.
    Missing { method: Method, since: Timestamp, last_seen: Timestamp, missing_since: Timestamp },
    /// No longer proved: why.
    Lapsed { at: Timestamp, why: Lapse },
}

/// Why a proof ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lapse {
    /// It was gone for longer than the grace period.
    Gone,
    /// The registration changed hands.
    NewRegistration,
    /// Somebody else brought a fresh proof.
    HandedOver,
}

impl Standing {
    /// Whether the name counts as the claimant's.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Proved { .. } | Self::Missing { .. })
    }

    /// How it stands, as the history writes it.
    pub fn words(&self) -> String {
        match self {
            Self::Unproved { .. } => "not proved".to_owned(),
            Self::Proved { method, .. } => format!("proved by {}", method.words()),
            Self::Missing { .. } => "proof missing".to_owned(),
            Self::Lapsed { why: Lapse::Gone, .. } => "lapsed: the proof was gone for longer than its grace".to_owned(),
            Self::Lapsed { why: Lapse::NewRegistration, .. } => "lapsed: the registration changed hands".to_owned(),
            Self::Lapsed { why: Lapse::HandedOver, .. } => "handed over to another tenant".to_owned(),
        }
    }

    /// Until when a missing proof still counts.
    pub fn holds_until(&self) -> Option<Timestamp> {
        match self {
            Self::Missing { missing_since, .. } => missing_since.checked_add(GRACE).ok(),
            _ => None,
        }
    }

    /// After another look.
    #[must_use]
    pub fn after(self, verdict: &Verdict) -> Self {
        let now = verdict.evidence.at;
        match (self, verdict.outcome) {
            (Self::Proved { since, .. } | Self::Missing { since, .. }, Outcome::Verified(method)) => {
                Self::Proved { method, since, last_seen: now }
            }
            (Self::Unproved { .. } | Self::Lapsed { .. }, Outcome::Verified(method)) => {
                Self::Proved { method, since: now, last_seen: now }
            }
            // Neither silence nor the age of a token is absence: only servers and sites that say no start the clock.
            (standing @ Self::Proved { .. }, Outcome::Expired) => standing,
            (Self::Proved { method, since, last_seen }, _) if verdict.evidence.shows_absence(method) => {
                Self::Missing { method, since, last_seen, missing_since: now }
            }
            (standing @ Self::Missing { .. }, _) if standing.holds_until().is_some_and(|until| now >= until) => {
                Self::Lapsed { at: now, why: Lapse::Gone }
            }
            (standing, _) => standing,
        }
    }

    /// After the registration changed hands: a proof of the former owner counts no more.
    #[must_use]
    pub fn after_new_registration(self, now: Timestamp) -> Self {
        if self.holds() { Self::Lapsed { at: now, why: Lapse::NewRegistration } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Security;
    use crate::name::DomainName;
    use crate::verification::Evidence;
    use crate::verification::evidence::{EvidenceAnswer, EvidenceDelegation};
    use crate::verification::site::{File, SiteEvidence};

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).expect("in range")
    }

    fn verdict(outcome: Outcome, hours: i64, answers: usize) -> Verdict {
        of_servers(outcome, hours, answers, Said::No)
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Said {
        No,
        Nothing,
    }

    fn of_servers(outcome: Outcome, hours: i64, answers: usize, said: Said) -> Verdict {
        let name = DomainName::parse("example.com").expect("a name");
        let answer = EvidenceAnswer {
            vantage_point: "here".into(),
            name: name.clone(),
            server: name,
            address: "192.0.2.1".parse().expect("an address"),
            has_proof: outcome == VERIFIED,
            silent: said == Said::Nothing,
            security: Security::Insecure,
            packet_sha256: None,
        };
        Verdict {
            outcome,
            findings: Vec::new(),
            evidence: Evidence {
                at: at(hours),
                token: "t".into(),
                answers: vec![answer; answers],
                ..Evidence::default()
            },
        }
    }

    const VERIFIED: Outcome = Outcome::Verified(Method::DnsTxt);

    #[test]
    fn a_removed_record_lapses_after_the_grace_period_and_not_before() {
        let mut standing = Standing::Unproved { since: at(0) }.after(&verdict(VERIFIED, 1, 2));
        assert!(standing.holds());
        standing = standing.after(&verdict(Outcome::Pending, 2, 2));
        assert_eq!(standing.holds_until(), Some(at(2 + 72)));
        standing = standing.after(&verdict(Outcome::Pending, 73, 2));
        assert!(standing.holds());
        standing = standing.after(&verdict(Outcome::Pending, 74, 2));
        assert_eq!(standing, Standing::Lapsed { at: at(74), why: Lapse::Gone });
        assert!(standing.after(&verdict(VERIFIED, 80, 2)).holds());
    }

    #[test]
    fn a_record_that_comes_back_stops_the_clock() {
        let standing = Standing::Unproved { since: at(0) }
            .after(&verdict(VERIFIED, 1, 2))
            .after(&verdict(Outcome::Pending, 2, 2))
            .after(&verdict(VERIFIED, 3, 2))
            .after(&verdict(Outcome::Pending, 70, 2));
        assert_eq!(standing.holds_until(), Some(at(70 + 72)));
    }

    #[test]
    fn silence_is_no_absence() {
        let proved = Standing::Unproved { since: at(0) }.after(&verdict(VERIFIED, 1, 2));
        let unreachable = proved.clone().after(&verdict(Outcome::Pending, 2, 0));
        assert!(matches!(unreachable, Standing::Proved { .. }));
        let silent = proved.clone().after(&of_servers(Outcome::Pending, 2, 2, Said::Nothing));
        assert!(matches!(silent, Standing::Proved { .. }));
        let denied = silent.after(&of_servers(Outcome::Pending, 3, 2, Said::No));
        assert!(matches!(denied, Standing::Missing { .. }));
    }

    /// A look that finds nothing in DNS, and this on the site.
    fn of_site(hours: i64, file: File) -> Verdict {
        let mut verdict = of_servers(Outcome::Pending, hours, 2, Said::No);
        let url = "http://example.com/f".to_owned();
        verdict.evidence.site =
            Some(SiteEvidence { url, address: None, status: None, body_sha256: None, file, problem: None });
        verdict
    }

    #[test]
    fn a_file_is_missing_when_the_site_says_so_and_not_when_it_is_silent() {
        let proved = Standing::Unproved { since: at(0) }.after(&verdict(Outcome::Verified(Method::HttpFile), 1, 2));
        // However long that lasts.
        let silent = (2..200).fold(proved, |standing, hour| standing.after(&of_site(hour, File::Unchecked)));
        assert!(matches!(silent, Standing::Proved { method: Method::HttpFile, .. }), "{silent:?}");
        let gone = silent.after(&of_site(200, File::Absent));
        assert_eq!(gone.holds_until(), Some(at(200 + 72)));
    }

    #[test]
    fn a_silent_site_keeps_no_record_alive() {
        let proved = Standing::Unproved { since: at(0) }.after(&verdict(VERIFIED, 1, 2));
        assert!(matches!(proved.after(&of_site(2, File::Unchecked)), Standing::Missing { .. }));
    }

    #[test]
    fn a_delegation_is_missing_when_the_parent_has_another() {
        let of_parent = |hours: i64, delegations: Vec<EvidenceDelegation>| {
            let mut verdict = of_servers(Outcome::Pending, hours, 2, Said::Nothing);
            verdict.evidence.delegations = delegations;
            verdict
        };
        let name = DomainName::parse("example.com").expect("a name");
        let other = EvidenceDelegation {
            vantage_point: "here".into(),
            zone: name.clone(),
            nameservers: vec![name],
            has_proof: false,
        };
        let by_nameserver = verdict(Outcome::Verified(Method::DnsNameserver), 1, 2);
        let proved = Standing::Unproved { since: at(0) }.after(&by_nameserver);
        let silent = proved.after(&of_parent(2, Vec::new()));
        assert!(matches!(silent, Standing::Proved { .. }));
        assert!(matches!(silent.after(&of_parent(3, vec![other])), Standing::Missing { .. }));
    }

    #[test]
    fn the_age_of_a_token_ends_no_proof() {
        let proved = Standing::Unproved { since: at(0) }.after(&verdict(VERIFIED, 1, 2));
        assert!(matches!(proved.after(&verdict(Outcome::Expired, 8 * 24, 2)), Standing::Proved { .. }));
    }

    #[test]
    fn a_new_owner_starts_again() {
        let proved = Standing::Unproved { since: at(0) }.after(&verdict(VERIFIED, 1, 2));
        assert_eq!(proved.after_new_registration(at(5)), Standing::Lapsed { at: at(5), why: Lapse::NewRegistration });
    }
}
