//! The quick way to a zone's servers: one question to one server of each zone above it, and fewer when others have asked before.

use super::cut::AddressSource;
use super::flights::Errand;
use super::run::{Run, Thoroughness};
use super::{Broken, Commons, Cut, MAX_CUTS, Nameserver, Says, Step};
use crate::wire::{Answer, Name, Question, RData, RecordType, Section, show_name};

impl Run<'_> {
    /// Whom a zone is delegated to by its parent; nothing when it is not delegated. The servers have their addresses.
    pub async fn delegation(&self, zone: &Name) -> Result<Option<Cut>, Broken> {
        let zone = zone.to_lowercase();
        let above = zone.base_name();
        // The first of many domains below `com` finds out about `com` for all.
        let turn = match self.commons() {
            Some(commons) if Commons::shares(&above) && commons.cut(&above).is_none() => {
                Some(commons.turn(&above).await)
            }
            _ => None,
        };
        let mut turn = turn;
        let question = Question::new(zone.clone(), RecordType::NS);
        let mut cut = self.deepest_cut(&above);
        for _ in 0..MAX_CUTS {
            if cut.zone == above {
                turn = None;
            }
            let step = self.step(cut, &question, Thoroughness::FirstAnswer, &Errand::default()).await;
            let Some(reply) = step.chosen_reply() else {
                let name = show_name(&step.cut.zone);
                return Err(match (self.budget().is_spent(), step.replies.is_empty()) {
                    (true, _) => Broken::BudgetSpent,
                    (false, true) => Broken::NoAddresses { zone: name },
                    (false, false) => Broken::NoUsableServer { zone: name },
                });
            };
            let Some(answer) = reply.exchange.answer() else { return Ok(None) };
            let found = match &reply.says {
                Says::Referral(to) => Cut::from_referral(answer, &step.cut.zone, to),
                // The parent's servers serve the zone too, and answer instead of referring.
                Says::Answer => from_answer(answer, &step.cut.zone, &zone),
                _ => return Ok(None),
            };
            self.remember(&found);
            self.share(&found);
            cut = found;
            if cut.zone == zone {
                drop(turn);
                self.look_up_servers(&mut cut, Thoroughness::EveryServer, &Errand::default()).await;
                self.remember(&cut);
                return Ok(Some(cut));
            }
        }
        Err(Broken::TooManyCuts)
    }

    /// Asks every server of a zone.
    pub async fn ask_zone(&self, cut: &Cut, rtype: RecordType) -> Step {
        let question = Question::new(cut.zone.clone(), rtype);
        self.step(cut.clone(), &question, Thoroughness::EveryServer, &Errand::default()).await
    }
}

fn from_answer(answer: &Answer, parent: &Name, zone: &Name) -> Cut {
    let records = || answer.rrset(Section::Answer, zone, RecordType::NS);
    let names = records().filter_map(|record| match &record.data {
        RData::NS(name) => Some(name.0.to_lowercase()),
        _ => None,
    });
    let mut servers: Vec<Nameserver> = names
        .map(|name| Nameserver {
            addresses: if parent.zone_of(&name) { super::cut::glue(answer, &name) } else { Vec::new() },
            name,
            source: AddressSource::Glue,
        })
        .collect();
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers.dedup_by(|a, b| a.name == b.name);
    let ns_ttl = records().map(|record| record.ttl).min();
    Cut { zone: zone.clone(), parent: Some(parent.clone()), servers, ns_ttl, security: Vec::new() }
}
