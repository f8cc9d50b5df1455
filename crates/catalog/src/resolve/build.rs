//! The statements of a resolution: what must be, what needs what, and what excludes each other.

use std::collections::{BTreeMap, HashMap};

use super::installed::Installed;
use super::providers::Providers;
use super::request::{Request, Source};
use super::requirement::Requirement;
use super::snapshot::{Bundle, Entry};
use super::solver::{Lit, Solver, Var};
use super::wanted::{Candidate, Nothing, Wanted, wanted};
use crate::property::Gvk;

/// Something that must hold in the answer.
#[derive(Debug)]
pub(super) enum Statement<'r> {
    /// One of these meets a want.
    Wanted { want: usize, candidates: Vec<Var>, nothing: Option<Nothing> },
    /// If the bundle is there, one of these is.
    Requires { by: Var, requirement: &'r Requirement, candidates: Vec<Var> },
    /// No want is behind an installed operator, so it stays.
    Stays(Var),
    /// The bundle may not be installed.
    Prohibited(Var, Ban),
    /// The bundle takes the place of an installed one.
    Replaces(Var, Var),
    /// One bundle of a package.
    OnePackage(String, Vec<Var>),
    /// One provider of an API.
    OneApi(Gvk, Vec<Var>),
    /// Somebody asks whether the bundle could be there.
    Asked(Vec<Var>),
}

/// Why a bundle may not be installed.
#[derive(Debug)]
pub(super) enum Ban {
    /// The catalog has taken it back.
    Deprecated,
    /// What it requires cannot be read. OLM gives up altogether; the rest of the catalog can be used without it.
    Unreadable(String),
}

/// All statements, and the bundles they are about.
pub(super) struct Problem<'r> {
    pub(super) request: &'r Request,
    pub(super) candidates: Vec<Candidate>,
    numbers: HashMap<Candidate, Var>,
    pub(super) statements: Vec<Statement<'r>>,
    /// The `Requires` of each bundle, in the order of its properties.
    pub(super) requires: Vec<Vec<usize>>,
    /// By bundle, the installed one that it takes the place of.
    pub(super) replaces: HashMap<Var, Var>,
}

/// A candidate with its content.
#[derive(Clone, Copy)]
pub(super) enum Content<'r> {
    Installed(&'r Installed),
    Offered(&'r Source, &'r Entry, &'r Bundle),
}

impl<'r> Content<'r> {
    pub(super) fn name(&self) -> &'r str {
        match self {
            Content::Installed(operator) => &operator.name,
            Content::Offered(_, _, bundle) => &bundle.name,
        }
    }

    fn package(&self) -> Option<&'r str> {
        match self {
            Content::Installed(operator) => operator.package.as_deref(),
            Content::Offered(_, _, bundle) => Some(&bundle.package),
        }
    }

    fn provides(&self) -> &'r [Gvk] {
        match self {
            Content::Installed(operator) => &operator.provides,
            Content::Offered(_, _, bundle) => &bundle.provides,
        }
    }

    fn requirements(&self) -> Result<&'r [Requirement], String> {
        match self {
            Content::Installed(operator) => Ok(&operator.requirements),
            Content::Offered(_, _, bundle) => bundle.requirements(),
        }
    }
}

impl<'r> Problem<'r> {
    /// Gathers everything that the wants and the installed operators lead to.
    pub(super) fn new(request: &'r Request) -> Self {
        let mut problem = Problem {
            request,
            candidates: Vec::new(),
            numbers: HashMap::new(),
            statements: Vec::new(),
            requires: Vec::new(),
            replaces: HashMap::new(),
        };
        let mut open = Vec::new();
        for (number, want) in request.wants.iter().enumerate() {
            let Wanted { candidates, current, nothing } = wanted(request, want);
            let candidates: Vec<Var> = candidates.into_iter().map(|it| problem.number(it, &mut open)).collect();
            if let Some(current) = current {
                let current = problem.number(Candidate::Installed(current), &mut open);
                for candidate in candidates.iter().filter(|it| **it != current) {
                    problem.replaces.insert(*candidate, current);
                    problem.statements.push(Statement::Replaces(*candidate, current));
                }
            }
            problem.statements.push(Statement::Wanted { want: number, candidates, nothing });
        }
        for (number, operator) in request.installed.iter().enumerate() {
            let var = problem.number(Candidate::Installed(number), &mut open);
            if !request.wants.iter().any(|want| want.installed.as_deref() == Some(&operator.name)) {
                problem.statements.push(Statement::Stays(var));
            }
        }
        problem.follow(open);
        problem.exclude();
        problem
    }

    pub(super) fn var_of(&self, candidate: Candidate) -> Option<Var> {
        self.numbers.get(&candidate).copied()
    }

    fn number(&mut self, candidate: Candidate, open: &mut Vec<Var>) -> Var {
        if let Some(known) = self.numbers.get(&candidate) {
            return *known;
        }
        let var = Var::try_from(self.candidates.len()).expect("invariant: a catalog has fewer bundles than u32 counts");
        self.candidates.push(candidate);
        self.requires.push(Vec::new());
        self.numbers.insert(candidate, var);
        open.push(var);
        var
    }

    pub(super) fn content(&self, var: Var) -> Content<'r> {
        let candidate = self.candidates.get(var as usize);
        let found = candidate.and_then(|candidate| match candidate {
            Candidate::Installed(at) => self.request.installed.get(*at).map(Content::Installed),
            Candidate::Offered { source, entry } => {
                let source = self.request.sources.get(*source)?;
                let entry = source.snapshot.entry(*entry)?;
                Some(Content::Offered(source, entry, source.snapshot.bundle_of(entry)))
            }
        });
        found.expect("invariant: variables are numbered when their candidates are found")
    }

    /// Adds what bundles require, and what that requires.
    fn follow(&mut self, mut open: Vec<Var>) {
        let mut providers = Providers::new(self.request);
        while let Some(var) = open.pop() {
            let content = self.content(var);
            let preferred = match self.candidates.get(var as usize) {
                Some(Candidate::Offered { source, .. }) => Some(*source),
                _ => None,
            };
            if let Content::Offered(_, _, bundle) = content
                && bundle.is_prohibited
            {
                self.statements.push(Statement::Prohibited(var, Ban::Deprecated));
            }
            let requirements = match content.requirements() {
                Ok(requirements) => requirements,
                Err(error) => {
                    self.statements.push(Statement::Prohibited(var, Ban::Unreadable(error)));
                    continue;
                }
            };
            for requirement in requirements {
                if matches!(requirement, Requirement::Api(gvk) if self.request.apis.contains(gvk)) {
                    continue;
                }
                let found = providers.of(requirement, preferred);
                let candidates: Vec<Var> = found.iter().map(|it| self.number(*it, &mut open)).collect();
                if candidates.contains(&var) {
                    continue;
                }
                if let Some(own) = self.requires.get_mut(var as usize) {
                    own.push(self.statements.len());
                }
                self.statements.push(Statement::Requires { by: var, requirement, candidates });
            }
        }
    }

    /// One bundle of a package, one provider of an API.
    fn exclude(&mut self) {
        let mut packages: BTreeMap<&str, Vec<Var>> = BTreeMap::new();
        let mut apis: BTreeMap<&Gvk, Vec<Var>> = BTreeMap::new();
        for var in (0u32..).take(self.candidates.len()) {
            let content = self.content(var);
            if let Some(package) = content.package() {
                packages.entry(package).or_default().push(var);
            }
            for gvk in content.provides() {
                apis.entry(gvk).or_default().push(var);
            }
        }
        // Several bundles of one package exclude each other already.
        let package_of = |var: &Var| self.content(*var).package();
        let several = |members: &[Var]| {
            let first = members.first().and_then(package_of);
            first.is_none() || members.iter().any(|member| package_of(member) != first)
        };
        let packages = packages.into_iter().filter(|(_, members)| members.len() > 1);
        let apis = apis.into_iter().filter(|(_, members)| members.len() > 1 && several(members));
        let packages = packages.map(|(name, members)| Statement::OnePackage(name.to_owned(), members));
        let apis = apis.map(|(gvk, members)| Statement::OneApi(gvk.clone(), members));
        let both: Vec<Statement> = packages.chain(apis).collect();
        self.statements.extend(both);
    }

    /// Tells a solver some of the statements.
    pub(super) fn teach(&self, solver: &mut Solver, numbers: impl Iterator<Item = usize>) {
        for number in numbers {
            let Some(statement) = self.statements.get(number) else { continue };
            let origin = u32::try_from(number).unwrap_or(u32::MAX);
            match statement {
                Statement::Wanted { candidates, .. } | Statement::Asked(candidates) => {
                    solver.add_clause(origin, candidates.iter().map(|var| Lit::is(*var)).collect());
                }
                Statement::Requires { by, candidates, .. } => {
                    let one = candidates.iter().map(|var| Lit::is(*var));
                    solver.add_clause(origin, std::iter::once(Lit::is_not(*by)).chain(one).collect());
                }
                Statement::Stays(var) => solver.add_clause(origin, vec![Lit::is(*var)]),
                Statement::Prohibited(var, _) => solver.add_clause(origin, vec![Lit::is_not(*var)]),
                Statement::Replaces(new, old) => {
                    solver.add_clause(origin, vec![Lit::is_not(*new), Lit::is_not(*old)]);
                }
                Statement::OnePackage(_, members) | Statement::OneApi(_, members) => {
                    solver.add_at_most_one(origin, members.clone());
                }
            }
        }
    }
}

impl Statement<'_> {
    /// The variables it speaks of.
    pub(super) fn variables(&self) -> Vec<Var> {
        match self {
            Statement::Wanted { candidates, .. } | Statement::Asked(candidates) => candidates.clone(),
            Statement::Requires { by, candidates, .. } => {
                std::iter::once(*by).chain(candidates.iter().copied()).collect()
            }
            Statement::Stays(var) | Statement::Prohibited(var, _) => vec![*var],
            Statement::Replaces(new, old) => vec![*new, *old],
            Statement::OnePackage(_, members) | Statement::OneApi(_, members) => members.clone(),
        }
    }
}
