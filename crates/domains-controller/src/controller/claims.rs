//! Several namespaces that claim one name: who brought the latest proof has it, and everybody is told.

use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::registration::Concern;
use bailiwick_domains::verification::claims::{Claim, Rank, arbitrate, rank};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::Context;
use crate::Error;
use crate::events::tell;
use crate::judge::Notice;
use crate::status::DomainStatus;

/// Settles between this object's claim and all others to the same name. Others that lose are written here.
pub(super) async fn settle(
    context: &Context,
    object: &DynamicObject,
    name: &DomainName,
    status: &mut DomainStatus,
    now: Timestamp,
) -> Result<Vec<Notice>, Error> {
    let Some(verification) = &status.verification else { return Ok(Vec::new()) };
    let me = object.uid().unwrap_or_default();
    let mut claims = vec![Claim { claimant: me.clone(), standing: verification.standing.clone() }];
    let mut others = Vec::new();
    for other in context.domains.state() {
        if other.uid().unwrap_or_default() == me || !claims_same(&other, name) {
            continue;
        }
        let theirs: DomainStatus = serde_json::from_value(other.data["status"].clone()).unwrap_or_default();
        if let Some(verification) = &theirs.verification {
            claims.push(Claim { claimant: other.uid().unwrap_or_default(), standing: verification.standing.clone() });
        }
        others.push((other, theirs));
    }
    let mut notices = Vec::new();
    for hand_over in arbitrate(&mut claims, now) {
        let lapsed = claims.iter().find(|claim| claim.claimant == hand_over.from).map(|claim| claim.standing.clone());
        let Some(lapsed) = lapsed else { continue };
        let note = format!("{name} was proved by another tenant and is theirs now; a fresh proof takes it back");
        let lost = Notice { concern: Concern::Critical, reason: "DomainHandedOver".to_owned(), note: note.clone() };
        if hand_over.from == me {
            hand_over_to(status, lapsed, note, now);
            notices.push(lost);
        } else if let Some((other, theirs)) =
            others.iter_mut().find(|(other, _)| other.uid().unwrap_or_default() == hand_over.from)
        {
            hand_over_to(theirs, lapsed, note, now);
            context.replace_status(other, theirs).await?;
            tell(&context.client, other, &[lost]).await;
            notices.push(Notice {
                concern: Concern::Notice,
                reason: "DomainTakenOver".to_owned(),
                note: format!("{name} was taken over by a fresh proof; its former holder was told"),
            });
        }
    }
    let holds = status.verification.as_ref().is_some_and(|verification| verification.standing.holds());
    if !holds && rank(&claims, &me) == Rank::Conflict {
        let why = status.condition("Verified").map(|condition| condition.message.clone()).unwrap_or_default();
        let message = format!("another tenant has proved this domain; a fresh proof takes it over. {why}");
        let before = "another tenant has proved this domain";
        if !why.starts_with(before) {
            status.set_condition("Verified", "False", "Conflict", message, now);
        }
    }
    Ok(notices)
}

fn claims_same(other: &DynamicObject, name: &DomainName) -> bool {
    let theirs = other.data["spec"]["name"].as_str().and_then(|text| Subject::parse(text).ok());
    theirs.is_some_and(|subject| subject.name == *name)
}

fn hand_over_to(
    status: &mut DomainStatus,
    lapsed: bailiwick_domains::verification::standing::Standing,
    note: String,
    now: Timestamp,
) {
    if let Some(verification) = &mut status.verification {
        verification.standing = lapsed;
    }
    status.set_condition("Verified", "False", "HandedOver", note, now);
}
