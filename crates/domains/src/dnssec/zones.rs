//! The chain of trust: for each zone the keys that can be trusted, or why there are none.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use hickory_proto::dnssec::PublicKey;
use hickory_proto::dnssec::rdata::{DNSKEY, DNSSECRData, DS, RRSIG};
use jiff::Timestamp;
use serde::Serialize;

use super::{Judgement, Status, denial, keys, signature, signatures_of};
use crate::resolve::{Commons, Cut, Outcome, Resolution, Run, Thoroughness};
use crate::wire::{Name, Question, RData, Record, RecordType, Section, label_count, show_name};

/// Signature verifications for one answer; a whole chain needs a dozen.
const MAX_VERIFICATIONS: usize = 128;
/// Zones of one chain.
const MAX_ZONES: usize = 40;
/// How long a watch believes a registry's keys without asking again; keys are announced for days before they are used.
const KEYS_LIFE: Duration = Duration::from_secs(900);

/// What is known about the keys of a zone.
#[derive(Clone, Debug)]
pub enum ZoneState {
    /// These keys are trusted.
    Secure(Vec<DNSKEY>),
    /// It is proven that the zone is not signed.
    Insecure(String),
    /// The chain is broken here.
    Bogus(String),
    /// The chain could not be followed.
    Indeterminate(String),
}

impl ZoneState {
    pub(crate) fn judgement(&self, zone: &Name) -> Judgement {
        match self {
            Self::Secure(_) => {
                Judgement::new(Status::Secure, format!("{} has a chain of trust from the root", show_name(zone)))
            }
            Self::Insecure(reason) => Judgement::new(Status::Insecure, reason.clone()),
            Self::Bogus(reason) => Judgement::new(Status::Bogus, reason.clone()),
            Self::Indeterminate(reason) => Judgement::new(Status::Indeterminate, reason.clone()),
        }
    }
}

/// One zone of the chain, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneSecurity {
    /// The zone.
    pub zone: String,
    /// How far it can be trusted.
    pub status: Status,
    /// Why.
    pub reason: String,
    /// `tag/algorithm` of the keys that are trusted.
    pub keys: Vec<String>,
    /// `tag/algorithm/digest type` of the DS records at the parent.
    pub ds: Vec<String>,
}

/// The zones judged so far, and the work spent on them.
pub(crate) struct Zones<'r, 'e> {
    run: &'r Run<'e>,
    now: Timestamp,
    states: HashMap<Name, ZoneState>,
    report: Vec<ZoneSecurity>,
    spent: usize,
    first_expiration: Option<Timestamp>,
}

impl<'r, 'e> Zones<'r, 'e> {
    pub(super) fn new(run: &'r Run<'e>) -> Self {
        let now = run.engine().clock().now();
        Self { run, now, states: HashMap::new(), report: Vec::new(), spent: 0, first_expiration: None }
    }

    pub(super) fn earliest_expiration(&self) -> Option<Timestamp> {
        self.first_expiration
    }

    pub(super) fn into_report(mut self) -> Vec<ZoneSecurity> {
        let depth = |zone: &ZoneSecurity| if zone.zone == "." { 0 } else { zone.zone.split('.').count() };
        self.report.sort_by_key(depth);
        self.report
    }

    /// Verifies an RRset with the keys of its zone.
    pub(super) fn verify(
        &mut self,
        records: &[&Record],
        signatures: &[&RRSIG],
        keys: &[DNSKEY],
        zone: &Name,
    ) -> Result<signature::Verified, String> {
        if self.spent > MAX_VERIFICATIONS {
            return Err("too many signatures had to be tried".to_owned());
        }
        let (verified, expiration) = signature::verify(records, signatures, keys, zone, self.now, &mut self.spent)?;
        let expiration = signature::full_time(expiration, self.now);
        self.first_expiration = Some(self.first_expiration.map_or(expiration, |first| first.min(expiration)));
        Ok(verified)
    }

    /// The keys of a zone, judged with the whole chain above it.
    pub(crate) fn state<'a>(&'a mut self, zone: &'a Name) -> Pin<Box<dyn Future<Output = ZoneState> + Send + 'a>> {
        Box::pin(async move {
            if let Some(state) = self.states.get(zone) {
                return state.clone();
            }
            if self.states.len() >= MAX_ZONES {
                return ZoneState::Indeterminate("the chain of zones is too long".to_owned());
            }
            // Turns are taken from a zone to those above it, never the other way.
            let commons = self.run.commons().filter(|_| Commons::shares(zone)).cloned();
            let _turn = match &commons {
                Some(commons) if commons.keys(zone).is_none() => Some(commons.turn(zone).await),
                _ => None,
            };
            if let Some(state) = commons.as_ref().and_then(|commons| commons.keys(zone)) {
                self.states.insert(zone.clone(), state.clone());
                return state;
            }
            // A zone that depends on itself would come here again before it is judged.
            let unfinished = ZoneState::Bogus(format!("the chain of trust of {} leads to itself", show_name(zone)));
            self.states.insert(zone.clone(), unfinished);
            let (ds_set, state) = match self.ds_of(zone).await {
                Ok(ds_set) => {
                    let state = self.keys_of(zone, &ds_set).await;
                    (ds_set, state)
                }
                Err(state) => (Vec::new(), state),
            };
            if let Some(commons) = &commons {
                commons.keep_keys(zone, &state, KEYS_LIFE);
            }
            self.states.insert(zone.clone(), state.clone());
            self.record(zone, &state, &ds_set);
            state
        })
    }

    fn record(&mut self, zone: &Name, state: &ZoneState, ds_set: &[DS]) {
        let Judgement { status, reason } = state.judgement(zone);
        let keys = match state {
            ZoneState::Secure(keys) => keys.iter().filter_map(describe_key).collect(),
            _ => Vec::new(),
        };
        let ds = ds_set
            .iter()
            .map(|ds| format!("{}/{}/{}", ds.key_tag(), u8::from(ds.algorithm()), u8::from(ds.digest_type())));
        self.report.push(ZoneSecurity { zone: show_name(zone), status, reason, keys, ds: ds.collect() });
    }

    /// The DS set that the parent vouches for, or the state of the zone when there is none.
    async fn ds_of(&mut self, zone: &Name) -> Result<Vec<DS>, ZoneState> {
        if zone.is_root() {
            return Ok(keys::anchors(&self.run.engine().roots().anchors));
        }
        if let Some(Cut { parent: Some(parent), security, .. }) = self.run.known_cut(zone)
            && let Some(found) = self.ds_of_referral(zone, &parent, &security).await
        {
            return found;
        }
        let resolution = self.ask(zone, RecordType::DS).await;
        let Some(answer) = final_answer(&resolution) else {
            return Err(ZoneState::Indeterminate(format!("the DS of {} could not be had", show_name(zone))));
        };
        let section = match resolution.outcome {
            Outcome::Found => Section::Answer,
            _ => Section::Authority,
        };
        let signer = answer.section(section).iter().find_map(|record| match &record.data {
            RData::DNSSEC(DNSSECRData::RRSIG(signature)) => Some(signature.input().signer_name.to_lowercase()),
            _ => None,
        });
        let parent = signer
            .filter(|signer| signer.zone_of(zone) && signer != zone)
            .or_else(|| resolution.last().map(|step| step.cut.zone.clone()))
            .filter(|parent| parent != zone)
            .unwrap_or_else(|| zone.base_name());
        let state = self.state(&parent).await;
        let ZoneState::Secure(parent_keys) = &state else { return Err(inherited(state, zone, &parent)) };
        match resolution.outcome {
            Outcome::Found => self.vouched_ds(zone, &parent, parent_keys, answer.section(Section::Answer)),
            _ => Err(self.denied_ds(zone, &parent, parent_keys, answer.section(Section::Authority))),
        }
    }

    /// The same by what came with the referral, which saves the parent a question. Nothing when that proves nothing: then
    /// the parent is asked.
    async fn ds_of_referral(
        &mut self,
        zone: &Name,
        parent: &Name,
        security: &[Record],
    ) -> Option<Result<Vec<DS>, ZoneState>> {
        if security.is_empty() {
            return None;
        }
        let state = self.state(parent).await;
        let ZoneState::Secure(parent_keys) = &state else { return Some(Err(inherited(state, zone, parent))) };
        let has_ds = security.iter().any(|record| record.record_type() == RecordType::DS && record.name == *zone);
        match has_ds {
            true => match self.vouched_ds(zone, parent, parent_keys, security) {
                Err(ZoneState::Bogus(_)) => None,
                found => Some(found),
            },
            false => match self.denied_ds(zone, parent, parent_keys, security) {
                ZoneState::Bogus(_) => None,
                state => Some(Err(state)),
            },
        }
    }

    /// The DS records among those given, if the parent's keys vouch for them.
    fn vouched_ds(
        &mut self,
        zone: &Name,
        parent: &Name,
        parent_keys: &[DNSKEY],
        section: &[Record],
    ) -> Result<Vec<DS>, ZoneState> {
        let shown = show_name(zone);
        let is_ds = |record: &&Record| record.record_type() == RecordType::DS && record.name == *zone;
        let records: Vec<&Record> = section.iter().filter(is_ds).collect();
        let signatures = signatures_of(section, zone, RecordType::DS);
        self.verify(&records, &signatures, parent_keys, parent)
            .map_err(|reason| ZoneState::Bogus(format!("the DS of {shown}: {reason}")))?;
        let ds_set = keys::ds_records(records);
        if !ds_set.iter().any(keys::is_supported) {
            return Err(ZoneState::Insecure(format!(
                "{shown} is signed only with algorithms that are not supported here"
            )));
        }
        Ok(ds_set)
    }

    /// What the parent's proof that there is no DS makes of the zone.
    fn denied_ds(&mut self, zone: &Name, parent: &Name, parent_keys: &[DNSKEY], section: &[Record]) -> ZoneState {
        let (shown, above) = (show_name(zone), show_name(parent));
        match denial::prove_nodata(self, section, parent_keys, parent, zone, RecordType::DS) {
            Ok(_) => ZoneState::Insecure(format!("{above} proves that {shown} has no DS, so it is not signed")),
            Err(reason) => ZoneState::Bogus(format!("{above} does not prove that {shown} has no DS: {reason}")),
        }
    }

    async fn keys_of(&mut self, zone: &Name, ds_set: &[DS]) -> ZoneState {
        let shown = show_name(zone);
        let resolution = self.ask(zone, RecordType::DNSKEY).await;
        let Some(answer) = final_answer(&resolution) else {
            return ZoneState::Indeterminate(format!("the keys of {shown} could not be had"));
        };
        let records: Vec<&Record> = answer.rrset(Section::Answer, zone, RecordType::DNSKEY).collect();
        let all = keys::dnskeys(records.iter().copied());
        let vouched = match keys::vouched(zone, ds_set, &all) {
            Ok(vouched) => vouched,
            Err(reason) => return ZoneState::Bogus(reason),
        };
        let signatures = signatures_of(answer.section(Section::Answer), zone, RecordType::DNSKEY);
        match self.verify(&records, &signatures, &vouched, zone) {
            Ok(_) => ZoneState::Secure(all),
            Err(reason) => ZoneState::Bogus(format!("the keys of {shown}: {reason}")),
        }
    }

    /// Judges something without signatures: fine below an unsigned delegation, bogus elsewhere.
    pub(super) async fn judge_unsigned(&mut self, zone: &Name, name: &Name, what: &str) -> Judgement {
        let state = self.state(zone).await;
        if !matches!(state, ZoneState::Secure(_)) {
            return state.judgement(zone);
        }
        // The same server may serve an unsigned zone below this one, and then sends no referral to it.
        let missing = label_count(name).saturating_sub(label_count(zone));
        for kept in (0..missing).rev() {
            let candidate = name.trim_to(label_count(name) - kept);
            if let Err(ZoneState::Insecure(reason)) = self.ds_of(&candidate).await
                && self.is_delegated(&candidate).await
            {
                return Judgement::new(Status::Insecure, reason);
            }
        }
        Judgement::new(Status::Bogus, format!("{what} is not signed, although {} is", show_name(zone)))
    }

    async fn is_delegated(&self, name: &Name) -> bool {
        let resolution = self.ask(name, RecordType::SOA).await;
        resolution.outcome == Outcome::Found
    }

    async fn ask(&self, name: &Name, rtype: RecordType) -> Resolution {
        self.run.resolve(&Question::new(name.clone(), rtype), Thoroughness::FirstAnswer).await
    }
}

/// What a zone's state means for a zone below it.
fn inherited(state: ZoneState, zone: &Name, parent: &Name) -> ZoneState {
    let (zone, parent) = (show_name(zone), show_name(parent));
    match state {
        ZoneState::Insecure(reason) => ZoneState::Insecure(format!("{zone} is below {parent}: {reason}")),
        other => other,
    }
}

fn final_answer(resolution: &Resolution) -> Option<&crate::wire::Answer> {
    if matches!(resolution.outcome, Outcome::Broken { .. }) {
        return None;
    }
    resolution.last()?.chosen_reply()?.exchange.answer()
}

fn describe_key(key: &DNSKEY) -> Option<String> {
    Some(format!("{}/{}", key.calculate_key_tag().ok()?, u8::from(key.public_key().algorithm())))
}
