//! The resolver of this machine: what it has in its cache, asked so that it asks nobody else, and where its own questions come
//! from, found out with a name that tells whoever asks for it.

use std::net::IpAddr;

use serde::Serialize;

use super::ask_exactly;
use crate::engine::Engine;
use crate::recursive::Via;
use crate::seams::{PublicResolver, Whoami};
use crate::transport::Exchange;
use crate::wire::{Answer, Ask, Question, RData, RecordType, Recursion, ResponseCode, Section, parse_name};

/// Letters of a label that nobody used before.
const NONCE_BITS: u32 = 64;

/// What a resolver shows of its cache.
pub enum CacheLook {
    /// It has this, be it records or the news that there are none.
    Holds(Box<Exchange>),
    /// It has nothing.
    Empty,
    /// It does not show it to us.
    NotShown,
}

/// Looks into a cache without changing it: a question without the wish for recursion (RD=0).
pub async fn look_into_cache(engine: &Engine, resolver: &PublicResolver, question: &Question) -> CacheLook {
    let ask = Ask { recursion: Recursion::Off, ..Ask::recursive(question.clone()) };
    let exchange = ask_exactly(engine, resolver, &ask, Via::Udp).await;
    let Some(answer) = exchange.answer() else { return CacheLook::NotShown };
    match answer.rcode() {
        ResponseCode::NoError if holds(answer, question) => CacheLook::Holds(Box::new(exchange)),
        ResponseCode::NoError => CacheLook::Empty,
        ResponseCode::NXDomain => CacheLook::Holds(Box::new(exchange)),
        _ => CacheLook::NotShown,
    }
}

/// Whether an answer has the end of the chain, or says that there is none; a referral or an alias alone says nothing.
fn holds(answer: &Answer, question: &Question) -> bool {
    let has_records = answer.section(Section::Answer).iter().any(|record| record.record_type() == question.rtype);
    has_records || answer.negative_soa().is_some()
}

/// Where a resolver's questions come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outgoing {
    /// The address that authoritative servers see.
    pub address: IpAddr,
    /// Whose it is, when it is that of a resolver we know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// It tells authoritative servers from which network its users ask.
    pub tells_client_network: bool,
}

/// Finds out where a resolver's questions come from.
pub async fn outgoing(engine: &Engine, resolver: &PublicResolver) -> Option<Outgoing> {
    let question = Question::new(name_to_ask(engine.roots().whoami.as_ref()?)?, RecordType::TXT);
    let exchange = super::ask(engine, resolver, &question, Via::Udp).await;
    let texts: Vec<String> = exchange
        .answer()?
        .section(Section::Answer)
        .iter()
        .filter_map(|record| match &record.data {
            RData::TXT(txt) => Some(txt.txt_data.iter().map(|part| String::from_utf8_lossy(part)).collect()),
            _ => None,
        })
        .collect();
    let address: IpAddr = texts.iter().find_map(|text| text.trim().parse().ok())?;
    let known = engine.roots().resolvers.iter().find(|known| known.address == address);
    Some(Outgoing {
        address,
        known_as: known.map(|known| known.name.clone()),
        tells_client_network: texts.iter().any(|text| text.contains("edns0-client-subnet")),
    })
}

fn name_to_ask(whoami: &Whoami) -> Option<crate::wire::Name> {
    let name = parse_name(&whoami.name).ok()?;
    match whoami.one_time {
        true => {
            let nonce: u64 = rand::random();
            name.prepend_label(format!("{nonce:0width$x}", width = (NONCE_BITS / 4) as usize)).ok()
        }
        false => Some(name),
    }
}
