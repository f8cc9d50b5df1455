//! Running the expressions of a policy on one request: what they are given, and what they may cost together.

use bailiwick_cel::admission::{PER_CALL_LIMIT, variables};
use bailiwick_cel::decl::dynamic;
use bailiwick_cel::{Bindings, Budget, LazyVariable, LazyVariables, Value as Cel};
use serde_json::Value;

use super::compiled::{Compiled, Expression};
use crate::attributes::Attributes;
use crate::cel_request::{AccessValues, Input, OutOfBudget, request_fields};
use crate::chain::Lookup;
use crate::host::Versioned;
use crate::matching::Matched;

/// What the expressions of a policy see of a request. Only what some of them mentions is there.
pub(super) struct Seen {
    request: Value,
    /// The request for match conditions, which are told the resource that was asked for; none if it is the same.
    asked: Option<Value>,
    namespace: Option<Value>,
    access: Option<AccessValues>,
}

/// What `namespaceObject` does not show.
const HIDDEN_METADATA: &[&str] = &["managedFields", "ownerReferences", "selfLink"];

impl Seen {
    pub fn new(compiled: &Compiled, attributes: &Attributes<'_>, matched: Matched<'_>, lookup: &dyn Lookup) -> Self {
        let mentions = compiled.mentions;
        let request = |matched| Value::Object(request_fields(attributes, matched));
        let own = Matched { resource: attributes.resource_ref(), kind: matched.kind };
        let asked = mentions.request && own.resource != matched.resource;
        // A Namespace is not in a namespace, although its requests say so.
        let namespace = Some(attributes.namespace).filter(|n| !n.is_empty() && !attributes.is_kind("", "Namespace"));
        Self {
            request: if mentions.request { request(matched) } else { Value::Null },
            asked: asked.then(|| request(own)),
            namespace: namespace.filter(|_| mentions.namespace).and_then(|name| shown_namespace(lookup, name)),
            access: mentions.access.then(|| AccessValues::of(attributes)),
        }
    }

    /// Values for match conditions.
    pub fn for_conditions<'a>(&'a self, versioned: &'a Versioned<'_>, param: Option<&'a Value>) -> Bindings<'a> {
        let request = self.asked.as_ref().unwrap_or(&self.request);
        self.bindings(request, None, self.access.as_ref(), versioned, param)
    }

    /// Values for validations and mutations.
    pub fn for_rules<'a>(&'a self, versioned: &'a Versioned<'_>, param: Option<&'a Value>) -> Bindings<'a> {
        self.bindings(&self.request, self.namespace.as_ref(), self.access.as_ref(), versioned, param)
    }

    /// Values for messages and annotations, which cannot ask about access.
    pub fn for_texts<'a>(&'a self, versioned: &'a Versioned<'_>, param: Option<&'a Value>) -> Bindings<'a> {
        self.bindings(&self.request, self.namespace.as_ref(), None, versioned, param)
    }

    fn bindings<'a>(
        &'a self,
        request: &'a Value,
        namespace: Option<&'a Value>,
        access: Option<&'a AccessValues>,
        versioned: &'a Versioned<'_>,
        param: Option<&'a Value>,
    ) -> Bindings<'a> {
        let (object, old_object) = (versioned.object.as_deref(), versioned.old_object.as_deref());
        let input = Input { request, object, old_object, namespace, access };
        input.bindings().bind(variables::PARAMS, param.map_or(Cel::Null, dynamic))
    }
}

fn shown_namespace(lookup: &dyn Lookup, name: &str) -> Option<Value> {
    let mut namespace = Value::clone(&*lookup.namespace(name)?);
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        for hidden in HIDDEN_METADATA {
            metadata.remove(*hidden);
        }
    }
    Some(namespace)
}

/// Expressions that are run one after the other on the same values and one budget.
pub(super) struct Run<'a> {
    bindings: &'a Bindings<'a>,
    variables: LazyVariables<'a>,
    remaining: u64,
}

impl<'a> Run<'a> {
    pub fn new(bindings: &'a Bindings<'a>, variables: &'a [LazyVariable], budget: u64) -> Self {
        Self { bindings, variables: LazyVariables::new(variables), remaining: budget }
    }

    /// What is left of the budget.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The value of an expression, or upstream's words for why it has none.
    pub fn evaluate(&mut self, expression: &'a Expression) -> Result<Result<Cel<'a>, String>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let outcome = program.evaluate_with(self.bindings, &mut self.variables, &mut budget);
        for spent in [self.variables.take_spent(), budget.spent()] {
            self.remaining = self.remaining.checked_sub(spent).ok_or(OutOfBudget)?;
        }
        Ok(outcome.map_err(|error| format!("expression '{}' resulted in error: {error}", expression.text)))
    }
}
