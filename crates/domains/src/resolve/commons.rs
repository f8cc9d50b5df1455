//! What many runs know from each other. A watch over a million domains must not ask the servers of `com` a million times who
//! serves `com`, nor must a thousand people who wait for their proofs: delegations and keys of registries' zones and addresses
//! of nameservers are shared for a while, never longer than their times to live. What a customer's own zone says is never
//! kept: that is what is looked at.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::Cut;
use super::habits::{Habits, Pace};
use super::run::{FEW, SILENT_AFTER};
use crate::dnssec::ZoneState;
use crate::evidence::Evidence;
use crate::name::is_registry_suffix;
use crate::wire::{Name, show_name};

/// Zones of registries that are kept: there are 1,500 top-level domains and some thousand suffixes below them.
const ZONES_MAX: usize = 10_000;
/// Nameservers whose addresses are kept: a few hundred bytes each.
const HOSTS_MAX: usize = 100_000;
/// The longest that a registry's delegation or keys are believed without asking again.
const ZONE_LIFE_MAX: Duration = Duration::from_secs(3_600);

/// How runs that share behave.
struct Manners {
    /// The longest that a nameserver's addresses are believed.
    host_life_max: Duration,
    /// How long a nameserver without addresses is not looked up again.
    host_life_without_addresses: Duration,
    /// Timeouts in a row after which a server is given less time; any answer makes up for it.
    silent_after: u8,
    /// Servers that are asked at once when one good answer is enough.
    at_once: usize,
    /// A pace of their own, beside that of the engine.
    pace: Option<Pace>,
}

impl Manners {
    /// Nobody waits, and every second question to a registry would be for nothing. A hoster that moves is noticed within
    /// minutes.
    fn of_watch() -> Self {
        Self {
            host_life_max: Duration::from_secs(600),
            host_life_without_addresses: Duration::from_secs(60),
            silent_after: 3,
            at_once: 1,
            pace: Some(Pace::of_watch()),
        }
    }

    /// Somebody waits: whoever has just given a nameserver its address, or another one, is not told of the past for long.
    fn of_awaited() -> Self {
        Self {
            host_life_max: Duration::from_secs(60),
            host_life_without_addresses: Duration::ZERO,
            silent_after: SILENT_AFTER,
            at_once: FEW,
            pace: None,
        }
    }
}

/// What many runs know from each other.
pub struct Commons {
    cuts: Shelf<Name, Arc<Cut>>,
    keys: Shelf<Name, ZoneState>,
    hosts: Shelf<Name, Arc<Vec<IpAddr>>>,
    /// Nameservers whose names are aliases, and who says so; nothing for those that are none.
    aliases: Shelf<Name, Option<Arc<Evidence>>>,
    flights: Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>,
    habits: Habits,
    manners: Manners,
}

impl Commons {
    /// Of looks that nobody waits for.
    pub(crate) fn of_watch() -> Self {
        Self::new(Manners::of_watch())
    }

    /// Of looks that somebody waits for.
    pub(crate) fn of_awaited() -> Self {
        Self::new(Manners::of_awaited())
    }

    fn new(manners: Manners) -> Self {
        Self {
            cuts: Shelf::new(ZONES_MAX),
            keys: Shelf::new(ZONES_MAX),
            hosts: Shelf::new(HOSTS_MAX),
            aliases: Shelf::new(HOSTS_MAX),
            flights: Mutex::default(),
            habits: Habits::new(manners.silent_after),
            manners,
        }
    }

    pub(super) fn habits(&self) -> &Habits {
        &self.habits
    }

    pub(super) fn pace(&self) -> Option<&Pace> {
        self.manners.pace.as_ref()
    }

    pub(super) fn at_once(&self) -> usize {
        self.manners.at_once
    }

    /// Whether what is known of a zone is shared: the root's and the registries' zones are everybody's.
    pub(crate) fn shares(zone: &Name) -> bool {
        zone.is_root() || is_registry_suffix(&show_name(zone))
    }

    pub(super) fn cut(&self, zone: &Name) -> Option<Arc<Cut>> {
        self.cuts.get(zone)
    }

    pub(super) fn keep_cut(&self, cut: &Cut) {
        if Self::shares(&cut.zone) {
            let life = cut.ns_ttl.map_or(ZONE_LIFE_MAX, |ttl| Duration::from_secs(ttl.into()));
            self.cuts.put(cut.zone.clone(), Arc::new(cut.clone()), life.min(ZONE_LIFE_MAX));
        }
    }

    /// What is known of a registry's keys.
    pub(crate) fn keys(&self, zone: &Name) -> Option<ZoneState> {
        self.keys.get(zone)
    }

    /// Keeps what is certain about a registry's keys; what is broken is looked at again.
    pub(crate) fn keep_keys(&self, zone: &Name, state: &ZoneState, ttl: Duration) {
        if Self::shares(zone) && matches!(state, ZoneState::Secure(_) | ZoneState::Insecure(_)) {
            self.keys.put(zone.clone(), state.clone(), ttl.min(ZONE_LIFE_MAX));
        }
    }

    pub(super) fn addresses(&self, host: &Name) -> Option<Arc<Vec<IpAddr>>> {
        self.hosts.get(host)
    }

    pub(super) fn keep_addresses(&self, host: &Name, addresses: &[IpAddr], ttl: u32) {
        let life = match addresses.is_empty() {
            true => self.manners.host_life_without_addresses,
            false => Duration::from_secs(ttl.into()).min(self.manners.host_life_max),
        };
        self.hosts.put(host.clone(), Arc::new(addresses.to_vec()), life);
    }

    /// Whether a host's name is an alias, where that is known.
    pub(super) fn alias(&self, host: &Name) -> Option<Option<Arc<Evidence>>> {
        self.aliases.get(host)
    }

    pub(super) fn keep_alias(&self, host: &Name, alias: Option<Arc<Evidence>>) {
        self.aliases.put(host.clone(), alias, self.manners.host_life_max);
    }

    /// One at a time for a name: whoever comes second finds what the first has learnt. Callers hold at most one such turn, or
    /// take those of zones further up only, so that nobody waits for himself.
    pub(crate) async fn turn(&self, name: &Name) -> Turn<'_> {
        let lock = self.flights().entry(name.clone()).or_default().clone();
        Turn { commons: self, name: name.clone(), guard: Some(lock.lock_owned().await) }
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Name, Arc<tokio::sync::Mutex<()>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn; it ends when this is dropped.
pub(crate) struct Turn<'a> {
    commons: &'a Commons,
    name: Name,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut flights = self.commons.flights();
        // The map's own is the last: nobody waits.
        if flights.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            flights.remove(&self.name);
        }
    }
}

/// Things that are kept for a while, up to a number.
struct Shelf<K, V> {
    things: Mutex<HashMap<K, (Instant, V)>>,
    max: usize,
}

impl<K: Eq + Hash, V: Clone> Shelf<K, V> {
    fn new(max: usize) -> Self {
        Self { things: Mutex::default(), max }
    }

    fn things(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        let things = self.things();
        let (until, value) = things.get(key)?;
        (*until > Instant::now()).then(|| value.clone())
    }

    /// What does not fit is not kept: it costs questions, never memory.
    fn put(&self, key: K, value: V, life: Duration) {
        let now = Instant::now();
        let mut things = self.things();
        if things.len() >= self.max {
            things.retain(|_, (until, _)| *until > now);
        }
        if things.len() < self.max || things.contains_key(&key) {
            things.insert(key, (now + life, value));
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

    #[test]
    fn only_registries_zones_are_shared() {
        for zone in [".", "com", "co.uk", "io"] {
            assert!(Commons::shares(&name(zone)), "{zone}");
        }
        for zone in ["good.com", "www.good.com", "github.io", "example.co.uk"] {
            assert!(!Commons::shares(&name(zone)), "{zone}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shared_ends_with_its_time_to_live() {
        let commons = Commons::of_watch();
        let address = "192.0.2.1".parse().expect("an address");
        commons.keep_addresses(&name("ns.example"), &[address], 30);
        assert_eq!(commons.addresses(&name("ns.example")).as_deref(), Some(&vec![address]));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(commons.addresses(&name("ns.example")), None);
        commons.keep_addresses(&name("ns.example"), &[address], 86_400);
        tokio::time::advance(commons.manners.host_life_max).await;
        assert_eq!(commons.addresses(&name("ns.example")), None, "a long time to live is cut");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_not_told_of_a_nameserver_s_past_for_long() {
        let commons = Commons::of_awaited();
        let address = "192.0.2.1".parse().expect("an address");
        commons.keep_addresses(&name("ns.example"), &[], 0);
        assert_eq!(commons.addresses(&name("ns.example")), None, "it may have one the next moment");
        commons.keep_addresses(&name("ns.example"), &[address], 86_400);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(commons.addresses(&name("ns.example")), None);
    }

    #[test]
    fn a_full_shelf_takes_no_more() {
        let shelf = Shelf::new(2);
        for number in 0..5 {
            shelf.put(number, number, Duration::from_secs(60));
        }
        assert_eq!(shelf.things().len(), 2);
        shelf.put(0, 7, Duration::from_secs(60));
        assert_eq!(shelf.get(&0), Some(7));
    }

    #[tokio::test]
    async fn turns_leave_nothing_behind() {
        let commons = Commons::of_watch();
        let turn = commons.turn(&name("com")).await;
        assert!(tokio::time::timeout(Duration::from_millis(1), commons.turn(&name("com"))).await.is_err());
        drop(turn);
        drop(commons.turn(&name("com")).await);
        assert!(commons.flights().is_empty());
    }
}
