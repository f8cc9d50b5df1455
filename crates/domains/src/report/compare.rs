//! `dns compare` and `dns doctor`: resolvers beside the authoritative servers.

use std::borrow::Borrow;
use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;

use super::trace::dnssec_line;
use super::{Colour, Style, Table, duration_text, time_text};
use crate::dnssec::{self, Validation};
use crate::engine::Engine;
use crate::recursive::{self, CacheLook, Judged, Outgoing, Standing, Truth, Via};
use crate::resolve::{Outcome, Run, Thoroughness};
use crate::seams::PublicResolver;
use crate::transport::Exchange;
use crate::wire::{Answer, ExtendedError, Question, RecordView, show_name, type_text};

/// One resolver.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolverReport {
    /// What people call it.
    pub name: String,
    /// Where it was asked.
    pub address: String,
    /// How it was asked.
    pub via: Via,
    /// What it answered, beside the truth.
    #[serde(flatten)]
    pub judged: Judged,
    /// It says that it validated the answer.
    pub authentic: bool,
    /// Which of its machines answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The reasons it gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extended_errors: Vec<ExtendedError>,
    /// Where its own questions come from, when that was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<Outgoing>,
    /// How long the answer took, in milliseconds.
    pub rtt_ms: f64,
}

/// How resolvers are asked.
#[derive(Clone, Copy)]
enum Asking {
    /// As everybody asks them.
    Recursively(Via),
    /// Only for what they have.
    WithoutTouching,
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareReport {
    /// What was asked.
    pub name: String,
    /// What was asked.
    #[serde(rename = "type")]
    pub rtype: String,
    /// When.
    pub at: Timestamp,
    /// How the authoritative servers ended the question.
    pub outcome: Outcome,
    /// What they say.
    pub records: Vec<RecordView>,
    /// How far that can be trusted.
    pub dnssec: Validation,
    /// The resolvers.
    pub resolvers: Vec<ResolverReport>,
    /// In a sentence.
    pub summary: String,
}

impl CompareReport {
    /// Asks the authoritative servers from every place, then the resolvers.
    pub async fn make<E: Borrow<Engine>>(
        places: &[E],
        resolvers: &[PublicResolver],
        question: &Question,
        via: Via,
    ) -> Option<Self> {
        Self::ask(places, resolvers, question, Asking::Recursively(via)).await
    }

    /// Asks the authoritative servers from every place, and looks at what the resolvers have in their caches without
    /// changing that: a resolver that is asked for a name before it exists remembers that it does not.
    pub async fn look_at_caches<E: Borrow<Engine>>(
        places: &[E],
        resolvers: &[PublicResolver],
        question: &Question,
    ) -> Option<Self> {
        Self::ask(places, resolvers, question, Asking::WithoutTouching).await
    }

    async fn ask<E: Borrow<Engine>>(
        places: &[E],
        resolvers: &[PublicResolver],
        question: &Question,
        asking: Asking,
    ) -> Option<Self> {
        let engine = places.first()?.borrow();
        let runs: Vec<Run<'_>> = places.iter().map(|place| Run::new(place.borrow())).collect();
        let resolutions =
            futures::future::join_all(runs.iter().map(|run| run.resolve(question, Thoroughness::EveryServer))).await;
        let mut truth = Truth::default();
        resolutions.iter().for_each(|resolution| truth.add(resolution));
        let resolution = resolutions.first()?;
        let dnssec = dnssec::validate(&Run::new(engine), resolution).await;
        let asked = resolvers.iter().map(|resolver| ask_one(engine, resolver, question, asking, &truth));
        let resolvers = futures::future::join_all(asked).await;
        let at = engine.clock().now();
        let summary = summary(&resolvers, at);
        Some(Self {
            name: show_name(&question.name),
            rtype: type_text(question.rtype),
            at,
            outcome: resolution.outcome.clone(),
            records: resolution.records.iter().map(RecordView::from).collect(),
            dnssec,
            resolvers,
            summary,
        })
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let mut table = Table::default();
        table.heading(&["WHO", "STANDING", "ANSWER", "LEFT", "RIGHT AT", "NOTES"]);
        let truth = match &self.outcome {
            Outcome::Found => joined(&self.records),
            Outcome::NoData => format!("no {}", self.rtype),
            Outcome::NxDomain => "no such name".to_owned(),
            Outcome::Broken { reason } => reason.to_string(),
        };
        table.row([
            ("authoritative".to_owned(), Some(Colour::Bold)),
            ("truth".to_owned(), None),
            (truth, None),
            (self.records.iter().map(|record| record.ttl).min().map_or_else(String::new, duration_text), None),
            (String::new(), None),
            (String::new(), None),
        ]);
        for resolver in &self.resolvers {
            let (word, colour) = standing_text(resolver.judged.standing);
            let answer = match resolver.judged.records.is_empty() {
                true => "-".to_owned(),
                false => joined(&resolver.judged.records),
            };
            let mut notes = Vec::new();
            if !matches!(resolver.judged.standing, Standing::Same) {
                notes.push(resolver.judged.explanation.clone());
            }
            if resolver.authentic {
                notes.push("validated".to_owned());
            }
            notes.extend(resolver.identity.iter().map(|identity| format!("at {identity}")));
            notes.extend(resolver.outgoing.as_ref().map(outgoing_text));
            table.row([
                (resolver.name.clone(), Some(Colour::Bold)),
                (word.to_owned(), Some(colour)),
                (answer, None),
                (resolver.judged.ttl_left.map_or_else(String::new, duration_text), Some(Colour::Dim)),
                (resolver.judged.right_at.map_or_else(String::new, |at| time_text(at, self.at)), None),
                (notes.join("; "), Some(Colour::Dim)),
            ]);
        }
        text.push_str(&table.render(style));
        let _ = writeln!(text, "\n{}\n{}", dnssec_line(&self.dnssec, style), self.summary);
        text
    }
}

fn outgoing_text(outgoing: &Outgoing) -> String {
    let whose = outgoing.known_as.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let network = if outgoing.tells_client_network { ", and tells from which network you ask" } else { "" };
    format!("asks the servers from {}{whose}{network}", outgoing.address)
}

fn joined(records: &[RecordView]) -> String {
    let mut data: Vec<&str> = records.iter().map(|record| record.data.as_str()).collect();
    data.sort_unstable();
    data.join(" ")
}

fn standing_text(standing: Standing) -> (&'static str, Colour) {
    match standing {
        Standing::Same => ("same", Colour::Green),
        Standing::Stale => ("stale", Colour::Yellow),
        Standing::Negative => ("negative", Colour::Yellow),
        Standing::Filtered => ("filtered", Colour::Yellow),
        Standing::Bogus => ("bogus", Colour::Red),
        Standing::NotCached => ("not cached", Colour::Green),
        Standing::Failed => ("failed", Colour::Red),
        Standing::Unknown => ("unknown", Colour::Dim),
    }
}

async fn ask_one(
    engine: &Engine,
    resolver: &PublicResolver,
    question: &Question,
    asking: Asking,
    truth: &Truth,
) -> ResolverReport {
    match asking {
        Asking::Recursively(via) => ask_recursively(engine, resolver, question, via, truth).await,
        Asking::WithoutTouching => {
            let (mut report, outgoing) = futures::future::join(
                look_without_touching(engine, resolver, question, truth),
                recursive::outgoing(engine, resolver),
            )
            .await;
            report.outgoing = outgoing;
            report
        }
    }
}

async fn ask_recursively(
    engine: &Engine,
    resolver: &PublicResolver,
    question: &Question,
    via: Via,
    truth: &Truth,
) -> ResolverReport {
    let exchange = recursive::ask(engine, resolver, question, via).await;
    let failed = exchange.answer().is_some_and(|answer| answer.rcode() == crate::wire::ResponseCode::ServFail);
    let unchecked = if failed { Some(recursive::ask_unchecked(engine, resolver, question).await) } else { None };
    let now = engine.clock().now();
    let judged = recursive::judge(truth, resolver, question.rtype, &exchange, unchecked.as_ref(), now);
    let via = if resolver.tls_name.is_some() { via } else { Via::Udp };
    ResolverReport { via, ..report(resolver, judged, Some(&exchange)) }
}

async fn look_without_touching(
    engine: &Engine,
    resolver: &PublicResolver,
    question: &Question,
    truth: &Truth,
) -> ResolverReport {
    match recursive::look_into_cache(engine, resolver, question).await {
        CacheLook::Holds(exchange) => {
            let now = engine.clock().now();
            let judged = recursive::judge(truth, resolver, question.rtype, &exchange, None, now);
            report(resolver, judged, Some(&exchange))
        }
        CacheLook::Empty => {
            let told = "has nothing of it in its cache; who asks gets what the servers say";
            report(resolver, Judged::without_answer(Standing::NotCached, told), None)
        }
        CacheLook::NotShown if truth.has_records() => {
            ask_recursively(engine, resolver, question, Via::Udp, truth).await
        }
        CacheLook::NotShown => {
            let told = "does not show its cache, and is not asked, because it would remember that there is nothing";
            report(resolver, Judged::without_answer(Standing::Unknown, told), None)
        }
    }
}

fn report(resolver: &PublicResolver, judged: Judged, exchange: Option<&Exchange>) -> ResolverReport {
    let answer = exchange.and_then(Exchange::answer);
    ResolverReport {
        name: resolver.name.clone(),
        address: resolver.address.to_string(),
        via: Via::Udp,
        judged,
        authentic: answer.is_some_and(Answer::is_authentic_data),
        identity: answer.and_then(Answer::server_identity),
        extended_errors: answer.map(Answer::extended_errors).unwrap_or_default(),
        outgoing: None,
        rtt_ms: exchange.map_or(0.0, |exchange| exchange.rtt.as_secs_f64() * 1000.0),
    }
}

fn summary(resolvers: &[ResolverReport], now: Timestamp) -> String {
    let with = |standing| {
        let names = resolvers.iter().filter(move |resolver| resolver.judged.standing == standing);
        names.map(|resolver| resolver.name.clone()).collect::<Vec<_>>()
    };
    let mut sentences = Vec::new();
    if with(Standing::Same).len() == resolvers.len() && !resolvers.is_empty() {
        sentences.push("All resolvers give what the authoritative servers say.".to_owned());
    }
    let unused = with(Standing::NotCached);
    if !unused.is_empty() {
        let verb = if unused.len() == 1 { "has" } else { "have" };
        sentences.push(format!("{} {verb} nothing of it cached.", unused.join(", ")));
    }
    let mut wrong = with(Standing::Stale);
    wrong.extend(with(Standing::Negative));
    let last = resolvers.iter().filter_map(|resolver| resolver.judged.right_at).max();
    if let Some(last) = last {
        let last = time_text(last, now);
        sentences.push(match wrong.as_slice() {
            [only] => format!("{only} still answers from its cache; it will be right by {last}."),
            several => format!("{} still answer from their caches; all will be right by {last}.", several.join(", ")),
        });
    }
    for (standing, what) in [
        (Standing::Filtered, "filtered by"),
        (Standing::Bogus, "refused as bogus by"),
        (Standing::Failed, "not answered by"),
    ] {
        let names = with(standing);
        if !names.is_empty() {
            sentences.push(format!("It is {what} {}; waiting will not change that.", names.join(", ")));
        }
    }
    sentences.join(" ")
}
