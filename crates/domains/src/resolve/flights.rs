//! What several lookups of one run need at the same time is asked once: the next cut on a way that they share, and the addresses
//! of a host. Whoever comes second waits for the first. A lookup that would wait for itself (servers whose names depend on each
//! other) does not wait, so that nothing hangs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::wire::{Name, label_count};

/// What a lookup is for.
#[derive(Clone, Default)]
pub(super) struct Errand {
    /// How many names of servers depend on each other so far.
    pub(super) depth: usize,
    /// The host whose addresses wait for this.
    pub(super) host: Option<Name>,
}

/// What is known of a host.
pub(super) struct Known {
    pub(super) addresses: Vec<IpAddr>,
    /// How deep it was looked up: nothing found there may be found nearer to the surface.
    pub(super) depth: usize,
}

impl Known {
    /// Whether somebody at this depth need not look again.
    pub(super) fn settles(&self, depth: usize) -> bool {
        !self.addresses.is_empty() || self.depth <= depth
    }
}

/// The work that is on its way.
#[derive(Default)]
pub(super) struct Flights {
    hosts: Mutex<Hosts>,
    ways: Mutex<HashMap<Name, Arc<tokio::sync::Mutex<Way>>>>,
}

#[derive(Default)]
struct Hosts {
    cells: HashMap<Name, Arc<tokio::sync::Mutex<Option<Known>>>>,
    /// `(a, b)`: the addresses of `a` wait for those of `b`.
    needs: Vec<(Name, Name)>,
}

impl Hosts {
    /// Whether `from` waits for `to`, if only for something that waits for it.
    fn reaches(&self, from: &Name, to: &Name) -> bool {
        let (mut open, mut closed) = (vec![from], Vec::new());
        while let Some(host) = open.pop() {
            if host == to {
                return true;
            }
            if !closed.contains(&host) {
                closed.push(host);
                open.extend(self.needs.iter().filter(|(waiting, _)| waiting == host).map(|(_, awaited)| awaited));
            }
        }
        false
    }
}

impl Flights {
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in the row for a host's addresses; nothing when that would be waiting for oneself.
    pub(super) fn host(&self, host: &Name, errand: &Errand) -> Option<Flight<'_>> {
        let mut hosts = self.hosts();
        let need = match &errand.host {
            Some(waiting) if hosts.reaches(host, waiting) => return None,
            Some(waiting) => Some((waiting.clone(), host.clone())),
            None => None,
        };
        hosts.needs.extend(need.clone());
        let cell = hosts.cells.entry(host.clone()).or_default().clone();
        Some(Flight { flights: self, need, cell })
    }

    /// A turn on the way from a zone towards a name: one asks, the others learn. Nothing where nobody has to take turns.
    pub(super) async fn turn(&self, zone: &Name, towards: &Name) -> Option<OwnedMutexGuard<Way>> {
        let below = label_count(towards).checked_sub(label_count(zone) + 1)?;
        // A host itself is hardly ever a cut, so who is there need not wait.
        if below == 0 {
            return None;
        }
        let mut next = towards.to_lowercase();
        for _ in 0..below {
            next = next.base_name();
        }
        let way = self.ways.lock().unwrap_or_else(PoisonError::into_inner).entry(next).or_default().clone();
        Some(way.lock_owned().await)
    }
}

/// How far it is known what is on a way.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// Somebody has; where no cut was found, everybody asks for himself.
    Asked,
}

/// A place in the row for a host; it ends when this is dropped.
pub(super) struct Flight<'a> {
    flights: &'a Flights,
    need: Option<(Name, Name)>,
    pub(super) cell: Arc<tokio::sync::Mutex<Option<Known>>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(need) = &self.need else { return };
        let mut hosts = self.flights.hosts();
        if let Some(at) = hosts.needs.iter().position(|known| known == need) {
            hosts.needs.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_name;

    fn name(text: &str) -> Name {
        parse_name(text).expect("a name")
    }

    fn errand(host: &str) -> Errand {
        Errand { depth: 1, host: Some(name(host)) }
    }

    #[test]
    fn nobody_waits_for_himself() {
        let flights = Flights::default();
        let (a, b, c) = ("ns.a.example", "ns.b.example", "ns.c.example");
        let first = flights.host(&name(b), &errand(a)).expect("a waits for b");
        let _second = flights.host(&name(c), &errand(b)).expect("b waits for c");
        assert!(flights.host(&name(a), &errand(c)).is_none(), "c would wait for a, which waits for c");
        assert!(flights.host(&name(a), &errand(a)).is_none());
        assert!(flights.host(&name(a), &Errand::default()).is_some(), "nobody waits for this one");
        drop(first);
        assert!(flights.host(&name(a), &errand(c)).is_some(), "a no longer waits");
    }

    #[tokio::test]
    async fn who_shares_a_way_takes_turns_and_who_is_at_its_end_does_not() {
        let flights = Flights::default();
        let first = flights.turn(&name("com"), &name("x1.victim.com")).await.expect("a turn");
        let (zone, towards) = (name("com"), name("X2.victim.com"));
        let second = flights.turn(&zone, &towards);
        let second = tokio::time::timeout(std::time::Duration::from_millis(5), second).await;
        assert!(second.is_err(), "the second waits");
        assert!(flights.turn(&name("com"), &name("other.com")).await.is_none());
        assert!(flights.turn(&name("com"), &name("www.other.com")).await.is_some());
        drop(first);
        assert!(flights.turn(&name("com"), &name("x2.victim.com")).await.is_some());
    }
}
