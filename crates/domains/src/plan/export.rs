//! A plan as files for other tools: a zone file, dnscontrol, octoDNS, and a template of Domain Connect with the link that
//! applies it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Plan, PlannedKind, PlannedProof, PlannedRecord, PlannedValue};
use crate::name::DomainName;

/// A form of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    ZoneFile,
    #[serde(rename = "dnscontrol")]
    DnsControl,
    #[serde(rename = "octodns")]
    OctoDns,
    DomainConnect,
}

/// The plan in a form.
pub fn export(plan: &Plan, format: Format) -> String {
    match format {
        Format::ZoneFile => zone_file(plan),
        Format::DnsControl => dnscontrol(plan),
        Format::OctoDns => octodns(plan),
        Format::DomainConnect => format!("{:#}\n", domain_connect(plan)),
    }
}

/// `www`, or `@` at the zone itself.
fn label(record: &PlannedRecord, zone: &DomainName) -> String {
    relative(&record.host.to_string(), zone)
}

fn proof_label(proof: &PlannedProof, zone: &DomainName) -> String {
    relative(proof.proof.name.as_str(), zone)
}

fn relative(whole: &str, zone: &DomainName) -> String {
    match whole.strip_suffix(zone.as_str()).map(|rest| rest.trim_end_matches('.')) {
        Some("") => "@".to_owned(),
        Some(relative) => relative.to_owned(),
        None => format!("{whole}."),
    }
}

fn absolute(value: &PlannedValue) -> String {
    match value {
        PlannedValue::Address(address) => address.to_string(),
        PlannedValue::Name(name) => name.absolute(),
    }
}

/// Records that a zone file can have; an alias is a matter of the provider.
fn zone_file(plan: &Plan) -> String {
    let mut text = format!("; records for {}\n$ORIGIN {}\n", plan.zone.zone, plan.zone.zone.absolute());
    for record in &plan.records {
        let comment = if matches!(record.kind, PlannedKind::Alias(_)) { "; not a standard type: " } else { "" };
        let _ = writeln!(
            text,
            "{comment}{}\t{}\tIN\t{}\t{}",
            label(record, &plan.zone.zone),
            record.ttl,
            record.kind.as_str(),
            absolute(&record.value)
        );
    }
    for proof in &plan.proofs {
        let name = proof_label(proof, &plan.zone.zone);
        let _ = writeln!(text, "{name}\t{}\tIN\tTXT\t{}", proof.ttl, quoted(&proof.proof.value));
    }
    text
}

/// Lines to put into `dnsconfig.js`; the domain is extended, so that nothing else in it is touched.
fn dnscontrol(plan: &Plan) -> String {
    let mut text = format!("D_EXTEND({},\n", quoted(plan.zone.zone.as_str()));
    for record in &plan.records {
        let function = match record.kind {
            PlannedKind::Alias(_) => "ALIAS",
            kind => kind.as_str(),
        };
        let (name, value) = (quoted(&label(record, &plan.zone.zone)), quoted(&absolute(&record.value)));
        let _ = writeln!(text, "  {function}({name}, {value}, TTL({})),", record.ttl);
    }
    for proof in &plan.proofs {
        let (name, value) = (quoted(&proof_label(proof, &plan.zone.zone)), quoted(&proof.proof.value));
        let _ = writeln!(text, "  TXT({name}, {value}, TTL({})),", proof.ttl);
    }
    text.push_str(");\n");
    text
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A zone of octoDNS: names as keys, types and values below.
fn octodns(plan: &Plan) -> String {
    let mut text = String::from("---\n");
    let records = plan.records.iter().map(|record| label(record, &plan.zone.zone));
    let proofs = plan.proofs.iter().map(|proof| proof_label(proof, &plan.zone.zone));
    let mut names: Vec<String> = records.chain(proofs).collect();
    names.sort();
    names.dedup();
    for name in names {
        let key = if name == "@" { String::new() } else { name.clone() };
        let _ = writeln!(text, "{}:", quoted(&key));
        let here: Vec<&PlannedRecord> =
            plan.records.iter().filter(|record| label(record, &plan.zone.zone) == name).collect();
        let mut kinds: Vec<PlannedKind> = Vec::new();
        for record in &here {
            if !kinds.contains(&record.kind) {
                kinds.push(record.kind);
            }
        }
        for kind in kinds {
            let records: Vec<&&PlannedRecord> = here.iter().filter(|record| record.kind == kind).collect();
            let ttl = records.first().map_or(0, |record| record.ttl);
            let name = if matches!(kind, PlannedKind::Alias(_)) { "ALIAS" } else { kind.as_str() };
            let _ = writeln!(text, "  - type: {name}\n    ttl: {ttl}");
            match records.as_slice() {
                [only] => {
                    let _ = writeln!(text, "    value: {}", quoted(&absolute(&only.value)));
                }
                several => {
                    text.push_str("    values:\n");
                    for record in several {
                        let _ = writeln!(text, "      - {}", quoted(&absolute(&record.value)));
                    }
                }
            }
        }
        for proof in plan.proofs.iter().filter(|proof| proof_label(proof, &plan.zone.zone) == name) {
            let _ = writeln!(text, "  - type: TXT\n    ttl: {}\n    value: {}", proof.ttl, quoted(&proof.proof.value));
        }
    }
    text
}

/// A template with the plan's records and proofs, host names relative to the domain.
fn domain_connect(plan: &Plan) -> Value {
    let record = |record: &PlannedRecord| {
        let kind = match record.kind {
            PlannedKind::Alias(_) => "APEXCNAME",
            kind => kind.as_str(),
        };
        json!({"type": kind, "host": label(record, &plan.zone.zone), "pointsTo": record.value.to_string(), "ttl": record.ttl})
    };
    let proof = |proof: &PlannedProof| json!({"type": "TXT", "host": proof_label(proof, &plan.zone.zone), "data": proof.proof.value, "ttl": proof.ttl});
    let records: Vec<Value> = plan.records.iter().map(record).chain(plan.proofs.iter().map(proof)).collect();
    json!({
        "providerId": "bailiwick",
        "providerName": "Bailiwick",
        "serviceId": "gateway",
        "serviceName": "Gateway",
        "version": 1,
        "syncPubKeyDomain": "",
        "description": "Leads names of the domain to the gateway.",
        "records": records,
    })
}

/// The link at which the owner of `domain` applies a template, as the settings of the provider say (`urlSyncUX`).
pub fn apply_link(url_sync_ux: &str, provider_id: &str, service_id: &str, domain: &DomainName) -> Option<String> {
    let base = url_sync_ux.trim_end_matches('/');
    base.starts_with("https://").then(|| {
        format!("{base}/v2/domainTemplates/providers/{provider_id}/services/{service_id}/apply?domain={domain}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Aim, Host, Proof, Wish, ZoneFacts};
    use crate::provider::detect;

    fn plan() -> Plan {
        let name = |text: &str| DomainName::parse(text).expect("a name");
        let host = |text: &str| Host::parse(text).expect("a host");
        let zone = ZoneFacts {
            zone: name("example.com"),
            provider: detect(&[name("ns1.digitalocean.com")], &[]),
            negative_ttl: 900,
        };
        let addresses = vec![
            "203.0.113.7".parse().expect("v4"),
            "203.0.113.8".parse().expect("v4"),
            "2001:db8::7".parse().expect("v6"),
        ];
        let wishes = [
            Wish { host: host("example.com"), aim: Aim::Addresses(addresses) },
            Wish {
                host: host("*.example.com"),
                aim: Aim::Host { name: name("gw.platform.net"), addresses: Vec::new() },
            },
        ];
        Plan::new(zone, &wishes, "2026-11-16T10:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn a_zone_file() {
        assert_eq!(
            export(&plan(), Format::ZoneFile),
            "; records for example.com\n$ORIGIN example.com.\n@\t300\tIN\tA\t203.0.113.7\n@\t300\tIN\tA\t203.0.113.8\n\
             @\t300\tIN\tAAAA\t2001:db8::7\n*\t300\tIN\tCNAME\tgw.platform.net.\n"
        );
    }

    #[test]
    fn dnscontrol_lines() {
        assert_eq!(
            export(&plan(), Format::DnsControl),
            "D_EXTEND(\"example.com\",\n  A(\"@\", \"203.0.113.7\", TTL(300)),\n  A(\"@\", \"203.0.113.8\", TTL(300)),\n  \
             AAAA(\"@\", \"2001:db8::7\", TTL(300)),\n  CNAME(\"*\", \"gw.platform.net.\", TTL(300)),\n);\n"
        );
    }

    #[test]
    fn an_octodns_zone() {
        assert_eq!(
            export(&plan(), Format::OctoDns),
            "---\n\"*\":\n  - type: CNAME\n    ttl: 300\n    value: \"gw.platform.net.\"\n\"\":\n  - type: A\n    ttl: 300\n    values:\n      \
             - \"203.0.113.7\"\n      - \"203.0.113.8\"\n  - type: AAAA\n    ttl: 300\n    value: \"2001:db8::7\"\n"
        );
    }

    #[test]
    fn every_form_has_the_proof_of_the_zones_domain() {
        let name = |text: &str| DomainName::parse(text).expect("a name");
        let proof =
            |domain: &str| Proof { name: name(&format!("_bailiwick-challenge.{domain}")), value: "mzxw6".into() };
        let mut plan = plan();
        plan.prove(&[proof("example.com"), proof("elsewhere.org")]);
        let template: Value = serde_json::from_str(&export(&plan, Format::DomainConnect)).expect("json");
        assert_eq!(
            template["records"].as_array().and_then(|records| records.last()),
            Some(&json!({"type": "TXT", "host": "_bailiwick-challenge", "data": "mzxw6", "ttl": 300}))
        );
        for (format, line) in [
            (Format::ZoneFile, "_bailiwick-challenge\t300\tIN\tTXT\t\"mzxw6\"\n"),
            (Format::DnsControl, "  TXT(\"_bailiwick-challenge\", \"mzxw6\", TTL(300)),\n"),
            (Format::OctoDns, "\"_bailiwick-challenge\":\n  - type: TXT\n    ttl: 300\n    value: \"mzxw6\"\n"),
        ] {
            let text = export(&plan, format);
            assert!(text.contains(line), "{text}");
            assert!(!text.contains("elsewhere"), "{text}");
        }
    }

    #[test]
    fn a_domain_connect_template_and_its_link() {
        let template: Value = serde_json::from_str(&export(&plan(), Format::DomainConnect)).expect("json");
        assert_eq!(
            template["records"][3],
            json!({"type": "CNAME", "host": "*", "pointsTo": "gw.platform.net", "ttl": 300})
        );
        let domain = DomainName::parse("example.com").expect("a name");
        assert_eq!(
            apply_link("https://dc.provider.example/", "bailiwick", "gateway", &domain).as_deref(),
            Some(
                "https://dc.provider.example/v2/domainTemplates/providers/bailiwick/services/gateway/apply?domain=example.com"
            )
        );
        assert_eq!(apply_link("http://plain.example", "a", "b", &domain), None);
    }
}
