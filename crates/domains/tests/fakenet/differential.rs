//! Our answers beside those of unbound and bind, on generated zones with every corner that resolution has.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bailiwick_domains::dnssec::{self, Status};
use bailiwick_domains::resolve::{Outcome, Resolution, Run, Thoroughness};
use bailiwick_domains::wire::{
    Answer, Ask, Question, RecordType, ResponseCode, Section, parse_name, rdata_text, show_name, type_text,
};
use bailiwick_fakenet::{SECOND_OPINION, generated_seed, random_question};
use futures::StreamExt;

use crate::bed::{Scenario, World};
use bailiwick_fakenet::scenario;

/// Questions compared when nothing else is asked for; `BAILIWICK_DNS_QUESTIONS` changes it, and `BAILIWICK_DNS_SEED` makes
/// other zones and other questions.
const QUESTIONS: u64 = 2000;
/// Questions that `dig +trace` is asked too: it takes a process and a walk from the root for each.
const TRACED: u64 = 150;
/// Questions on their way at once.
const AT_ONCE: usize = 16;
/// Unbound, as Cloudflare.
const UNBOUND: &str = "1.1.1.1";

pub fn scenarios() -> Vec<Scenario> {
    vec![scenario!(random_answers_equal_those_of_unbound_or_bind), scenario!(a_sample_equals_dig_from_the_root_down)]
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
    let seed = generated_seed();
    let engine = world.engine();
    let engine = &engine;
    let compared = futures::stream::iter(0..questions).map(|index| async move {
        let question = question(seed, index)?;
        let rtype = question.rtype;
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

fn question(seed: u64, index: u64) -> Result<Question> {
    let (name, rtype) = random_question(seed, index);
    let rtype: RecordType = match rtype.strip_prefix("TYPE") {
        Some(number) => RecordType::from(number.parse::<u16>()?),
        None => rtype.parse()?,
    };
    Ok(Question::new(parse_name(&name)?, rtype))
}

/// `dig +trace` stops at the first alias, so what is compared are the records at the name itself.
async fn a_sample_equals_dig_from_the_root_down(world: &World) -> Result<()> {
    let seed = generated_seed();
    let engine = world.engine();
    let mut differences = Vec::new();
    let mut found = 0;
    for index in 0..TRACED {
        let question = question(seed, index)?;
        let resolution = Run::new(&engine).resolve(&question, Thoroughness::EveryServer).await;
        if !resolution.aliases.is_empty() {
            continue;
        }
        // Dig breaks long digests up.
        let mut ours: Vec<String> =
            resolution.records.iter().map(|record| rdata_text(record).replace(' ', "")).collect();
        ours.sort();
        let (name, rtype) = (show_name(&question.name), type_text(question.rtype));
        let text = world.bed.dig_trace(&name, &rtype)?;
        let mut theirs: Vec<String> = last_answer(&text, &name, &rtype);
        theirs.sort();
        found += usize::from(!ours.is_empty());
        if ours != theirs {
            differences.push(format!("{question}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    ensure!(found > 5, "only {found} of the questions have an answer");
    println!("{found} answers are equal to those of dig +trace");
    Ok(())
}

/// The records of the last server that was asked.
fn last_answer(text: &str, name: &str, rtype: &str) -> Vec<String> {
    let blocks: Vec<&str> = text.split(";; Received").collect();
    // Behind the last "Received" there is nothing of interest.
    let block = blocks.iter().rev().nth(1).copied().unwrap_or_default();
    let records = block.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (owner, _, _, kind) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let data: Vec<&str> = fields.collect();
        let same = owner.trim_end_matches('.').eq_ignore_ascii_case(name) && kind == rtype;
        same.then(|| data.concat())
    });
    records.collect()
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
