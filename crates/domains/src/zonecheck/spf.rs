//! ZONE11: the sender policy (SPF, RFC 7208).

use std::collections::BTreeMap;

use super::probe::Probe;
use super::{Facts, Findings};
use crate::wire::{RData, RecordType, ResponseCode};

/// What a policy may consist of.
const MECHANISMS: [&str; 8] = ["all", "include", "a", "mx", "ptr", "ip4", "ip6", "exists"];

pub(super) fn check(facts: &Facts, findings: &mut Findings, has_mail: bool) {
    let mut by_policy: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    let mut unable = Vec::new();
    for server in facts.working() {
        match server.answer(Probe::Txt) {
            Some(answer) if answer.rcode() == ResponseCode::NoError && answer.is_authoritative() => {
                let records = server.apex(Probe::Txt, &facts.zone, RecordType::TXT);
                let mut policies: Vec<String> = records
                    .iter()
                    .filter_map(|record| match &record.data {
                        RData::TXT(txt) => {
                            let bytes: Vec<u8> = txt.txt_data.iter().flat_map(|part| part.iter().copied()).collect();
                            Some(String::from_utf8_lossy(&bytes).into_owned())
                        }
                        _ => None,
                    })
                    .filter(|text| is_policy(text))
                    .collect();
                policies.sort();
                by_policy.entry(policies).or_default().push(server.label());
            }
            _ => unable.push(server.label()),
        }
    }
    if by_policy.is_empty() {
        findings.warning("Z11_UNABLE_TO_CHECK_FOR_SPF", "no server answers the question for the sender policy (SPF)");
        return;
    }
    if by_policy.len() > 1 {
        let list: Vec<String> = by_policy
            .iter()
            .map(|(policies, servers)| format!("{} at {}", policies.join(" + "), servers.join(", ")))
            .collect();
        findings.warning("Z11_INCONSISTENT_SPF_POLICIES", "the servers have different sender policies (SPF)");
        findings.notice("Z11_DIFFERENT_SPF_POLICIES_FOUND", list.join("; "));
        return;
    }
    let Some((policies, _)) = by_policy.first_key_value() else { return };
    match policies.as_slice() {
        [] => {
            findings.notice("Z11_NO_SPF_FOUND", "there is no sender policy (SPF): anybody can send mail in this name")
        }
        [policy] => match fault(policy) {
            Some(fault) => {
                findings.warning("Z11_SPF_SYNTAX_ERROR", format!("the sender policy (SPF) is not valid: {fault}"))
            }
            None if !has_mail && policy.trim() != "v=spf1 -all" => findings.notice(
                "Z11_NON_NULL_SPF_NON_MAIL_DOMAIN",
                "the domain has no mail servers, so its sender policy (SPF) should be \"v=spf1 -all\"",
            ),
            None => findings.info("Z11_SPF_SYNTAX_OK", "the sender policy (SPF) is well formed"),
        },
        several => findings.warning(
            "Z11_SPF_MULTIPLE_RECORDS",
            format!(
                "there are {} sender policies (SPF); one is allowed, and receivers ignore all of them",
                several.len()
            ),
        ),
    }
}

fn is_policy(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower == "v=spf1" || lower.starts_with("v=spf1 ")
}

/// What is wrong with a policy's syntax.
fn fault(policy: &str) -> Option<String> {
    for term in policy.split(' ').skip(1).filter(|term| !term.is_empty()) {
        let term_lower = term.to_ascii_lowercase();
        let bare = term_lower.trim_start_matches(['+', '-', '?', '~']);
        if let Some((name, _)) = bare.split_once('=') {
            let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic());
            if well_formed && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                continue;
            }
            return Some(format!("{term:?} is no modifier"));
        }
        let (name, argument) = match bare.find([':', '/']) {
            Some(at) => bare.split_at(at),
            None => (bare, ""),
        };
        if !MECHANISMS.contains(&name) {
            return Some(format!("{term:?} is no mechanism"));
        }
        let argument = argument.strip_prefix(':');
        match name {
            "include" | "exists" if argument.is_none_or(str::is_empty) => {
                return Some(format!("{term:?} names no domain"));
            }
            "all" if argument.is_some() => return Some(format!("{term:?} takes no domain")),
            "ip4" | "ip6" => {
                let address = argument.unwrap_or_default().split('/').next().unwrap_or_default();
                let valid = match name {
                    "ip4" => address.parse::<std::net::Ipv4Addr>().is_ok(),
                    _ => address.parse::<std::net::Ipv6Addr>().is_ok(),
                };
                if !valid {
                    return Some(format!("{term:?} has no valid address"));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_judged_by_their_syntax() {
        for fine in [
            "v=spf1 -all",
            "v=spf1 mx a:x.example ip4:192.0.2.0/24 ip6:2001:db8::/32 ~all",
            "v=spf1 redirect=_spf.example",
        ] {
            assert_eq!(fault(fine), None, "{fine}");
        }
        for wrong in ["v=spf1 ip4:500.1.1.1 -all", "v=spf1 included:x -all", "v=spf1 include: -all", "v=spf1 all:x"] {
            assert!(fault(wrong).is_some(), "{wrong}");
        }
    }
}
