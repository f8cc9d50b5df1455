//! ZONE01 to 11: the SOA's fields, and mail.

use std::collections::{BTreeMap, BTreeSet};

use super::probe::{Probe, Server};
use super::{Facts, Findings, spf};
use crate::wire::{Name, RData, RecordType, ResponseCode, rcode_text, show_name};

/// The bounds of Zonemaster's default profile, in seconds.
const REFRESH_LEAST: i32 = 14_400;
const RETRY_LEAST: i32 = 3_600;
const EXPIRE_LEAST: i32 = 604_800;
const MINIMUM_LEAST: u32 = 300;
const MINIMUM_MOST: u32 = 86_400;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    primary(facts, findings);
    times(facts, findings);
    findings.case("ZONE07");
    for name in mnames(facts) {
        if facts.hosts.get(&name).is_some_and(|host| host.is_alias) {
            findings.notice("MNAME_IS_CNAME", format!("the primary server {} is an alias (CNAME)", show_name(&name)));
        }
    }
    findings.case("ZONE08");
    for (_, name) in mail_targets(facts) {
        if facts.hosts.get(&name).is_some_and(|host| host.is_alias) {
            findings.error(
                "MX_RECORD_IS_CNAME",
                format!("the mail server {} is an alias (CNAME), which is not allowed", show_name(&name)),
            );
        }
    }
    mail(facts, findings);
    findings.case("ZONE10");
    for server in &facts.servers {
        let count = server.apex(Probe::Soa, &facts.zone, RecordType::SOA).len();
        if count > 1 {
            findings
                .at(server, Probe::Soa)
                .error("MULTIPLE_SOA", format!("{} has {count} SOA records", server.label()));
        }
    }
    findings.case("ZONE11");
    spf::check(facts, findings, mail_targets(facts).iter().any(|(_, name)| !name.is_root()));
}

fn mnames(facts: &Facts) -> BTreeSet<Name> {
    facts.soas().into_iter().map(|(_, soa, _)| soa.mname.to_lowercase()).collect()
}

/// The primary server that the SOA names.
fn primary(facts: &Facts, findings: &mut Findings) {
    findings.case("ZONE01");
    let newest = facts.soas().into_iter().map(|(_, soa, _)| soa.serial).max();
    for name in mnames(facts) {
        let shown = show_name(&name);
        if name.is_root() {
            findings.notice("Z01_MNAME_IS_DOT", "the SOA names no primary server");
            continue;
        }
        if shown == "localhost" {
            findings.notice("Z01_MNAME_IS_LOCALHOST", "the SOA names localhost as the primary server");
            continue;
        }
        let host = facts.hosts.get(&name);
        if host.is_none_or(|host| host.addresses.is_empty()) {
            findings.notice("Z01_MNAME_NOT_RESOLVE", format!("the primary server {shown} has no address"));
            continue;
        }
        if host.is_some_and(|host| host.addresses.iter().any(std::net::IpAddr::is_loopback)) {
            findings
                .notice("Z01_MNAME_HAS_LOCALHOST_ADDR", format!("the primary server {shown} has a loopback address"));
        }
        let servers: Vec<&Server> = facts.servers.iter().filter(|server| server.name == name).collect();
        if servers.is_empty() {
            continue;
        }
        let serial =
            facts.soas().into_iter().filter(|(server, _, _)| server.name == name).map(|(_, soa, _)| soa.serial).max();
        match (serial, newest) {
            (Some(serial), Some(newest)) if serial < newest => findings.notice(
                "Z01_MNAME_NOT_MASTER",
                format!("the primary server {shown} has an older serial ({serial}) than others ({newest})"),
            ),
            (Some(_), _) => findings.info("Z01_MNAME_IS_MASTER", format!("{shown} has the newest version")),
            (None, _) if servers.iter().all(|server| server.answer(Probe::Soa).is_none()) => {
                findings.notice("Z01_MNAME_NO_RESPONSE", format!("the primary server {shown} does not answer"));
            }
            (None, _) => findings
                .notice("Z01_MNAME_NOT_AUTHORITATIVE", format!("the primary server {shown} does not serve the zone")),
        }
    }
}

fn times(facts: &Facts, findings: &mut Findings) {
    let soas = facts.soas();
    let Some((_, soa, _)) = soas.iter().max_by_key(|(_, soa, _)| soa.serial) else { return };
    findings.case("ZONE02");
    if soa.refresh < REFRESH_LEAST {
        findings.notice(
            "REFRESH_MINIMUM_VALUE_LOWER",
            format!("the SOA's refresh is {} s; at least {REFRESH_LEAST} s is advised", soa.refresh),
        );
    }
    findings.case("ZONE03");
    match soa.retry < soa.refresh {
        true => findings.info("REFRESH_HIGHER_THAN_RETRY", "the SOA's refresh is longer than its retry"),
        false => findings.info(
            "REFRESH_LOWER_THAN_RETRY",
            format!("the SOA's refresh ({} s) is not longer than its retry ({} s)", soa.refresh, soa.retry),
        ),
    }
    findings.case("ZONE04");
    if soa.retry < RETRY_LEAST {
        findings.notice(
            "RETRY_MINIMUM_VALUE_LOWER",
            format!("the SOA's retry is {} s; at least {RETRY_LEAST} s is advised", soa.retry),
        );
    }
    findings.case("ZONE05");
    if soa.expire < EXPIRE_LEAST {
        findings.warning(
            "EXPIRE_MINIMUM_VALUE_LOWER",
            format!("the SOA's expire is {} s; at least {EXPIRE_LEAST} s is advised", soa.expire),
        );
    }
    if soa.expire < soa.refresh {
        findings.warning("EXPIRE_LOWER_THAN_REFRESH", "the SOA's expire is shorter than its refresh");
    }
    findings.case("ZONE06");
    if soa.minimum > MINIMUM_MOST {
        findings.notice(
            "SOA_DEFAULT_TTL_MAXIMUM_VALUE_HIGHER",
            format!("the SOA's minimum is {} s; at most {MINIMUM_MOST} s is advised", soa.minimum),
        );
    } else if soa.minimum < MINIMUM_LEAST {
        findings.notice(
            "SOA_DEFAULT_TTL_MAXIMUM_VALUE_LOWER",
            format!("the SOA's minimum is {} s; at least {MINIMUM_LEAST} s is advised", soa.minimum),
        );
    }
}

/// All mail servers with their preferences.
fn mail_targets(facts: &Facts) -> BTreeSet<(u16, Name)> {
    let records = facts.servers.iter().flat_map(|server| server.apex(Probe::Mx, &facts.zone, RecordType::MX));
    let targets = records.filter_map(|record| match &record.data {
        RData::MX(mx) => Some((mx.preference, mx.exchange.to_lowercase())),
        _ => None,
    });
    targets.collect()
}

fn mail(facts: &Facts, findings: &mut Findings) {
    findings.case("ZONE09");
    let mut by_set: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for server in facts.working() {
        match server.answer(Probe::Mx) {
            None => findings
                .at(server, Probe::Mx)
                .warning("Z09_NO_RESPONSE_MX_QUERY", format!("{} does not answer the question for MX", server.label())),
            Some(answer) if answer.rcode() != ResponseCode::NoError => findings.at(server, Probe::Mx).warning(
                "Z09_UNEXPECTED_RCODE_MX",
                format!("{} answers {} to the question for MX", server.label(), rcode_text(answer.rcode())),
            ),
            Some(answer) if !answer.is_authoritative() => {
                findings.at(server, Probe::Mx).warning(
                    "Z09_NON_AUTH_MX_RESPONSE",
                    format!("{} answers for MX without authority", server.label()),
                );
            }
            Some(_) => {
                let records = server.apex(Probe::Mx, &facts.zone, RecordType::MX);
                let set = records.iter().map(|record| crate::wire::rdata_text(record).to_lowercase()).collect();
                by_set.entry(set).or_default().push(server.label());
            }
        }
    }
    if by_set.len() > 1 {
        let (tag, what) = match by_set.keys().any(BTreeSet::is_empty) {
            true => ("Z09_INCONSISTENT_MX", "some servers have mail servers and some have none"),
            false => ("Z09_INCONSISTENT_MX_DATA", "the servers have different mail servers"),
        };
        findings.warning(tag, what);
    }
    let targets = mail_targets(facts);
    let is_null = |(_, name): &(u16, Name)| name.is_root();
    if targets.is_empty() && !by_set.is_empty() {
        findings.notice("Z09_MISSING_MAIL_TARGET", format!("{} has no mail servers (MX)", show_name(&facts.zone)));
    }
    if targets.iter().any(is_null) && targets.len() > 1 {
        findings.warning("Z09_NULL_MX_WITH_OTHER_MX", "the record that says \"no mail\" stands beside mail servers");
    }
    if targets.iter().any(|target| is_null(target) && target.0 != 0) {
        findings.notice("Z09_NULL_MX_NON_ZERO_PREF", "the record that says \"no mail\" has a preference other than 0");
    }
    if facts.zone.num_labels() == 1 && targets.iter().any(|target| !is_null(target)) {
        findings.warning("Z09_TLD_EMAIL_DOMAIN", "a top-level domain has mail servers");
    }
}
