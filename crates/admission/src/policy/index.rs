//! The stored policies of one kind and their bindings. Readers take a snapshot without waiting; each change makes a new
//! one from what it did not touch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use bailiwick_machinery::status::ApiResult;
use serde_json::Value;

use super::compiled::{Compiled, Kind};
use super::params::{ParamKind, ParamRef};
use crate::attributes::Attributes;
use crate::cel_request::FailurePolicy;
use crate::chain::Lookup;
use crate::matching::Criteria;

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Policy,
    Binding,
}

/// A change of the stored objects.
#[derive(Debug)]
pub enum Change<'a> {
    /// The object as it is stored now.
    Put(&'a Value),
    /// The name of an object that is gone.
    Delete(&'a str),
}

/// Policies and bindings, current as of the last change that was fed in.
pub struct Policies {
    kind: Kind,
    known: Mutex<Known>,
    bound: ArcSwap<Vec<Bound>>,
}

#[derive(Default)]
struct Known {
    policies: BTreeMap<String, Arc<Policy>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

/// A policy that is in force, with what puts it there.
#[derive(Clone)]
pub(super) struct Bound {
    pub policy: Arc<Policy>,
    pub bindings: Vec<Arc<Binding>>,
}

/// A policy.
pub(super) struct Policy {
    pub name: String,
    pub failure_policy: FailurePolicy,
    pub criteria: Criteria,
    pub param_kind: Option<ParamKind>,
    kind: Kind,
    spec: Value,
    compiled: OnceLock<Compiled>,
}

impl Policy {
    /// The policy ready to run; compiled by whoever needs it first.
    pub fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::new(self.kind, &self.spec))
    }
}

/// Where a policy applies, with which parameters and consequences.
pub(super) struct Binding {
    pub name: String,
    policy: String,
    /// Everything the policy matches, if there are none.
    pub criteria: Option<Criteria>,
    pub param_ref: Option<ParamRef>,
    /// `validationActions`, as they are written.
    pub actions: Vec<String>,
}

impl Binding {
    /// Whether the binding, whose policy matches the request, is about it too.
    pub fn applies(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<bool> {
        self.criteria.as_ref().map_or(Ok(true), |criteria| Ok(criteria.matches(attributes, lookup)?.is_some()))
    }
}

impl Policies {
    /// No ValidatingAdmissionPolicies yet.
    pub fn validating() -> Arc<Self> {
        Self::new(Kind::Validating)
    }

    /// No MutatingAdmissionPolicies yet.
    pub fn mutating() -> Arc<Self> {
        Self::new(Kind::Mutating)
    }

    fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self { kind, known: Mutex::default(), bound: ArcSwap::default() })
    }

    /// Takes in a change; requests that begin after this returns see it.
    pub fn apply(&self, stored: Stored, change: &Change<'_>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match (stored, change) {
            (Stored::Policy, Change::Put(object)) => {
                let policy = self.policy(object, &known);
                known.policies.insert(policy.name.clone(), policy);
            }
            (Stored::Policy, Change::Delete(name)) => drop(known.policies.remove(*name)),
            (Stored::Binding, Change::Put(object)) => {
                let binding = binding(object);
                known.bindings.insert(binding.name.clone(), Arc::new(binding));
            }
            (Stored::Binding, Change::Delete(name)) => drop(known.bindings.remove(*name)),
        }
        self.bound.store(Arc::new(known.bound()));
    }

    /// Whether none is in force.
    pub fn is_empty(&self) -> bool {
        self.bound.load().is_empty()
    }

    /// What is in force, in the order of names.
    pub(super) fn bound(&self) -> Arc<Vec<Bound>> {
        self.bound.load_full()
    }

    /// The policy as it is stored, for those who check its parameters.
    pub(super) fn param_kind(&self, policy: &str) -> Option<Option<ParamKind>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.policies.get(policy).map(|policy| policy.param_kind.clone())
    }

    /// A change of the status or metadata alone keeps what was compiled.
    fn policy(&self, object: &Value, known: &Known) -> Arc<Policy> {
        let name = bailiwick_machinery::object::name(object);
        let spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(same) = known.policies.get(name).filter(|policy| policy.spec == spec) {
            return same.clone();
        }
        Arc::new(Policy {
            name: name.to_owned(),
            failure_policy: FailurePolicy::of(&spec),
            criteria: Criteria::of_match_resources(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            param_kind: spec.get("paramKind").and_then(ParamKind::of),
            kind: self.kind,
            spec,
            compiled: OnceLock::new(),
        })
    }
}

impl Known {
    fn bound(&self) -> Vec<Bound> {
        let mut by_policy: BTreeMap<&str, Vec<Arc<Binding>>> = BTreeMap::new();
        for binding in self.bindings.values() {
            by_policy.entry(&binding.policy).or_default().push(binding.clone());
        }
        let bound = by_policy.into_iter().filter_map(|(name, bindings)| {
            let policy = self.policies.get(name)?.clone();
            Some(Bound { policy, bindings })
        });
        bound.collect()
    }
}

fn binding(object: &Value) -> Binding {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let actions = spec.get("validationActions").and_then(Value::as_array).into_iter().flatten();
    Binding {
        name: bailiwick_machinery::object::name(object).to_owned(),
        policy: spec.get("policyName").and_then(Value::as_str).unwrap_or_default().to_owned(),
        criteria: spec.get("matchResources").filter(|found| !found.is_null()).map(Criteria::of_match_resources),
        param_ref: spec.get("paramRef").filter(|found| !found.is_null()).map(ParamRef::of),
        actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}
