//! What a finding rests on that is about the zone and not about one server: the answers that its case compares.

use super::Facts;
use super::probe::Probe;
use crate::evidence::Evidence;
use crate::resolve::Says;

/// The exchanges of a case.
pub(super) fn of(facts: &Facts, case: &str) -> Vec<Evidence> {
    match case {
        "BASIC01" => parent(facts),
        "BASIC02" | "ZONE01" => servers(facts, &[Probe::Soa]),
        "CONSISTENCY05" | "DELEGATION03" => parent(facts),
        // Who is listed: by the parent and by the zone itself.
        "DELEGATION01" | "DELEGATION02" | "DELEGATION05" | "DELEGATION07" | "NAMESERVER06" | "SYNTAX04" => {
            let mut both: Vec<Evidence> = parent(facts).into_iter().take(2).collect();
            both.extend(servers(facts, &[Probe::Ns]));
            both
        }
        "CONSISTENCY04" => servers(facts, &[Probe::Ns]),
        "DNSSEC01" | "DNSSEC11" => facts.ds_evidence.clone(),
        "DNSSEC03" | "DNSSEC10" => servers(facts, &[Probe::Nsec]),
        "DNSSEC02" | "DNSSEC04" | "DNSSEC05" | "DNSSEC07" | "DNSSEC13" | "DNSSEC14" => servers(facts, &[Probe::Dnskey]),
        "DNSSEC15" => servers(facts, &[Probe::Cds, Probe::Cdnskey]),
        "SYNTAX08" | "ZONE08" | "ZONE09" => servers(facts, &[Probe::Mx]),
        "ZONE11" => servers(facts, &[Probe::Txt]),
        _ => servers(facts, &[Probe::Soa]),
    }
}

/// What the parent's servers say about the zone.
pub(super) fn parent(facts: &Facts) -> Vec<Evidence> {
    let told = facts.parent_replies.iter().filter(|reply| !matches!(reply.says, Says::Silent));
    told.map(Evidence::of_reply).collect()
}

fn servers(facts: &Facts, probes: &[Probe]) -> Vec<Evidence> {
    let of = |probe: &Probe| facts.servers.iter().filter_map(|server| server.evidence(*probe)).collect::<Vec<_>>();
    probes.iter().flat_map(of).collect()
}
