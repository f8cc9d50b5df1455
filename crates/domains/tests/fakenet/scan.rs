//! What `dns scan` tells.

use anyhow::Result;
use bailiwick_domains::name::Subject;
use bailiwick_domains::report::{Style, scan};

use crate::bed::{Scenario, World, tells};
use crate::scenario;

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
