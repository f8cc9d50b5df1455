//! What `dns zone-check` tells: Zonemaster's tags and severities for the faults of the fake internet.

use anyhow::Result;
use bailiwick_domains::resolve::Run;
use bailiwick_domains::verdict::Severity;
use bailiwick_domains::wire::parse_name;
use bailiwick_domains::zonecheck::{self, MAX_CHECK_QUESTIONS, ZoneCheck};

use crate::bed::{Scenario, World};
use crate::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![scenario!(a_healthy_zone_is_in_good_order), scenario!(every_fault_has_zonemasters_tag_and_severity)]
}

async fn check(world: &World, zone: &str) -> Result<ZoneCheck> {
    let engine = world.engine();
    let run = Run::with_budget(&engine, MAX_CHECK_QUESTIONS);
    Ok(zonecheck::check(&run, &parse_name(zone)?).await)
}

async fn a_healthy_zone_is_in_good_order(world: &World) -> Result<()> {
    let found = check(world, "good.com").await?;
    let bad: Vec<_> = found.findings.iter().filter(|finding| finding.severity > Severity::Warning).collect();
    // One address of IPv6 is all that its hoster has.
    let unexpected: Vec<_> = bad.iter().filter(|finding| !finding.tag.starts_with("NOT_ENOUGH_IPV6_NS")).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert!(found.cases.len() >= 60, "only {} cases were run", found.cases.len());
    Ok(())
}

async fn every_fault_has_zonemasters_tag_and_severity(world: &World) -> Result<()> {
    use Severity::{Critical, Error, Notice, Warning};
    let expected: &[(&str, &[(&str, Severity)])] = &[
        ("lame.com", &[("B02_UNEXPECTED_RCODE", Error), ("CN01_UNEXPECTED_RCODE_SOA_QUERY_UDP", Warning)]),
        ("silent.com", &[("B02_NS_NO_RESPONSE", Warning), ("CN01_NO_RESPONSE_UDP", Warning)]),
        ("closed.com", &[("CN02_NO_RESPONSE_TCP", Warning)]),
        ("crooked.com", &[("DIFFERENT_SOURCE_IP", Warning)]),
        ("open.com", &[("IS_A_RECURSOR", Error), ("IS_NOT_AUTHORITATIVE", Warning)]),
        ("upward.com", &[("UPWARD_REFERRAL", Warning)]),
        ("noedns.com", &[("BREAKS_ON_EDNS", Error)]),
        ("formerr.com", &[("NO_EDNS_SUPPORT", Warning)]),
        ("broken.com", &[("B02_NO_WORKING_NS", Critical)]),
        ("nowhere.com", &[("B01_NO_CHILD", Error), ("B02_NO_DELEGATION", Critical)]),
        ("single.com", &[("NOT_ENOUGH_NS_DEL", Error), ("NOT_ENOUGH_NS_CHILD", Error)]),
        ("stale.com", &[("MULTIPLE_SOA_SERIALS", Warning)]),
        ("mismatch.com", &[("EXTRA_NAME_PARENT", Error), ("EXTRA_NAME_CHILD", Notice)]),
        ("wrongglue.com", &[("IN_BAILIWICK_ADDR_MISMATCH", Error)]),
        ("private.com", &[("A01_LOCAL_USE_ADDR", Error)]),
        (
            "expired.com",
            &[("RRSIG_EXPIRED", Error), ("DS08_DNSKEY_RRSIG_EXPIRED", Error), ("DS09_SOA_RRSIG_EXPIRED", Error)],
        ),
        ("wrongds.com", &[("DS02_NO_VALID_DNSKEY_FOR_ANY_DS", Error), ("DS02_NO_DNSKEY_FOR_DS", Warning)]),
        ("island.com", &[("DS07_NO_DS_FOR_SIGNED_ZONE", Warning)]),
        ("unsigned-ds.com", &[("DS11_DS_BUT_UNSIGNED_ZONE", Error)]),
        ("plain.com", &[("DS07_NOT_SIGNED", Warning), ("DS01_PARENT_ZONE_NO_DS", Notice), ("IPV4_ONE_ASN", Warning)]),
        ("ill.com", &[("MX_RECORD_IS_CNAME", Error)]),
        ("good.com", &[("REFRESH_MINIMUM_VALUE_LOWER", Notice), ("RETRY_MINIMUM_VALUE_LOWER", Notice)]),
    ];
    let mut missing = Vec::new();
    for (zone, wanted) in expected {
        let found = check(world, zone).await?;
        for (tag, severity) in *wanted {
            if !found.findings.iter().any(|finding| finding.tag == *tag && finding.severity == *severity) {
                let tags: Vec<&str> = found
                    .findings
                    .iter()
                    .filter(|finding| finding.severity > Severity::Info)
                    .map(|finding| finding.tag)
                    .collect();
                missing.push(format!("{zone}: {severity} {tag} is missing among {tags:?}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    Ok(())
}
