//! A server that attacks whoever asks it: every tool ends, says what is the matter, believes nothing it should not, and bothers
//! nobody else much.

use std::time::Duration;

use anyhow::{Context, Result};
use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::report::fqdn::{Endpoints, FqdnReport};
use bailiwick_domains::report::{Style, scan};
use bailiwick_domains::resolve::Run;
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::{Challenge, Scope};
use bailiwick_domains::wire::{Question, RecordType, parse_name};
use bailiwick_domains::zonecheck::{self, MAX_CHECK_QUESTIONS};

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(every_attack_is_told_for_what_it_is),
        scenario!(an_answer_that_does_not_end_is_given_up),
        scenario!(a_giant_answer_is_read_and_no_more),
        scenario!(records_that_nobody_asked_for_are_not_believed),
        scenario!(a_referral_to_many_servers_of_a_victim_reaches_it_little),
        scenario!(every_tool_ends_on_a_hostile_domain),
    ]
}

/// What hangs fails; nothing here takes a tenth of it.
const GUARD: Duration = Duration::from_secs(60);
/// One question for each family and each server that is looked up, and second tries.
const VICTIM_QUESTIONS_MAX: u64 = 40;

async fn traced(world: &World, name: &str, rtype: RecordType) -> Result<String> {
    tokio::time::timeout(GUARD, world.trace(name, rtype)).await.with_context(|| format!("{name} hangs"))?
}

async fn every_attack_is_told_for_what_it_is(world: &World) -> Result<()> {
    for (label, told) in [
        ("loop", "the aliases form a loop at loop.hostile.com"),
        ("bomb", "more than 16 aliases in a row"),
        ("chain", "c1.hostile.com exists but has no A records"),
        ("deep", "refers back up to deep.hostile.com"),
        ("garbage", "sends no usable answer"),
        ("pointer", "sends no usable answer"),
        ("short", "sends no usable answer"),
    ] {
        tells(&traced(world, &format!("{label}.hostile.com"), RecordType::A).await?, told);
    }
    Ok(())
}

async fn an_answer_that_does_not_end_is_given_up(world: &World) -> Result<()> {
    for label in ["drip", "mute"] {
        let text = traced(world, &format!("{label}.hostile.com"), RecordType::TXT).await?;
        tells(&text, "too long for UDP, and TCP fails: no answer in time");
    }
    Ok(())
}

async fn a_giant_answer_is_read_and_no_more(world: &World) -> Result<()> {
    let text = traced(world, "giant.hostile.com", RecordType::TXT).await?;
    tells(&text, "too long for UDP, fine by TCP");
    assert!(text.len() < 100_000, "{}", text.len());
    Ok(())
}

async fn records_that_nobody_asked_for_are_not_believed(world: &World) -> Result<()> {
    let text = traced(world, "stuffed.hostile.com", RecordType::A).await?;
    tells(&text, "203.0.113.7");
    assert!(!text.contains("6.6.6.6"), "{text}");
    Ok(())
}

async fn a_referral_to_many_servers_of_a_victim_reaches_it_little(world: &World) -> Result<()> {
    let before = world.bed.victim_questions();
    let text = traced(world, "fan.hostile.com", RecordType::A).await?;
    // The way to victim.com and to its server is asked once for all of them, so the questions suffice.
    tells(&text, "no server of fan.hostile.com has an address");
    let asked = text.lines().find_map(|line| line.strip_suffix(" questions asked, no cache used")?.parse::<u64>().ok());
    assert!(asked.is_some_and(|asked| asked < 100), "{asked:?} questions were asked");
    let reached = world.bed.victim_questions() - before;
    assert!((1..=VICTIM_QUESTIONS_MAX).contains(&reached), "{reached} questions reached the victim");
    Ok(())
}

async fn every_tool_ends_on_a_hostile_domain(world: &World) -> Result<()> {
    let tools = async {
        let toolbox = world.toolbox()?;
        let scan = toolbox.scan(Subject::parse("hostile.com")?).await;
        tells(&scan::text(&scan, Style::Plain), "there is only one nameserver");
        for label in ["bomb", "fan", "giant", "drip", "garbage", "pointer"] {
            let name = format!("{label}.hostile.com");
            let domain = DomainName::parse(&name)?;
            let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", jiff::Timestamp::now(), &mut |_| ())?;
            assert_eq!(toolbox.verify(&challenge).await.outcome, Outcome::Pending, "{name}");
            let question = Question::new(parse_name(&name)?, RecordType::TXT);
            let places = [world.engine(), world.engine_at(1)];
            FqdnReport::make(&places, &question, Endpoints::Look).await.context("no places")?;
            let engine = world.engine();
            let run = Run::with_budget(&engine, MAX_CHECK_QUESTIONS);
            zonecheck::check(&run, &parse_name(&name)?).await;
        }
        Ok(())
    };
    tokio::time::timeout(3 * GUARD, tools).await.context("a tool hangs")?
}
