//! The authorizers of a server, in the order they are asked.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bailiwick_machinery::{ApiError, UserInfo};

use super::explain::{Explanation, Step, Verdict};
use super::rbac::Rbac;
use super::{Attributes, Authorizer, Decision, OnError, Reason, RemoteAuthorizer, Rules};
use crate::go_format::aggregate;

/// One authorizer of the chain.
pub enum Link {
    Local(Box<dyn Authorizer>),
    Remote(Arc<dyn RemoteAuthorizer>),
}

/// The whole of authorization. Its authorizers can be exchanged while it is used. Cloning shares them.
#[derive(Clone)]
pub struct Authorizers {
    chain: Arc<ArcSwap<Vec<Link>>>,
    /// Stored roles and bindings, also where they do not decide.
    roles: Rbac,
}

/// What those without an opinion had to say.
#[derive(Default)]
struct Undecided {
    reasons: Vec<Reason>,
    errors: Vec<String>,
}

impl Undecided {
    /// Takes over what is no decision, or gives back what is.
    fn add(&mut self, decision: Decision) -> Option<Decision> {
        match decision {
            Decision::NoOpinion(Reason::None) => {}
            Decision::NoOpinion(reason) => self.reasons.push(reason),
            Decision::Failed { on_error: OnError::NoOpinion, reason, error } => {
                self.reasons.push(reason);
                self.errors.push(error);
            }
            decided => return Some(decided),
        }
        None
    }

    fn decision(mut self) -> Decision {
        self.reasons.retain(|reason| !reason.as_str().is_empty());
        let reason = match self.reasons.len() {
            0 | 1 => self.reasons.pop().unwrap_or_default(),
            _ => Reason::Owned(self.reasons.iter().map(Reason::as_str).collect::<Vec<_>>().join("\n")),
        };
        match self.errors.as_slice() {
            [] => Decision::NoOpinion(reason),
            errors => Decision::Failed { on_error: OnError::NoOpinion, reason, error: aggregate(errors) },
        }
    }
}

/// What the authorizers asked so far came to.
enum Progress {
    Decided(Decision),
    /// The one at this place has to be waited for.
    Remote(usize),
    /// There are no more.
    End,
}

impl Authorizers {
    /// Authorizers that decide from memory.
    pub fn new(local: Vec<Box<dyn Authorizer>>) -> Self {
        Self::with_roles(local.into_iter().map(Link::Local).collect(), Rbac::default())
    }

    /// Any authorizers; `roles` are what users may hand on to others.
    pub fn with_roles(chain: Vec<Link>, roles: Rbac) -> Self {
        Self { chain: Arc::new(ArcSwap::from_pointee(chain)), roles }
    }

    /// Takes other authorizers, from the next request on.
    pub fn replace(&self, chain: Vec<Link>) {
        self.chain.store(Arc::new(chain));
    }

    /// The stored roles and bindings.
    pub fn roles(&self) -> &Rbac {
        &self.roles
    }

    /// Decides.
    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut undecided = Undecided::default();
        let (chain, mut place) = {
            let chain = self.chain.load();
            match ask_local(&chain, 0, attributes, &mut undecided) {
                Progress::Decided(decision) => return decision,
                Progress::End => return undecided.decision(),
                Progress::Remote(place) => (arc_swap::Guard::into_inner(chain), place),
            }
        };
        while let Some(Link::Remote(remote)) = chain.get(place) {
            if let Some(decided) = undecided.add(remote.authorize(attributes).await) {
                return decided;
            }
            match ask_local(&chain, place + 1, attributes, &mut undecided) {
                Progress::Decided(decision) => return decision,
                Progress::End => break,
                Progress::Remote(next) => place = next,
            }
        }
        undecided.decision()
    }

    /// The refusal of a request that is not allowed.
    pub async fn require(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        self.authorize(attributes).await.require(attributes)
    }

    /// Decides, and tells how.
    pub async fn explain(&self, attributes: &Attributes<'_>) -> Explanation {
        let chain = self.chain.load_full();
        let mut steps: Vec<Step> = Vec::with_capacity(chain.len());
        for link in chain.iter() {
            let step = match link {
                Link::Local(local) => local.explain(attributes),
                Link::Remote(remote) => remote.explain(attributes).await,
            };
            let decided = step.verdict != Verdict::NoOpinion;
            steps.push(step);
            if decided {
                break;
            }
        }
        let last = steps.last().filter(|step| step.verdict != Verdict::NoOpinion);
        let reason = match last {
            Some(step) => step.reason.clone(),
            None => {
                let reasons: Vec<&str> =
                    steps.iter().map(|step| step.reason.as_str()).filter(|text| !text.is_empty()).collect();
                reasons.join("\n")
            }
        };
        Explanation { allowed: last.is_some_and(|step| step.verdict == Verdict::Allow), reason, steps }
    }

    /// The rules that hold for `user` in `namespace`.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        for link in self.chain.load().iter() {
            match link {
                Link::Local(local) => local.rules_for(user, namespace, &mut rules),
                Link::Remote(remote) => {
                    rules.incomplete = true;
                    rules.errors.push(remote.rules_error());
                }
            }
        }
        rules
    }
}

/// Asks from `place` on, up to the end or to one that has to be waited for.
fn ask_local(chain: &[Link], place: usize, attributes: &Attributes<'_>, undecided: &mut Undecided) -> Progress {
    for (place, link) in chain.iter().enumerate().skip(place) {
        let Link::Local(local) = link else { return Progress::Remote(place) };
        if let Some(decided) = undecided.add(local.authorize(attributes)) {
            return Progress::Decided(decided);
        }
    }
    Progress::End
}
