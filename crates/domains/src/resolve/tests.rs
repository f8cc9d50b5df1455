//! What hostile and broken servers do to a resolution: it ends, within its limits, and says why.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hickory_proto::op::Message;
use proptest::prelude::*;

use super::{Broken, Lame, MAX_ALIASES, Outcome, Pace, Resolution, Run, Says, Thoroughness};
use crate::engine::{Engine, MAX_QUESTIONS};
use crate::responder::{ADDRESS, Reply, a, cname, engine, name};
use crate::transport::Failure;
use crate::wire::{Answer, Question, RecordType, show_name};

async fn resolve(engine: &Engine, text: &str) -> Resolution {
    Run::new(engine).resolve(&Question::new(name(text), RecordType::A), Thoroughness::EveryServer).await
}

fn asked(question: &Message) -> String {
    question.queries.first().map(|query| show_name(query.name())).unwrap_or_default()
}

#[tokio::test]
async fn answers_with_another_id_or_question_are_not_believed() {
    let engine = engine(|question| {
        let owner = question.queries[0].name().clone();
        let mut other_id = Reply::to(question).answer(a(&owner, 66));
        other_id.0.metadata.id = question.metadata.id.wrapping_add(1);
        let mut other_name = Reply::to(question).answer(a(&owner, 67));
        other_name.0.queries[0].set_name(name("victim.example"));
        vec![other_id.packet(), other_name.packet(), Reply::to(question).answer(a(&owner, 1)).packet()]
    })
    .await;
    let resolution = resolve(&engine, "www.example").await;
    assert_eq!(resolution.outcome, Outcome::Found);
    let data: Vec<String> = resolution.records.iter().map(crate::wire::rdata_text).collect();
    assert_eq!(data, ["203.0.113.1"]);
}

#[tokio::test]
async fn all_runs_of_an_engine_together_keep_its_pace() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let engine = engine(move |question| {
        count.fetch_add(1, Ordering::SeqCst);
        let owner = question.queries[0].name().clone();
        vec![Reply::to(question).answer(a(&owner, 1)).packet()]
    })
    .await;
    // Three at once, and then one in an hour.
    let engine = engine.paced(Arc::new(Pace::new(Duration::from_secs(3_600), 2)));
    let mut runs: FuturesUnordered<_> = (0..9).map(|_| resolve(&engine, "www.example")).collect();
    for _ in 0..3 {
        let resolution = runs.next().await.expect("a run that has its turn");
        assert_eq!(resolution.outcome, Outcome::Found);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3, "the other six wait for their turn");
}

#[tokio::test]
async fn garbage_is_told_as_garbage() {
    let engine = engine(|question| {
        let mut packet = Reply::to(question).packet();
        // One answer is announced and none follows.
        packet[7] = 1;
        vec![packet]
    })
    .await;
    let resolution = resolve(&engine, "www.example").await;
    let failure = resolution.steps[0].replies[0].failure().cloned();
    assert!(matches!(failure, Some(Failure::Malformed(_))), "{failure:?}");
}

#[tokio::test]
async fn an_answer_without_authority_is_lame() {
    let engine = engine(|question| {
        let owner = question.queries[0].name().clone();
        vec![Reply::to(question).answer(a(&owner, 1)).without_authority().packet()]
    })
    .await;
    let resolution = resolve(&engine, "www.example").await;
    assert_eq!(resolution.steps[0].replies[0].says, Says::Lame(Lame::NotAuthoritative));
}

#[tokio::test]
async fn a_referral_that_leads_nowhere_deeper_is_not_followed() {
    let engine = engine(|question| vec![Reply::to(question).referral(".", "root.test", Some(ADDRESS)).packet()]).await;
    let resolution = resolve(&engine, "www.example").await;
    assert_eq!(resolution.steps.len(), 1);
    assert_eq!(resolution.steps[0].replies[0].says, Says::Lame(Lame::UpwardReferral { zone: ".".to_owned() }));
}

#[tokio::test]
async fn a_referral_to_another_branch_is_not_followed() {
    let engine =
        engine(|question| vec![Reply::to(question).referral("victim.test", "ns.victim.test", Some(ADDRESS)).packet()])
            .await;
    let resolution = resolve(&engine, "www.example").await;
    assert!(matches!(resolution.outcome, Outcome::Broken { .. }), "{:?}", resolution.outcome);
    assert_eq!(resolution.steps.len(), 1);
}

#[tokio::test]
async fn glue_from_outside_the_referring_zone_is_not_believed() {
    // `example` claims to know the address of a host in `test`.
    let engine = engine(|question| {
        let asked = asked(question);
        vec![match asked.as_str() {
            "a.b.example" if question.queries[0].query_type() == RecordType::A => {
                Reply::to(question).referral("example", "ns.example", Some(ADDRESS)).packet()
            }
            _ => Reply::to(question).packet(),
        }]
    })
    .await;
    let run = Run::new(&engine);
    run.resolve(&Question::new(name("a.b.example"), RecordType::A), Thoroughness::EveryServer).await;
    let answer =
        Reply::to(&Message::query()).referral("b.example", "ns.elsewhere.test", Some(Ipv4Addr::new(6, 6, 6, 6)));
    let answer = Answer::parse(answer.packet().into()).expect("valid");
    let cut = super::Cut::from_referral(&answer, &name("example"), &name("b.example"));
    assert!(cut.servers[0].addresses.is_empty());
}

#[tokio::test]
async fn referrals_without_end_end() {
    // Every answer refers one label deeper, to sixteen servers without addresses whose names lead on for ever.
    let engine = engine(|question| {
        let asked = asked(question);
        let mut reply = Reply::to(question);
        for index in 0..16 {
            reply = reply.referral(&asked, &format!("ns{index}.x{}.{asked}z", question.metadata.id), None);
        }
        vec![reply.packet()]
    })
    .await;
    let resolution = resolve(&engine, "www.example").await;
    assert!(matches!(resolution.outcome, Outcome::Broken { .. }), "{:?}", resolution.outcome);
    assert!(resolution.questions <= MAX_QUESTIONS, "{}", resolution.questions);
}

#[tokio::test]
async fn aliases_without_end_end() {
    let engine = engine(|question| {
        let owner = question.queries[0].name().clone();
        vec![Reply::to(question).answer(cname(&owner, &format!("x{}.example", rand::random::<u32>()))).packet()]
    })
    .await;
    let resolution = resolve(&engine, "www.example").await;
    assert_eq!(resolution.outcome, Outcome::Broken { reason: Broken::TooManyAliases });
    assert_eq!(resolution.aliases.len(), MAX_ALIASES);
}

/// A valid answer to mutate.
fn sample() -> Vec<u8> {
    let mut question = Message::query();
    question.add_query(hickory_proto::op::Query::query(name("www.example"), RecordType::A));
    Reply::to(&question)
        .answer(cname(&name("www.example"), "edge.example"))
        .answer(a(&name("edge.example"), 1))
        .referral("example", "ns.example", Some(ADDRESS))
        .packet()
}

/// Everything that is done with an answer before it is believed.
fn digest(bytes: Vec<u8>) {
    let Ok(answer) = Answer::parse(bytes.into()) else { return };
    let question = Question::new(name("www.example"), RecordType::A);
    let exchange = crate::transport::Exchange {
        server: (ADDRESS, 53).into(),
        ask: crate::wire::Ask::authoritative(question.clone()),
        channel: crate::transport::Channel::Udp,
        outcome: Ok(answer.clone()),
        rtt: std::time::Duration::ZERO,
        at: jiff::Timestamp::UNIX_EPOCH,
        remarks: Vec::new(),
    };
    let says = super::classify(&exchange, &name("example"), &question);
    let _ = super::Cut::from_referral(&answer, &name("example"), &name("www.example"));
    let _ = (answer.extended_errors(), answer.server_identity(), answer.negative_soa());
    let reply = super::Reply { server: name("ns.example"), says, exchange };
    let _ = crate::verdict::judge(&reply);
    for section in [crate::wire::Section::Answer, crate::wire::Section::Authority, crate::wire::Section::Additional] {
        answer.section(section).iter().for_each(|record| drop(crate::wire::rdata_text(record)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        digest(bytes);
    }

    #[test]
    fn no_changed_answer_makes_it_panic(changes in proptest::collection::vec((0_usize..200, any::<u8>()), 1..12), cut in 0_usize..200) {
        let mut bytes = sample();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 20));
        digest(bytes);
    }
}
