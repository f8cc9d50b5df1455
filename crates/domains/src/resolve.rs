//! Iterative resolution without a cache: from the root hints down, every server of every cut asked in parallel, each reply
//! kept. A referral counts only when it leads deeper towards the name, glue only inside the referring zone; chains, cuts and
//! questions are bounded, so that every run ends.

mod alias;
mod classify;
mod commons;
mod cut;
mod delegation;
mod flights;
mod habits;
mod run;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::transport::{Exchange, Failure};
use crate::wire::{Name, Question, Record, Section, show_name};

pub use alias::{Alias, AliasKind};
pub use classify::{Lame, Says, classify};
pub use commons::Commons;
pub use cut::{AddressSource, Cut, Nameserver};
pub(crate) use habits::Pace;
pub use run::{Run, Thoroughness};

/// Zone cuts on the way to one name; a name has at most 127 labels and real ones have a handful of cuts.
pub const MAX_CUTS: usize = 32;
/// CNAME and DNAME links that are followed; resolvers give up between 8 and 16.
pub const MAX_ALIASES: usize = 16;

/// What one server of a cut said.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The server's name.
    pub server: Name,
    /// What its answer means for the resolution.
    pub says: Says,
    /// The evidence.
    pub exchange: Exchange,
}

/// One cut: all its servers asked the same question.
#[derive(Clone, Debug)]
pub struct Step {
    /// The zone whose servers were asked.
    pub cut: Cut,
    /// What was asked.
    pub question: Question,
    /// What each server said, in the order of the servers.
    pub replies: Vec<Reply>,
    /// The reply that the resolution went on with, as an index of `replies`.
    pub chosen: Option<usize>,
    /// Groups of servers that said the same, the largest first; more than one is a disagreement.
    pub groups: Vec<Vec<usize>>,
}

impl Step {
    /// The zone with those of its addresses that answered.
    pub(crate) fn answering(&self) -> Cut {
        let answered = |address: &std::net::IpAddr| {
            self.replies.iter().any(|reply| reply.exchange.server.ip() == *address && reply.failure().is_none())
        };
        let mut cut = self.cut.clone();
        cut.servers.iter_mut().for_each(|server| server.addresses.retain(answered));
        cut.servers.retain(|server| !server.addresses.is_empty());
        cut
    }

    /// The reply that the resolution went on with.
    pub fn chosen_reply(&self) -> Option<&Reply> {
        self.replies.get(self.chosen?)
    }
}

/// How a resolution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Outcome {
    /// Records of the type were found.
    Found,
    /// The name exists without records of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// No usable answer could be had.
    Broken {
        /// Why.
        reason: Broken,
    },
}

/// Why a resolution did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Broken {
    /// No server of a zone answered usefully.
    #[error("no server of {zone} gave a usable answer")]
    NoUsableServer {
        /// The zone.
        zone: String,
    },
    /// A zone's servers have no addresses.
    #[error("no server of {zone} has an address")]
    NoAddresses {
        /// The zone.
        zone: String,
    },
    /// Aliases lead back to where they started.
    #[error("the aliases form a loop at {name}")]
    AliasLoop {
        /// The name that is met again.
        name: String,
    },
    /// Too many aliases.
    #[error("more than {MAX_ALIASES} aliases in a row")]
    TooManyAliases,
    /// Too many cuts.
    #[error("more than {MAX_CUTS} zone cuts")]
    TooManyCuts,
    /// A DNAME makes a name that is too long.
    #[error("the DNAME at {name} makes a name that is too long")]
    NameTooLong {
        /// The DNAME's owner.
        name: String,
    },
    /// Server names that depend on each other.
    #[error("the names of servers depend on too many other names")]
    TooDeep,
    /// Too many questions.
    #[error("the limit of questions for one run is reached")]
    BudgetSpent,
}

/// Everything that was seen on the way to an answer.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// What was asked.
    pub question: Question,
    /// The cuts, in the order in which they were visited; aliases continue the list.
    pub steps: Vec<Step>,
    /// The aliases on the way.
    pub aliases: Vec<Alias>,
    /// How it ended.
    pub outcome: Outcome,
    /// The records that were asked for, at the end of the aliases.
    pub records: Vec<Record>,
    /// Questions asked, those about addresses of servers included.
    pub questions: usize,
}

impl Resolution {
    /// What one step amounts to, when the way to it is known.
    pub(crate) fn of_step(step: Step, questions: usize) -> Self {
        let outcome = match step.chosen_reply().map(|reply| &reply.says) {
            Some(Says::Answer) => Outcome::Found,
            Some(Says::NxDomain) => Outcome::NxDomain,
            Some(Says::NoData) => Outcome::NoData,
            _ => Outcome::Broken { reason: Broken::NoUsableServer { zone: show_name(&step.cut.zone) } },
        };
        let answer = step.chosen_reply().and_then(|reply| reply.exchange.answer());
        let records = answer
            .map(|answer| answer.rrset(Section::Answer, &step.question.name, step.question.rtype).cloned().collect());
        Self {
            question: step.question.clone(),
            records: records.unwrap_or_default(),
            steps: vec![step],
            aliases: Vec::new(),
            outcome,
            questions,
        }
    }

    /// The last step, whose servers gave the final answer.
    pub fn last(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// The reply that made the first alias.
    pub fn alias_reply(&self) -> Option<&Reply> {
        self.steps.iter().filter_map(Step::chosen_reply).find(|reply| matches!(reply.says, Says::Alias(_)))
    }

    /// The name at the end of the aliases.
    pub fn final_name(&self) -> &Name {
        self.aliases.last().map_or(&self.question.name, |alias| &alias.target)
    }
}

impl Reply {
    /// The failure, if the server did not answer.
    pub fn failure(&self) -> Option<&Failure> {
        self.exchange.outcome.as_ref().err()
    }
}
