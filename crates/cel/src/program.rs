//! Checked expressions and programs: the two steps between an environment and a value.

mod attribute;
mod evaluate;
mod fold;
mod lazy;
mod node;
mod plan;
mod plan_fold;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Expr, ExprId};
use crate::cost::{CostEstimate, SizeEstimator};
use crate::env::Env;
use crate::error::EvalError;
use crate::estimate;
use crate::library::Overload;
use crate::types::Type;
use crate::value::Value;

pub use lazy::{LazyVariable, LazyVariables};
pub(crate) use plan_fold::is_binding;

/// An expression whose types are known.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(crate) env: Env,
    pub(crate) root: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: HashMap<ExprId, Reference>,
}

/// What a name or a call was found to mean.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable, or a constant with its value.
    Name { value: Option<Value<'static>> },
    /// The signatures a call may have.
    Overloads(Vec<Arc<Overload>>),
}

/// A constant part of the expression fails in every run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

impl Checked {
    /// The type of the whole expression.
    pub fn output_type(&self) -> &Type {
        self.type_of(self.root.id)
    }

    /// What a run may cost, given what is known about the sizes of variables.
    pub fn estimate_cost(&self, sizes: &dyn SizeEstimator) -> CostEstimate {
        estimate::estimate(self, sizes)
    }

    /// The expression in the form that runs.
    pub fn program(&self) -> Result<Program, PlanError> {
        plan::plan(self)
    }

    /// The syntax tree, names resolved.
    pub fn root(&self) -> &Expr {
        &self.root
    }

    pub(crate) fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn overloads(&self, id: ExprId) -> &[Arc<Overload>] {
        match self.references.get(&id) {
            Some(Reference::Overloads(overloads)) => overloads,
            _ => &[],
        }
    }
}

/// An expression ready to run. Runs share it.
#[derive(Debug)]
pub struct Program {
    root: node::Node,
    /// How many variables of comprehensions are alive at once at most.
    locals: u32,
    /// How deep the expression is nested, and so the run.
    depth: u32,
}

/// Values of variables by name.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Bindings<'a> {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a variable; a later binding of the same name takes its place.
    #[must_use]
    pub fn bind(mut self, name: &'a str, value: Value<'a>) -> Self {
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => self.values.push((name, value)),
        }
        self
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// What evaluations may spend, and what they have spent.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: u64,
    spent: u64,
}

impl Budget {
    /// A budget of so many cost units.
    pub fn new(limit: u64) -> Self {
        Self { limit, spent: 0 }
    }

    /// No limit, but a count.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// What was spent so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// What is left.
    pub fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.spent)
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimitExceeded) } else { Ok(()) }
    }
}

impl Program {
    /// Runs the program. The value borrows from the program and from what is bound.
    pub fn evaluate<'a>(&'a self, bindings: &'a Bindings<'a>, budget: &mut Budget) -> Result<Value<'a>, EvalError> {
        evaluate::run(self, bindings, None, budget)
    }

    /// Runs the program with variables that are computed when it first needs them.
    pub fn evaluate_with<'a>(
        &'a self,
        bindings: &'a Bindings<'a>,
        variables: &mut LazyVariables<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        evaluate::run(self, bindings, Some(variables), budget)
    }
}
