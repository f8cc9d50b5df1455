//! A small solver for statements over variables that are true or false: clauses and at-most-one sets, with unit
//! propagation and clause learning. Whoever solves decides what to try; the solver says what follows, learns from
//! conflicts, and knows of every conclusion which statements it rests on.

/// A variable: a bundle that is installed in the end, or not.
pub(super) type Var = u32;
/// The number of a statement.
pub(super) type Origin = u32;

/// A variable, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lit(u32);

impl Lit {
    pub(super) fn is(var: Var) -> Self {
        Lit(var << 1)
    }

    pub(super) fn is_not(var: Var) -> Self {
        Lit(var << 1 | 1)
    }

    fn var(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn negated(self) -> Self {
        Lit(self.0 ^ 1)
    }

    fn is_positive(self) -> bool {
        self.0 & 1 == 0
    }
}

/// What a conclusion rests on: statements, and variables that were settled before any decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    Statement(Origin),
    Settled(u32),
}

#[derive(Clone, Debug)]
struct Clause {
    lits: Vec<Lit>,
    grounds: Vec<Ground>,
}

#[derive(Clone, Debug)]
struct Set {
    members: Vec<Var>,
    origin: Origin,
}

/// Why a variable has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Decided,
    Clause(usize),
    /// Another member of the set is true.
    Set(usize, Var),
}

/// What cannot hold.
enum Conflict {
    Clause(usize),
    /// Two members of a set.
    Set(usize, Var, Var),
}

#[derive(Default)]
pub(super) struct Solver {
    values: Vec<Option<bool>>,
    levels: Vec<u32>,
    reasons: Vec<Reason>,
    /// Literals that are true, in the order in which they became so.
    trail: Vec<Lit>,
    /// Where each level of decision begins in the trail.
    starts: Vec<usize>,
    propagated: usize,
    clauses: Vec<Clause>,
    /// Clauses by a literal of theirs that is looked at when it becomes false.
    watches: Vec<Vec<usize>>,
    sets: Vec<Set>,
    sets_of: Vec<Vec<usize>>,
    /// The grounds of a contradiction that needs no search.
    contradiction: Option<Vec<Ground>>,
}

impl Solver {
    pub(super) fn new(variables: usize) -> Self {
        Solver {
            values: vec![None; variables],
            levels: vec![0; variables],
            reasons: vec![Reason::Decided; variables],
            watches: vec![Vec::new(); variables * 2],
            sets_of: vec![Vec::new(); variables],
            ..Solver::default()
        }
    }

    pub(super) fn value(&self, var: Var) -> Option<bool> {
        self.values.get(var as usize).copied().flatten()
    }

    fn lit_value(&self, lit: Lit) -> Option<bool> {
        self.values.get(lit.var()).copied().flatten().map(|value| value == lit.is_positive())
    }

    /// At least one of these.
    pub(super) fn add_clause(&mut self, origin: Origin, lits: Vec<Lit>) {
        self.insert_clause(Clause { lits, grounds: vec![Ground::Statement(origin)] });
    }

    /// At most one of these.
    pub(super) fn add_at_most_one(&mut self, origin: Origin, members: Vec<Var>) {
        let number = self.sets.len();
        for member in &members {
            if let Some(sets) = self.sets_of.get_mut(*member as usize) {
                sets.push(number);
            }
        }
        self.sets.push(Set { members, origin });
    }

    /// Adds a clause before the search, or a learned one whose first literal is the only one that is not false.
    fn insert_clause(&mut self, clause: Clause) -> usize {
        let number = self.clauses.len();
        if clause.lits.is_empty() && self.contradiction.is_none() {
            self.contradiction = Some(clause.grounds.clone());
        }
        if clause.lits.len() > 1 {
            for lit in clause.lits.iter().take(2) {
                if let Some(watch) = self.watches.get_mut(lit.0 as usize) {
                    watch.push(number);
                }
            }
        }
        self.clauses.push(clause);
        number
    }

    fn assign(&mut self, lit: Lit, reason: Reason) {
        let level = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        if let Some(value) = self.values.get_mut(lit.var()) {
            *value = Some(lit.is_positive());
        }
        if let (Some(at), Some(why)) = (self.levels.get_mut(lit.var()), self.reasons.get_mut(lit.var())) {
            *at = level;
            *why = reason;
        }
        self.trail.push(lit);
    }

    fn propagate(&mut self) -> Option<Conflict> {
        while let Some(lit) = self.trail.get(self.propagated).copied() {
            self.propagated += 1;
            if lit.is_positive()
                && let Some(conflict) = self.propagate_sets(lit)
            {
                return Some(conflict);
            }
            if let Some(conflict) = self.propagate_clauses(lit.negated()) {
                return Some(conflict);
            }
        }
        None
    }

    fn propagate_sets(&mut self, lit: Lit) -> Option<Conflict> {
        let var = lit.0 >> 1;
        let numbers = self.sets_of.get(lit.var()).cloned().unwrap_or_default();
        for number in numbers {
            let count = self.sets.get(number).map_or(0, |set| set.members.len());
            for at in 0..count {
                let Some(member) = self.sets.get(number).and_then(|set| set.members.get(at)).copied() else { break };
                if member == var {
                    continue;
                }
                match self.value(member) {
                    Some(true) => return Some(Conflict::Set(number, var, member)),
                    Some(false) => {}
                    None => self.assign(Lit::is_not(member), Reason::Set(number, var)),
                }
            }
        }
        None
    }

    /// Looks at the clauses that watch a literal which became false.
    fn propagate_clauses(&mut self, fallen: Lit) -> Option<Conflict> {
        let mut watching = self.watches.get_mut(fallen.0 as usize).map(std::mem::take).unwrap_or_default();
        let mut kept = 0;
        let mut conflict = None;
        let mut at = 0;
        while let Some(number) = watching.get(at).copied() {
            at += 1;
            let moved = conflict.is_none() && self.find_new_watch(number, fallen);
            if moved {
                continue;
            }
            if let Some(slot) = watching.get_mut(kept) {
                *slot = number;
                kept += 1;
            }
            if conflict.is_some() {
                continue;
            }
            let Some(first) = self.clauses.get(number).and_then(|clause| clause.lits.first()).copied() else {
                continue;
            };
            match self.lit_value(first) {
                Some(true) => {}
                Some(false) => conflict = Some(Conflict::Clause(number)),
                None => self.assign(first, Reason::Clause(number)),
            }
        }
        watching.truncate(kept);
        if let Some(slot) = self.watches.get_mut(fallen.0 as usize) {
            *slot = watching;
        }
        conflict
    }

    /// Puts the fallen literal second, and watches another one in its stead if there is one that is not false.
    fn find_new_watch(&mut self, number: usize, fallen: Lit) -> bool {
        let values = &self.values;
        let value = |lit: Lit| values.get(lit.var()).copied().flatten().map(|value| value == lit.is_positive());
        let Some(clause) = self.clauses.get_mut(number) else { return false };
        if clause.lits.first() == Some(&fallen) {
            clause.lits.swap(0, 1);
        }
        if clause.lits.first().is_some_and(|first| value(*first) == Some(true)) {
            return false;
        }
        let Some(other) = clause.lits.iter().skip(2).position(|lit| value(*lit) != Some(false)) else { return false };
        clause.lits.swap(1, other + 2);
        let Some(watched) = clause.lits.get(1).copied() else { return false };
        if let Some(watch) = self.watches.get_mut(watched.0 as usize) {
            watch.push(number);
        }
        true
    }

    /// The literals that make a conflict or a value, all of them false, and what that rests on.
    fn causes(&self, reason: Reason, except: Option<usize>) -> (Vec<Lit>, Vec<Ground>) {
        match reason {
            Reason::Decided => (Vec::new(), Vec::new()),
            Reason::Clause(number) => self.clauses.get(number).map_or_else(Default::default, |clause| {
                let lits = clause.lits.iter().copied().filter(|lit| Some(lit.var()) != except).collect();
                (lits, clause.grounds.clone())
            }),
            Reason::Set(number, var) => {
                let origin = self.sets.get(number).map(|set| Ground::Statement(set.origin));
                (vec![Lit::is_not(var)], origin.into_iter().collect())
            }
        }
    }

    fn conflict_causes(&self, conflict: &Conflict) -> (Vec<Lit>, Vec<Ground>) {
        match conflict {
            Conflict::Clause(number) => self.causes(Reason::Clause(*number), None),
            Conflict::Set(number, a, b) => {
                let (mut lits, grounds) = self.causes(Reason::Set(*number, *a), None);
                lits.push(Lit::is_not(*b));
                (lits, grounds)
            }
        }
    }

    fn level_of(&self, lit: Lit) -> u32 {
        self.levels.get(lit.var()).copied().unwrap_or_default()
    }

    fn reason_of(&self, lit: Lit) -> Reason {
        self.reasons.get(lit.var()).copied().unwrap_or(Reason::Decided)
    }

    /// Learns from a conflict: goes back to where the learned clause has one open literal, and sets it.
    fn learn(&mut self, conflict: &Conflict) {
        let current = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        let (mut lits, mut grounds) = self.conflict_causes(conflict);
        let mut seen = vec![false; self.values.len()];
        let mut learned = Vec::new();
        let mut open = 0usize;
        let mut at = self.trail.len();
        let asserting = loop {
            for lit in lits.drain(..) {
                let Some(mark) = seen.get_mut(lit.var()) else { continue };
                if std::mem::replace(mark, true) {
                    continue;
                }
                match self.level_of(lit) {
                    0 => grounds.push(Ground::Settled(lit.0 >> 1)),
                    level if level == current => open += 1,
                    _ => learned.push(lit),
                }
            }
            // The last of this level that is involved.
            let involved = loop {
                at = at.saturating_sub(1);
                let Some(lit) = self.trail.get(at).copied() else { break None };
                if seen.get(lit.var()).copied().unwrap_or_default() && self.level_of(lit) == current {
                    break Some(lit);
                }
                if at == 0 {
                    break None;
                }
            };
            let Some(involved) = involved else { break None };
            open = open.saturating_sub(1);
            if open == 0 {
                break Some(involved.negated());
            }
            let (more, why) = self.causes(self.reason_of(involved), Some(involved.var()));
            lits = more;
            grounds.extend(why);
        };
        let Some(asserting) = asserting else {
            self.contradiction = Some(grounds);
            return;
        };
        grounds.sort_unstable();
        grounds.dedup();
        // The literal that falls last is watched beside the asserting one.
        learned.sort_by_key(|lit| std::cmp::Reverse(self.level_of(*lit)));
        let level = learned.first().map_or(0, |lit| self.level_of(*lit));
        learned.insert(0, asserting);
        self.undo_to(level);
        let number = self.insert_clause(Clause { lits: learned, grounds });
        self.assign(asserting, Reason::Clause(number));
    }

    fn undo_to(&mut self, level: u32) {
        let Some(start) = self.starts.get(level as usize).copied() else { return };
        for lit in self.trail.drain(start..) {
            if let Some(value) = self.values.get_mut(lit.var()) {
                *value = None;
            }
        }
        self.starts.truncate(level as usize);
        self.propagated = start;
    }

    /// Finds values for which all statements hold. `decide` is asked for the next literal to try whenever nothing
    /// follows any more; it ends the search with `None`. The error is a set of statements that cannot all hold.
    pub(super) fn solve(&mut self, mut decide: impl FnMut(&Self) -> Option<Lit>) -> Result<(), Vec<Origin>> {
        for number in 0..self.clauses.len() {
            let unit = self.clauses.get(number).filter(|clause| clause.lits.len() == 1);
            let Some(lit) = unit.and_then(|clause| clause.lits.first()).copied() else { continue };
            match self.lit_value(lit) {
                Some(true) => {}
                None => self.assign(lit, Reason::Clause(number)),
                Some(false) => {
                    let (lits, mut grounds) = self.causes(Reason::Clause(number), None);
                    grounds.extend(lits.iter().map(|lit| Ground::Settled(lit.0 >> 1)));
                    self.contradiction = Some(grounds);
                }
            }
        }
        loop {
            if let Some(grounds) = self.contradiction.take() {
                return Err(self.origins(grounds));
            }
            match self.propagate() {
                Some(conflict) if self.starts.is_empty() => {
                    let (lits, mut grounds) = self.conflict_causes(&conflict);
                    grounds.extend(lits.iter().map(|lit| Ground::Settled(lit.0 >> 1)));
                    return Err(self.origins(grounds));
                }
                Some(conflict) => self.learn(&conflict),
                None => match decide(self) {
                    None => return Ok(()),
                    Some(lit) => {
                        self.starts.push(self.trail.len());
                        self.assign(lit, Reason::Decided);
                    }
                },
            }
        }
    }

    /// The statements behind a conclusion.
    fn origins(&self, grounds: Vec<Ground>) -> Vec<Origin> {
        let mut found = Vec::new();
        let mut seen = vec![false; self.values.len()];
        let mut open = grounds;
        while let Some(ground) = open.pop() {
            match ground {
                Ground::Statement(origin) => found.push(origin),
                Ground::Settled(var) => {
                    let Some(mark) = seen.get_mut(var as usize) else { continue };
                    if !std::mem::replace(mark, true) {
                        let (lits, grounds) = self.causes(self.reason_of(Lit::is(var)), Some(var as usize));
                        open.extend(grounds);
                        open.extend(lits.iter().map(|lit| Ground::Settled(lit.0 >> 1)));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Rule {
        Clause(Vec<(u32, bool)>),
        One(Vec<u32>),
    }

    fn solver(variables: u32, rules: &[(u32, Rule)]) -> Solver {
        let mut solver = Solver::new(variables as usize);
        for (origin, rule) in rules {
            match rule {
                Rule::Clause(lits) => {
                    let lits = lits.iter().map(|(var, is)| if *is { Lit::is(*var) } else { Lit::is_not(*var) });
                    solver.add_clause(*origin, lits.collect());
                }
                Rule::One(members) => solver.add_at_most_one(*origin, members.clone()),
            }
        }
        solver
    }

    fn solve(variables: u32, rules: &[(u32, Rule)]) -> Result<Vec<bool>, Vec<u32>> {
        let mut solver = solver(variables, rules);
        solver.solve(|it| (0..variables).find(|var| it.value(*var).is_none()).map(Lit::is))?;
        Ok((0..variables).map(|var| solver.value(var) == Some(true)).collect())
    }

    fn holds(rule: &Rule, values: &[bool]) -> bool {
        match rule {
            Rule::Clause(lits) => lits.iter().any(|(var, is)| values[*var as usize] == *is),
            Rule::One(members) => members.iter().filter(|var| values[**var as usize]).count() <= 1,
        }
    }

    fn brute_force(variables: u32, rules: &[(u32, Rule)]) -> bool {
        (0..1u32 << variables).any(|bits| {
            let values: Vec<bool> = (0..variables).map(|var| bits >> var & 1 == 1).collect();
            rules.iter().all(|(_, rule)| holds(rule, &values))
        })
    }

    const VARIABLES: u32 = 8;

    fn rules() -> impl Strategy<Value = Vec<(u32, Rule)>> {
        let clause = proptest::collection::vec((0..VARIABLES, any::<bool>()), 1..4).prop_map(|mut lits| {
            lits.sort_unstable();
            lits.dedup_by_key(|lit| lit.0);
            Rule::Clause(lits)
        });
        let one = proptest::collection::hash_set(0..VARIABLES, 2..5).prop_map(|it| Rule::One(it.into_iter().collect()));
        let rule = prop_oneof![3 => clause, 1 => one];
        proptest::collection::vec(rule, 1..30)
            .prop_map(|rules| rules.into_iter().enumerate().map(|(i, rule)| (i as u32, rule)).collect())
    }

    proptest! {
        #[test]
        fn verdicts_are_those_of_trying_everything(rules in rules()) {
            match solve(VARIABLES, &rules) {
                Ok(values) => prop_assert!(rules.iter().all(|(_, rule)| holds(rule, &values))),
                Err(core) => {
                    prop_assert!(!brute_force(VARIABLES, &rules));
                    // What it names is enough for the contradiction.
                    let named: Vec<_> = rules.iter().filter(|(origin, _)| core.contains(origin)).cloned().collect();
                    prop_assert!(!brute_force(VARIABLES, &named), "{core:?} can hold");
                }
            }
        }
    }
}
