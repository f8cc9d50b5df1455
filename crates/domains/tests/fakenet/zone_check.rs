//! What `dns zone-check` tells: Zonemaster's tags and severities for the faults of the fake internet.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bailiwick_domains::check::{self, Check, Report};
use bailiwick_domains::probe::NoRemotePlaces;
use bailiwick_domains::report::{Style, zone_check};
use bailiwick_domains::resolve::Run;
use bailiwick_domains::verdict::Severity;
use bailiwick_domains::wire::parse_name;
use bailiwick_domains::zonecheck::{self, MAX_CHECK_QUESTIONS, ZoneCheck};
use futures::StreamExt;

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_healthy_zone_is_in_good_order),
        scenario!(every_fault_has_zonemasters_tag_and_severity),
        scenario!(every_ailment_has_the_tags_and_levels_that_zonemaster_documents),
        scenario!(a_name_that_is_no_zone_is_told_with_the_zone_that_it_is_in),
        scenario!(a_zone_can_be_checked_before_it_is_delegated),
        scenario!(findings_have_their_server_and_its_packet),
    ]
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

/// www.good.com is an alias into another zone, shop.good.com is none.
async fn a_name_that_is_no_zone_is_told_with_the_zone_that_it_is_in(world: &World) -> Result<()> {
    for name in ["www.good.com", "shop.good.com"] {
        let text = zone_check::text(&check(world, name).await?, Style::Plain);
        tells(&text, &format!("{name} is not a zone of its own; it is part of good.com: check that one"));
        tells(&text, &format!("good.com does not delegate {name} to any server"));
    }
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

/// Zones that are checked at once.
const AT_ONCE: usize = 4;

/// What is wrong with each zone of `bailiwick_fakenet`'s `ill`, by Zonemaster's tags.
const AILMENTS: &[(&str, &[&str])] = &[
    (
        "ill-short.com",
        &[
            "REFRESH_MINIMUM_VALUE_LOWER",
            "REFRESH_LOWER_THAN_RETRY",
            "RETRY_MINIMUM_VALUE_LOWER",
            "EXPIRE_MINIMUM_VALUE_LOWER",
            "EXPIRE_LOWER_THAN_REFRESH",
            "SOA_DEFAULT_TTL_MAXIMUM_VALUE_LOWER",
            "Z09_MISSING_MAIL_TARGET",
            "Z11_NO_SPF_FOUND",
        ],
    ),
    ("ill-long.com", &["SOA_DEFAULT_TTL_MAXIMUM_VALUE_HIGHER"]),
    ("ill-dot.com", &["Z01_MNAME_IS_DOT", "RNAME_MISUSED_AT_SIGN", "RNAME_RFC822_INVALID"]),
    ("ill-localhost.com", &["Z01_MNAME_IS_LOCALHOST"]),
    ("ill-loopback.com", &["Z01_MNAME_HAS_LOCALHOST_ADDR"]),
    ("ill-nowhere.com", &["Z01_MNAME_NOT_RESOLVE"]),
    ("ill-alias.com", &["MNAME_IS_CNAME"]),
    ("ill-primary.com", &["MNAME_NON_ALLOWED_CHARS", "MNAME_DISCOURAGED_DOUBLE_DASH", "MNAME_NUMERIC_TLD"]),
    ("ill-nullmx.com", &["Z09_NULL_MX_WITH_OTHER_MX", "Z09_NULL_MX_NON_ZERO_PREF"]),
    ("ill-mx.com", &["MX_NON_ALLOWED_CHARS", "MX_DISCOURAGED_DOUBLE_DASH", "MX_NUMERIC_TLD"]),
    ("ill-spf.com", &["Z11_SPF_SYNTAX_ERROR"]),
    ("ill-spf2.com", &["Z11_SPF_MULTIPLE_RECORDS"]),
    ("ill-nomail.com", &["Z11_NON_NULL_SPF_NON_MAIL_DOMAIN"]),
    ("ab--cd.com", &["DISCOURAGED_DOUBLE_DASH"]),
    ("under_score.com", &["NON_ALLOWED_CHARS"]),
    ("end-.com", &["TERMINAL_HYPHEN"]),
    ("ill-nsalias.com", &["NS_IS_CNAME"]),
    ("ill-nonsense.com", &["B02_NS_NO_IP_ADDR", "CAN_NOT_BE_RESOLVED"]),
    ("ill-lowercase.com", &["QNAME_CASE_INSENSITIVE"]),
    ("ill-dropsaaaa.com", &["AAAA_QUERY_DROPPED"]),
    ("ill-noaaaa.com", &["AAAA_UNEXPECTED_RCODE"]),
    ("ill-anyedns.com", &["N10_UNEXPECTED_RCODE"]),
    ("ill-stripsedns.com", &["EDNS_RESPONSE_WITHOUT_EDNS", "N11_NO_EDNS"]),
    ("ill-strict.com", &["CASE_QUERY_DIFFERENT_RC", "N10_UNEXPECTED_RCODE", "N11_UNEXPECTED_RCODE", "NS_ERROR"]),
    ("ill-lame1.com", &["Z01_MNAME_NOT_AUTHORITATIVE", "SOA_NOT_EXISTS"]),
    ("ill-silent1.com", &["Z01_MNAME_NO_RESPONSE"]),
    ("ill-strangers.com", &["TOTAL_NAME_MISMATCH", "EXTRA_NAME_PARENT", "EXTRA_NAME_CHILD"]),
    ("ill-sameip.com", &["DEL_NS_SAME_IP", "CHILD_NS_SAME_IP"]),
    ("ill-moreglue.com", &["EXTRA_ADDRESS_CHILD"]),
    ("ill-document.com", &["A01_DOCUMENTATION_ADDR"]),
    ("ill-hosts.com", &["NAMESERVER_NON_ALLOWED_CHARS", "NAMESERVER_DISCOURAGED_DOUBLE_DASH"]),
    ("ill-many.com", &["REFERRAL_SIZE_TOO_LARGE", "NAMESERVER_IP_PTR_MISMATCH"]),
    (
        "ill-differ.com",
        &[
            "MULTIPLE_SOA_SERIALS",
            "SOA_SERIAL_VARIATION",
            "MULTIPLE_SOA_RNAMES",
            "MULTIPLE_SOA_TIME_PARAMETER_SET",
            "MULTIPLE_SOA_MNAMES",
            "MULTIPLE_NS_SET",
            "Z09_INCONSISTENT_MX_DATA",
            "Z11_INCONSISTENT_SPF_POLICIES",
            "Z11_DIFFERENT_SPF_POLICIES_FOUND",
            "AXFR_AVAILABLE",
            "N15_SOFTWARE_VERSION",
            "NAMESERVER_IP_WITHOUT_REVERSE",
        ],
    ),
    ("ill-halfmail.com", &["Z09_INCONSISTENT_MX"]),
    ("ill-oldprimary.com", &["Z01_MNAME_NOT_MASTER"]),
    ("ill-salt.com", &["DS03_ILLEGAL_ITERATION_VALUE", "DS03_ILLEGAL_SALT_LENGTH", "DS10_HAS_NSEC3"]),
    ("ill-forever.com", &["REMAINING_LONG"]),
    ("ill-hurry.com", &["REMAINING_SHORT"]),
    ("ill-old.com", &["DURATION_LONG"]),
    (
        "ill-early.com",
        &["DS08_DNSKEY_RRSIG_NOT_YET_VALID", "DS09_SOA_RRSIG_NOT_YET_VALID", "DS10_NSEC_RRSIG_NOT_YET_VALID"],
    ),
    ("ill-smallkey.com", &["DNSKEY_SMALLER_THAN_REC"]),
    ("ill-algorithm.com", &["DS05_ALGO_NOT_RECOMMENDED"]),
    ("ill-optout.com", &["DS03_NSEC3_OPT_OUT_ENABLED_NON_TLD"]),
    ("ill-delete.com", &["DS16_DELETE_CDS", "DS17_DELETE_CDNSKEY"]),
    ("ill-cds.com", &["DS15_HAS_CDS_NO_CDNSKEY", "DS16_CDS_MATCHES_NO_DNSKEY", "DS16_DNSKEY_NOT_SIGNED_BY_CDS"]),
    ("ill-cdsonly.com", &["DS16_CDS_WITHOUT_DNSKEY"]),
    ("broken.com", &["A_QUERY_NO_RESPONSES"]),
    ("ill-accident.com", &["HAS_A_RECORDS"]),
    ("ill-neighbours.com", &["CN04_IPV4_SINGLE_PREFIX"]),
    ("ill-near.com", &["CN04_IPV4_SAME_PREFIX"]),
    ("ill-twosoas.com", &["MULTIPLE_SOA"]),
    ("ill-keysonly.com", &["EXTRA_PROCESSING_BROKEN", "MISSING_OPT_IN_TRUNCATED"]),
    (
        "ill-algorithms.com",
        &["DS13_ALGO_NOT_SIGNED_DNSKEY", "DS13_ALGO_NOT_SIGNED_SOA", "DS13_ALGO_NOT_SIGNED_NS", "EXTRA_PROCESSING_OK"],
    ),
    ("ill-otherds.com", &["DS18_NO_MATCH_CDS_RRSIG_DS", "DS18_NO_MATCH_CDNSKEY_RRSIG_DS"]),
    (
        "ill-digests.com",
        &[
            "DS01_DS_ALGO_DEPRECATED",
            "DS01_DS_ALGO_RESERVED",
            "DS01_DS_ALGO_UNASSIGNED",
            "DS01_DS_ALGO_PRIVATE",
            "DS01_DS_ALGO_2_MISSING",
            "DS11_DS_BUT_UNSIGNED_ZONE",
        ],
    ),
    (
        "ill-halfsigned.com",
        &[
            "DS07_INCONSISTENT_SIGNED",
            "DS07_NOT_SIGNED_ON_SERVER",
            "DS11_INCONSISTENT_SIGNED_ZONE",
            "DS11_NS_WITH_UNSIGNED_ZONE",
        ],
    ),
];

/// The levels that Zonemaster documents, by tag.
fn documented() -> BTreeMap<&'static str, String> {
    let table = include_str!("../../testdata/zonemaster-levels.txt");
    let fields = table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, fields.next()?.replace("DEBUG", "INFO")))
    });
    fields.collect()
}

async fn every_ailment_has_the_tags_and_levels_that_zonemaster_documents(world: &World) -> Result<()> {
    let levels = documented();
    let checked = futures::stream::iter(AILMENTS)
        .map(|(zone, wanted)| async move { Ok::<_, anyhow::Error>((*zone, *wanted, check(world, zone).await?)) });
    let checked: Vec<Result<_>> = checked.buffer_unordered(AT_ONCE).collect().await;
    let mut wrong = Vec::new();
    for result in checked {
        let (zone, wanted, found) = result?;
        for tag in wanted {
            match found.findings.iter().find(|finding| finding.tag == *tag) {
                None => {
                    let told = found.findings.iter().filter(|finding| finding.severity > Severity::Info);
                    let told: Vec<&str> = told.map(|finding| finding.tag).collect();
                    wrong.push(format!("{zone}: {tag} is missing among {told:?}"));
                }
                Some(finding) => {
                    let level = finding.severity.to_string();
                    if levels.get(tag).is_some_and(|documented| *documented != level) {
                        wrong.push(format!("{zone}: {tag} is {level} and should be {}", levels[tag]));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

async fn undelegated(world: &World, zone: &str, servers: &[&str], signers: &[&str]) -> Result<ZoneCheck> {
    let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let check = Check::ZoneCheck {
        name: zone.to_owned(),
        level: Severity::Info,
        servers: text(servers),
        signers: text(signers),
    };
    match check::run(&check, &world.toolbox()?, &NoRemotePlaces).await? {
        Report::ZoneCheck(check) => Ok(*check),
        _ => anyhow::bail!("another report"),
    }
}

async fn a_zone_can_be_checked_before_it_is_delegated(world: &World) -> Result<()> {
    let has = |check: &ZoneCheck, tag: &str| check.findings.iter().any(|finding| finding.tag == tag);
    assert!(has(&check(world, "unborn.com").await?, "B02_NO_DELEGATION"));
    let servers = ["ns1.op-a.net", "ns2.op-a.net"];
    let found = undelegated(world, "unborn.com", &servers, &[]).await?;
    assert!(found.worst() < Severity::Error || !has(&found, "B02_NO_WORKING_NS"), "{:#?}", found.findings);
    for tag in ["B01_CHILD_FOUND", "B02_AUTH_RESPONSE_SOA", "NAMES_MATCH", "DS07_NOT_SIGNED"] {
        assert!(has(&found, tag), "{tag} is missing: {:#?}", found.findings);
    }
    // Somebody else's server, by its address, and a DS for a zone that is not signed.
    let digest = "4711,13,2,00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF";
    let moved = ["ns1.op-a.net", "ns1.op-b.org/108.162.192.1"];
    let found = undelegated(world, "unborn.com", &moved, &[digest]).await?;
    for tag in ["B02_UNEXPECTED_RCODE", "EXTRA_NAME_PARENT", "EXTRA_NAME_CHILD", "DS11_DS_BUT_UNSIGNED_ZONE"] {
        assert!(has(&found, tag), "{tag} is missing: {:#?}", found.findings);
    }
    Ok(())
}

async fn findings_have_their_server_and_its_packet(world: &World) -> Result<()> {
    let found = check(world, "lame.com").await?;
    let of = |tag: &str| found.findings.iter().find(|finding| finding.tag == tag).with_context(|| format!("no {tag}"));
    let lame = of("B02_UNEXPECTED_RCODE")?;
    assert_eq!(lame.server.as_deref(), Some("lame.op-c.net"));
    assert_eq!(lame.address.map(|address| address.to_string()).as_deref(), Some("45.54.64.5"));
    let evidence = lame.evidence.first().context("no evidence")?;
    assert_eq!(evidence.question, "lame.com SOA");
    tells(&evidence.answer, "REFUSED");
    assert!(evidence.packet.is_some() && evidence.packet_sha256.is_some(), "{evidence:?}");
    // What is about both lists rests on the parent's answer and on the zone's.
    let found = check(world, "mismatch.com").await?;
    let lists = found.findings.iter().find(|finding| finding.tag == "EXTRA_NAME_PARENT").context("not told")?;
    for server in ["gtld-servers.net", "ns1.op-a.net"] {
        assert!(lists.evidence.iter().any(|evidence| evidence.server.ends_with(server)), "{server}: {lists:?}");
    }
    tells(&zone_check::text(&found, Style::Plain), "said by a.gtld-servers.net");
    // A packet is given once, and all of them are bounded.
    let digests: Vec<_> = found
        .findings
        .iter()
        .flat_map(|finding| &finding.evidence)
        .filter(|evidence| evidence.packet.is_some())
        .filter_map(|evidence| evidence.packet_sha256.as_ref())
        .collect();
    let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(digests.len(), distinct.len());
    Ok(())
}
