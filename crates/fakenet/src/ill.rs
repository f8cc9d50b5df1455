//! Zones with one ailment each, or a few that get along: what a checker of zones must find. Each is named after what is wrong.

use crate::zone::Operator::{OpA, Stale};
use crate::zone::{Ds, Signing, Zone};

/// A key as the others have it.
const KEY: &[&str] = &["-a", "ECDSAP256SHA256", "-f", "KSK"];
/// A key of Ed25519 and one of ECDSA that nobody has the other half of.
const LONE_KEY: &str = "257 3 15 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_KEY: &str =
    "257 3 13 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
/// The digest of nothing in particular, as long as SHA-256 has it.
const DS_LINES: &str = "4711 13 0 00112233445566778899AABBCCDDEEFF00112233445566778899AABB\n\
                        4711 13 1 00112233445566778899AABBCCDDEEFF00112233\n\
                        4711 13 7 00112233445566778899AABBCCDDEEFF00112233445566778899AABB\n\
                        4711 13 253 00112233445566778899AABBCCDDEEFF00112233445566778899AABB";

pub(crate) fn zones() -> Vec<Zone> {
    let mut zones = names_and_times();
    zones.extend(servers());
    zones.extend(signatures());
    zones
}

fn zone(origin: &str) -> Zone {
    Zone::new(origin, &["ns1.op-a.net", "ns2.op-a.net"], &[OpA])
}

/// A zone that two servers have differently.
fn pair(origin: &str, one: impl Fn(Zone) -> Zone, other: impl Fn(Zone) -> Zone) -> [Zone; 2] {
    let made = |on| Zone::new(origin, &["ns1.op-a.net", "stale.op-c.net"], &[on]);
    [one(made(OpA)), other(made(Stale)).serial(2_026_110_101)]
}

fn names_and_times() -> Vec<Zone> {
    vec![
        zone("ill-short.com").times([100, 200, 50]).soa(3600, 10),
        zone("ill-long.com").soa(3600, 200_000),
        zone("ill-dot.com").primary(".").mailbox("post\\@master.ill-dot.com."),
        zone("ill-localhost.com").primary("localhost."),
        zone("ill-loopback.com").primary("here.ill-loopback.com.").records("here IN A 127.0.0.1"),
        zone("ill-nowhere.com").primary("nowhere.ill-nowhere.com."),
        zone("ill-alias.com").primary("ns.ill-alias.com.").records("ns IN CNAME ns1.op-a.net."),
        zone("ill-primary.com").primary("ab--n_s.ill-primary.123."),
        zone("ill-nullmx.com").records("@ IN MX 5 .\n@ IN MX 10 mail\nmail IN A 151.101.1.10"),
        zone("ill-mx.com").records("@ IN MX 10 ab--m_x.ill-mx.com.\n@ IN MX 20 mail.123.\nab--m_x IN A 151.101.1.10"),
        zone("ill-spf.com").records("@ IN TXT \"v=spf1 ip4:500.1.1.1 -all\""),
        zone("ill-spf2.com").records("@ IN TXT \"v=spf1 -all\"\n@ IN TXT \"v=spf1 mx -all\""),
        zone("ill-nomail.com").records("@ IN TXT \"v=spf1 mx -all\""),
        zone("ab--cd.com"),
        zone("under_score.com"),
        zone("end-.com"),
        // Served, and known to nobody.
        zone("unborn.com").delegated_to(&[]).records("@ IN A 151.101.1.10"),
    ]
}

fn servers() -> Vec<Zone> {
    let with = |origin: &str, other: &str| Zone::new(origin, &["ns1.op-a.net", other], &[OpA]);
    let long = |number: usize| format!("{}{number}.{}.ill-many.com", "n".repeat(40), "m".repeat(50));
    let many: Vec<String> = (0..8).map(long).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut zones = vec![
        with("ill-nsalias.com", "alias.op-c.net"),
        with("ill-nonsense.com", "nonsense.op-c.net"),
        with("ill-lowercase.com", "lowercase.op-c.net"),
        with("ill-dropsaaaa.com", "dropsaaaa.op-c.net"),
        with("ill-noaaaa.com", "noaaaa.op-c.net"),
        with("ill-anyedns.com", "anyedns.op-c.net"),
        with("ill-stripsedns.com", "stripsedns.op-c.net"),
        with("ill-strict.com", "strict.op-c.net"),
        with("ill-twosoas.com", "twosoas.op-c.net"),
        Zone::new("ill-accident.com", &["nosoa.op-c.net"], &[OpA]).records("@ IN A 151.101.1.10"),
        Zone::new("ill-neighbours.com", &["lowercase.op-c.net", "noaaaa.op-c.net"], &[OpA]),
        Zone::new("ill-near.com", &["ns1.op-a.net", "lowercase.op-c.net", "noaaaa.op-c.net"], &[OpA]),
        with("ill-keysonly.com", "stripsedns.op-c.net").records(&long_keys()),
        Zone::new("ill-lame1.com", &["lame.op-c.net", "ns1.op-a.net"], &[OpA]),
        Zone::new("ill-silent1.com", &["silent.op-c.net", "ns1.op-a.net"], &[OpA]),
        Zone::new("ill-strangers.com", &["ns1.op-b.org", "ns2.op-b.org"], &[OpA])
            .delegated_to(&["ns1.op-a.net", "ns2.op-a.net"]),
        Zone::new("ill-sameip.com", &["ns1.ill-sameip.com", "ns2.ill-sameip.com"], &[OpA])
            .glue("ns1.ill-sameip.com", "205.251.192.1")
            .glue("ns2.ill-sameip.com", "205.251.192.1")
            .records("ns1 IN A 205.251.192.1\nns2 IN A 205.251.192.1"),
        Zone::new("ill-moreglue.com", &["ns1.ill-moreglue.com", "ns2.op-a.net"], &[OpA])
            .glue("ns1.ill-moreglue.com", "205.251.192.1")
            .records("ns1 IN A 205.251.192.1\nns1 IN A 173.245.58.51"),
        Zone::new("ill-document.com", &["ns1.ill-document.com", "ns2.op-a.net"], &[OpA])
            .glue("ns1.ill-document.com", "192.0.2.1")
            .records("ns1 IN A 192.0.2.1"),
        Zone::new("ill-hosts.com", &["ns1.op-a.net", "ab--n_s.ill-hosts.com"], &[OpA])
            .glue("ab--n_s.ill-hosts.com", "205.251.193.1")
            .records("ab--n_s IN A 205.251.193.1"),
        many.iter().fold(
            Zone::new("ill-many.com", &many, &[OpA])
                .records(&many.iter().map(|name| format!("{name}. IN A 205.251.192.1\n")).collect::<String>()),
            |zone, name| zone.glue(name, "205.251.192.1"),
        ),
    ];
    zones.extend(pair(
        "ill-differ.com",
        |zone| {
            zone.mailbox("post.ill-differ.com.")
                .records("@ IN MX 10 mail\n@ IN TXT \"v=spf1 mx -all\"\nmail IN A 151.101.1.10")
        },
        |zone| {
            zone.primary("stale.op-c.net.")
                .times([14_400, 3_600, 604_800])
                .records("@ IN NS ns2.op-a.net.\n@ IN MX 20 other\n@ IN TXT \"v=spf1 -all\"\nother IN A 151.101.1.10")
        },
    ));
    zones.extend(pair("ill-halfmail.com", |zone| zone.records("@ IN MX 10 mail\nmail IN A 151.101.1.10"), |zone| zone));
    zones.extend(pair("ill-oldprimary.com", |zone| zone.primary("stale.op-c.net."), |zone| zone));
    zones
}

/// Keys that do not fit into 512 bytes.
fn long_keys() -> String {
    ["AwEAAaaa", "AwEAAbbb", "AwEAAccc"]
        .map(|begin| format!("@ IN DNSKEY 257 3 8 {begin}{}\n", "d".repeat(336)))
        .concat()
}

fn signatures() -> Vec<Zone> {
    let with = |origin: &str, key: &'static [&'static str], options: &'static [&'static str]| {
        zone(origin).signed(Signing::With { key, options }, Ds::Right)
    };
    let delete = "@ IN CDS 0 0 0 00\n@ IN CDNSKEY 0 3 0 AA==";
    let mut zones = vec![
        with("ill-salt.com", KEY, &["-3", "aabbccdd", "-H", "5"]),
        with("ill-forever.com", KEY, &["-e", "now+400d"]),
        with("ill-hurry.com", KEY, &["-e", "now+6h"]),
        with("ill-old.com", KEY, &["-s", "now-300d", "-e", "now+20d"]),
        with("ill-early.com", KEY, &["-s", "now+1d", "-e", "now+30d"]),
        with("ill-smallkey.com", &["-a", "RSASHA256", "-b", "1024", "-f", "KSK"], &[]),
        with("ill-algorithm.com", &["-a", "RSASHA512", "-b", "2048", "-f", "KSK"], &[]),
        with("ill-optout.com", KEY, &["-3", "-", "-H", "0", "-A"]),
        with("ill-delete.com", KEY, &[]).records(delete),
        with("ill-cds.com", KEY, &[])
            .records("@ IN CDS 4711 13 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"),
        zone("ill-cdsonly.com")
            .records("@ IN CDS 4711 13 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"),
        with("ill-algorithms.com", KEY, &[]).records(&format!("@ IN DNSKEY {LONE_KEY}")),
        zone("ill-otherds.com").signed(Signing::With { key: KEY, options: &[] }, Ds::Wrong).records(&format!(
            "@ IN CDS 4711 13 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF\n@ IN CDNSKEY {OTHER_KEY}"
        )),
        zone("ill-digests.com").signed(Signing::None, Ds::Lines(DS_LINES)),
    ];
    zones.extend(pair(
        "ill-halfsigned.com",
        |zone| zone.signed(Signing::With { key: KEY, options: &[] }, Ds::Right),
        |zone| zone.signed(Signing::None, Ds::Absent),
    ));
    zones
}
