//! Which requests a webhook or policy is about: rules, selectors and the versions that count as the same.

mod rule;
#[cfg(test)]
mod tests;

use bailiwick_machinery::selector::LabelSelector;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupResource};
use serde_json::Value;

use crate::attributes::{Attributes, KindRef, Operation, ResourceRef};
use crate::chain::Lookup;

pub use rule::Rule;

/// Whether a rule about one version is also about the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchPolicy {
    Exact,
    Equivalent,
}

/// What a missing list of rules means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoRules {
    Everything,
    Nothing,
}

/// What a webhook or policy is about, compiled from its object.
#[derive(Debug)]
pub struct Criteria {
    rules: Box<[Rule]>,
    no_rules: NoRules,
    exclude: Box<[Rule]>,
    policy: MatchPolicy,
    namespace_selector: Selector,
    object_selector: Selector,
}

/// The version of the request's resource that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched<'a> {
    pub resource: ResourceRef<'a>,
    pub kind: KindRef<'a>,
}

#[derive(Debug)]
enum Selector {
    Everything,
    Nothing,
    Labels(LabelSelector),
    /// Stored before it was checked.
    Invalid(String),
}

impl Selector {
    fn of(holder: &Value, field: &str) -> Self {
        match LabelSelector::from_object(holder.get(field)) {
            Ok(None) => Self::Nothing,
            Ok(Some(selector)) if selector.is_empty() => Self::Everything,
            Ok(Some(selector)) => Self::Labels(selector),
            Err(error) => Self::Invalid(error),
        }
    }
}

fn rules(holder: &Value, field: &str) -> Box<[Rule]> {
    holder.get(field).and_then(Value::as_array).into_iter().flatten().map(Rule::from_value).collect()
}

/// Kinds that configure admission: what they say must not decide about themselves.
const CONFIGURATION_KINDS: &[&str] = &[
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Whether a request is about the configuration of admission, which webhooks and policies never see.
pub fn is_admission_configuration(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    kind.group == "admissionregistration.k8s.io" && CONFIGURATION_KINDS.contains(&kind.kind)
}

impl Criteria {
    /// Of a webhook in a stored configuration.
    pub fn of_webhook(webhook: &Value) -> Self {
        Self {
            rules: rules(webhook, "rules"),
            no_rules: NoRules::Nothing,
            exclude: Box::default(),
            ..Self::of_selectors(webhook)
        }
    }

    /// Of a MatchResources: a policy's `matchConstraints` or a binding's `matchResources`.
    pub fn of_match_resources(resources: &Value) -> Self {
        Self {
            rules: rules(resources, "resourceRules"),
            no_rules: NoRules::Everything,
            exclude: rules(resources, "excludeResourceRules"),
            ..Self::of_selectors(resources)
        }
    }

    fn of_selectors(holder: &Value) -> Self {
        Self {
            rules: Box::default(),
            no_rules: NoRules::Nothing,
            exclude: Box::default(),
            policy: match holder.get("matchPolicy").and_then(Value::as_str) {
                Some("Equivalent") => MatchPolicy::Equivalent,
                _ => MatchPolicy::Exact,
            },
            namespace_selector: Selector::of(holder, "namespaceSelector"),
            object_selector: Selector::of(holder, "objectSelector"),
        }
    }

    /// Whether any request with this operation can match.
    pub fn concerns(&self, operation: Operation) -> bool {
        self.rules.is_empty() && self.no_rules == NoRules::Everything
            || self.rules.iter().any(|rule| rule.concerns(operation))
    }

    /// The version in which the request matches. Selectors that cannot be evaluated are errors only for requests that
    /// the rules match.
    pub fn matches<'a>(&self, attributes: &'a Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<Option<Matched<'a>>> {
        if !self.exclude.is_empty() && self.match_rules(&self.exclude, attributes).is_some() {
            return Ok(None);
        }
        let matched = match (self.rules.is_empty(), self.no_rules) {
            (true, NoRules::Everything) => Some(own(attributes)),
            _ => self.match_rules(&self.rules, attributes),
        };
        let Some(matched) = matched else { return Ok(None) };
        let by_namespace = self.match_namespace(attributes, lookup);
        if by_namespace == Ok(false) || !self.match_object(attributes)? {
            return Ok(None);
        }
        by_namespace.map(|_| Some(matched))
    }

    fn match_rules<'a>(&self, rules: &[Rule], attributes: &'a Attributes<'_>) -> Option<Matched<'a>> {
        let own = own(attributes);
        if rules.iter().any(|rule| rule.matches(attributes, own.resource)) {
            return Some(own);
        }
        if self.policy == MatchPolicy::Exact || !rules.iter().any(|rule| rule.concerns(attributes.operation)) {
            return None;
        }
        rules.iter().find_map(|rule| {
            let found = attributes.equivalents().iter().find(|other| rule.matches(attributes, other.resource_ref()))?;
            Some(Matched { resource: found.resource_ref(), kind: found.kind_ref() })
        })
    }

    fn match_namespace(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<bool> {
        let is_namespace = attributes.resource.plural == "namespaces";
        if attributes.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = match &self.namespace_selector {
            Selector::Everything => return Ok(true),
            Selector::Nothing => return Ok(false),
            Selector::Invalid(error) => return Err(ApiError::internal(error)),
            Selector::Labels(selector) => selector,
        };
        // What is stored is not what will be.
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && writes {
            return Ok(attributes.object.as_deref().is_some_and(|object| has_labels(object, selector)));
        }
        lookup.namespace_matches(attributes.namespace, selector).ok_or_else(|| missing_namespace(attributes.namespace))
    }

    fn match_object(&self, attributes: &Attributes<'_>) -> ApiResult<bool> {
        match &self.object_selector {
            Selector::Everything => Ok(true),
            Selector::Nothing => Ok(false),
            Selector::Invalid(error) => Err(ApiError::internal(error)),
            Selector::Labels(selector) => {
                let mut objects = attributes.object.as_deref().into_iter().chain(attributes.old_object);
                Ok(objects.any(|object| has_labels(object, selector)))
            }
        }
    }
}

fn own<'a>(attributes: &'a Attributes<'_>) -> Matched<'a> {
    Matched { resource: attributes.resource_ref(), kind: attributes.kind }
}

fn has_labels(object: &Value, selector: &LabelSelector) -> bool {
    let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
    selector.matches(|key| labels?.get(key)?.as_str())
}

fn missing_namespace(name: &str) -> ApiError {
    ApiError::not_found(&GroupResource { group: String::new(), resource: "namespaces".to_owned() }, name)
}
