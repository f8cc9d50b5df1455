//! Why there is no answer: the fewest statements that cannot all hold, told in order from the wants on.

use std::collections::BTreeSet;
use std::fmt;

use super::build::{Problem, Statement};
use super::solver::{Lit, Solver};
use super::story;

/// Statements that contradict each other, so that the wants cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// From what is wanted to where it ends.
    pub reasons: Vec<Reason>,
    /// What would help, the simplest first.
    pub hints: Vec<String>,
    /// The wants that the contradiction is about; the others can be met without them.
    pub wants: Vec<String>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In plain words.
    pub plain: String,
    /// In OLM's words.
    pub olm: String,
}

impl Refusal {
    /// The text that OLM puts into the condition ResolutionFailed.
    pub fn olm_text(&self) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(|reason| reason.olm.as_str()).collect();
        format!("constraints not satisfiable: {}", reasons.join(", "))
    }

    /// The chain and what would help, in one line.
    pub fn sentence(&self) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(|reason| reason.plain.as_str()).collect();
        let mut text = reasons.join("; ");
        for (i, hint) in self.hints.iter().enumerate() {
            text.push_str(if i == 0 { ". To fix it: " } else { "; or " });
            text.push_str(hint);
        }
        text
    }
}

/// The chain and what would help, line by line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reason) in self.reasons.iter().enumerate() {
            let lead = if i == 0 { "  because " } else { "  and     " };
            writeln!(f, "{lead}{}", reason.plain)?;
        }
        for (i, hint) in self.hints.iter().enumerate() {
            let lead = if i == 0 { "  to fix: " } else { "  or:     " };
            writeln!(f, "{lead}{hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Tells a contradiction.
pub(super) fn refuse(problem: &Problem, core: Vec<u32>) -> Refusal {
    let core = minimal(problem, core.into_iter().map(|it| it as usize).collect());
    story::tell(problem, &core)
}

/// Leaves out every statement without which the others still contradict each other. Those that are hardest to read, the
/// at-most-one sets, are tried first.
fn minimal(problem: &Problem, core: Vec<usize>) -> Vec<usize> {
    let mut kept = core;
    let mut tried = kept.clone();
    tried.sort_by_key(|number| match problem.statements.get(*number) {
        Some(Statement::OnePackage(..) | Statement::OneApi(..)) => 0,
        Some(Statement::Stays(_)) => 1,
        Some(Statement::Wanted { .. } | Statement::Asked(_)) => 3,
        _ => 2,
    });
    for candidate in tried {
        let without: Vec<usize> = kept.iter().copied().filter(|it| *it != candidate).collect();
        if contradicts(problem, &without) {
            kept = without;
        }
    }
    kept
}

fn contradicts(problem: &Problem, numbers: &[usize]) -> bool {
    let statements = numbers.iter().filter_map(|number| problem.statements.get(*number));
    let variables: BTreeSet<u32> = statements.flat_map(Statement::variables).collect();
    let mut solver = Solver::new(problem.candidates.len());
    problem.teach(&mut solver, numbers.iter().copied());
    let open = |solver: &Solver| variables.iter().copied().find(|var| solver.value(*var).is_none());
    solver.solve(|solver| open(solver).map(Lit::is_not)).is_err()
}
