//! SYNTAX01 to 08: the names of the zone, its servers, its mail servers and its contact.

use std::collections::BTreeSet;

use super::probe::Probe;
use super::{Facts, Findings};
use crate::verdict::Severity;
use crate::wire::{Name, RData, RecordType, show_name};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    let zone = show_name(&facts.zone);
    findings.case("SYNTAX01");
    match facts.zone.iter().all(is_host_label) {
        true => findings.info("ONLY_ALLOWED_CHARS", format!("{zone} has only letters, digits and hyphens")),
        false => findings.error("NON_ALLOWED_CHARS", format!("{zone} has characters that host names may not have")),
    }
    findings.case("SYNTAX02");
    for label in facts.zone.iter() {
        let shown = String::from_utf8_lossy(label);
        if label.first() == Some(&b'-') {
            findings.error("INITIAL_HYPHEN", format!("the part {shown:?} of {zone} begins with a hyphen"));
        }
        if label.last() == Some(&b'-') {
            findings.error("TERMINAL_HYPHEN", format!("the part {shown:?} of {zone} ends with a hyphen"));
        }
    }
    findings.case("SYNTAX03");
    if facts.zone.iter().any(has_double_dash) {
        findings.warning(
            "DISCOURAGED_DOUBLE_DASH",
            format!("{zone} has two hyphens where only encoded names (xn--) have them"),
        );
    }
    findings.case("SYNTAX04");
    let names: BTreeSet<&Name> = facts.parent_ns.union(&facts.child_ns).collect();
    hosts(
        findings,
        names,
        "the server",
        Severity::Error,
        ["NAMESERVER_NON_ALLOWED_CHARS", "NAMESERVER_DISCOURAGED_DOUBLE_DASH", "NAMESERVER_NUMERIC_TLD"],
    );
    contact(facts, findings);
    findings.case("SYNTAX07");
    let soas = facts.soas();
    hosts(
        findings,
        soas.iter().map(|(_, soa, _)| &soa.mname).collect(),
        "the primary server",
        Severity::Warning,
        ["MNAME_NON_ALLOWED_CHARS", "MNAME_DISCOURAGED_DOUBLE_DASH", "MNAME_NUMERIC_TLD"],
    );
    findings.case("SYNTAX08");
    let mail = facts.servers.iter().flat_map(|server| server.apex(Probe::Mx, &facts.zone, RecordType::MX));
    let mail = mail.filter_map(|record| match &record.data {
        RData::MX(mx) if !mx.exchange.is_root() => Some(&mx.exchange),
        _ => None,
    });
    hosts(
        findings,
        mail.collect(),
        "the mail server",
        Severity::Warning,
        ["MX_NON_ALLOWED_CHARS", "MX_DISCOURAGED_DOUBLE_DASH", "MX_NUMERIC_TLD"],
    );
}

fn is_host_label(label: &[u8]) -> bool {
    label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

fn has_double_dash(label: &[u8]) -> bool {
    label.get(2..4) == Some(b"--") && !label.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"xn"))
}

fn hosts(
    findings: &mut Findings,
    names: BTreeSet<&Name>,
    what: &str,
    worst: Severity,
    [characters, dashes, numeric]: [&'static str; 3],
) {
    for name in names {
        let shown = show_name(name);
        if !name.iter().all(is_host_label) {
            findings.add(characters, worst, format!("{what} {shown} has characters that host names may not have"));
        }
        if name.iter().any(has_double_dash) {
            findings
                .warning(dashes, format!("{what} {shown} has two hyphens where only encoded names (xn--) have them"));
        }
        if name.iter().next_back().is_some_and(|label| label.iter().all(u8::is_ascii_digit)) {
            findings.add(numeric, worst, format!("{what} {shown} ends in a number"));
        }
    }
}

/// The mail address in the SOA, whose first dot stands for `@`.
fn contact(facts: &Facts, findings: &mut Findings) {
    findings.case("SYNTAX05");
    let soas = facts.soas();
    let contacts: BTreeSet<&Name> = soas.iter().map(|(_, soa, _)| &soa.rname).collect();
    for contact in &contacts {
        if contact.iter().any(|label| label.contains(&b'@')) {
            findings.warning(
                "RNAME_MISUSED_AT_SIGN",
                format!("the contact {} of the SOA has an @; a dot stands for it there", show_name(contact)),
            );
        }
    }
    findings.case("SYNTAX06");
    for contact in contacts {
        let mut labels = contact.iter();
        let local = labels.next().unwrap_or_default();
        let domain = contact.base_name();
        let is_atom = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(byte);
        let valid =
            !local.is_empty() && local.iter().all(is_atom) && !domain.is_root() && domain.iter().all(is_host_label);
        match valid {
            true => findings
                .info("RNAME_RFC822_VALID", format!("the contact {} of the SOA is a mail address", show_name(contact))),
            false => findings.warning(
                "RNAME_RFC822_INVALID",
                format!("the contact {} of the SOA is not a mail address", show_name(contact)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encoded_names_have_hyphens_in_third_and_fourth_place() {
        assert!(has_double_dash(b"ab--c"));
        assert!(!has_double_dash(b"xn--bcher-kva"));
        assert!(!has_double_dash(b"a--b"));
        assert!(!has_double_dash(b"abc--d"));
    }
}
