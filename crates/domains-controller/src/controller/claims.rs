//! Several objects that claim one name, in namespaces and projects that cannot see each other: who brought the latest proof has
//! it, and everybody is told. Who other tenants are is nobody's business and stands in no message; that it is an object of
//! one's own tenant does.

use std::collections::HashMap;

use bailiwick_domains::history::{Change, Field};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::registration::Concern;
use bailiwick_domains::verification::claims::{Claim, Rank, arbitrate, rank};
use bailiwick_domains::verification::standing::{Lapse, Standing};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::Context;
use crate::Error;
use crate::definition::domains;
use crate::index::Key;
use crate::judge::Notice;
use crate::status::DomainStatus;

/// Whose object has the name instead.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rival {
    Stranger,
    /// One of the same tenant, as it may be called to whoever reads this object.
    Sibling(String),
}

impl Rival {
    fn of(me: &Key, other: &Key) -> Self {
        match (me.tenant() == other.tenant(), me.namespace == other.namespace) {
            (false, _) => Self::Stranger,
            (true, true) => Self::Sibling(format!("the Domain {} of the same namespace", other.name)),
            // Whoever reads one namespace of a project need not see the others.
            (true, false) => Self::Sibling(format!("another Domain of {}", me.tenant())),
        }
    }

    fn words(&self) -> &str {
        match self {
            Self::Stranger => "another tenant",
            Self::Sibling(words) => words,
        }
    }

    fn in_conflict(&self) -> String {
        format!("{} has proved this domain; a fresh proof takes it over", self.words())
    }

    fn handed_over(&self, name: &DomainName) -> String {
        let held = match self {
            Self::Stranger => "is theirs now",
            Self::Sibling(_) => "is held by that now",
        };
        format!("{name} was proved by {} and {held}; a fresh proof takes it back", self.words())
    }
}

/// What settling came to.
#[derive(Default)]
pub(super) struct Settled {
    pub notices: Vec<Notice>,
    /// Others whose name it was: to be written once this object is.
    pub losers: Vec<Loser>,
}

/// One whose name went to another.
pub(super) struct Loser {
    pub key: Key,
    pub object: DynamicObject,
    pub status: DomainStatus,
    pub notice: Notice,
}

/// Settles between this object's claim and all others to the same name. `before` is the status as it is stored.
pub(super) async fn settle(
    context: &Context,
    key: &Key,
    object: &DynamicObject,
    name: &DomainName,
    before: &DomainStatus,
    status: &mut DomainStatus,
    now: Timestamp,
) -> Result<Settled, Error> {
    let Some(verification) = &status.verification else { return Ok(Settled::default()) };
    let me = object.uid().unwrap_or_default();
    let mut claims = vec![Claim { claimant: me.clone(), standing: verification.standing.clone() }];
    // Only those that have proved it can stand in the way; they are read anew, as they may have changed or gone.
    let holders = context.index().other_holders(name, key);
    let mut others: Vec<(Key, DynamicObject, DomainStatus)> = Vec::new();
    let mut rivals: HashMap<String, Rival> = HashMap::new();
    for holder in holders {
        let Some(other) = context.read(&domains(), &holder).await? else {
            context.index().forget(&holder);
            continue;
        };
        let theirs: DomainStatus = serde_json::from_value(other.data["status"].clone()).unwrap_or_default();
        if context.believe(&holder, &other, &theirs).is_err() {
            // Somebody wrote a proof there that is none: it stands in nobody's way, and they are told when they are looked at.
            context.doubted(&holder, name);
            continue;
        }
        if let Some(verification) = theirs.verification.as_ref().filter(|theirs| theirs.challenge.domain == *name) {
            let uid = other.uid().unwrap_or_default();
            rivals.insert(uid.clone(), Rival::of(key, &holder));
            claims.push(Claim { claimant: uid, standing: verification.standing.clone() });
            others.push((holder, other, theirs));
        }
    }
    let mut settled = Settled::default();
    for hand_over in arbitrate(&mut claims, now) {
        let lapsed = claims.iter().find(|claim| claim.claimant == hand_over.from).map(|claim| claim.standing.clone());
        let Some(lapsed) = lapsed else { continue };
        let lost = |rival: &Rival| Notice {
            concern: Concern::Critical,
            reason: "DomainHandedOver".to_owned(),
            note: rival.handed_over(name),
        };
        if hand_over.from == me {
            let rival = rivals.get(&hand_over.to).cloned().unwrap_or(Rival::Stranger);
            let lost = lost(&rival);
            hand_over_to(status, lapsed, &rival, &lost.note, now);
            settled.notices.push(lost);
        } else if let Some(index) =
            others.iter().position(|(_, other, _)| other.uid().unwrap_or_default() == hand_over.from)
        {
            let (loser, object, mut theirs) = others.swap_remove(index);
            // The name may have gone to a third one, which is looked at too and tells better.
            let winner = if hand_over.to == me { Rival::of(&loser, key) } else { Rival::Stranger };
            let lost = lost(&winner);
            hand_over_to(&mut theirs, lapsed, &winner, &lost.note, now);
            let rival = Rival::of(key, &loser);
            settled.losers.push(Loser { key: loser, object, status: theirs, notice: lost });
            settled.notices.extend(taken_over(status, name, &rival, now));
        }
    }
    let holder = claims.iter().find(|claim| claim.standing.holds()).and_then(|claim| rivals.get(&claim.claimant));
    let rival = holder.filter(|_| !status.holds() && rank(&claims, &me) == Rank::Conflict);
    if let Some(rival) = rival {
        let why = status.condition("Verified").map(|condition| condition.message.clone()).unwrap_or_default();
        // Whoever had it and lost it is told that for as long as it is so.
        let (reason, told) = match is_handed_over(status) {
            true => (HANDED_OVER, rival.handed_over(name)),
            false => (REASON, rival.in_conflict()),
        };
        if !why.starts_with(&told) {
            status.set_condition("Verified", "False", reason, format!("{told}. {why}"), now);
        }
    }
    settled.notices.extend(conflict(before, status, name, rival, now));
    Ok(settled)
}

/// The reason of the condition while another tenant has the name.
const REASON: &str = "Conflict";
/// The same for one who had it before.
const HANDED_OVER: &str = "HandedOver";
/// How they begin in the history; whose it is follows.
const IN_CONFLICT: &str = "in conflict";
const TAKEN_OVER: &str = "taken over from";

fn is_handed_over(status: &DomainStatus) -> bool {
    let standing = status.verification.as_ref().map(|verification| &verification.standing);
    matches!(standing, Some(Standing::Lapsed { why: Lapse::HandedOver, .. }))
}

fn change(old: String, new: String, concern: Concern, now: Timestamp) -> Change {
    Change::new(now, Field::Ownership, old, new, concern)
}

/// Tells, once for each proof, that the name was somebody else's before.
fn taken_over(status: &mut DomainStatus, name: &DomainName, rival: &Rival, now: Timestamp) -> Option<Notice> {
    let since = match status.verification.as_ref().map(|verification| &verification.standing) {
        Some(Standing::Proved { since, .. } | Standing::Missing { since, .. }) => *since,
        _ => return None,
    };
    // It was told when their status could not be written.
    if status.history.iter().any(|change| change.new.starts_with(TAKEN_OVER) && change.at >= since) {
        return None;
    }
    let (old, new) = (format!("proved by {}", rival.words()), format!("{TAKEN_OVER} {}", rival.words()));
    status.remember([change(old, new, Concern::Notice, now)]);
    let note = format!("{name} was taken over by a fresh proof; its former holder was told");
    Some(Notice { concern: Concern::Notice, reason: "DomainTakenOver".to_owned(), note })
}

/// Writes down when a conflict begins and ends; whoever lost the name was told of that already.
fn conflict(
    before: &DomainStatus,
    status: &mut DomainStatus,
    name: &DomainName,
    rival: Option<&Rival>,
    now: Timestamp,
) -> Option<Notice> {
    let was_conflict = before.condition("Verified").is_some_and(|condition| condition.reason == REASON);
    let standing = status.verification.as_ref().map(|verification| verification.standing.clone())?;
    let handed_over = is_handed_over(status);
    match (was_conflict, rival) {
        (false, Some(rival)) if !handed_over => {
            let new = format!("{IN_CONFLICT}: {} has proved it", rival.words());
            status.remember([change(standing.words(), new, Concern::Warning, now)]);
            let note = format!("{name}: {}", rival.in_conflict());
            Some(Notice { concern: Concern::Warning, reason: "DomainConflict".to_owned(), note })
        }
        (true, None) if !standing.holds() && !handed_over => {
            let began = status.history.iter().find(|change| change.new.starts_with(IN_CONFLICT));
            let old = began.map_or_else(|| IN_CONFLICT.to_owned(), |began| began.new.clone());
            status.remember([change(old, standing.words(), Concern::None, now)]);
            None
        }
        _ => None,
    }
}

fn hand_over_to(status: &mut DomainStatus, lapsed: Standing, to: &Rival, note: &str, now: Timestamp) {
    if let Some(verification) = &mut status.verification {
        let old = verification.standing.words();
        verification.standing = lapsed;
        let new = format!("handed over to {}", to.words());
        status.remember([change(old, new, Concern::Critical, now)]);
    }
    status.set_condition("Verified", "False", HANDED_OVER, note.to_owned(), now);
}

#[cfg(test)]
mod tests {
    use bailiwick_controllers::plane::Plane;

    use super::*;

    fn key(plane: &Plane, namespace: &str, name: &str) -> Key {
        Key { plane: plane.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn told(me: &Key, other: &Key) -> String {
        Rival::of(me, other).in_conflict()
    }

    #[test]
    fn an_object_of_the_same_tenant_is_told_as_one_and_a_stranger_is_not_named() {
        let (shop, other) = (Plane::project("shop"), Plane::project("other"));
        let me = key(&shop, "default", "mine");
        let takes_over = "has proved this domain; a fresh proof takes it over";
        assert_eq!(
            told(&me, &key(&shop, "default", "twin")),
            format!("the Domain twin of the same namespace {takes_over}")
        );
        assert_eq!(
            told(&me, &key(&shop, "staging", "twin")),
            format!("another Domain of the project shop {takes_over}")
        );
        assert_eq!(told(&me, &key(&other, "default", "mine")), format!("another tenant {takes_over}"));
        let (root, elsewhere) = (key(&Plane::ROOT, "a", "d"), key(&Plane::ROOT, "b", "d"));
        assert_eq!(
            told(&root, &elsewhere),
            format!("another tenant {takes_over}"),
            "a namespace of the root is a tenant"
        );
        let name = DomainName::parse("example.com").expect("a name");
        assert_eq!(
            Rival::of(&me, &key(&shop, "default", "twin")).handed_over(&name),
            "example.com was proved by the Domain twin of the same namespace and is held by that now; a fresh proof takes it back"
        );
    }
}
