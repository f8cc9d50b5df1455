//! One resolver's answer beside the truth.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::resolve::{Outcome, Resolution, Says};
use crate::seams::PublicResolver;
use crate::transport::Exchange;
use crate::wire::{Answer, RecordType, RecordView, ResponseCode, Section, rcode_text, rdata_text};

/// What the authoritative servers say: each set of records that some of them give is right.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    sets: BTreeSet<BTreeSet<String>>,
    ttl: Option<u32>,
}

impl Truth {
    /// Adds what a resolution saw: the records of every server that answered usefully at the end.
    pub fn add(&mut self, resolution: &Resolution) {
        match resolution.outcome {
            Outcome::Broken { .. } => return,
            Outcome::NoData | Outcome::NxDomain => {
                self.sets.insert(BTreeSet::new());
            }
            Outcome::Found => {}
        }
        let rtype = resolution.question.rtype;
        let Some(last) = resolution.last() else { return };
        for reply in last.replies.iter().filter(|reply| matches!(reply.says, Says::Answer)) {
            let Some(answer) = reply.exchange.answer() else { continue };
            let records = answer.rrset(Section::Answer, &last.question.name, rtype);
            let set: BTreeSet<String> = records.map(|record| rdata_text(record).to_lowercase()).collect();
            self.sets.insert(set);
        }
        let ttls =
            resolution.records.iter().map(|record| record.ttl).chain(resolution.aliases.iter().map(|alias| alias.ttl));
        self.ttl = self.ttl.into_iter().chain(ttls).min();
    }

    /// Whether the records exist.
    pub fn has_records(&self) -> bool {
        self.sets.iter().any(|set| !set.is_empty())
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The shortest time to live of the chain.
    pub fn ttl(&self) -> Option<u32> {
        self.ttl
    }
}

/// How an answer stands to the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// As the authoritative servers say.
    Same,
    /// Other records than any authoritative server has now.
    Stale,
    /// Remembers that there was nothing.
    Negative,
    /// Does not want to give the answer.
    Filtered,
    /// Refuses the answer because its signatures are wrong.
    Bogus,
    /// Has nothing in its cache, and so will ask.
    NotCached,
    /// Gives no answer.
    Failed,
    /// There is no truth to compare with.
    Unknown,
}

/// A judged answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// How it stands to the truth.
    pub standing: Standing,
    /// In a sentence.
    pub explanation: String,
    /// The records that the resolver gave.
    pub records: Vec<RecordView>,
    /// How long they stay in its cache, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_left: Option<u32>,
    /// When the resolver will be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_at: Option<Timestamp>,
}

impl Judged {
    /// Without an answer to compare.
    pub(crate) fn without_answer(standing: Standing, explanation: &str) -> Self {
        Self { standing, explanation: explanation.to_owned(), records: Vec::new(), ttl_left: None, right_at: None }
    }
}

/// Judges an exchange; `unchecked` is the same question with checking disabled, asked after a SERVFAIL.
pub fn judge(
    truth: &Truth,
    resolver: &PublicResolver,
    rtype: RecordType,
    exchange: &Exchange,
    unchecked: Option<&Exchange>,
    now: Timestamp,
) -> Judged {
    let plain = |standing, explanation: String| Judged {
        standing,
        explanation,
        records: Vec::new(),
        ttl_left: None,
        right_at: None,
    };
    let answer = match &exchange.outcome {
        Ok(answer) => answer,
        Err(failure) => return plain(Standing::Failed, failure.to_string()),
    };
    let reasons: Vec<String> = answer
        .extended_errors()
        .iter()
        .map(|error| {
            if error.text.is_empty() { error.meaning.to_owned() } else { format!("{} ({})", error.meaning, error.text) }
        })
        .collect();
    let said = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    if answer.extended_errors().iter().any(|error| (15..=18).contains(&error.code)) {
        return plain(Standing::Filtered, format!("does not want to answer{said}"));
    }
    match answer.rcode() {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        ResponseCode::ServFail => {
            let says_bogus =
                answer.extended_errors().iter().any(|error| matches!(error.code, 1..=2 | 5..=12 | 25 | 27));
            let unchecked_works =
                unchecked.and_then(Exchange::answer).is_some_and(|answer| answer.rcode() != ResponseCode::ServFail);
            return match says_bogus || unchecked_works {
                true => plain(Standing::Bogus, format!("refuses the answer because DNSSEC fails{said}")),
                false => plain(Standing::Failed, format!("cannot find the answer (SERVFAIL){said}")),
            };
        }
        ResponseCode::Refused if resolver.filters => {
            return plain(Standing::Filtered, format!("refuses to answer{said}"));
        }
        code => return plain(Standing::Failed, format!("answers {}{said}", rcode_text(code))),
    }
    judge_content(truth, rtype, answer, now)
}

fn judge_content(truth: &Truth, rtype: RecordType, answer: &Answer, now: Timestamp) -> Judged {
    let wanted: Vec<_> =
        answer.section(Section::Answer).iter().filter(|record| record.record_type() == rtype).collect();
    let set: BTreeSet<String> = wanted.iter().map(|record| rdata_text(record).to_lowercase()).collect();
    let chain = answer.section(Section::Answer).iter().filter(|record| record.record_type() != RecordType::RRSIG);
    let ttl_left = match set.is_empty() {
        true => answer.negative_soa().map(|(record, soa)| record.ttl.min(soa.minimum)),
        false => chain.map(|record| record.ttl).min(),
    };
    let right_at = ttl_left.and_then(|ttl| now.checked_add(SignedDuration::from_secs(i64::from(ttl))).ok());
    let records = wanted.iter().map(|record| RecordView::from(*record)).collect();
    let judged = |standing, explanation: &str, right_at| Judged {
        standing,
        explanation: explanation.to_owned(),
        records,
        ttl_left,
        right_at,
    };
    if !truth.is_known() {
        return judged(Standing::Unknown, "the authoritative servers give nothing to compare with", None);
    }
    if truth.sets.contains(&set) {
        return judged(Standing::Same, "the same as the authoritative servers", None);
    }
    match (set.is_empty(), ttl_left) {
        (true, None) => {
            judged(Standing::Filtered, "says that there is nothing, without the zone's word for it: a filter", None)
        }
        (true, Some(_)) => judged(Standing::Negative, "remembers that there was nothing", right_at),
        (false, _) => judged(Standing::Stale, "has other records than the authoritative servers", right_at),
    }
}
