use proptest::prelude::*;

use super::*;

fn fixture(file: &str) -> String {
    let path = format!("{}/testdata/registration/{file}", env!("CARGO_MANIFEST_DIR"));
    decode(&std::fs::read(path).expect("a fixture"))
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).expect("a name")
}

fn facts(domain: &str) -> Facts {
    match parse(&fixture(&format!("{domain}.whois.txt")), &name(domain)) {
        Answer::Found(facts) => *facts,
        other => panic!("{domain}: {other:?}"),
    }
}

/// Everything that is read, in one line per fact.
fn told(domain: &str) -> Vec<String> {
    let facts = facts(domain);
    let mut lines = Vec::new();
    let mut tell = |what: &str, value: Option<String>| lines.extend(value.map(|value| format!("{what} {value}")));
    tell("registrar", facts.registrar.map(|registrar| registrar.name));
    tell("created", facts.created.map(|date| date.to_string()));
    tell("modified", facts.modified.map(|date| date.to_string()));
    tell("expires", facts.expires.map(|date| date.to_string()));
    for server in &facts.nameservers {
        let glue: String = server.addresses.iter().map(|address| format!(" {address}")).collect();
        tell("ns", Some(format!("{}{glue}", server.name)));
    }
    tell("signing", facts.signing.map(|signing| signing.to_string()));
    tell("status", Some(facts.statuses.iter().map(|flag| flag.code.as_str()).collect::<Vec<_>>().join(" ")));
    lines
}

#[test]
fn the_example_domain_reads_the_same_as_by_rdap() {
    assert_eq!(
        told("q7.io"),
        [
            "registrar NAMECHEAP INC",
            "created 2012-07-06T13:58:57.00Z",
            "modified 2019-08-17T16:33:24.36Z",
            "expires 2029-07-06T13:58:57.00Z",
            "ns ns1.digitalocean.com",
            "ns ns2.digitalocean.com",
            "ns ns3.digitalocean.com",
            "signing unsigned",
            "status clientDeleteProhibited clientTransferProhibited clientUpdateProhibited",
        ]
    );
    let facts = facts("q7.io");
    assert_eq!(facts.registrar.and_then(|registrar| registrar.iana_id), Some(1068));
    assert_eq!(facts.handle.as_deref(), Some("d41d8cd98f00b204-DONUTS"));
    assert_eq!(facts.registrar_server.as_deref(), Some("whois.namecheap.com"));
}

#[test]
fn every_registrys_layout_is_read() {
    assert_eq!(
        told("beispiel.de"),
        [
            "modified 2023-05-11T07:30:02Z",
            "ns ns1.beispiel.de 185.230.60.1 2a00:1450:4001::1",
            "ns ns2.hosting.example",
            "signing signedDelegation",
            "status ok",
        ]
    );
    assert_eq!(
        told("example.co.uk"),
        [
            "registrar Example Hosting Ltd t/a Hosting",
            "created 1998-11-26T00:00:00Z",
            "modified 2025-10-25T00:00:00Z",
            "expires 2026-11-26T00:00:00Z",
            "ns ns1.example.co.uk 185.230.60.1",
            "ns ns2.hosting.example",
            "signing signedDelegation",
            "status ok",
        ]
    );
    assert_eq!(
        told("exemple.fr"),
        [
            "registrar SOCIÉTÉ D HÉBERGEMENT",
            "created 2004-12-30T17:48:01Z",
            "modified 2026-01-03T08:15:42Z",
            "expires 2027-12-30T17:48:01Z",
            "ns ns1.exemple.fr 185.230.60.1 2a00:1450:4001::1",
            "ns ns2.exemple.fr 185.230.61.1",
            "status ok",
        ]
    );
    assert_eq!(
        told("rei.jp"),
        [
            "created 2001-03-26T00:00:00Z",
            "modified 2026-03-31T16:05:04Z",
            "expires 2027-03-31T00:00:00Z",
            "ns ns1.rei.jp",
            "ns ns2.rei.jp",
            "status ok",
        ]
    );
    assert_eq!(
        told("cesky.cz"),
        [
            "registrar REG-EXAMPLE",
            "created 1998-10-19T02:00:00Z",
            "modified 2024-03-14T17:23:01Z",
            "expires 2028-10-27T00:00:00Z",
            "ns ns1.cesky.cz 185.230.60.1",
            "ns ns2.cesky.cz",
            "status ",
        ]
    );
    assert_eq!(
        told("primer.ru"),
        [
            "registrar REGRU-RU",
            "created 2002-05-12T20:00:00Z",
            "expires 2027-05-12T21:00:00Z",
            "ns ns1.primer.ru 185.230.60.1",
            "ns ns2.primer.ru 185.230.61.1",
            "status ok validated",
        ]
    );
}

#[test]
fn nothing_about_people_is_kept() {
    for domain in ["q7.io", "thin.com", "rei.jp", "exemple.fr", "cesky.cz"] {
        let facts = format!("{:?}", facts(domain));
        for person in ["Privacy Service", "Somebody", "Hostmaster", "Nymous", "Rei Corporation", "SB:", "@"] {
            assert!(!facts.contains(person), "{person} in {facts}");
        }
    }
}

#[test]
fn iana_refers_to_the_registry() {
    assert_eq!(referral(&fixture("iana-io.whois.txt")).as_deref(), Some("whois.nic.io"));
    assert_eq!(referral("refer: whois://whois.example.net:43/"), Some("whois.example.net".into()));
    // A referral into our own network is no name.
    assert_eq!(referral("refer: 127.0.0.1"), None);
    assert_eq!(referral("refer: localhost"), None);
}

#[test]
fn free_names_and_quotas_are_told_apart_from_answers() {
    let answer = |text: &str| parse(text, &name("example.com"));
    for text in [
        "No match for domain \"EXAMPLE.COM\".\r\n>>> Last update of whois database: 2026-11-16T10:30:00Z <<<",
        "Domain: example.com\nStatus: free\n",
        "The queried object does not exist: \r\n",
        "% No entries found in the database\n",
        "NOT FOUND",
        "Domain not found.",
    ] {
        assert_eq!(answer(text), Answer::NotFound, "{text}");
    }
    for text in [
        "% Quota exceeded",
        "WHOIS LIMIT EXCEEDED - SEE WWW.EXAMPLE FOR DETAILS",
        "Number of allowed queries exceeded.",
        "Your connection limit exceeded. Please slow down and try again later.",
    ] {
        assert!(matches!(answer(text), Answer::Quota(_)), "{text}");
    }
    assert_eq!(answer("hello"), Answer::Unreadable);
    assert_eq!(answer(""), Answer::Unreadable);
}

#[test]
fn an_answer_about_another_name_is_not_used() {
    assert_eq!(parse(&fixture("q7.io.whois.txt"), &name("other.io")), Answer::Unreadable);
}

#[test]
fn an_answer_without_end_is_cut_off() {
    assert_eq!(decode(&vec![b'a'; 10 * ANSWER_BYTES_MAX]).len(), ANSWER_BYTES_MAX);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,300}") {
        let _ = parse(&text, &name("example.com"));
        let _ = referral(&text);
    }

    #[test]
    fn no_layout_panics(lines in prop::collection::vec("[ \\[]{0,2}(Domain Name|Registrar|Status|nserver|expires|DNSSEC|ds-rdata)[]:. ]{0,3}\\PC{0,20}", 0..20)) {
        let _ = parse(&lines.join("\n"), &name("example.com"));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }
}
