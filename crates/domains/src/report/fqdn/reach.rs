//! How near the servers of the chain's zones are to each place: the slowest is the weakest link, because an answer is as late as
//! the server that a resolver happens to ask. And a guess whether a server stands in one place or in many.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::PlaceReport;

/// How long a server took.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTime {
    /// Its name.
    pub server: String,
    /// Where it was asked.
    pub address: IpAddr,
    /// In milliseconds.
    pub rtt_ms: f64,
    /// The zone of the chain that it serves.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// What it calls itself (NSID).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// A server as all places see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerReach {
    /// Its name.
    pub server: String,
    /// Its address.
    pub address: IpAddr,
    /// The zone of the chain that it serves.
    pub zone: String,
    /// The shortest time, in milliseconds.
    pub nearest_ms: f64,
    /// From where that is.
    pub nearest: String,
    /// The longest time, in milliseconds.
    pub farthest_ms: f64,
    /// From where that is.
    pub farthest: String,
    /// What it calls itself, from all places, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
    /// Where it stands.
    pub stands: Stands,
}

/// Where a server stands, as far as answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stands {
    /// In several places: it calls itself differently in different places.
    Anycast,
    /// Probably in several places: it is near to all places, which are far from each other.
    ProbablyAnycast,
    /// Probably in one place: it is near to one and far from another.
    ProbablyUnicast,
    /// Nothing can be told.
    Unknown,
}

impl Stands {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Self::Anycast => "anycast",
            Self::ProbablyAnycast => "probably anycast",
            Self::ProbablyUnicast => "probably one place",
            Self::Unknown => "",
        }
    }
}

/// Nearer than this is the same part of the world.
const NEAR_MS: f64 = 40.0;
/// Farther than this is another part of the world, or a slow server.
const FAR_MS: f64 = 120.0;
/// Fewer places tell nothing about where a server stands.
const PLACES_MIN: usize = 3;
/// A server that takes longer than this is felt by whoever visits for the first time.
const SLOW_MS: f64 = 150.0;
/// Servers of one report.
const SERVERS_MAX: usize = 64;

/// A zone, its server and the server's address.
type Key = (String, String, IpAddr);

/// Each server of the chain over all places, in the order of the chain.
pub(super) fn reach(places: &[PlaceReport]) -> Vec<ServerReach> {
    let mut order: Vec<Key> = Vec::new();
    let mut seen: BTreeMap<Key, Vec<(&str, &ServerTime)>> = BTreeMap::new();
    for place in places {
        for time in &place.servers {
            let key = (time.zone.clone(), time.server.clone(), time.address);
            if !order.contains(&key) {
                if order.len() >= SERVERS_MAX {
                    continue;
                }
                order.push(key.clone());
            }
            seen.entry(key).or_default().push((&place.place, time));
        }
    }
    // A server that is far from somewhere shows that the places are apart; one that is slow for all shows nothing.
    let apart = seen.values().any(|times| {
        let far = times.iter().any(|(_, time)| time.rtt_ms >= FAR_MS);
        far && times.iter().any(|(_, time)| time.rtt_ms <= NEAR_MS)
    });
    let made = order.into_iter().filter_map(|key| {
        let times = seen.get(&key)?;
        let by_time = |a: &&(&str, &ServerTime), b: &&(&str, &ServerTime)| a.1.rtt_ms.total_cmp(&b.1.rtt_ms);
        let (nearest, farthest) = (times.iter().min_by(by_time)?, times.iter().max_by(by_time)?);
        let mut identities: Vec<String> = times.iter().filter_map(|(_, time)| time.identity.clone()).collect();
        identities.sort();
        identities.dedup();
        let stands = match () {
            () if identities.len() > 1 => Stands::Anycast,
            () if times.len() < PLACES_MIN => Stands::Unknown,
            () if nearest.1.rtt_ms <= NEAR_MS && farthest.1.rtt_ms >= FAR_MS => Stands::ProbablyUnicast,
            () if apart && farthest.1.rtt_ms <= NEAR_MS => Stands::ProbablyAnycast,
            () => Stands::Unknown,
        };
        Some(ServerReach {
            zone: key.0,
            server: key.1,
            address: key.2,
            nearest_ms: nearest.1.rtt_ms,
            nearest: nearest.0.to_owned(),
            farthest_ms: farthest.1.rtt_ms,
            farthest: farthest.0.to_owned(),
            identities,
            stands,
        })
    });
    made.collect()
}

/// The slowest server of all zones of the chain, where it is slow, and what would be gained without it.
pub(super) fn weakest_link(servers: &[ServerReach], places: &[PlaceReport]) -> Option<String> {
    let slowest = servers.iter().max_by(|a, b| a.farthest_ms.total_cmp(&b.farthest_ms))?;
    (slowest.farthest_ms >= SLOW_MS).then(|| {
        let zone = if slowest.zone.is_empty() { String::new() } else { format!(" of {}", slowest.zone) };
        let (time, place) = (slowest.farthest_ms, &slowest.farthest);
        let gain = match nearest_other(slowest, places) {
            Some(other) => format!(
                "If all were as near as {} ({:.0} ms from there), who asks from {place} would wait up to {:.0} ms less.",
                other.server,
                other.rtt_ms,
                time - other.rtt_ms
            ),
            None => format!(
                "At a provider that is near everywhere (within {NEAR_MS:.0} ms), who asks from {place} would wait up to {:.0} ms \
                 less.",
                time - NEAR_MS
            ),
        };
        format!("The slowest server is {} ({}){zone}: {time:.0} ms from {place}. {gain}", slowest.server, slowest.address)
    })
}

/// The nearest other server of the same zone, from where the slowest is slowest, if it is near.
fn nearest_other<'a>(slowest: &ServerReach, places: &'a [PlaceReport]) -> Option<&'a ServerTime> {
    let there = places.iter().find(|place| place.place == slowest.farthest)?;
    let others = there.servers.iter().filter(|time| time.zone == slowest.zone && time.server != slowest.server);
    others.filter(|time| time.rtt_ms <= NEAR_MS).min_by(|a, b| a.rtt_ms.total_cmp(&b.rtt_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::Outcome;

    fn place(name: &str, times: &[(&str, f64, Option<&str>)]) -> PlaceReport {
        let servers = times.iter().map(|(server, rtt_ms, identity)| ServerTime {
            server: (*server).to_owned(),
            address: "192.0.2.1".parse().expect("an address"),
            rtt_ms: *rtt_ms,
            zone: "example.com".to_owned(),
            identity: identity.map(str::to_owned),
        });
        PlaceReport {
            place: name.to_owned(),
            outcome: Outcome::Found,
            records: Vec::new(),
            serials: Vec::new(),
            servers: servers.collect(),
            elapsed_ms: 1.0,
        }
    }

    #[test]
    fn where_a_server_stands_is_guessed_from_names_and_times() {
        let places = [
            place("fra", &[("many", 5.0, Some("fra1")), ("near", 8.0, None), ("one", 9.0, None)]),
            place("iad", &[("many", 6.0, Some("iad3")), ("near", 9.0, None), ("one", 95.0, None)]),
            place("sin", &[("many", 7.0, Some("sin2")), ("near", 7.0, None), ("one", 190.0, None)]),
        ];
        let servers = reach(&places);
        let stands: Vec<_> = servers.iter().map(|server| (server.server.as_str(), server.stands)).collect();
        assert_eq!(
            stands,
            [("many", Stands::Anycast), ("near", Stands::ProbablyAnycast), ("one", Stands::ProbablyUnicast)]
        );
        assert_eq!(
            weakest_link(&servers, &places).as_deref(),
            Some(
                "The slowest server is one (192.0.2.1) of example.com: 190 ms from sin. If all were as near as many (7 ms from \
                 there), who asks from sin would wait up to 183 ms less."
            )
        );
        let alone = [place("sin", &[("one", 190.0, None)])];
        let told = weakest_link(&reach(&alone), &alone).unwrap_or_default();
        assert!(told.ends_with("who asks from sin would wait up to 150 ms less."), "{told}");
    }

    #[test]
    fn places_that_may_be_neighbours_tell_nothing() {
        let near = [("near", 1.0, Some("x"))];
        let servers = reach(&[place("a", &near), place("b", &near), place("c", &near)]);
        assert_eq!(servers[0].stands, Stands::Unknown);
        assert_eq!(weakest_link(&servers, &[]), None);
    }
}
