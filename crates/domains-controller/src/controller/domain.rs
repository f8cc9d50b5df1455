//! Looks after one domain.

use std::time::Duration;

use bailiwick_controllers::work_queue::Outcome;
use bailiwick_domains::authority::Survey;
use bailiwick_domains::history::record::WantedRecord;
use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::probe::RemotePlaces;
use bailiwick_domains::registration::{Concern, Registration};
use bailiwick_domains::scan::Scan;
use bailiwick_domains::verification::challenge::system_random;
use bailiwick_domains::verification::decision::Outcome as Proof;
use bailiwick_domains::verification::{Challenge, Scope, Verdict};
use futures::future::join_all;
use jiff::Timestamp;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::timing::{self, Next};
use super::{Context, RESCAN_ANNOTATION, claims};
use crate::Error;
use crate::definition::domains;
use crate::events::{About, announce, enqueue};
use crate::index::Key;
use crate::judge::{Notice, disbelieve, take_scan, take_verdict, worth_writing};
use crate::records::{all_right, questions, take_records};
use crate::seal::Doubt;
use crate::status::{Announcement, DomainSpec, DomainStatus, VerificationSpec, VerificationStatus};

/// Before an event that could not be written is tried again.
pub(super) const ANNOUNCE_AGAIN: Duration = Duration::from_secs(15);

impl Context {
    /// Looks after one domain, and says when to come back.
    pub(super) async fn look_after(&self, key: &Key) -> Result<Outcome, Error> {
        let object = self.read(&domains(), key).await?;
        let Some(object) = object.filter(|object| object.metadata.deletion_timestamp.is_none()) else {
            self.forget(key);
            return Ok(Outcome::Done);
        };
        let unreadable = |source| Error::Object { name: object.name_any(), source };
        let spec: DomainSpec = serde_json::from_value(object.data["spec"].clone()).map_err(unreadable)?;
        // A status that somebody else wrote and that cannot be read is written anew.
        let before: DomainStatus = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let (object, before) = self.believed(key, object, before, &spec).await?;
        // What could not be told the last time comes first.
        let (object, before) = self.announce(key, object, before).await?;
        let now = self.now();
        let mut after = DomainStatus { observed_generation: object.metadata.generation, ..before.clone() };
        let subject = match Subject::parse(&spec.name) {
            Ok(subject) => subject,
            Err(error) => {
                after.set_condition("ValidDomain", "False", "InvalidName", error.to_string(), now);
                self.write(key, object, before, after, &[]).await?;
                return Ok(Outcome::Done);
            }
        };
        let lookalike = subject.lookalike.as_ref().map(ToString::to_string).unwrap_or_default();
        after.set_condition("ValidDomain", "True", "Valid", lookalike, now);
        let is_new = self.index().claim(key, &subject.name, before.holds());
        if let Some((reason, message)) = self.left_alone(key, &subject) {
            after.set_condition("Healthy", "Unknown", reason, message, now);
            self.write(key, object, before, after, &[]).await?;
            return Ok(Outcome::After(timing::HOUR));
        }
        let mut next = self.next_of(key, &subject.registered, &before, now);
        let asked = object.annotations().get(RESCAN_ANNOTATION);
        let rescan = next.take_rescan(asked, now);
        if rescan {
            after.observed_rescan = asked.cloned();
        }
        if before.observed_generation.is_some() && before.observed_generation != object.metadata.generation {
            next.spec_changed(now);
        }
        self.challenge(&mut after, &subject.name, &spec.verification, rescan, now);
        let mut notices = Vec::new();
        if next.registry_again_due(now)
            && let Some(until) = self.toolbox.registrations().later(&subject.registered)
        {
            next.registry_busy(&subject.registered, until, now);
        }
        if next.dns_due(now) || next.registry_again_due(now) {
            let (scan, asked) = self.scan(&subject, &after, next.registration_due(now)).await;
            next.looked(&scan, asked, &subject.registered, timing::Claim::of(after.verification.as_ref(), now));
            notices.extend(take_scan(&mut after, &scan, spec.auto_renewal));
            after.next_check = Some(next.look());
            // A registration that changed hands ends the proof: the old record must not bring it back.
            self.challenge(&mut after, &subject.name, &spec.verification, false, self.now());
            let surveys = self.surveys(&spec.records, &subject.registered).await;
            notices.extend(take_records(&mut after, &spec.records, &surveys, next.records_right, self.now()));
            if all_right(&after, &surveys) {
                next.records_right = Some(now);
            }
        }
        let token = |status: &DomainStatus| status.verification.as_ref().map(|one| one.challenge.token.clone());
        if token(&before) != token(&after) {
            next.look_for_proof_now();
        }
        let mut losers = Vec::new();
        if next.proof_due(now) {
            if let Some(verification) = &after.verification {
                let verdict = self.look_for_proof(verification).await;
                notices.extend(take_verdict(&mut after, &verdict));
            }
            let settled = claims::settle(self, key, &object, &subject.name, &before, &mut after, now).await?;
            notices.extend(settled.notices);
            losers = settled.losers;
            next.proof_looked(after.verification.as_ref(), self.now());
        }
        let told = self.write(key, object, before, after, &notices).await?;
        // Gateways are planned with the token of the claim.
        if is_new {
            self.look_at_gateways_beside(key);
        }
        for loser in losers {
            self.hand_over(loser).await?;
        }
        let wait = next.wait(self.now());
        self.index().plan(key, next);
        Ok(Outcome::After(if told == Told::All { wait } else { wait.min(ANNOUNCE_AGAIN) }))
    }

    /// Writes the status of one whose name went to another; they are given another token.
    async fn hand_over(&self, loser: claims::Loser) -> Result<(), Error> {
        let claims::Loser { key, object, status, notice } = loser;
        self.replace_status(&key, object, status, &[notice]).await?;
        self.index().look_now(&key);
        self.enqueue(key);
        Ok(())
    }

    /// Why a domain is not looked at.
    fn left_alone(&self, key: &Key, subject: &Subject) -> Option<(&'static str, String)> {
        if let Some(listed) = self.opt_out.covers(&subject.name) {
            return Some(("OptedOut", super::check::opted_out(&listed)));
        }
        let most = self.options.domains_per_tenant_max;
        self.index().domains.is_beyond(key, most).then(|| {
            let message = format!("{} has more than {most} domains: this one is not looked at", key.tenant());
            ("QuotaExceeded", message)
        })
    }

    fn next_of(&self, key: &Key, domain: &DomainName, status: &DomainStatus, now: Timestamp) -> Next {
        let known = self.index().get(key).and_then(|known| known.next.clone());
        known.unwrap_or_else(|| Next::first(domain, status, now))
    }

    /// Sees to it that there is a token, and a new one where the old one counts no more.
    fn challenge(
        &self,
        status: &mut DomainStatus,
        name: &DomainName,
        spec: &VerificationSpec,
        rescan: bool,
        now: Timestamp,
    ) {
        let Some(verification) = &status.verification else {
            let fresh = Challenge::new(name, spec.scope.into(), &self.options.brand, now, &mut system_random).ok();
            status.verification = fresh.map(|challenge| {
                let account = spec.account_label.clone();
                VerificationStatus::new(self.options.with_zones(Challenge { account, ..challenge }))
            });
            return;
        };
        let challenge = &verification.challenge;
        let holds = verification.standing.holds();
        // What was proved for one reach or account is no proof for another.
        let other = challenge.scope != Scope::from(spec.scope) || challenge.account != spec.account_label;
        let expired = challenge.is_expired(now) && !holds && rescan;
        let renewed = if other {
            let account = spec.account_label.clone();
            Challenge { scope: spec.scope.into(), account, ..challenge.clone() }.renewed(now, &mut system_random)
        } else if expired || verification.has_lapsed_token() {
            challenge.clone().renewed(now, &mut system_random)
        } else if self.options.with_zones(challenge.clone()) != *challenge {
            challenge.clone()
        } else {
            return;
        };
        let mut fresh = VerificationStatus::new(self.options.with_zones(renewed));
        if !other {
            fresh.standing = verification.standing.clone();
            fresh.evidence = verification.evidence.clone();
        }
        status.verification = Some(fresh);
    }

    /// Looks for a proof from this machine; where that would change something, agents elsewhere have a say too.
    async fn look_for_proof(&self, verification: &VerificationStatus) -> Verdict {
        let holds = verification.standing.holds();
        // The token's life is for new proofs alone.
        let challenge = &if holds { verification.challenge.of_held_proof() } else { verification.challenge.clone() };
        let mut verdict = self.toolbox.verify(challenge).await;
        if matches!(verdict.outcome, Proof::Verified(_)) != holds {
            let witnesses = self.agents.witnesses();
            if !witnesses.is_empty() {
                let remote: &dyn RemotePlaces = &witnesses;
                verdict = self.toolbox.verify_from(challenge, remote).await;
            }
        }
        self.options.metrics.judged(match verdict.outcome {
            Proof::Verified(_) => "verified",
            Proof::Pending => "pending",
            Proof::Expired => "expired",
        });
        verdict
    }

    /// Looks at the domain; registries are asked when it is their turn, or when DNS has changed.
    async fn scan(&self, subject: &Subject, status: &DomainStatus, registration_due: bool) -> (Scan, timing::Asked) {
        let observed = status.observation.as_ref();
        let known: Option<Registration> = observed.and_then(|observation| observation.registration.clone());
        if let Some(known) = known.filter(|_| !registration_due) {
            let scan = self.toolbox.scan_dns(subject.clone(), known).await;
            let dns = scan.dns.as_ref();
            let delegated = dns.map(|dns| &dns.delegated_to);
            let signers = dns.and_then(|dns| dns.delegation_signers.as_ref());
            let signed = observed.and_then(|observation| observation.delegation_signers.as_ref());
            let same_signers = signers.is_none() || signed.is_none() || signers == signed;
            if delegated == observed.and_then(|observation| observation.delegated_to.as_ref()) && same_signers {
                self.options.metrics.looked("dns");
                return (scan, timing::Asked::DnsAlone);
            }
        }
        self.options.metrics.looked("registration");
        (self.toolbox.scan(subject.clone()).await, timing::Asked::Everybody)
    }

    /// What every server has of records that should stay as they are.
    async fn surveys(&self, wanted: &[WantedRecord], domain: &DomainName) -> Vec<Option<Survey>> {
        let asked = questions(wanted, domain).into_iter().map(|question| async move {
            let (name, kind) = question?;
            self.toolbox.survey(&name, kind).await.ok()
        });
        join_all(asked).await
    }

    /// Writes the status if it is worth it, and tells what is new.
    async fn write(
        &self,
        key: &Key,
        object: DynamicObject,
        before: DomainStatus,
        after: DomainStatus,
        notices: &[Notice],
    ) -> Result<Told, Error> {
        if notices.is_empty() && !worth_writing(&before, &after) {
            return Ok(Told::of(&before));
        }
        self.replace_status(key, object, after, notices).await
    }

    /// Writes the status, with what is to be told in it, and then tells it.
    async fn replace_status(
        &self,
        key: &Key,
        object: DynamicObject,
        mut status: DomainStatus,
        notices: &[Notice],
    ) -> Result<Told, Error> {
        enqueue(&mut status.unannounced, &object, notices, self.now());
        let written = self.put_status(key, object, &mut status).await?;
        if let Some(verification) = &status.verification {
            self.claimed(key, &verification.challenge.domain, verification.standing.holds());
        }
        let (_, status) = self.announce(key, written, status).await?;
        Ok(Told::of(&status))
    }

    /// Writes a status whose proof is believed, under seal.
    async fn put_status(
        &self,
        key: &Key,
        mut object: DynamicObject,
        status: &mut DomainStatus,
    ) -> Result<DynamicObject, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, &domains());
        if let Some(verification) = &mut status.verification {
            let last = self.last_seal(key);
            self.sealer.seal(&object.uid().unwrap_or_default(), verification, last, self.now());
        }
        object.data["status"] = json!(status);
        let written = api.replace_status(&key.name, &PostParams::default(), &object).await?;
        self.note_seal(key, status);
        Ok(written)
    }

    fn last_seal(&self, key: &Key) -> Option<Timestamp> {
        self.index().get(key).and_then(|known| known.sealed)
    }

    fn note_seal(&self, key: &Key, status: &DomainStatus) {
        if let Some(seal) = status.verification.as_ref().and_then(|verification| verification.seal.as_ref()) {
            self.index().sealed(key, seal.at);
        }
    }

    /// Whether what a status says of a proof was written by the service, for this object.
    pub(super) fn believe(&self, key: &Key, object: &DynamicObject, status: &DomainStatus) -> Result<(), Doubt> {
        if let Some(verification) = &status.verification {
            self.sealer.check(&object.uid().unwrap_or_default(), verification, self.last_seal(key))?;
            self.note_seal(key, status);
        }
        Ok(())
    }

    /// The object with a status that can be believed: what somebody else wrote of a proof is struck out, and that is told.
    async fn believed(
        &self,
        key: &Key,
        object: DynamicObject,
        mut status: DomainStatus,
        spec: &DomainSpec,
    ) -> Result<(DynamicObject, DomainStatus), Error> {
        let Err(doubt) = self.believe(key, &object, &status) else { return Ok((object, status)) };
        tracing::warn!(domain = ?key, %doubt, "a proof in a status is not believed");
        let now = self.now();
        let notice = disbelieve(&mut status, &spec.name, doubt, now);
        enqueue(&mut status.unannounced, &object, &[notice], now);
        let object = self.put_status(key, object, &mut status).await?;
        Ok((object, status))
    }

    /// Writes the events that wait in a status, and strikes those off that are written. Returns the object as it is then.
    async fn announce(
        &self,
        key: &Key,
        object: DynamicObject,
        mut status: DomainStatus,
    ) -> Result<(DynamicObject, DomainStatus), Error> {
        let about = About::own(&object, "Domain");
        if self.tell(key, &about, &mut status.unannounced).await == 0 {
            return Ok((object, status));
        }
        let object = self.put_status(key, object, &mut status).await?;
        Ok((object, status))
    }

    /// Writes events; those that cannot be written stay. Says how many are written.
    pub(super) async fn tell(&self, key: &Key, about: &About, unannounced: &mut Vec<Announcement>) -> usize {
        let client = self.client(&key.plane);
        let mut written = 0;
        for announcement in std::mem::take(unannounced) {
            let Err(error) = announce(&client, about, &announcement).await else {
                let warning = announcement.concern >= Concern::Warning;
                self.options.metrics.told(if warning { "warning" } else { "normal" });
                written += 1;
                continue;
            };
            tracing::warn!(object = ?key, reason = announcement.reason, %error, "an event cannot be written yet");
            unannounced.push(announcement);
        }
        written
    }
}

/// Whether everything is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    All,
    /// Some events could not be written and wait in the status.
    NotYet,
}

impl Told {
    fn of(status: &DomainStatus) -> Self {
        if status.unannounced.is_empty() { Self::All } else { Self::NotYet }
    }
}

impl Context {
    /// Has an object looked at whose proof is none.
    pub(super) fn doubted(&self, key: &Key, name: &DomainName) {
        let mut index = self.index();
        index.claim(key, name, false);
        index.look_now(key);
        drop(index);
        self.enqueue(key.clone());
    }

    /// Takes note of a claim. Where a name is newly proved, others that have proved it are looked at at once: two proofs may
    /// have been found at the same moment, and only one can hold.
    fn claimed(&self, key: &Key, name: &DomainName, holds: bool) {
        let (held, rivals) = {
            let mut index = self.index();
            let held = index.get(key).is_some_and(|known| known.holds);
            index.claim(key, name, holds);
            let rivals = if holds && !held { index.other_holders(name, key) } else { Vec::new() };
            rivals.iter().for_each(|rival| index.look_now(rival));
            (held, rivals)
        };
        rivals.into_iter().for_each(|rival| self.enqueue(rival));
        if held != holds {
            self.look_at_gateways_beside(key);
        }
    }
}
