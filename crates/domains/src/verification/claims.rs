//! Several tenants that claim one name. A claim without proof never stands in anybody's way; a fresh proof takes the name
//! over, since whoever controls the zone today is right; and every hand-over is written down.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::standing::{Lapse, Standing};

/// One tenant's claim to a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Who claims: an opaque id of the tenant's object.
    pub claimant: String,
    pub standing: Standing,
}

/// Where a claimant stands among the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rank {
    /// The name is this claimant's.
    Holder,
    /// Nobody has proved it; this one may.
    Open,
    /// Somebody else has proved it; a fresh proof would take it over. Who that is stays theirs.
    Conflict,
}

/// A name that went from one claimant to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    pub from: String,
    pub to: String,
    pub at: Timestamp,
}

/// When a proof was brought, for those that hold.
fn proved_since(standing: &Standing) -> Option<Timestamp> {
    match standing {
        Standing::Proved { since, .. } | Standing::Missing { since, .. } => Some(*since),
        Standing::Unproved { .. } | Standing::Lapsed { .. } => None,
    }
}

/// Decides between claims: the latest proof that can be seen holds the name, others that held it lapse. The claims are
/// changed in place, the hand-overs returned.
pub fn arbitrate(claims: &mut [Claim], now: Timestamp) -> Vec<HandOver> {
    // A proof that is seen today goes before one that is missing, then the later one.
    let holder = claims
        .iter()
        .filter(|claim| claim.standing.holds())
        .max_by_key(|claim| {
            (matches!(claim.standing, Standing::Proved { .. }), proved_since(&claim.standing), claim.claimant.clone())
        })
        .map(|claim| claim.claimant.clone());
    let Some(holder) = holder else { return Vec::new() };
    let mut given = Vec::new();
    for claim in claims.iter_mut().filter(|claim| claim.claimant != holder && claim.standing.holds()) {
        claim.standing = Standing::Lapsed { at: now, why: Lapse::HandedOver };
        given.push(HandOver { from: claim.claimant.clone(), to: holder.clone(), at: now });
    }
    given
}

/// Where `claimant` stands.
pub fn rank(claims: &[Claim], claimant: &str) -> Rank {
    match claims.iter().find(|claim| claim.standing.holds()) {
        Some(holder) if holder.claimant == claimant => Rank::Holder,
        Some(_) => Rank::Conflict,
        None => Rank::Open,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verification::Method;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn proved(claimant: &str, second: i64) -> Claim {
        let standing = Standing::Proved { method: Method::DnsTxt, since: at(second), last_seen: at(second) };
        Claim { claimant: claimant.into(), standing }
    }

    fn unproved(claimant: &str) -> Claim {
        Claim { claimant: claimant.into(), standing: Standing::Unproved { since: at(0) } }
    }

    #[test]
    fn a_squatter_without_proof_blocks_nobody() {
        let mut claims = vec![unproved("squatter"), proved("owner", 5)];
        assert_eq!(arbitrate(&mut claims, at(6)), []);
        assert_eq!(rank(&claims, "owner"), Rank::Holder);
        assert_eq!(rank(&claims, "squatter"), Rank::Conflict);
        assert_eq!(rank(&[unproved("a"), unproved("b")], "a"), Rank::Open);
    }

    #[test]
    fn the_fresh_proof_wins_and_the_loser_is_told() {
        let mut claims = vec![proved("former", 1), proved("rightful", 9)];
        let given = arbitrate(&mut claims, at(10));
        assert_eq!(given, [HandOver { from: "former".into(), to: "rightful".into(), at: at(10) }]);
        assert_eq!(claims[0].standing, Standing::Lapsed { at: at(10), why: Lapse::HandedOver });
        assert_eq!(rank(&claims, "rightful"), Rank::Holder);
        // Nothing more happens the next time.
        assert_eq!(arbitrate(&mut claims, at(11)), []);
    }

    proptest! {
        #[test]
        fn there_is_never_more_than_one_holder(proofs in prop::collection::vec(prop::option::of(0_i64..5), 1..8)) {
            let mut claims: Vec<Claim> = proofs
                .iter()
                .enumerate()
                .map(|(number, proof)| proof.map_or_else(|| unproved(&number.to_string()), |second| proved(&number.to_string(), second)))
                .collect();
            arbitrate(&mut claims, at(9));
            let holders = claims.iter().filter(|claim| claim.standing.holds()).count();
            prop_assert_eq!(holders, usize::from(proofs.iter().any(Option::is_some)));
        }
    }
}
