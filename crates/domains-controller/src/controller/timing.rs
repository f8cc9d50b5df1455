//! When to look next. Pure, so that the politeness of ten thousand domains can be tested without waiting.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use bailiwick_domains::name::DomainName;
use bailiwick_domains::registration::{Concern, Registration};
use bailiwick_domains::scan::Scan;
use bailiwick_domains::verification::standing::Standing;
use jiff::{SignedDuration, Timestamp};

use crate::status::{DomainStatus, VerificationStatus};

/// The hour, as the queue counts it.
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
/// What is added to the hour for a domain that nobody proved.
const ABANDONED_REST: SignedDuration = SignedDuration::from_hours(23);
/// The first wait for a registry that is too busy; each further one is twice as long.
const BUSY_WAIT: SignedDuration = SignedDuration::from_secs(2);
/// A look that is later than this is late.
const LATE: SignedDuration = SignedDuration::from_mins(5);
const PROOF_LOOK_LATER: SignedDuration = SignedDuration::from_hours(1);

/// Who was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    DnsAlone,
    Everybody,
}

/// How much interest there is in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Somebody proved it, or may be about to.
    Live,
    /// Nobody proved it while its token was good: it may be anybody's, and is looked at once a day.
    Abandoned,
}

impl Claim {
    pub fn of(verification: Option<&VerificationStatus>, now: Timestamp) -> Self {
        let is_abandoned = |verification: &VerificationStatus| {
            !verification.standing.holds() && verification.challenge.is_expired(now)
        };
        if verification.is_some_and(is_abandoned) { Self::Abandoned } else { Self::Live }
    }
}

/// When to look next at a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    dns: Timestamp,
    registration: Timestamp,
    proof: Timestamp,
    /// How often in a row the registry was too busy, and when it is asked again.
    busy: u32,
    registry_again: Option<Timestamp>,
    /// The last value of the annotation, and when it was obeyed.
    rescan: Option<String>,
    rescanned: Timestamp,
    /// Somebody is about to prove it: it is looked for more often than once an hour.
    awaited: bool,
    /// When all records of the spec were last seen as they should be.
    pub records_right: Option<Timestamp>,
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

/// When to come back to a registry that was too busy: not before it says, and the later the more often it was, each domain at a
/// time of its own. A thousand domains that are added at once come through one after the other.
fn again(domain: &DomainName, now: Timestamp, until: Timestamp, times: u32) -> Timestamp {
    let wait = BUSY_WAIT.saturating_mul(1 << times.min(10)).min(REGISTRATION_WORRIED);
    let mut hasher = std::hash::DefaultHasher::new();
    (domain.as_str(), times).hash(&mut hasher);
    let share = i64::try_from(hasher.finish() % 1_000).unwrap_or(0);
    let own = SignedDuration::from_millis(i64::try_from(wait.as_millis()).unwrap_or(0) * share / 1_000);
    after(until.max(now), own)
}

/// How often a registry is asked: more often when something is the matter, or it did not answer.
fn interval(registration: Option<&Registration>, now: Timestamp) -> SignedDuration {
    match registration {
        Some(registration) if registration.concern(now) < Concern::Warning => REGISTRATION_CALM,
        _ => REGISTRATION_WORRIED,
    }
}

impl Next {
    /// For a domain that this process meets for the first time: at once if nobody ever looked, else when its turn comes.
    pub fn first(domain: &DomainName, status: &DomainStatus, now: Timestamp) -> Self {
        let known = status.observation.as_ref().and_then(|observation| observation.registration.as_ref());
        let (dns, registration) = match (status.last_scan, known) {
            (None, _) => (now, now),
            (Some(last), None) => (slot(domain, now), after(last, REGISTRATION_WORRIED)),
            // The time in the status is that of the last write: what worries is asked at the next turn.
            (Some(_), Some(known)) => (slot(domain, now), after(known.observed_at, interval(Some(known), now))),
        };
        let at_rest = status.holds() || Claim::of(status.verification.as_ref(), now) == Claim::Abandoned;
        let proof = if at_rest { dns } else { now };
        let rescan = status.observed_rescan.clone();
        let rescanned = after(now, -RESCAN_GAP);
        Self {
            dns,
            registration,
            proof,
            busy: 0,
            registry_again: None,
            rescan,
            rescanned,
            awaited: false,
            records_right: None,
        }
    }

    /// The look after this one.
    pub fn look(&self) -> Timestamp {
        self.registry_again.map_or(self.dns, |again| again.min(self.dns))
    }

    /// Whether somebody is waiting for a proof to be seen.
    pub fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Whether somebody asks for a look now; everything is then due. Who asks too soon after the last time waits.
    pub fn take_rescan(&mut self, annotation: Option<&String>, now: Timestamp) -> bool {
        if annotation == self.rescan.as_ref() {
            return false;
        }
        let soonest = after(self.rescanned, RESCAN_GAP);
        if annotation.is_some() && now < soonest {
            self.dns = self.dns.min(soonest);
            return false;
        }
        self.rescan = annotation.cloned();
        // An annotation that was taken away asks for nothing.
        if annotation.is_none() {
            return false;
        }
        self.rescanned = now;
        (self.dns, self.registration, self.proof) = (now, now, now);
        true
    }

    /// Has DNS looked at because the object asks for something else now, at once or as soon as a person could have asked for it.
    pub fn spec_changed(&mut self, now: Timestamp) {
        self.dns = self.dns.min(after(self.rescanned, RESCAN_GAP).max(now));
        if self.dns <= now {
            self.rescanned = now;
        }
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
    pub fn looked(&mut self, scan: &Scan, asked: Asked, domain: &DomainName, claim: Claim) {
        self.dns = slot(domain, scan.at);
        if claim == Claim::Abandoned {
            self.dns = after(self.dns, ABANDONED_REST);
        }
        if asked == Asked::Everybody {
            self.registration = after(scan.at, interval(scan.registration.as_ref(), scan.at));
            match scan.registration_later {
                Some(until) => self.registry_busy(domain, until, scan.at),
                None => (self.busy, self.registry_again) = (0, None),
            }
        }
    }

    /// The registry is too busy: it is asked later, and DNS is not looked at for that.
    pub fn registry_busy(&mut self, domain: &DomainName, until: Timestamp, now: Timestamp) {
        self.busy = self.busy.saturating_add(1);
        let again = again(domain, now, until, self.busy);
        (self.registration, self.registry_again) = (again, Some(again));
    }

    /// Whether it is time to ask a registry again that was too busy, and for nothing else.
    pub fn registry_again_due(&self, now: Timestamp) -> bool {
        !self.dns_due(now) && self.registry_again.is_some_and(|again| now >= again)
    }

    /// After a look for the proof.
    pub fn proof_looked(&mut self, verification: Option<&VerificationStatus>, now: Timestamp) {
        self.awaited = false;
        self.proof = match verification {
            // Another token is to be given, at once.
            Some(verification) if verification.has_lapsed_token() => now,
            // Nobody can prove it with this token any more: it is thought of with the daily look.
            Some(_) if Claim::of(verification, now) == Claim::Abandoned => self.dns,
            Some(verification) if !matches!(verification.standing, Standing::Proved { .. }) => {
                let age = now.duration_since(verification.challenge.issued_at);
                let wait = PROOF_LOOKS.iter().find(|(young, _)| age < *young).map(|(_, wait)| *wait);
                self.awaited = wait.is_some();
                after(now, wait.unwrap_or(PROOF_LOOK_LATER))
            }
            _ => self.dns,
        };
    }

    /// Has the proof looked for at once, because another claim to the name came or went.
    pub fn look_for_proof_now(&mut self) {
        self.proof = Timestamp::UNIX_EPOCH;
    }

    /// For how long something has been due.
    pub fn age(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.due())).unwrap_or_default()
    }

    /// Whether a look is late.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        now.duration_since(self.due()) > LATE
    }

    /// When something is due.
    fn due(&self) -> Timestamp {
        self.look().min(self.proof)
    }

    /// Until something is due.
    pub fn wait(&self, now: Timestamp) -> Duration {
        let left = self.due().duration_since(now);
        Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_domains::history::Observation;
    use bailiwick_domains::registration::{Moment, Source, rdap};
    use bailiwick_domains::verification::{Challenge, Method, Scope};

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
        assert!(Next::first(&domain, &DomainStatus::default(), at(0)).dns_due(at(0)));
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let next = Next::first(&domain, &known, at(0));
        assert!(!next.dns_due(at(0)) && next.dns_due(at(HOUR_SECONDS)));
    }

    #[test]
    fn a_domain_that_nobody_proved_is_looked_at_once_a_day() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", at(0), &mut |_| ()).expect("a challenge");
        let verification = VerificationStatus::new(challenge);
        let week = 7 * 24 * HOUR_SECONDS;
        assert_eq!(Claim::of(Some(&verification), at(week - 1)), Claim::Live);
        assert_eq!(Claim::of(Some(&verification), at(week)), Claim::Abandoned);
        let proved = Standing::Proved { method: Method::DnsTxt, since: at(1), last_seen: at(1) };
        let proved = VerificationStatus { standing: proved, ..verification };
        assert_eq!(Claim::of(Some(&proved), at(week)), Claim::Live);
    }

    #[test]
    fn the_proof_of_a_domain_that_nobody_proved_is_not_looked_for_more_often_than_the_domain() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", at(0), &mut |_| ()).expect("a challenge");
        let verification = VerificationStatus::new(challenge);
        let week = 7 * 24 * HOUR_SECONDS;
        let known = DomainStatus {
            last_scan: Some(at(0)),
            verification: Some(verification.clone()),
            ..DomainStatus::default()
        };
        let mut next = Next::first(&domain, &known, at(week));
        assert!(!next.proof_due(at(week)), "not even after a restart");
        next.dns = at(week + 20 * HOUR_SECONDS);
        next.proof_looked(Some(&verification), at(week));
        assert_eq!((next.proof, next.awaited), (next.dns, false));
        next.proof_looked(Some(&verification), at(week - 1));
        assert_eq!(next.proof, at(week - 1 + HOUR_SECONDS), "every hour while the token is good");
    }

    #[test]
    fn a_changed_object_is_looked_at_at_once_and_then_every_five_minutes_at_most() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let mut next = Next::first(&domain, &known, at(0));
        next.spec_changed(at(1));
        assert!(next.dns_due(at(1)));
        next.dns = at(9_000);
        next.spec_changed(at(2));
        assert!(!next.dns_due(at(300)) && next.dns_due(at(301)));
    }

    #[test]
    fn a_registry_that_is_busy_is_asked_again_soon_and_not_by_all_at_once() {
        let times = |times: u32| {
            let names = (0..100).map(|number| DomainName::parse(&format!("domain{number}.com")).expect("a name"));
            let waits = names.map(|domain| again(&domain, at(0), at(5), times).duration_since(at(5)).as_millis());
            waits.collect::<Vec<_>>()
        };
        assert!(times(1).iter().all(|wait| (0..=4_000).contains(wait)));
        let late = times(6);
        assert!(late.iter().any(|wait| *wait > 60_000) && late.iter().any(|wait| *wait < 20_000), "{late:?}");
        assert!(times(40).iter().all(|wait| *wait <= 3_600_000), "an hour at most");
    }

    #[test]
    fn while_a_registry_is_busy_it_is_asked_again_and_dns_is_not_looked_at_for_that() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let mut next = Next::first(&domain, &known, at(0));
        (next.dns, next.proof) = (at(3_000), at(3_000));
        next.registry_busy(&domain, at(5), at(0));
        assert!((at(5)..=at(9)).contains(&next.look()) && !next.registry_again_due(at(4)));
        assert!(next.registry_again_due(at(9)) && next.registration_due(at(9)) && !next.dns_due(at(9)));
        next.registry_busy(&domain, at(12), at(9));
        assert!(!next.registry_again_due(at(11)) && next.registry_again_due(at(20)), "and again");
        assert!(!next.registry_again_due(at(3_000)) && next.dns_due(at(3_000)), "with the next look in any case");
    }

    #[test]
    fn a_rescan_is_obeyed_once_and_not_more_often_than_every_five_minutes() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let known = DomainStatus { last_scan: Some(at(-10)), ..DomainStatus::default() };
        let mut next = Next::first(&domain, &known, at(0));
        let (one, two) = ("1".to_owned(), "2".to_owned());
        assert!(next.take_rescan(Some(&one), at(1)) && next.dns_due(at(1)) && next.registration_due(at(1)));
        assert!(!next.take_rescan(Some(&one), at(400)));
        next.dns = at(3_000);
        assert!(!next.take_rescan(Some(&two), at(100)));
        assert!(!next.dns_due(at(300)) && next.dns_due(at(301)), "it is not forgotten");
        assert!(next.take_rescan(Some(&two), at(400)));
        assert!(!next.take_rescan(None, at(800)), "an annotation that was taken away asks for nothing");
    }

    #[test]
    fn a_rescan_that_was_asked_for_while_nobody_ran_is_obeyed_after_the_restart_and_an_old_one_is_not() {
        let domain = DomainName::parse("q7.io").expect("a name");
        let (old, new) = ("1".to_owned(), "2".to_owned());
        let known =
            DomainStatus { last_scan: Some(at(-10)), observed_rescan: Some(old.clone()), ..DomainStatus::default() };
        assert!(!Next::first(&domain, &known, at(0)).take_rescan(Some(&old), at(0)));
        assert!(Next::first(&domain, &known, at(0)).take_rescan(Some(&new), at(0)));
    }

    #[test]
    fn after_a_restart_a_registration_that_worries_is_asked_for_at_the_next_turn() {
        let path = format!("{}/../domains/testdata/registration/q7.io.rdap.json", env!("CARGO_MANIFEST_DIR"));
        let domain = DomainName::parse("q7.io").expect("a name");
        let due_after_an_hour = |expires: i64| {
            let mut facts = rdap::parse(&std::fs::read(&path).expect("a fixture"), &domain).expect("facts");
            facts.expires = Moment::parse(&at(expires * 24 * HOUR_SECONDS).to_string());
            let registration = Registration::merge(&domain, Source::Rdap, Vec::new(), facts, None, at(-HOUR_SECONDS));
            let observation = Observation {
                at: at(-HOUR_SECONDS),
                registration: Some(registration),
                delegated_to: None,
                delegation_signers: None,
                dns_provider: None,
            };
            let known = DomainStatus {
                last_scan: Some(at(-HOUR_SECONDS)),
                observation: Some(observation),
                ..DomainStatus::default()
            };
            Next::first(&domain, &known, at(0)).registration_due(at(HOUR_SECONDS))
        };
        assert!(due_after_an_hour(6), "six days before the end");
        assert!(!due_after_an_hour(400));
    }
}
