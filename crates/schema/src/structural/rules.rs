//! `x-kubernetes-validations`: CEL rules of custom resources. They are compiled when the first object of a type is
//! written, evaluated within a budget, and checked for cost and meaning when a definition is stored.
//!
//! Start with [`Rules`] for objects and with [`check_definition`] for definitions.

mod compile;
mod declare;
mod definition;
mod evaluate;
mod field_path;
mod plan;
mod ratchet;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use definition::{ExpressionCost, check_definition};
pub use evaluate::blocks_rules;
pub use field_path::Tokens;

use self::declare::Place;
use self::evaluate::{Evaluation, Unchanged};
use self::plan::Plan;
use super::schema::Schema;
use crate::field::{ErrorList, Path};

/// The cost that all rules of one object may have together: about a second.
pub const OBJECT_COST_BUDGET: i64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a schema, compiled when first evaluated. Keep one beside each schema that objects are written by.
#[derive(Debug)]
pub struct Rules {
    schema: Arc<Schema>,
    plan: OnceLock<Option<Plan>>,
}

/// What rules say of a default, found at `path`: they must hold both where it stays what it was and where it is new.
pub fn validate_default(schema: &Arc<Schema>, path: &Path, default: &Value, budget: &mut i64) -> ErrorList {
    let Some(plan) = Plan::of(schema, Place::of(schema)) else { return ErrorList::new() };
    let run = |old: Option<&Value>| {
        let mut evaluation = Evaluation { base: path, budget: *budget, findings: Findings::default() };
        evaluation.run(&plan, default, old, Unchanged::Refused);
        (evaluation.findings.errors, evaluation.budget)
    };
    let (mut errors, mut remaining) = run(Some(default));
    if errors.is_empty() {
        let (as_new, remaining_as_new) = run(None);
        errors = as_new;
        remaining = remaining.min(remaining_as_new);
    }
    *budget = remaining;
    errors
}

/// What evaluating rules found.
#[derive(Debug, Default, PartialEq)]
pub struct Findings {
    /// What refuses the object.
    pub errors: ErrorList,
    /// Faults that the old object had already; they are forgiven with a warning.
    pub warnings: Vec<String>,
}

impl Rules {
    /// The rules of a resource's schema. Nothing is compiled yet.
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { schema, plan: OnceLock::new() }
    }

    /// Whether there are any, so that callers can spare themselves preparing an old object.
    pub fn is_empty(&self) -> bool {
        !self.schema.below.rules
    }

    /// Evaluates all rules on an object that is valid by its schema. With `old`, transition rules run and faults that
    /// have not changed are forgiven. `budget` is what may still be spent; it ends negative when it ran out.
    pub fn validate(&self, path: &Path, object: &Value, old: Option<&Value>, budget: &mut i64) -> Findings {
        if self.is_empty() {
            return Findings::default();
        }
        let Some(plan) = self.plan.get_or_init(|| Plan::of(&self.schema, Place::Resource)) else {
            return Findings::default();
        };
        let mut evaluation = Evaluation { base: path, budget: *budget, findings: Findings::default() };
        evaluation.run(plan, object, old, Unchanged::Forgiven);
        *budget = evaluation.budget;
        evaluation.findings
    }
}
