//! Our answers beside those of unbound and bind, on generated zones with every corner that resolution has.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bailiwick_domains::dnssec::{self, Status};
use bailiwick_domains::resolve::{Outcome, Resolution, Run, Thoroughness};
use bailiwick_domains::wire::{Answer, Ask, Question, RecordType, ResponseCode, Section, parse_name, rdata_text};
use bailiwick_fakenet::{SECOND_OPINION, random_question};
use futures::StreamExt;

use crate::bed::{Scenario, World};
use crate::scenario;

/// Questions compared when nothing else is asked for; `BAILIWICK_DNS_QUESTIONS` changes it.
const QUESTIONS: u64 = 2000;
/// Questions on their way at once.
const AT_ONCE: usize = 16;
/// Unbound, as Cloudflare.
const UNBOUND: &str = "1.1.1.1";

pub fn scenarios() -> Vec<Scenario> {
    vec![scenario!(random_answers_equal_those_of_unbound_or_bind)]
}

/// What is compared: the code, the records at the end of the aliases, and whether it is secure.
#[derive(Debug, PartialEq, Eq)]
struct Gist {
    code: &'static str,
    records: Vec<String>,
    is_secure: bool,
}

async fn random_answers_equal_those_of_unbound_or_bind(world: &World) -> Result<()> {
    let questions =
        std::env::var("BAILIWICK_DNS_QUESTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(QUESTIONS);
    let seed = std::env::var("BAILIWICK_DNS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let engine = world.engine();
    let engine = &engine;
    let compared = futures::stream::iter(0..questions).map(|index| async move {
        let (name, rtype) = random_question(seed, index);
        let rtype: RecordType = match rtype.strip_prefix("TYPE") {
            Some(number) => RecordType::from(number.parse::<u16>()?),
            None => rtype.parse()?,
        };
        let question = Question::new(parse_name(&name)?, rtype);
        let run = Run::new(engine);
        let resolution = run.resolve(&question, Thoroughness::FirstAnswer).await;
        let validation = dnssec::validate(&run, &resolution).await;
        let ours = ours(&resolution, validation.status);
        let mut opinions = Vec::new();
        // Unbound fails on some questions below a DNAME; then the second opinion counts.
        for peer in [UNBOUND, SECOND_OPINION] {
            let peer = SocketAddr::new(peer.parse()?, 53);
            let exchange = engine.transport().ask(peer, &Ask::recursive(question.clone())).await;
            let answer = exchange.answer().ok_or_else(|| anyhow::anyhow!("{peer} did not answer {question}"))?;
            let theirs = theirs(answer, &resolution, rtype);
            if theirs == ours {
                return Ok(None);
            }
            opinions.push(theirs);
        }
        let difference = format!(
            "{question}: {} {:?}\n  ours   {ours:?}\n  theirs {opinions:?}",
            validation.reason, resolution.outcome
        );
        Ok::<_, anyhow::Error>(Some(difference))
    });
    let results: Vec<Result<Option<String>>> = compared.buffer_unordered(AT_ONCE).collect().await;
    let mut differences = Vec::new();
    for result in results {
        differences.extend(result?);
    }
    ensure!(
        differences.is_empty(),
        "{} of {questions} answers differ:\n{}",
        differences.len(),
        differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
    println!("{questions} answers are equal to those of unbound or bind");
    Ok(())
}

fn ours(resolution: &Resolution, status: Status) -> Gist {
    let mut records: Vec<String> = resolution.records.iter().map(rdata_text).collect();
    records.sort();
    let code = match resolution.outcome {
        Outcome::Found | Outcome::NoData => "NOERROR",
        Outcome::NxDomain => "NXDOMAIN",
        Outcome::Broken { .. } => "SERVFAIL",
    };
    Gist { code, records, is_secure: status == Status::Secure && code != "SERVFAIL" }
}

fn theirs(answer: &Answer, resolution: &Resolution, rtype: RecordType) -> Gist {
    let last = resolution.final_name();
    let mut records: Vec<String> = answer.rrset(Section::Answer, last, rtype).map(rdata_text).collect();
    records.sort();
    let code = match answer.rcode() {
        ResponseCode::NoError => "NOERROR",
        ResponseCode::NXDomain => "NXDOMAIN",
        _ => "SERVFAIL",
    };
    Gist { code, records, is_secure: answer.is_authentic_data() }
}
