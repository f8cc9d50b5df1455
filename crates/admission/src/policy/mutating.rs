//! MutatingAdmissionPolicy: requests are changed by what expressions make of them, configurations to be merged in or
//! JSON patches.

mod patch;

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_machinery::status::{ApiResult, Cause};
use bailiwick_machinery::{ApiError, GroupResource};
use serde_json::Value;

use self::patch::PatchFailure;
use super::compiled::Compiled;
use super::evaluation::Seen;
use super::index::{Binding, Bound, Policies, Policy};
use super::{is_exempt, params};
use crate::attributes::{Attributes, KindRef, Operation, ResourceRef, forbidden};
use crate::cel_request::{FailurePolicy, Verdict};
use crate::chain::{Lookup, NamespaceState, Phase, Plugin};
use crate::host::Versioned;
use crate::matching::Matched;
use crate::reinvocation::Run;

const NAME: &str = "MutatingAdmissionPolicy";

/// The plugin.
pub struct MutatingAdmissionPolicy {
    policies: Arc<Policies>,
}

impl MutatingAdmissionPolicy {
    /// Applies these policies.
    pub fn new(policies: Arc<Policies>) -> Self {
        Self { policies }
    }
}

/// A policy, one of its bindings and one parameter, that are to be applied to a request.
struct Invocation {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    param: Option<Value>,
    /// The version to apply it in, as group, version, resource and kind.
    matched: [String; 4],
}

impl Invocation {
    fn matched(&self) -> Matched<'_> {
        let [group, version, resource, kind] = &self.matched;
        Matched { resource: ResourceRef { group, version, resource }, kind: KindRef { group, version, kind } }
    }

    /// What tells invocations of one request apart.
    fn key(&self) -> String {
        let param = self.param.as_ref().map(|param| {
            use bailiwick_machinery::object::{name, namespace};
            format!("{}/{}", namespace(param), name(param))
        });
        format!("{}|{}|{}", self.policy.name, self.binding.name, param.unwrap_or_default())
    }
}

/// What the plugin remembers between the two runs of a request.
#[derive(Debug, Default)]
struct Remembered {
    /// What was applied and wants to be again when something changes after it.
    applied: Vec<String>,
    /// What is to be applied again.
    again: Vec<String>,
    /// The object as this plugin left it.
    output: Option<Value>,
}

impl Remembered {
    fn require_again(&mut self) {
        self.again.append(&mut self.applied);
    }
}

/// Why policies refuse, in the order they said so.
#[derive(Default)]
struct Refusals(Vec<(String, Reason)>);

/// Whether a refusal says what kind it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The policy or binding cannot be used.
    Open,
    Invalid,
}

impl Refusals {
    fn add(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: Reason) {
        if policy.failure_policy == FailurePolicy::Ignore {
            return;
        }
        let policy = &policy.name;
        let text = match binding {
            Some(binding) => format!("policy '{policy}' with binding '{}' denied request: {message}", binding.name),
            None => format!("policy {policy:?} denied request: {message}"),
        };
        self.0.push((text, reason));
    }

    fn into_result(self, attributes: &Attributes<'_>) -> ApiResult<()> {
        let Some((message, reason)) = self.0.first().cloned() else { return Ok(()) };
        let mut error = forbidden(attributes, "admission request denied by policy");
        error.message = message;
        if reason == Reason::Invalid {
            error.reason = "Invalid";
        }
        let causes =
            self.0.into_iter().map(|(message, _)| Cause { message, reason: String::new(), field: String::new() });
        error.details.get_or_insert_default().causes.extend(causes);
        Err(error)
    }
}

#[async_trait]
impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Mutate && operation != Operation::Delete && !self.policies.is_empty()
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
        if is_exempt(attributes) {
            return Ok(());
        }
        let mut refusals = Refusals::default();
        let mut invocations = Vec::new();
        for bound in self.policies.bound().iter() {
            collect(bound, attributes, lookup, &mut invocations, &mut refusals).await;
        }
        if !invocations.is_empty() {
            check_namespace(attributes, lookup)?;
            begin(attributes);
            for invocation in &invocations {
                invoke(invocation, attributes, lookup, &mut refusals).await?;
            }
            let output = attributes.object.as_deref().cloned();
            attributes.reinvocation.remembered::<Remembered>(NAME).output = output;
        }
        refusals.into_result(attributes)
    }
}

fn check_namespace(attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
    let name = attributes.namespace;
    let outside = name.is_empty() || attributes.is_kind("", "Namespace");
    if outside || lookup.namespace_state(name) != NamespaceState::Missing {
        return Ok(());
    }
    Err(ApiError::not_found(&GroupResource { group: String::new(), resource: "namespaces".to_owned() }, name))
}

/// In the second run, what other plugins changed since the first makes all that want it apply again.
fn begin(attributes: &mut Attributes<'_>) {
    if attributes.reinvocation.run() == Run::First {
        return;
    }
    let current = attributes.object.as_deref().cloned();
    let remembered = attributes.reinvocation.remembered::<Remembered>(NAME);
    if remembered.output != current {
        remembered.require_again();
    }
}

/// Finds what of a policy is to be applied to a request.
async fn collect(
    bound: &Bound,
    attributes: &Attributes<'_>,
    lookup: &dyn Lookup,
    invocations: &mut Vec<Invocation>,
    refusals: &mut Refusals,
) {
    let policy = &bound.policy;
    let misconfigured = |refusals: &mut Refusals, binding: Option<&Binding>, error: &str| {
        let what = if binding.is_some() { "binding" } else { "policy" };
        refusals.add(policy, binding, &format!("failed to configure {what}: {error}"), Reason::Open);
    };
    let matched = match policy.criteria.matches(attributes, lookup) {
        Ok(Some(matched)) => matched,
        Ok(None) => return,
        Err(error) => return misconfigured(refusals, None, &error.message),
    };
    if let Some(kind) = policy.param_kind.as_ref().filter(|kind| attributes.host.parameter_scope(kind).is_none()) {
        return misconfigured(refusals, None, &params::unknown_kind(kind));
    }
    for binding in &bound.bindings {
        match binding.applies(attributes, lookup) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                misconfigured(refusals, Some(binding), &error.message);
                continue;
            }
        }
        match params::collect(policy.param_kind.as_ref(), binding.param_ref.as_ref(), attributes).await {
            Ok(found) => invocations.extend(found.into_iter().map(|param| {
                Invocation {
                    policy: policy.clone(),
                    binding: binding.clone(),
                    param,
                    matched: [matched.kind.group, matched.kind.version, matched.resource.resource, matched.kind.kind]
                        .map(str::to_owned),
                }
            })),
            Err(error) => misconfigured(refusals, Some(binding), &error),
        }
    }
}

/// Applies the mutations of an invocation one after the other.
async fn invoke(
    invocation: &Invocation,
    attributes: &mut Attributes<'_>,
    lookup: &dyn Lookup,
    refusals: &mut Refusals,
) -> ApiResult<()> {
    let (policy, binding) = (&*invocation.policy, Some(&*invocation.binding));
    let (compiled, matched, key) = (policy.compiled(), invocation.matched(), invocation.key());
    if attributes.object.is_none() {
        return Ok(());
    }
    let seen = Seen::new(compiled, attributes, matched, lookup);
    match conditions(invocation, compiled, &seen, attributes).await? {
        Verdict::Matches => {}
        Verdict::Excluded(_) => return Ok(()),
        Verdict::Failed(message) => {
            refusals.add(policy, binding, &message, Reason::Invalid);
            return Ok(());
        }
    }
    let again = attributes.reinvocation.run() == Run::Again;
    if again && !attributes.reinvocation.remembered::<Remembered>(NAME).again.contains(&key) {
        return Ok(());
    }
    let mut changed = false;
    for mutation in &compiled.mutations {
        let versioned = Versioned::of(attributes, matched).await?;
        let patched =
            patch::apply(mutation, compiled, &versioned, &seen, invocation.param.as_ref(), attributes, matched);
        let patched = match patched {
            Ok(patched) => patched,
            Err(PatchFailure::Refused(message)) => {
                refusals.add(policy, binding, &message, Reason::Invalid);
                continue;
            }
            Err(PatchFailure::Failed(error)) => return Err(error),
        };
        let Some(patched) = patched else { continue };
        let patched = match matched.kind == attributes.kind {
            true => patched,
            false => attributes.host.convert(&patched, attributes.kind).await.map_err(ApiError::internal)?,
        };
        if let Some(object) = attributes.object.as_deref_mut().filter(|object| **object != patched) {
            *object = patched;
            changed = true;
        }
    }
    if changed {
        attributes.reinvocation.remembered::<Remembered>(NAME).require_again();
        attributes.reinvocation.request();
    }
    if compiled.reinvocable {
        attributes.reinvocation.remembered::<Remembered>(NAME).applied.push(key);
    }
    Ok(())
}

async fn conditions(
    invocation: &Invocation,
    compiled: &Compiled,
    seen: &Seen,
    attributes: &Attributes<'_>,
) -> ApiResult<Verdict> {
    if compiled.match_conditions.is_empty() {
        return Ok(Verdict::Matches);
    }
    let versioned = Versioned::of(attributes, invocation.matched()).await?;
    let bindings = seen.for_conditions(&versioned, invocation.param.as_ref());
    Ok(compiled.match_conditions.evaluate(&bindings, invocation.policy.failure_policy))
}
