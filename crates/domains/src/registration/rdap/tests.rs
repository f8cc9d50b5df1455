use proptest::prelude::*;

use super::*;

fn read(file: &str, domain: &str) -> Result<Facts, RdapError> {
    let path = format!("{}/testdata/registration/{file}", env!("CARGO_MANIFEST_DIR"));
    parse(&std::fs::read(path).expect("a fixture"), &DomainName::parse(domain).expect("a name"))
}

fn codes(facts: &Facts) -> Vec<&str> {
    facts.statuses.iter().map(|flag| flag.code.as_str()).collect()
}

fn servers(facts: &Facts) -> Vec<&str> {
    facts.nameservers.iter().map(|server| server.name.as_str()).collect()
}

#[test]
fn the_example_domain_has_exactly_the_documents_values() {
    let facts = read("q7.io.rdap.json", "q7.io").expect("facts");
    let registrar = facts.registrar.clone().expect("a registrar");
    assert_eq!((registrar.iana_id, registrar.name.as_str()), (Some(1068), "NAMECHEAP INC"));
    let date = |moment: &Option<Moment>| moment.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(date(&facts.created), "2012-07-06T13:58:57.00Z");
    assert_eq!(date(&facts.modified), "2019-08-17T16:33:24.36Z");
    assert_eq!(date(&facts.expires), "2029-07-06T13:58:57.00Z");
    assert_eq!(servers(&facts), ["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"]);
    assert_eq!(facts.signing, Some(Signing::Unsigned));
    assert_eq!(codes(&facts), ["clientDeleteProhibited", "clientTransferProhibited", "clientUpdateProhibited"]);
}

#[test]
fn nothing_about_people_is_kept() {
    for (file, domain) in [("q7.io.rdap.json", "q7.io"), ("thin.com.registrar.rdap.json", "thin.com")] {
        let facts = format!("{:?}", read(file, domain).expect("facts"));
        for person in ["Maxine", "Somebody", "maxine@", "+33", "Abuse Desk", "abuse@"] {
            assert!(!facts.contains(person), "{person} in {facts}");
        }
    }
}

#[test]
fn a_thin_registry_names_the_registrars_answer_and_its_glue() {
    let facts = read("thin.com.rdap.json", "thin.com").expect("facts");
    assert_eq!(facts.registrar_server.as_deref(), Some("https://rdap.registrar.net/domain/THIN.COM"));
    let glue: Vec<String> = facts.nameservers[0].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(glue, ["205.251.192.1", "2600:9000::1"]);
}

#[test]
fn signed_delegations_have_their_keys_and_broken_ones_are_passed_over() {
    let facts = read("xn--bcher-kva.com.rdap.json", "bücher.com").expect("facts");
    assert_eq!(facts.signing, Some(Signing::Signed));
    assert_eq!(facts.delegation_signers.len(), 1);
    assert_eq!((facts.delegation_signers[0].key_tag, facts.delegation_signers[0].algorithm), (44321, 8));
    assert_eq!(facts.transferred.map(|date| date.to_string()).as_deref(), Some("2015-05-05T05:05:05Z"));
    assert_eq!(facts.modified.map(|date| date.to_string()).as_deref(), Some("2026-02-01T07:00:00Z"));
}

#[test]
fn redaction_country_codes_and_redemption() {
    let facts = read("redacted.dev.rdap.json", "redacted.dev").expect("facts");
    assert_eq!(facts.registrar.clone().map(|registrar| registrar.name).as_deref(), Some("Cloudflare, Inc."));
    assert_eq!(codes(&facts), ["ok"]);
    let facts = read("firma.ch.rdap.json", "firma.ch").expect("facts");
    assert_eq!(
        facts.registrar.clone().map(|registrar| (registrar.iana_id, registrar.name)),
        Some((None, "Hostpoint AG".into()))
    );
    assert_eq!(facts.expires, None);
    let facts = read("redeem.net.rdap.json", "redeem.net").expect("facts");
    assert_eq!(codes(&facts), ["clientHold", "pendingDelete", "redemptionPeriod"]);
    assert!(facts.nameservers.is_empty());
}

#[test]
fn answers_about_something_else_are_refused() {
    assert_eq!(
        read("q7.io.rdap.json", "example.io").map_err(|error| error.to_string()),
        Err("the answer is about q7.io, which was not asked for".into())
    );
    let domain = DomainName::parse("q7.io").expect("a name");
    let refused = |body: &str| parse(body.as_bytes(), &domain).expect_err("refused").to_string();
    assert_eq!(refused(r#"{"errorCode": 404, "title": "Not Found"}"#), "the server says 404: Not Found");
    assert_eq!(refused(r#"{"objectClassName": "entity"}"#), "the answer is about \"entity\" and not about a domain");
    assert!(refused("<html>").starts_with("the answer is no JSON"));
}

/// Any JSON, with the members that RDAP has.
fn documents() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "objectClassName",
        "ldhName",
        "status",
        "events",
        "eventAction",
        "eventDate",
        "nameservers",
        "ipAddresses",
        "v4",
        "secureDNS",
        "dsData",
        "delegationSigned",
        "keyTag",
        "digest",
        "entities",
        "roles",
        "publicIds",
        "type",
        "identifier",
        "vcardArray",
        "links",
        "rel",
        "href",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "domain",
            "q7.io",
            "registrar",
            "expiration",
            "related",
            "application/rdap+json",
            "2029-07-06"
        ])
        .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_document_panics(mut document in documents()) {
        if let Some(members) = document.as_object_mut() {
            members.insert("objectClassName".into(), "domain".into());
        }
        let _ = parse(document.to_string().as_bytes(), &DomainName::parse("q7.io").expect("a name"));
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body, &DomainName::parse("q7.io").expect("a name"));
    }
}
