//! What is remembered of all domains in all control planes: who claims which name, how many a tenant has, and when each is
//! looked at next. A few words for each; the objects themselves stay with the server.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use bailiwick_controllers::plane::Plane;
use bailiwick_domains::name::DomainName;
use jiff::Timestamp;

use crate::controller::timing::Next;

/// Where an object is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub plane: Plane,
    pub namespace: String,
    pub name: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}/{}", self.plane, self.namespace, self.name)
    }
}

/// Whose quota is used: a project has one for all its namespaces, else more namespaces would be more quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tenant {
    Namespace(String),
    Project(String),
}

impl Key {
    pub fn tenant(&self) -> Tenant {
        match self.plane.project_name() {
            Some(project) => Tenant::Project(project.to_owned()),
            None => Tenant::Namespace(self.namespace.clone()),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "the namespace {name}"),
            Self::Project(name) => write!(f, "the project {name}"),
        }
    }
}

/// What of an object says that it must be looked at anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub uid: String,
    pub generation: Option<i64>,
    pub rescan: Option<String>,
    pub deleting: bool,
}

/// Which queue a domain is in, so that those who wait for a proof and the hourly looks do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Watched,
    /// Its proof is looked for every few seconds or minutes.
    Awaited,
}

/// For how long the longest overdue domain of each lane has been due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub watched: Duration,
    pub awaited: Duration,
}

/// What is remembered of one domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub version: Version,
    /// The name that is claimed, once the object was read.
    pub claims: Option<DomainName>,
    /// Whether the claim is proved.
    pub holds: bool,
    /// When the latest seal was made that was seen or written.
    pub sealed: Option<Timestamp>,
    pub next: Option<Next>,
}

/// Objects of one tenant, the oldest first.
#[derive(Default)]
pub(crate) struct Census {
    members: HashMap<Tenant, BTreeSet<(Timestamp, Key)>>,
    created: HashMap<Key, Timestamp>,
}

impl Census {
    pub fn add(&mut self, key: &Key, created: Timestamp) {
        self.created.insert(key.clone(), created);
        self.members.entry(key.tenant()).or_default().insert((created, key.clone()));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.created.len()
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(created) = self.created.remove(key) else { return };
        let tenant = key.tenant();
        if let Some(members) = self.members.get_mut(&tenant) {
            members.remove(&(created, key.clone()));
            if members.is_empty() {
                self.members.remove(&tenant);
            }
        }
    }

    /// Whether this one is known.
    pub fn has(&self, key: &Key) -> bool {
        self.created.contains_key(key)
    }

    /// Whether its tenant has any.
    pub fn has_any_of(&self, tenant: &Tenant) -> bool {
        self.members.contains_key(tenant)
    }

    /// Whether `most` older objects of its tenant stand before this one.
    pub fn is_beyond(&self, key: &Key, most: usize) -> bool {
        let Some(members) = self.members.get(&key.tenant()).filter(|members| members.len() > most) else {
            return false;
        };
        !members.iter().take(most).any(|(_, member)| member == key)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    known: HashMap<Key, Known>,
    by_name: HashMap<DomainName, BTreeSet<Key>>,
    pub domains: Census,
    pub checks: Census,
    /// Gateways of the Gateway API, wherever there are some.
    pub gateways: BTreeSet<Key>,
}

impl Index {
    /// Takes note of an object's version; whether it must be looked at.
    pub fn saw(&mut self, key: &Key, version: Version, created: Timestamp) -> bool {
        match self.known.get_mut(key) {
            Some(known) if known.version == version => false,
            Some(known) if known.version.uid == version.uid => {
                known.version = version;
                true
            }
            _ => {
                self.forget(key);
                self.known.insert(key.clone(), Known { version, ..Known::default() });
                self.domains.add(key, created);
                true
            }
        }
    }

    pub fn get(&self, key: &Key) -> Option<&Known> {
        self.known.get(key)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// How many are past their time: what the queue has not come to.
    pub fn overdue(&self, now: Timestamp) -> usize {
        self.known.values().filter(|known| known.next.as_ref().is_none_or(|next| next.is_overdue(now))).count()
    }

    /// How long the queues are, in time.
    pub fn oldest(&self, now: Timestamp) -> Oldest {
        let mut oldest = Oldest::default();
        for next in self.known.values().filter_map(|known| known.next.as_ref()) {
            let lane = if next.is_awaited() { &mut oldest.awaited } else { &mut oldest.watched };
            *lane = next.age(now).max(*lane);
        }
        oldest
    }

    /// Where a domain belongs.
    pub fn lane(&self, key: &Key) -> Lane {
        let next = self.known.get(key).and_then(|known| known.next.as_ref());
        if next.is_some_and(Next::is_awaited) { Lane::Awaited } else { Lane::Watched }
    }

    /// What an object claims and whether that is proved. Says whether the claim is a new one.
    pub fn claim(&mut self, key: &Key, name: &DomainName, holds: bool) -> bool {
        let Some(known) = self.known.get_mut(key) else { return false };
        known.holds = holds;
        if known.claims.as_ref() == Some(name) {
            return false;
        }
        let before = known.claims.replace(name.clone());
        if let Some(before) = before {
            self.unclaim(&before, key);
        }
        self.by_name.entry(name.clone()).or_default().insert(key.clone());
        true
    }

    /// The Gateways in the namespace where `beside` is.
    pub fn gateways_beside(&self, beside: &Key) -> Vec<Key> {
        let first = Key { name: String::new(), ..beside.clone() };
        let after = self.gateways.range(first..);
        after.take_while(|key| key.plane == beside.plane && key.namespace == beside.namespace).cloned().collect()
    }

    /// Takes note of a seal that was seen or written.
    pub fn sealed(&mut self, key: &Key, at: Timestamp) {
        if let Some(known) = self.known.get_mut(key) {
            known.sealed = known.sealed.max(Some(at));
        }
    }

    /// Has a domain's proof looked for at once.
    pub fn look_now(&mut self, key: &Key) {
        if let Some(next) = self.known.get_mut(key).and_then(|known| known.next.as_mut()) {
            next.look_for_proof_now();
        }
    }

    /// When to look next.
    pub fn plan(&mut self, key: &Key, next: Next) {
        if let Some(known) = self.known.get_mut(key) {
            known.next = Some(next);
        }
    }

    /// Others that have proved the name, in any control plane.
    pub fn other_holders(&self, name: &DomainName, me: &Key) -> Vec<Key> {
        let claimants = self.by_name.get(name).into_iter().flatten().filter(|key| *key != me);
        claimants.filter(|key| self.known.get(*key).is_some_and(|known| known.holds)).cloned().collect()
    }

    /// Everybody else who claims the name, to be told when it becomes free.
    pub fn other_claimants(&self, name: &DomainName, me: &Key) -> Vec<Key> {
        self.by_name.get(name).into_iter().flatten().filter(|key| *key != me).cloned().collect()
    }

    /// Domains that claim the name or one above it, in the namespace where `beside` is.
    pub fn claims_above(&self, name: &DomainName, beside: &Key) -> Vec<Key> {
        let above = std::iter::successors(Some(name.clone()), DomainName::parent);
        let claims = above.filter_map(|name| self.by_name.get(&name)).flatten();
        claims.filter(|key| key.plane == beside.plane && key.namespace == beside.namespace).cloned().collect()
    }

    pub fn forget(&mut self, key: &Key) {
        if let Some(known) = self.known.remove(key)
            && let Some(name) = known.claims
        {
            self.unclaim(&name, key);
        }
        self.domains.remove(key);
    }

    fn unclaim(&mut self, name: &DomainName, key: &Key) {
        if let Some(claimants) = self.by_name.get_mut(name) {
            claimants.remove(key);
            if claimants.is_empty() {
                self.by_name.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_domains::verification::standing::Standing;
    use bailiwick_domains::verification::{Challenge, Method, Scope};

    use super::*;
    use crate::status::{DomainStatus, VerificationStatus};

    fn key(plane: &Plane, namespace: &str, name: &str) -> Key {
        Key { plane: plane.clone(), namespace: namespace.into(), name: name.into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn version(uid: &str) -> Version {
        Version { uid: uid.into(), ..Version::default() }
    }

    #[test]
    fn the_youngest_are_beyond_the_quota_and_move_up_when_others_go() {
        let mut census = Census::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| key(&Plane::ROOT, "shop", name));
        for (index, key) in [&c, &b, &a].into_iter().enumerate() {
            census.add(key, at(i64::try_from(index).expect("small")));
        }
        assert!(census.is_beyond(&a, 2) && !census.is_beyond(&b, 2) && !census.is_beyond(&c, 2));
        census.remove(&c);
        assert!(!census.is_beyond(&a, 2));
    }

    #[test]
    fn a_project_has_one_quota_for_all_its_namespaces_and_the_roots_namespaces_one_each() {
        let shop = Plane::project("shop");
        assert_eq!(key(&shop, "x", "a").tenant(), key(&shop, "y", "b").tenant());
        assert_ne!(key(&Plane::ROOT, "x", "a").tenant(), key(&Plane::ROOT, "y", "b").tenant());
    }

    #[test]
    fn a_names_domains_are_those_of_its_own_namespace() {
        let mut index = Index::default();
        let name = |text: &str| DomainName::parse(text).expect("a name");
        let claims =
            [("web", "q7", "q7.io"), ("web", "shop", "shop.q7.io"), ("web", "other", "q8.io"), ("x", "q7", "q7.io")];
        for (namespace, object, domain) in claims {
            let key = key(&Plane::ROOT, namespace, object);
            index.saw(&key, version(object), at(0));
            index.claim(&key, &name(domain), false);
        }
        let check = key(&Plane::ROOT, "web", "q7");
        let found: Vec<String> =
            index.claims_above(&name("www.shop.q7.io"), &check).into_iter().map(|key| key.name).collect();
        assert_eq!(found, ["shop", "q7"]);
    }

    #[test]
    fn gateways_are_found_by_their_namespace() {
        let mut index = Index::default();
        let shop = Plane::project("shop");
        let all = [(&Plane::ROOT, "a", "x"), (&Plane::ROOT, "b", "y"), (&Plane::ROOT, "b", "z"), (&shop, "b", "w")];
        index.gateways.extend(all.map(|(plane, namespace, name)| key(plane, namespace, name)));
        let beside = |plane: &Plane, namespace: &str| -> Vec<String> {
            index.gateways_beside(&key(plane, namespace, "m")).into_iter().map(|key| key.name).collect()
        };
        assert_eq!(beside(&Plane::ROOT, "b"), ["y", "z"]);
        assert_eq!(beside(&shop, "b"), ["w"]);
        assert!(beside(&shop, "a").is_empty());
    }

    #[test]
    fn claims_to_one_name_meet_across_control_planes() {
        let mut index = Index::default();
        let name = DomainName::parse("example.com").expect("a name");
        let (one, two) = (key(&Plane::ROOT, "a", "d"), key(&Plane::project("p"), "a", "d"));
        for (key, uid) in [(&one, "1"), (&two, "2")] {
            assert!(index.saw(key, version(uid), at(0)));
            assert!(!index.saw(key, version(uid), at(0)), "the same again is nothing new");
        }
        index.claim(&one, &name, true);
        index.claim(&two, &name, false);
        assert_eq!(index.other_holders(&name, &two), std::slice::from_ref(&one));
        assert_eq!(index.other_claimants(&name, &one), std::slice::from_ref(&two));
        index.forget(&one);
        assert_eq!(index.other_holders(&name, &two), []);
    }

    #[test]
    fn a_domain_is_in_the_lane_of_those_that_are_awaited_until_its_token_is_a_day_old_or_it_is_proved() {
        let mut index = Index::default();
        let name = DomainName::parse("example.com").expect("a name");
        let one = key(&Plane::ROOT, "a", "d");
        index.saw(&one, version("1"), at(0));
        assert_eq!(index.lane(&one), Lane::Watched);
        let challenge = Challenge::new(&name, Scope::Domain, "bailiwick", at(0), &mut |_| ()).expect("a challenge");
        let claim = VerificationStatus::new(challenge);
        let mut lane_after = |claim: &VerificationStatus, second: i64| {
            let mut next = Next::first(&name, &DomainStatus::default(), at(second));
            next.proof_looked(Some(claim), at(second));
            index.plan(&one, next);
            index.lane(&one)
        };
        assert_eq!(lane_after(&claim, 1), Lane::Awaited);
        assert_eq!(lane_after(&claim, 86_400), Lane::Watched);
        let standing = Standing::Proved { method: Method::DnsTxt, since: at(1), last_seen: at(1) };
        assert_eq!(lane_after(&VerificationStatus { standing, ..claim }, 2), Lane::Watched);
    }

    #[test]
    fn an_object_that_was_made_anew_starts_anew() {
        let mut index = Index::default();
        let name = DomainName::parse("example.com").expect("a name");
        let one = key(&Plane::ROOT, "a", "d");
        index.saw(&one, version("1"), at(0));
        index.claim(&one, &name, true);
        assert!(index.saw(&one, version("2"), at(9)));
        assert!(index.get(&one).is_some_and(|known| known.claims.is_none() && !known.holds));
    }
}
