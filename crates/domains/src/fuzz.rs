//! Hostile bytes: DNS packets, RDAP documents and WHOIS texts with bytes changed, cut, doubled and spliced, read by every parser
//! and answered to the engine itself. Nothing panics and nothing hangs.
//!
//! `DOMAINS_FUZZ_CASES` sets how many are tried (a few thousand otherwise), `DOMAINS_SEED` where the random numbers begin; a
//! failure prints both.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::dnssec;
use crate::name::DomainName;
use crate::registration::{bootstrap::Bootstrap, date::Moment, rdap, whois};
use crate::resolve::{Reply, Run, Thoroughness, classify};
use crate::transport::{Channel, Exchange};
use crate::wire::{Answer, Ask, Question, RecordType, Section, parse_name, rdata_text};
use crate::{responder, verdict, zonecheck};

const CASES: u64 = 4_000;
/// One in so many cases goes through the whole engine, which waits for answers that do not come.
const ENGINE_ONE_IN: u64 = 100;
/// A case that takes longer hangs.
const GUARD: Duration = Duration::from_secs(60);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Bytes that parsers trip over: pointers to themselves, forward and far away, lengths that lie, types with rules of their own.
const PIECES: [&[u8]; 18] = [
    &[0xc0, 0x0c],
    &[0xc0, 0x00],
    &[0xff, 0xff],
    &[0x3f],
    &[0x40],
    &[0x00, 0x2e, 0x00, 0x01],
    &[0x00, 0x2f, 0x00, 0x01],
    &[0x00, 0x32, 0x00, 0x01],
    &[0x00, 0x30, 0x00, 0x01],
    &[0x00, 0x29, 0x04, 0xd0],
    &[0x00, 0x00, 0x41, 0x00, 0x01],
    b"\"events\":[[[[[[[[[[[[[[[[",
    b"\"entities\":[{\"entities\":[{\"entities\":[{\"entities\":[{}]}]}]}]",
    b"99999999999999999999",
    b"2026-13-45T99:99:99Z",
    b"\\ud800",
    b"\xff\xfe\x00",
    b": \r\n\r\n:",
];

fn mutate(seed: &[u8], random: &mut StdRng, keep: usize) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..8) {
        let length = bytes.len();
        if length <= keep {
            break;
        }
        let at = random.random_range(keep..length);
        match random.random_range(0..7) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at),
            3 => {
                let piece = PIECES.choose(random).copied().unwrap_or_default();
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => {
                let end = (at + random.random_range(1..40)).min(length);
                let doubled = bytes[at..end].to_vec();
                bytes.splice(at..at, doubled);
            }
            5 => {
                let end = (at + random.random_range(1..20)).min(length);
                bytes.drain(at..end);
            }
            _ => {
                let piece = PIECES.choose(random).copied().unwrap_or_default();
                let end = (at + piece.len()).min(length);
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
    bytes
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push(bytes);
        }
    }
    found.sort();
    found
}

/// Real answers of the fake internet: a referral with DS, one with NSEC3, signed answers, denials, a DNAME, NSID and errors.
fn packets() -> Vec<Vec<u8>> {
    let packets = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/packets"));
    assert!(packets.len() >= 8, "the recorded packets are missing");
    packets
}

/// Everything that is done with an answer before it is believed.
fn digest(bytes: Vec<u8>) {
    let Ok(answer) = Answer::parse(bytes.into()) else { return };
    let name = parse_name("www.good.com").expect("a name");
    let question = Question::new(answer.echoed_name().cloned().unwrap_or(name), RecordType::A);
    let exchange = Exchange {
        server: (responder::ADDRESS, 53).into(),
        ask: Ask::authoritative(question.clone()),
        channel: Channel::Udp,
        outcome: Ok(answer.clone()),
        rtt: Duration::ZERO,
        at: jiff::Timestamp::UNIX_EPOCH,
        remarks: Vec::new(),
    };
    let zone = parse_name("com").expect("a name");
    let says = classify(&exchange, &zone, &question);
    let _ = crate::resolve::Cut::from_referral(&answer, &zone, &question.name);
    let _ = (answer.extended_errors(), answer.server_identity(), answer.negative_soa());
    let reply = Reply { server: zone, says, exchange };
    let _ = verdict::judge(&reply);
    for section in [Section::Answer, Section::Authority, Section::Additional] {
        answer.section(section).iter().for_each(|record| drop(rdata_text(record)));
    }
}

fn run(seeds: &[Vec<u8>], read: impl Fn(Vec<u8>) + std::panic::RefUnwindSafe) {
    let (cases, seed) = (number("DOMAINS_FUZZ_CASES", CASES), number("DOMAINS_SEED", 1));
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(case));
        let bytes = mutate(seeds.choose(&mut random).expect("there are seeds"), &mut random, 0);
        if std::panic::catch_unwind(|| read(bytes.clone())).is_err() {
            panic!("DOMAINS_SEED={seed} case {case}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn no_packet_makes_a_parser_panic() {
    run(&packets(), digest);
}

#[test]
fn no_document_of_a_registry_makes_a_parser_panic() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fakenet/fixtures");
    let domain = DomainName::parse("good.com").expect("a name");
    run(&files(&fixtures.join("rdap")), |bytes| {
        // The first lines of some are for the server.
        let body = bytes.iter().position(|byte| *byte == b'{').and_then(|at| bytes.get(at..)).unwrap_or(&bytes);
        let _ = (rdap::parse(body, &domain), Bootstrap::parse(body));
    });
    run(&files(&fixtures.join("whois")), |bytes| {
        let text = whois::decode(&bytes);
        let _ = (whois::parse(&text, &domain), whois::referral(&text));
        text.split(": ").for_each(|part| drop((Moment::parse(part), DomainName::parse(part))));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_makes_the_engine_panic_or_hang() {
    let (cases, seed) = (number("DOMAINS_FUZZ_CASES", CASES) / ENGINE_ONE_IN, number("DOMAINS_SEED", 1));
    let packets = packets();
    let count = AtomicU64::new(0);
    let engine = responder::engine(move |question| {
        let index = count.fetch_add(1, Ordering::Relaxed);
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(7_000_003).wrapping_add(index));
        let mut packet = packets.choose(&mut random).cloned().unwrap_or_default();
        // The question is kept, so that what follows it is looked at.
        let head = responder::Reply::to(question).packet();
        let names_end = question_end(&packet).unwrap_or(12);
        let counts = packet.get(6..12).unwrap_or_default().to_vec();
        packet.splice(..names_end.min(packet.len()), head.iter().copied());
        if let Some(field) = packet.get_mut(6..12) {
            field.copy_from_slice(&counts);
        }
        vec![mutate(&packet, &mut random, head.len())]
    })
    .await;
    for case in 0..cases {
        let name =
            parse_name(["www.good.com", "good.com", "com", "x.apps.good.com"][(case % 4) as usize]).expect("a name");
        let work = async {
            let run = Run::new(&engine);
            let rtype = [RecordType::A, RecordType::TXT, RecordType::DS, RecordType::DNSKEY][(case / 4 % 4) as usize];
            let resolution = run.resolve(&Question::new(name.clone(), rtype), Thoroughness::EveryServer).await;
            dnssec::validate(&run, &resolution).await;
            if case % 8 == 0 {
                zonecheck::check(&Run::with_budget(&engine, 100), &name).await;
            }
        };
        tokio::time::timeout(GUARD, work).await.unwrap_or_else(|_| panic!("DOMAINS_SEED={seed} case {case} hangs"));
    }
}

/// Where the question of a packet ends.
fn question_end(packet: &[u8]) -> Option<usize> {
    let mut at = 12;
    while let length @ 1..=63 = *packet.get(at)? {
        at += usize::from(length) + 1;
    }
    Some(at + 5)
}
