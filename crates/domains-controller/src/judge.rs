//! What an observation makes of a status: pure functions, which say what to write and what to tell. The same status and the
//! same observation at the same time always give the same answer.

use bailiwick_domains::history::{Observation, changes, incidents};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::registration::Concern;
use bailiwick_domains::scan::{Scan, ScanFinding};
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Finding, Verdict};
use jiff::{SignedDuration, Timestamp};

use crate::status::DomainStatus;

/// Changes that are kept with the object.
const HISTORY_MAX: usize = 100;

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

/// Takes a scan into the status.
pub(crate) fn take_scan(status: &mut DomainStatus, scan: &Scan) -> Vec<Notice> {
    let now = scan.at;
    let domain = &scan.subject.registered;
    let mut notices = Vec::new();
    let mut seen = observation(scan, status.observation.as_ref());
    if let Some(before) = &status.observation {
        let found = changes(before, &seen);
        if found.is_empty() {
            // The same as before is no reason to write.
            seen.at = before.at;
        } else {
            status.last_change_detected = Some(now);
            status.history.splice(..0, found.iter().cloned());
            status.history.truncate(HISTORY_MAX);
        }
        for incident in incidents(domain, found) {
            if incident.new_owner_possible
                && let Some(verification) = &mut status.verification
            {
                verification.standing = verification.standing.clone().after_new_registration(now);
            }
            notices.push(notice(incident.concern, "DomainChanged", incident.summary));
        }
    }
    copy(status, scan);
    if let Some(expires) = scan.registration.as_ref().and_then(|registration| registration.expires.as_ref()) {
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
    status.observation = Some(seen);
    healthy(status, scan);
    notices
}

/// What was seen; what was not asked this time is what it was.
fn observation(scan: &Scan, before: Option<&Observation>) -> Observation {
    let dns = scan.dns.as_ref();
    let gone = scan.dns_problem.as_ref().is_some_and(|problem| problem.contains("is not delegated"));
    let delegated_to = dns.map(|dns| dns.delegated_to.clone()).or(gone.then(Vec::new));
    Observation {
        at: scan.at,
        registration: scan
            .registration
            .clone()
            .map(|mut registration| {
                // The time of the look is no part of what is compared and stored.
                registration.observed_at = before
                    .and_then(|before| before.registration.as_ref())
                    .map_or(registration.observed_at, |before| before.observed_at);
                registration
            })
            .or_else(|| before.and_then(|before| before.registration.clone())),
        delegated_to: delegated_to.or_else(|| before.and_then(|before| before.delegated_to.clone())),
        delegation_signers: before.and_then(|before| before.delegation_signers.clone()),
        dns_provider: dns
            .map(|dns| dns.provider.clone())
            .or_else(|| before.and_then(|before| before.dns_provider.clone())),
    }
}

/// The fields that people and columns read.
fn copy(status: &mut DomainStatus, scan: &Scan) {
    status.registered_name = Some(scan.subject.registered.to_string());
    if let Some(registration) = &scan.registration {
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
    }
    if let Some(dns) = &scan.dns {
        status.dns_provider = Some(dns.provider.clone());
        if status.nameservers.is_empty() {
            status.nameservers = dns.delegated_to.iter().map(DomainName::to_string).collect();
        }
    }
}

fn healthy(status: &mut DomainStatus, scan: &Scan) {
    let worst: Vec<&ScanFinding> = scan.findings.iter().filter(|finding| finding.concern >= Concern::Warning).collect();
    let message = worst.iter().map(|finding| finding.text.as_str()).collect::<Vec<_>>().join("; ");
    match worst.iter().map(|finding| finding.concern).max() {
        Some(Concern::Critical) => status.set_condition("Healthy", "False", "Critical", message, scan.at),
        Some(_) => status.set_condition("Healthy", "True", "Warnings", message, scan.at),
        None if scan.registration.is_none() && scan.dns.is_none() => {
            status.set_condition("Healthy", "Unknown", "NotObserved", "nothing could be observed".to_owned(), scan.at);
        }
        None => status.set_condition("Healthy", "True", "Healthy", "nothing to worry about".to_owned(), scan.at),
    }
}

/// Takes a look for the proof into the status.
pub(crate) fn take_verdict(status: &mut DomainStatus, verdict: &Verdict) -> Vec<Notice> {
    let now = verdict.evidence.at;
    let Some(verification) = &mut status.verification else { return Vec::new() };
    let before = verification.standing.clone();
    let domain = verification.challenge.domain.clone();
    let after = quiet(before.clone().after(verdict), &before);
    let held = before.holds();
    verification.standing = after.clone();
    let told: Vec<String> = verdict.findings.iter().map(Finding::sentence).collect();
    let message = told.join("; ");
    let mut notices = Vec::new();
    match &after {
        Standing::Proved { .. } => {
            if !held || verification.evidence.is_none() {
                verification.evidence = Some(verdict.evidence.clone());
            }
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
                    format!("{domain} is no longer verified: {why:?}"),
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

/// Whether a status is worth writing.
pub(crate) fn worth_writing(before: &DomainStatus, after: &mut DomainStatus, now: Timestamp) -> bool {
    let old_scan = before.last_scan;
    after.last_scan = old_scan;
    let changed = before != after;
    let stale = old_scan.is_none_or(|scan| now.duration_since(scan) >= QUIET_WRITE);
    if changed || stale {
        after.last_scan = Some(now);
    }
    changed || stale
}

#[cfg(test)]
mod tests;
