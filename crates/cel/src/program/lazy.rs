//! Variables that are expressions themselves: computed when a program first names them, then kept for the programs
//! that run on the same input.

use super::{Bindings, Budget, Program, evaluate};
use crate::error::EvalError;
use crate::value::Value;

/// How deep programs may be nested in each other, counted in steps of their expressions. Variables can name one another
/// in a chain as long as a request can be; this keeps the chain within the stack. A single expression has at most 250.
const MAX_NESTED_DEPTH: u32 = 500;

/// What starting a nested program takes, in the same measure.
const NESTING_DEPTH: u32 = 4;

/// A variable by its full name and what computes it, or why nothing can.
#[derive(Debug)]
pub struct LazyVariable {
    pub name: Box<str>,
    /// As messages call it.
    pub label: Box<str>,
    pub program: Result<Program, String>,
    /// What one computation may cost.
    pub cost_limit: u64,
}

/// The variables of a group of programs, on one input.
#[derive(Debug)]
pub struct LazyVariables<'a> {
    variables: &'a [LazyVariable],
    known: Vec<Option<Result<Value<'a>, EvalError>>>,
    spent: u64,
    depth: u32,
}

impl<'a> LazyVariables<'a> {
    /// Nothing is computed yet.
    pub fn new(variables: &'a [LazyVariable]) -> Self {
        Self { variables, known: Vec::new(), spent: 0, depth: 0 }
    }

    /// What computing variables has cost since this was last asked.
    pub fn take_spent(&mut self) -> u64 {
        std::mem::take(&mut self.spent)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| *variable.name == *name)
    }

    pub(super) fn get(&mut self, name: &str, bindings: &'a Bindings<'a>) -> Option<Result<Value<'a>, EvalError>> {
        // A later variable of the same name hides the earlier.
        let at = self.variables.iter().rposition(|variable| *variable.name == *name)?;
        if let Some(Some(known)) = self.known.get(at) {
            return Some(known.clone());
        }
        let outcome = self.compute(self.variables.get(at)?, bindings);
        self.known.resize(self.variables.len(), None);
        if let Some(place) = self.known.get_mut(at) {
            *place = Some(outcome.clone());
        }
        Some(outcome)
    }

    fn compute(&mut self, variable: &'a LazyVariable, bindings: &'a Bindings<'a>) -> Result<Value<'a>, EvalError> {
        let label = &variable.label;
        let program = match &variable.program {
            Ok(program) => program,
            Err(why) => {
                return Err(EvalError::new(format!("composited variable {label:?} fails to compile: {why}")));
            }
        };
        let depth = program.depth + NESTING_DEPTH;
        if self.depth + depth > MAX_NESTED_DEPTH {
            return Err(EvalError::new(format!("composited variable {label:?} is nested too deep")));
        }
        self.depth += depth;
        let mut budget = Budget::new(variable.cost_limit);
        let outcome = evaluate::run(program, bindings, Some(self), &mut budget);
        self.depth -= depth;
        self.spent = self.spent.saturating_add(budget.spent());
        outcome.map_err(|error| EvalError::new(format!("composited variable {label:?} fails to evaluate: {error}")))
    }
}
