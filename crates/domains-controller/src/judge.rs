//! What an observation makes of a status: pure functions, which say what to write and what to tell. The same status and the
//! same observation at the same time always give the same answer.

use bailiwick_domains::history::{Change, Field, Observation, changes, incidents, learned};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::registration::{Concern, Registration};
use bailiwick_domains::scan::Scan;
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Finding, Verdict};
use jiff::{SignedDuration, Timestamp};

use crate::health::{renewal, take_health};
use crate::seal::Doubt;
use crate::status::{DomainStatus, Renewal};

/// When nothing changes, the time of the last look is written at most this often.
pub(crate) const QUIET_WRITE: SignedDuration = SignedDuration::from_hours(24);

/// Something to tell as an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub concern: Concern,
    pub reason: String,
    pub note: String,
}

fn notice(concern: Concern, reason: impl Into<String>, note: String) -> Notice {
    Notice { concern, reason: reason.into(), note }
}

/// Takes a scan into the status. `declared` is what the owner says of renewal.
pub(crate) fn take_scan(status: &mut DomainStatus, scan: &Scan, declared: Renewal) -> Vec<Notice> {
    let now = scan.at;
    let domain = &scan.subject.registered;
    let mut notices = Vec::new();
    let seen = observation(scan, status.observation.as_ref());
    let mut found = Vec::new();
    if let Some(before) = &status.observation {
        found = changes(before, &seen);
        // What is seen for the first time is no change, but from when on it was known is part of the history.
        let learned = learned(before, &seen);
        if !found.is_empty() {
            status.last_change_detected = Some(now);
        }
        status.remember(found.iter().cloned().chain(learned));
        for incident in incidents(domain, found.clone()) {
            notices.push(notice(incident.concern, "DomainChanged", incident.summary));
            if incident.new_owner_possible {
                notices.extend(end_proof(status, domain, now));
            }
        }
    }
    copy(status, scan, seen.registration.as_ref());
    status.auto_renewal = Some(renewal(declared, seen.registration.as_ref()));
    // A registry that does not answer today does not move the date that is known.
    if let Some(expires) = seen.registration.as_ref().and_then(|registration| registration.expires.as_ref()) {
        let (alert, state) = status.expiry.clone().unwrap_or_default().check(expires.at(), now);
        if let Some(alert) = alert {
            let reason = match alert.threshold_days {
                0 => "DomainExpired".to_owned(),
                days => format!("DomainExpiresWithin{days}Days"),
            };
            let concern = if alert.threshold_days <= 7 { Concern::Critical } else { Concern::Warning };
            notices.push(notice(concern, reason, alert.sentence(domain.as_str(), now)));
        }
        status.expiry = Some(state);
    }
    notices.extend(take_health(status, scan, seen.registration.as_ref(), declared, &found));
    status.observation = Some(seen);
    // A status of an earlier version does not say when it began.
    if status.last_scan.is_none() {
        status.first_scan = Some(now);
    }
    status.last_scan = Some(now);
    notices
}

/// Ends a proof because the name may be somebody else's now.
fn end_proof(status: &mut DomainStatus, domain: &DomainName, now: Timestamp) -> Option<Notice> {
    let verification = status.verification.as_mut().filter(|verification| verification.standing.holds())?;
    let before = verification.standing.clone();
    verification.standing = before.clone().after_new_registration(now);
    let change = ownership(&before, &verification.standing, now);
    status.remember(change);
    let note = format!("{domain} is no longer verified: the registration changed hands; a new proof is needed");
    Some(notice(Concern::Critical, "VerificationLapsed", note))
}

/// Strikes out what a status says of a proof and the service did not write: the domain must be proved.
pub(crate) fn disbelieve(status: &mut DomainStatus, domain: &str, doubt: Doubt, now: Timestamp) -> Notice {
    let claimed = status.verification.take().map(|verification| verification.standing.words()).unwrap_or_default();
    let old = format!("{claimed}, as the status had it");
    let new = format!("not proved: the status was not believed, as {doubt}");
    status.remember([Change::new(now, Field::Ownership, old, new, Concern::Critical)]);
    let note = format!(
        "what status.verification said of {domain} is not believed, as {doubt}: a new token is given, and the domain must be \
         proved with it"
    );
    status.set_condition("Verified", "False", NOT_BELIEVED, note.clone(), now);
    notice(Concern::Critical, NOT_BELIEVED, note)
}

/// The reason of the event and of the condition, until the new token was looked for.
const NOT_BELIEVED: &str = "ProofNotBelieved";

/// What was seen; what was not asked this time is what it was.
fn observation(scan: &Scan, before: Option<&Observation>) -> Observation {
    let dns = scan.dns.as_ref();
    let gone = scan.dns_problem.as_ref().is_some_and(|problem| problem.contains("is not delegated"));
    let delegated_to = dns.map(|dns| dns.delegated_to.clone()).or(gone.then(Vec::new));
    Observation {
        at: scan.at,
        registration: scan.registration.clone().or_else(|| before.and_then(|before| before.registration.clone())),
        delegated_to: delegated_to.or_else(|| before.and_then(|before| before.delegated_to.clone())),
        delegation_signers: dns
            .and_then(|dns| dns.delegation_signers.clone())
            .or_else(|| before.and_then(|before| before.delegation_signers.clone())),
        dns_provider: dns
            .map(|dns| dns.provider.clone())
            .or_else(|| before.and_then(|before| before.dns_provider.clone())),
    }
}

/// The fields that people and columns read.
fn copy(status: &mut DomainStatus, scan: &Scan, registration: Option<&Registration>) {
    status.registered_name = Some(scan.subject.registered.to_string());
    if let Some(registration) = registration {
        let text = |moment: &Option<bailiwick_domains::registration::Moment>| moment.as_ref().map(ToString::to_string);
        status.registrar_iana_id = registration.registrar.as_ref().and_then(|registrar| registrar.iana_id);
        status.registrar_iana_name = registration.registrar.as_ref().map(|registrar| registrar.name.clone());
        status.created_date = text(&registration.created);
        status.modified_date = text(&registration.modified);
        status.expiration_date = text(&registration.expires);
        status.days_until_expiration = registration.days_left(scan.at);
        status.nameservers = registration.nameservers.iter().map(|server| server.name.to_string()).collect();
        status.dnssec = Some(registration.signing.to_string());
        status.status_flags = registration.statuses.iter().map(|flag| flag.code.clone()).collect();
        status.registration_source = Some(format!("{:?}", registration.source).to_lowercase());
        status.registration_observed = Some(registration.observed_at);
    }
    if let Some(dns) = &scan.dns {
        status.dns_provider = Some(dns.provider.clone());
        if status.nameservers.is_empty() {
            status.nameservers = dns.delegated_to.iter().map(DomainName::to_string).collect();
        }
    }
}

/// Takes a look for the proof into the status.
pub(crate) fn take_verdict(status: &mut DomainStatus, verdict: &Verdict) -> Vec<Notice> {
    let now = verdict.evidence.at;
    // A token that was good for a former owner proves nothing.
    let verification = status.verification.as_mut().filter(|verification| !verification.has_lapsed_token());
    let Some(verification) = verification else { return Vec::new() };
    let before = verification.standing.clone();
    let domain = verification.challenge.domain.clone();
    let after = quiet(before.clone().after(verdict), &before);
    let held = before.holds();
    verification.standing = after.clone();
    let told: Vec<String> = verdict.findings.iter().map(Finding::sentence).collect();
    let message = told.join("; ");
    let mut notices = Vec::new();
    if let Some(change) = ownership(&before, &after, now) {
        status.remember([change]);
    }
    let Some(verification) = &mut status.verification else { return Vec::new() };
    match &after {
        Standing::Proved { .. } => {
            if !held || verification.evidence.is_none() {
                verification.evidence = Some(verdict.evidence.clone());
            }
            let message = match verdict.outcome {
                Outcome::Verified(_) => message,
                // Silence: the proof stands until somebody says that it is gone.
                _ => format!("the proof could not be checked and still counts: {message}"),
            };
            status.set_condition("Verified", "True", "Verified", message, now);
            if !held {
                notices.push(notice(Concern::None, "DomainVerified", format!("{domain} is verified")));
            }
        }
        Standing::Missing { .. } => {
            let until = after.holds_until().map_or_else(String::new, |until| until.to_string());
            let message = format!("the proof cannot be seen any more and counts until {until}: {message}");
            if matches!(before, Standing::Proved { .. }) {
                notices.push(notice(Concern::Warning, "ProofMissing", format!("{domain}: {message}")));
            }
            status.set_condition("Verified", "True", "ProofMissing", message, now);
        }
        Standing::Unproved { .. } => {
            let reason = pending_reason(verdict);
            status.set_condition("Verified", "False", reason, message, now);
        }
        Standing::Lapsed { why, .. } => {
            if held {
                notices.push(notice(
                    Concern::Critical,
                    "VerificationLapsed",
                    format!("{domain} is no longer verified: {}", after.words()),
                ));
            }
            status.set_condition(
                "Verified",
                "False",
                &format!("{why:?}"),
                format!("a new proof is needed; {message}"),
                now,
            );
        }
    }
    notices
}

fn pending_reason(verdict: &Verdict) -> &'static str {
    match (verdict.outcome, verdict.findings.first()) {
        (Outcome::Expired, _) => "TokenExpired",
        (_, Some(Finding::NearlyRight { .. } | Finding::WrongName { .. } | Finding::WrongType { .. })) => {
            "VerificationRecordContentMismatch"
        }
        (_, Some(Finding::Absent { .. })) => "RecordNotFound",
        _ => "PendingVerification",
    }
}

/// The time at which a proof was last seen moves at most once a day, so that seeing it again is no write.
fn quiet(after: Standing, before: &Standing) -> Standing {
    match (&after, before) {
        (Standing::Proved { method, since, last_seen }, Standing::Proved { last_seen: earlier, method: same, .. })
            if method == same && last_seen.duration_since(*earlier) < QUIET_WRITE =>
        {
            Standing::Proved { method: *method, since: *since, last_seen: *earlier }
        }
        _ => after,
    }
}

/// What a look for the proof changed of who has the name, for the history.
fn ownership(before: &Standing, after: &Standing, now: Timestamp) -> Option<Change> {
    let concern = match (before, after) {
        (Standing::Proved { .. }, Standing::Proved { .. }) => return None,
        (_, Standing::Proved { .. }) => Concern::None,
        (Standing::Proved { .. }, Standing::Missing { .. }) => Concern::Warning,
        (Standing::Proved { .. } | Standing::Missing { .. }, Standing::Lapsed { .. }) => Concern::Critical,
        _ => return None,
    };
    Some(Change::new(now, Field::Ownership, before.words(), after.words(), concern))
}

/// Whether a status is worth writing: something changed, or the times of looks in it are a day old.
pub(crate) fn worth_writing(before: &DomainStatus, after: &DomainStatus) -> bool {
    let stale = match (before.last_scan, after.last_scan) {
        (Some(old), Some(new)) => new.duration_since(old) >= QUIET_WRITE,
        (None, new) => new.is_some(),
        (Some(_), None) => true,
    };
    stale || before.without_times() != after.without_times()
}

#[cfg(test)]
mod tests;
