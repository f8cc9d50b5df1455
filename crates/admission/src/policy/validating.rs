//! ValidatingAdmissionPolicy: requests that break a rule are refused, warned about or noted in the audit log.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_cel::Value as Cel;
use bailiwick_cel::admission::POLICY_BUDGET;
use bailiwick_machinery::status::{ApiResult, Cause};
use serde_json::{Value, json};

use super::compiled::{Compiled, Validation};
use super::evaluation::{Run, Seen};
use super::index::{Binding, Bound, Policies, Policy};
use super::{is_exempt, params};
use crate::attributes::{Attributes, Operation, forbidden};
use crate::cel_request::{FailurePolicy, Verdict};
use crate::chain::{Effects, Lookup, Phase, Plugin};
use crate::host::Versioned;
use crate::matching::Matched;
use crate::notes::AnnotationLevel;

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// The longest value of an audit annotation.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;
/// The annotation that tells of failures that only the audit log hears of.
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The plugin.
pub struct ValidatingAdmissionPolicy {
    policies: Arc<Policies>,
}

impl ValidatingAdmissionPolicy {
    /// Enforces these policies.
    pub fn new(policies: Arc<Policies>) -> Self {
        Self { policies }
    }
}

/// A rule that did not hold, or could not be evaluated.
#[derive(Debug, PartialEq)]
struct Failure {
    /// The place of the rule in the policy.
    index: usize,
    message: String,
    /// Empty where upstream leaves it open.
    reason: Box<str>,
}

/// What a policy says to a request with one parameter.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    failures: Vec<Failure>,
    annotations: Vec<(Box<str>, String)>,
    /// Annotations that could not be made, which refuses the request.
    annotation_errors: Vec<String>,
}

/// The first refusal; the others are not told.
#[derive(Default)]
struct Denied(Option<(String, Box<str>)>);

impl Denied {
    fn add(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) {
        if self.0.is_some() {
            return;
        }
        let policy = &policy.name;
        let message = match binding {
            Some(binding) => {
                let binding = &binding.name;
                format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
            }
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        };
        self.0 = Some((message, reason.into()));
    }

    /// A policy or binding that cannot be used, if that refuses requests.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str) {
        if policy.failure_policy == FailurePolicy::Fail {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.add(policy, binding, &format!("failed to configure {what}: {error}"), "");
        }
    }

    fn into_result(self, attributes: &Attributes<'_>) -> ApiResult<()> {
        let Some((message, reason)) = self.0 else { return Ok(()) };
        let mut error = forbidden(attributes, &message);
        (error.code, error.reason) = match &*reason {
            "Forbidden" => (403, "Forbidden"),
            "Unauthorized" => (401, "Unauthorized"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        let cause = Cause { message, reason: String::new(), field: String::new() };
        error.details.get_or_insert_default().causes.push(cause);
        Err(error)
    }
}

#[async_trait]
impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, _: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && !self.policies.is_empty()
    }

    async fn validate(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        if is_exempt(attributes) {
            return Ok(());
        }
        let mut denied = Denied::default();
        for bound in self.policies.bound().iter() {
            match bound.policy.criteria.matches(attributes, lookup) {
                Ok(None) => {}
                Ok(Some(matched)) => enforce(bound, matched, attributes, lookup, &mut denied).await?,
                Err(error) => denied.misconfigured(&bound.policy, None, &error.message),
            }
        }
        denied.into_result(attributes)
    }
}

/// Holds a request against a policy that matches it.
async fn enforce(
    bound: &Bound,
    matched: Matched<'_>,
    attributes: &Attributes<'_>,
    lookup: &dyn Lookup,
    denied: &mut Denied,
) -> ApiResult<()> {
    let policy = &*bound.policy;
    if let Some(kind) = policy.param_kind.as_ref().filter(|kind| attributes.host.parameter_scope(kind).is_none()) {
        denied.misconfigured(policy, None, &params::unknown_kind(kind));
        return Ok(());
    }
    let compiled = policy.compiled();
    let mut prepared: Option<(Versioned<'_>, Seen)> = None;
    let mut annotations: Vec<(Box<str>, Vec<String>)> = Vec::new();
    for binding in &bound.bindings {
        match binding.applies(attributes, lookup) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                denied.misconfigured(policy, Some(binding), &error.message);
                continue;
            }
        }
        let found = params::collect(policy.param_kind.as_ref(), binding.param_ref.as_ref(), attributes).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                denied.misconfigured(policy, Some(binding), &error);
                continue;
            }
        };
        if found.is_empty() {
            continue;
        }
        let (versioned, seen) = match &mut prepared {
            Some(prepared) => &*prepared,
            none => match Versioned::of(attributes, matched).await {
                Ok(versioned) => &*none.insert((versioned, Seen::new(compiled, attributes, matched, lookup))),
                Err(error) => {
                    let error = format!("failed to convert object version: {}", error.message);
                    denied.misconfigured(policy, Some(binding), &error);
                    continue;
                }
            },
        };
        for param in &found {
            let outcome = judge(policy, compiled, versioned, seen, param.as_ref());
            settle(outcome, policy, binding, attributes, denied, &mut annotations);
        }
    }
    for (key, values) in annotations {
        attributes.notes.annotate(format!("{}/{key}", policy.name), values.join(", "), AnnotationLevel::Metadata);
    }
    Ok(())
}

/// Draws the consequences that the binding asks for.
fn settle(
    outcome: Outcome,
    policy: &Policy,
    binding: &Binding,
    attributes: &Attributes<'_>,
    denied: &mut Denied,
    annotations: &mut Vec<(Box<str>, Vec<String>)>,
) {
    for failure in &outcome.failures {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => denied.add(policy, Some(binding), &failure.message, &failure.reason),
                "Warn" => attributes.notes.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, failure.message
                )),
                "Audit" => {
                    let told = json!([{
                        "message": failure.message,
                        "policy": policy.name,
                        "binding": binding.name,
                        "expressionIndex": failure.index,
                        "validationActions": binding.actions,
                    }]);
                    attributes.notes.annotate(FAILURE_ANNOTATION, told.to_string(), AnnotationLevel::Metadata);
                }
                _ => {}
            }
        }
    }
    for (key, mut value) in outcome.annotations {
        value.truncate(
            (0..=MAX_ANNOTATION_BYTES.min(value.len())).rfind(|end| value.is_char_boundary(*end)).unwrap_or(0),
        );
        match annotations.iter_mut().find(|(known, _)| *known == key) {
            None => annotations.push((key, vec![value])),
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
        }
    }
    for error in &outcome.annotation_errors {
        denied.add(policy, Some(binding), error, "");
    }
}

/// Evaluates a policy. A failure to evaluate counts by the failure policy.
fn judge(
    policy: &Policy,
    compiled: &Compiled,
    versioned: &Versioned<'_>,
    seen: &Seen,
    param: Option<&Value>,
) -> Outcome {
    let failed = |message: String| match policy.failure_policy {
        FailurePolicy::Ignore => Outcome::default(),
        FailurePolicy::Fail => {
            Outcome { failures: vec![Failure { index: 0, message, reason: "".into() }], ..Outcome::default() }
        }
    };
    if !compiled.match_conditions.is_empty() {
        let bindings = seen.for_conditions(versioned, param);
        match compiled.match_conditions.evaluate(&bindings, policy.failure_policy) {
            Verdict::Matches => {}
            Verdict::Excluded(_) => return Outcome::default(),
            Verdict::Failed(message) => return failed(message),
        }
    }
    let mut outcome = Outcome::default();
    let mut broken = Vec::new();
    let bindings = seen.for_rules(versioned, param);
    let mut run = Run::new(&bindings, &compiled.variables, POLICY_BUDGET);
    for (index, validation) in compiled.validations.iter().enumerate() {
        match run.evaluate(&validation.expression) {
            Err(error) => return failed(error.to_string()),
            Ok(Ok(Cel::Bool(true))) => {}
            Ok(Ok(_)) => broken.push((index, Ok(validation))),
            Ok(Err(error)) => broken.push((index, Err(error))),
        }
    }
    if !broken.is_empty() {
        let remaining = run.remaining();
        let bindings = seen.for_texts(versioned, param);
        let mut messages = Run::new(&bindings, &compiled.variables, remaining);
        for (index, broken) in broken {
            let failure = match broken {
                Ok(validation) => match message(validation, &mut messages) {
                    Ok(message) => Failure { index, message, reason: validation.reason.clone() },
                    Err(_) if policy.failure_policy == FailurePolicy::Ignore => continue,
                    Err(error) => Failure { index, message: error, reason: "".into() },
                },
                Err(_) if policy.failure_policy == FailurePolicy::Ignore => continue,
                Err(error) => Failure { index, message: error, reason: "".into() },
            };
            outcome.failures.push(failure);
        }
    }
    if !compiled.audit_annotations.is_empty()
        && let Err(error) = annotate(policy, compiled, &seen.for_texts(versioned, param), &mut outcome)
    {
        return failed(error);
    }
    outcome
}

/// What a broken rule says: the first of its message expression, its message and its expression that is of use.
fn message<'a>(validation: &'a Validation, run: &mut Run<'a>) -> Result<String, String> {
    if let Some(expression) = &validation.message_expression {
        let value = run.evaluate(expression).map_err(|error| format!("failed messageExpression: {error}"))?;
        if let Ok(Cel::String(text)) = value {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') {
                return Ok(text.to_owned());
            }
        }
    }
    if !validation.message.is_empty() {
        return Ok(validation.message.to_string());
    }
    Ok(format!("failed expression: {}", validation.expression.text.trim()))
}

fn annotate(
    policy: &Policy,
    compiled: &Compiled,
    bindings: &bailiwick_cel::Bindings<'_>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut run = Run::new(bindings, &compiled.variables, POLICY_BUDGET);
    for annotation in &compiled.audit_annotations {
        match run.evaluate(&annotation.value).map_err(|error| error.to_string())? {
            Ok(Cel::String(value)) if value.trim().is_empty() => {}
            Ok(Cel::String(value)) => outcome.annotations.push((annotation.key.clone(), value.trim().to_owned())),
            Ok(Cel::Null) => {}
            Ok(other) => outcome.annotation_errors.push(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                annotation.value.text,
                other.type_name()
            )),
            Err(_) if policy.failure_policy == FailurePolicy::Ignore => {}
            Err(error) => outcome.annotation_errors.push(error),
        }
    }
    Ok(())
}
