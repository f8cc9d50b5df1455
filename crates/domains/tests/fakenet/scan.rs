//! What `dns scan` tells.

use anyhow::{Context, Result};
use bailiwick_domains::authority::Authorities;
use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::report::{Style, scan};
use bailiwick_domains::scan::Scan;

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(the_documents_example_has_the_documents_values),
        scenario!(registry_and_registrar_are_merged_and_the_zone_is_secure),
        scenario!(without_rdap_whois_tells),
        scenario!(a_domain_in_redemption_with_a_silent_server_is_critical),
        scenario!(nameservers_that_registry_parent_and_zone_list_differently),
        scenario!(a_registry_that_is_busy_says_when),
        scenario!(any_script_and_any_url_lead_to_the_domain),
        scenario!(a_domain_that_expires_soon_is_a_warning),
        scenario!(a_free_name_is_told),
        scenario!(negative_caching_has_this_zones_numbers),
        scenario!(wrong_glue_is_told_with_both_addresses),
        scenario!(a_server_with_an_old_version_is_told),
        scenario!(broken_signatures_are_critical),
        scenario!(nameservers_in_one_network_are_a_warning),
        scenario!(a_nameserver_that_is_an_alias_is_told),
        scenario!(every_finding_about_nameservers_has_its_packet),
        scenario!(how_long_a_move_to_other_nameservers_takes_is_told),
        scenario!(the_hourly_look_tells_what_the_first_one_told),
        scenario!(a_watch_asks_a_registry_once_for_each_domain),
    ]
}

async fn scanned(world: &World, input: &str) -> Result<String> {
    let scan = world.toolbox()?.scan(Subject::parse(input)?).await;
    Ok(scan::text(&scan, Style::Plain))
}

async fn the_documents_example_has_the_documents_values(world: &World) -> Result<()> {
    let text = scanned(world, "q7.io").await?;
    for told in [
        "nothing to worry about",
        "NAMECHEAP INC (IANA 1068)",
        "2012-07-06T13:58:57.00Z",
        "2019-08-17T16:33:24.36Z",
        "2029-07-06T13:58:57.00Z",
        "ns1.digitalocean.com, ns2.digitalocean.com, ns3.digitalocean.com",
        "DigitalOcean",
        "unsigned",
        "clientDeleteProhibited",
        "clientTransferProhibited",
        "clientUpdateProhibited",
    ] {
        tells(&text, told);
    }
    assert!(!text.contains("Maxine"), "people are nobody's business: {text}");
    Ok(())
}

async fn registry_and_registrar_are_merged_and_the_zone_is_secure(world: &World) -> Result<()> {
    let text = scanned(world, "good.com").await?;
    tells(&text, "RDAP of the registry, https://rdap.registry.net/com/domain/good.com; RDAP of the registrar");
    tells(&text, "signedDelegation");
    tells(&text, "signatures    secure");
    Ok(())
}

async fn without_rdap_whois_tells(world: &World) -> Result<()> {
    let text = scanned(world, "op-b.org").await?;
    tells(&text, "WHOIS of the registry, whois.registry.net; WHOIS of the registrar, whois.registrar.net");
    tells(&text, "GANDI SAS (IANA 81)");
    Ok(())
}

async fn a_domain_in_redemption_with_a_silent_server_is_critical(world: &World) -> Result<()> {
    let text = scanned(world, "silent.com").await?;
    tells(&text, "CRITICAL  the registration expired 40 days ago: renew it today");
    tells(
        &text,
        "CRITICAL  redemptionPeriod (deleted, out of DNS, and can still be bought back): restore it at the registrar today",
    );
    tells(&text, "silent.op-c.net (45.54.64.6) does not answer");
    Ok(())
}

async fn nameservers_that_registry_parent_and_zone_list_differently(world: &World) -> Result<()> {
    let text = scanned(world, "mismatch.com").await?;
    tells(
        &text,
        "the parent zone delegates to ns1.op-a.net, ns1.op-b.org, the zone itself lists ns1.op-a.net, ns2.op-a.net: make both lists \
         the same",
    );
    tells(&text, "CRITICAL  the registration expires in 4 days: renew it now");
    Ok(())
}

async fn a_registry_that_is_busy_says_when(world: &World) -> Result<()> {
    let text = scanned(world, "lame.com").await?;
    tells(&text, "rdap.registry.net wants to be asked again after 20");
    tells(&text, "lame.op-c.net (45.54.64.5) does not serve the zone");
    Ok(())
}

async fn any_script_and_any_url_lead_to_the_domain(world: &World) -> Result<()> {
    let text = scanned(world, "https://www.bücher.com/regal?x=1").await?;
    tells(&text, "bücher.com (xn--bcher-kva.com), the registered name of www.xn--bcher-kva.com");
    tells(&text, "IONOS SE (IANA 83)");
    Ok(())
}

async fn a_domain_that_expires_soon_is_a_warning(world: &World) -> Result<()> {
    let text = scanned(world, "plain.com").await?;
    tells(&text, "warning  the registration expires in 19 days");
    Ok(())
}

async fn a_free_name_is_told(world: &World) -> Result<()> {
    let text = scanned(world, "nobody-has-this.com").await?;
    tells(&text, "nobody-has-this.com is not registered, says rdap.registry.net");
    tells(&text, "nobody-has-this.com is not delegated");
    Ok(())
}

async fn negative_caching_has_this_zones_numbers(world: &World) -> Result<()> {
    let text = scanned(world, "negative.com").await?;
    tells(&text, "remembers for 5 minutes that it does not");
    tells(&text, "TTL 300 (5 minutes), minimum 3600 (1 hour); the record's own TTL is the smaller one");
    Ok(())
}

async fn wrong_glue_is_told_with_both_addresses(world: &World) -> Result<()> {
    let text = scanned(world, "wrongglue.com").await?;
    tells(
        &text,
        "the parent zone sends people to 45.54.64.6 for ns2.wrongglue.com, which is at 205.251.193.1 by its own zone",
    );
    Ok(())
}

async fn a_server_with_an_old_version_is_told(world: &World) -> Result<()> {
    let text = scanned(world, "stale.com").await?;
    tells(
        &text,
        "stale.op-c.net (45.54.64.11) serves an old version of the zone: serial 2026110101, others have 2026111601",
    );
    Ok(())
}

async fn broken_signatures_are_critical(world: &World) -> Result<()> {
    for domain in ["expired.com", "wrongds.com", "unsigned-ds.com"] {
        tells(&scanned(world, domain).await?, "CRITICAL  the DNSSEC signatures do not fit");
    }
    Ok(())
}

async fn nameservers_in_one_network_are_a_warning(world: &World) -> Result<()> {
    let text = scanned(world, "broken.com").await?;
    tells(&text, "warning   all nameservers are in one network (45.54.64.0/24): when it fails, the domain is gone");
    assert!(!scanned(world, "plain.com").await?.contains("in one network"));
    Ok(())
}

async fn a_nameserver_that_is_an_alias_is_told(world: &World) -> Result<()> {
    let text = scanned(world, "ill-nsalias.com").await?;
    tells(&text, "the nameserver alias.op-c.net is an alias (CNAME), which is not allowed");
    Ok(())
}

async fn every_finding_about_nameservers_has_its_packet(world: &World) -> Result<()> {
    for (domain, told, servers) in [
        ("mismatch.com", "make both lists the same", &["gtld-servers.net", "ns1.op-a.net"][..]),
        ("lame.com", "lame.op-c.net (45.54.64.5) does not serve the zone", &["lame.op-c.net"]),
        ("single.com", "there is only one nameserver", &["gtld-servers.net"]),
        ("wrongglue.com", "the parent zone sends people to", &["gtld-servers.net"]),
        ("stale.com", "serves an old version", &["stale.op-c.net"]),
        ("ill-nsalias.com", "is an alias (CNAME)", &[".op-a.net"]),
    ] {
        let scan = world.toolbox()?.scan(Subject::parse(domain)?).await;
        let finding = scan.findings.iter().find(|finding| finding.text.contains(told));
        let finding = finding.with_context(|| format!("{domain} does not tell {told:?}: {:?}", scan.findings))?;
        for server in servers {
            let evidence = finding.evidence.iter().find(|evidence| evidence.server.ends_with(server));
            let evidence = evidence.with_context(|| format!("{domain}: nothing of {server} in {finding:?}"))?;
            assert!(evidence.packet.is_some() && evidence.packet_sha256.is_some(), "{domain}: {evidence:?}");
            assert!(!evidence.answer.is_empty() && evidence.question.contains('.'), "{domain}: {evidence:?}");
        }
    }
    // A server that is silent has an address and no packet.
    let scan = world.toolbox()?.scan(Subject::parse("silent.com")?).await;
    let silent = scan.findings.iter().find(|finding| finding.text.contains("does not answer")).context("not told")?;
    let evidence = silent.evidence.first().context("no evidence")?;
    assert_eq!((evidence.server.as_str(), evidence.answer.as_str()), ("silent.op-c.net", "no answer in time"));
    Ok(())
}

async fn how_long_a_move_to_other_nameservers_takes_is_told(world: &World) -> Result<()> {
    tells(
        &scanned(world, "plain.com").await?,
        "resolvers keep the old nameservers for up to 2 days (the parent zone says 2 days, the old zone 1 hour); keep the old \
         servers answering until then",
    );
    Ok(())
}

/// On a busy machine a server may once be too late for somebody who waits less than a second: that is no difference in what is
/// told.
const ATTEMPTS: usize = 5;

/// The watch asks less and shares what it knows of registries; what it says must be the same.
async fn the_hourly_look_tells_what_the_first_one_told(world: &World) -> Result<()> {
    let toolbox = world.toolbox()?;
    // Whose it is does not matter here, and the registry is busy.
    let known = toolbox.scan(Subject::parse("good.com")?).await.registration.context("no registration")?;
    let gist = |scan: &Scan| {
        let seen = scan.dns.clone().map(|dns| {
            let mut servers: Vec<String> = dns.servers.iter().map(|server| format!("{server:?}")).collect();
            servers.sort();
            (dns.delegated_to, dns.listed, dns.security, dns.soa, dns.wrong_glue, servers)
        });
        (seen, scan.dns_problem.clone())
    };
    for domain in [
        "good.com",
        "q7.io",
        "plain.com",
        "lame.com",
        "silent.com",
        "closed.com",
        "upward.com",
        "noedns.com",
        "formerr.com",
        "slow.com",
        "stale.com",
        "mismatch.com",
        "wrongglue.com",
        "expired.com",
        "wrongds.com",
        "island.com",
        "unsigned-ds.com",
        "broken.com",
        "circle.com",
        "single.com",
        "op-b.org",
        "nobody-has-this.com",
    ] {
        let subject = Subject::parse(domain)?;
        for left in (0..ATTEMPTS).rev() {
            let first = gist(&toolbox.scan(subject.clone()).await);
            let mut later = Vec::new();
            for _ in 0..2 {
                later.push(gist(&toolbox.scan_dns(subject.clone(), known.clone()).await));
            }
            if left == 0 || later.iter().all(|one| *one == first) {
                assert_eq!(later, [first.clone(), first], "{domain}");
                break;
            }
        }
    }
    Ok(())
}

async fn a_watch_asks_a_registry_once_for_each_domain(world: &World) -> Result<()> {
    let toolbox = world.toolbox()?;
    let here = world.roots.vantage_points().into_iter().next().context("no places")?;
    let asked = || toolbox.surveyor().first_engine().map_or(0, |engine| engine.transport().asked());
    let watch = |domain: &'static str| {
        let (toolbox, here) = (&toolbox, &here);
        async move {
            let before = asked();
            toolbox.surveyor().watch(here, &DomainName::parse(domain)?).await.map_err(anyhow::Error::msg)?;
            Ok::<_, anyhow::Error>(asked() - before)
        }
    };
    // A question that is repeated because the machine is busy is not counted against it.
    let fewest = async |domain: &'static str| -> Result<_> {
        let mut fewest = watch(domain).await?;
        for _ in 1..ATTEMPTS {
            fewest = fewest.min(watch(domain).await?);
        }
        Ok(fewest)
    };
    watch("plain.com").await?;
    // One to the registry; the version and the list of each of three addresses; nothing about the hoster or `com`.
    assert_eq!(fewest("moving.com").await?, 1 + 2 * 3);
    // Its keys in addition, and another hoster.
    assert_eq!(fewest("good.com").await?, 1 + 2 * 3 + 1);
    Ok(())
}
