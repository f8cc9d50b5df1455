//! Finds OLM's answer: choices are made in order, wants first and then what the chosen bundles require, each with the
//! best candidate that is possible under the choices before it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::build::{Content, Problem, Statement};
use super::left_out::left_out;
use super::refusal::{Refusal, refuse};
use super::request::{Because, Request, Resolution, Step};
use super::solver::{Lit, Solver, Var};
use super::wanted::Candidate;

/// Which bundles to install.
pub fn resolve(request: &Request) -> Result<Resolution, Refusal> {
    let problem = Problem::new(request);
    let mut solver = Solver::new(problem.candidates.len());
    problem.teach(&mut solver, 0..problem.statements.len());
    match solver.solve(|solver| Pass::new(&problem).run(solver).err()) {
        Err(core) => Err(refuse(&problem, core)),
        Ok(()) => {
            let mut pass = Pass::new(&problem);
            let _ = pass.run(&solver);
            Ok(pass.resolution(&solver))
        }
    }
}

/// Why a bundle is not in the answer: the statements that contradict it, or `None` when it could be there and another
/// one is only preferred.
pub fn why_not(request: &Request, bundle: &str) -> Option<Refusal> {
    let mut problem = Problem::new(request);
    let mut named: Vec<Var> = Vec::new();
    for (number, source) in request.sources.iter().enumerate() {
        let entries = source.snapshot.entries.iter().enumerate();
        let entries = entries.filter(|(_, entry)| source.snapshot.bundle_of(entry).name == bundle);
        named.extend(entries.filter_map(|(entry, _)| problem.var_of(Candidate::Offered { source: number, entry })));
    }
    if named.is_empty() {
        return Some(left_out(request, bundle));
    }
    problem.statements.push(Statement::Asked(named));
    let mut solver = Solver::new(problem.candidates.len());
    problem.teach(&mut solver, 0..problem.statements.len());
    let solved = solver.solve(|solver| {
        (0u32..).take(problem.candidates.len()).find(|var| solver.value(*var).is_none()).map(Lit::is_not)
    });
    solved.err().map(|core| refuse(&problem, core))
}

/// One walk through the choices, as far as they are settled.
struct Pass<'p, 'r> {
    problem: &'p Problem<'r>,
    chosen: HashSet<Var>,
    /// In the order of choosing, with the statement that asked.
    order: Vec<(Var, usize)>,
}

impl<'p, 'r> Pass<'p, 'r> {
    fn new(problem: &'p Problem<'r>) -> Self {
        Pass { problem, chosen: HashSet::new(), order: Vec::new() }
    }

    /// Walks until a choice is open; the error is what to try there.
    fn run(&mut self, solver: &Solver) -> Result<(), Lit> {
        let first = self.problem.statements.iter().enumerate();
        let first = first.filter(|(_, it)| matches!(it, Statement::Wanted { .. } | Statement::Stays(_)));
        let mut queue: VecDeque<usize> = first.map(|(number, _)| number).collect();
        while let Some(number) = queue.pop_front() {
            let candidates: &[Var] = match self.problem.statements.get(number) {
                Some(Statement::Wanted { candidates, .. } | Statement::Requires { candidates, .. }) => candidates,
                Some(Statement::Stays(var)) => std::slice::from_ref(var),
                _ => continue,
            };
            if candidates.iter().any(|var| self.chosen.contains(var)) {
                continue;
            }
            let possible = candidates.iter().find(|var| solver.value(**var) != Some(false));
            let Some(var) = possible.copied() else { continue };
            if solver.value(var).is_none() {
                return Err(Lit::is(var));
            }
            self.chosen.insert(var);
            self.order.push((var, number));
            queue.extend(self.problem.requires.get(var as usize).into_iter().flatten());
        }
        Ok(())
    }

    fn resolution(&self, solver: &Solver) -> Resolution {
        let names: HashMap<Var, &str> =
            self.order.iter().map(|(var, _)| (*var, self.problem.content(*var).name())).collect();
        let steps = self.order.iter().filter_map(|(var, number)| {
            let Content::Offered(source, entry, bundle) = self.problem.content(*var) else { return None };
            let (_, channel) = source.snapshot.channel_of(entry);
            let (because, candidates) = match self.problem.statements.get(*number)? {
                Statement::Wanted { want, candidates, .. } => {
                    (Because::Wanted(self.problem.request.wants.get(*want)?.name.clone()), candidates)
                }
                Statement::Requires { by, requirement, candidates } => {
                    let by = names.get(by).copied().unwrap_or_default().to_owned();
                    (Because::Required { by, requirement: requirement.to_string() }, candidates)
                }
                _ => return None,
            };
            let better = candidates.iter().take_while(|it| *it != var);
            let mut passed_over: Vec<String> = better
                .filter(|it| solver.value(**it) == Some(false))
                .map(|it| self.problem.content(*it).name().to_owned())
                .filter(|name| name != &bundle.name)
                .collect();
            passed_over.dedup();
            let replaces = self.problem.replaces.get(var).map(|old| self.problem.content(*old).name().to_owned());
            Some(Step {
                bundle: bundle.name.clone(),
                package: bundle.package.clone(),
                version: bundle.version.clone(),
                channel: channel.name.clone(),
                source: source.key.clone(),
                image: bundle.image.clone(),
                replaces,
                because,
                passed_over,
            })
        });
        Resolution { steps: steps.collect() }
    }
}
