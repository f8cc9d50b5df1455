//! What is the matter with a domain: each trouble is told once when it begins and once when it has ended, in an Event and in the
//! history. What has Events of its own (expiration, status flags, changes) is no trouble here; a look that could not be made
//! begins none and ends none.

use bailiwick_domains::history::{Change, Field};
use bailiwick_domains::registration::{AutoRenewal, Concern, Registration};
use bailiwick_domains::scan::{
    DELEGATION, EXPIRATION, FLAG, LOOKALIKE, REGISTRY, Scan, ScanFinding, WAY, registration_findings,
};
use jiff::Timestamp;

use crate::judge::Notice;
use crate::status::{DomainStatus, Renewal, RenewalStatus, Trouble};
use crate::troubles::{Difference, SEPARATOR, texts};

/// The topic of what the owner says of renewal and the registry shows otherwise.
const AUTO_RENEWAL: &str = "autoRenewal";
/// Registrars renew on their own weeks before the end; a week before it, one that has not will not.
const RENEWAL_DAYS: i64 = 7;

/// What is told of renewal.
pub(crate) fn renewal(declared: Renewal, registration: Option<&Registration>) -> RenewalStatus {
    let observed = match registration.map(|registration| registration.auto_renewal) {
        Some(AutoRenewal::JustRenewed) => "autoRenewPeriod",
        Some(AutoRenewal::Unknown) | None => "unknown",
    };
    RenewalStatus { declared, observed: observed.to_owned() }
}

/// Where what the owner says of renewal cannot be so.
fn contradiction(declared: Renewal, registration: &Registration, now: Timestamp) -> Option<ScanFinding> {
    let finding = |concern, text: String| {
        Some(ScanFinding { concern, topic: AUTO_RENEWAL.to_owned(), text, evidence: Vec::new() })
    };
    let ending = |flag: &&str| registration.statuses.iter().any(|status| status.code == *flag);
    match declared {
        Renewal::Enabled => {
            if let Some(flag) = ["pendingDelete", "redemptionPeriod"].into_iter().find(ending) {
                let text = format!("spec.autoRenewal says Enabled, but the registry says {flag}: it was not renewed");
                return finding(Concern::Critical, text);
            }
            let days = registration.days_left(now).filter(|days| *days < RENEWAL_DAYS)?;
            let when = if days < 0 { "has expired".to_owned() } else { format!("expires in {days} days") };
            let text =
                format!("spec.autoRenewal says Enabled, but the registration {when}: see whether the payment failed");
            finding(Concern::Critical, text)
        }
        Renewal::Disabled if registration.auto_renewal == AutoRenewal::JustRenewed => {
            let text = "spec.autoRenewal says Disabled, but the registry renewed it (autoRenewPeriod): delete it at the \
                        registrar now if you do not want to pay for it";
            finding(Concern::Warning, text.to_owned())
        }
        Renewal::Disabled | Renewal::Unknown => None,
    }
}

/// Takes what a look found into the condition and the list of troubles.
pub(crate) fn take_health(
    status: &mut DomainStatus,
    scan: &Scan,
    registration: Option<&Registration>,
    declared: Renewal,
    changes: &[Change],
) -> Vec<Notice> {
    let mut findings = scan.findings.clone();
    if let Some(known) = registration {
        if scan.registration.is_none() {
            findings.extend(registration_findings(known, scan.at));
        }
        findings.extend(contradiction(declared, known, scan.at));
    }
    findings.retain(|finding| finding.concern >= Concern::Warning);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.concern));
    condition(status, scan, &findings);
    take_troubles(status, scan, &findings, changes)
}

fn condition(status: &mut DomainStatus, scan: &Scan, worst: &[ScanFinding]) {
    let message = worst.iter().map(|finding| finding.text.as_str()).collect::<Vec<_>>().join(SEPARATOR);
    let of_domain = worst.iter().filter(|finding| finding.topic != WAY).map(|finding| finding.concern).max();
    let unseen = scan.dns.is_none() && worst.iter().any(|finding| finding.topic == WAY);
    match of_domain {
        Some(Concern::Critical) => status.set_condition("Healthy", "False", "Critical", message, scan.at),
        _ if unseen => status.set_condition("Healthy", "Unknown", "NotObserved", message, scan.at),
        Some(_) => status.set_condition("Healthy", "True", "Warnings", message, scan.at),
        None if scan.registration.is_none() && scan.dns.is_none() => {
            status.set_condition("Healthy", "Unknown", "NotObserved", "nothing could be observed".to_owned(), scan.at);
        }
        None => status.set_condition("Healthy", "True", "Healthy", "nothing to worry about".to_owned(), scan.at),
    }
}

/// Whether a finding is a trouble that nothing else tells.
fn is_trouble(topic: &str) -> bool {
    let first = topic.split(' ').next().unwrap_or_default();
    ![EXPIRATION, FLAG, LOOKALIKE, WAY].contains(&first)
}

fn take_troubles(status: &mut DomainStatus, scan: &Scan, findings: &[ScanFinding], changes: &[Change]) -> Vec<Notice> {
    // What could not be looked at has not ended.
    let unseen = |topic: &str| match topic {
        AUTO_RENEWAL => scan.registration.is_none(),
        REGISTRY => scan.registration.is_none() || scan.dns.is_none(),
        DELEGATION => scan.dns.is_none() && findings.iter().any(|finding| finding.topic == WAY),
        _ => scan.dns.is_none(),
    };
    let troubles = findings.iter().filter(|finding| is_trouble(&finding.topic)).cloned();
    let found = troubles.map(|finding| (finding.topic, finding.concern, finding.text));
    let mut difference = Difference::of(std::mem::take(&mut status.troubles), found, unseen, scan.at);
    status.troubles = std::mem::take(&mut difference.now);
    // A delegation that came or went is told as the change that it is.
    if changes.iter().any(|change| change.field == Field::Delegation) {
        difference.began.retain(|trouble| trouble.topic != DELEGATION);
        difference.ended.retain(|trouble| trouble.topic != DELEGATION);
    }
    let Difference { began, ended, .. } = &difference;
    // Those that began together and ended together are one line; since when they stood is known now and never again.
    let mut begins: Vec<Timestamp> = ended.iter().map(|trouble| trouble.since).collect();
    begins.sort_unstable();
    begins.dedup();
    for since in begins {
        let together: Vec<Trouble> = ended.iter().filter(|trouble| trouble.since == since).cloned().collect();
        let change = Change::new(scan.at, Field::Health, texts(&together), String::new(), Concern::None);
        status.remember([Change { since: Some(since), ..change }]);
    }
    if let Some(concern) = began.iter().map(|trouble| trouble.concern).max() {
        status.remember([Change::new(scan.at, Field::Health, String::new(), texts(began), concern)]);
    }
    difference.notices(scan.subject.registered.as_str())
}

#[cfg(test)]
mod tests;
