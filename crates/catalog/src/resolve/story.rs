//! Tells a contradiction in plain words: from the wants along what is required to where it ends, and what would help.

use std::collections::{BTreeSet, HashSet};

use super::build::{Ban, Content, Problem, Statement};
use super::refusal::{Reason, Refusal};
use super::request::{Choice, Want};
use super::requirement::{Requirement, api_text};
use super::solver::Var;
use crate::property::Gvk;

/// More names than this tell nobody anything.
const MAX_NAMES: usize = 4;
/// How many letters a name may be off to be taken for a slip.
const MAX_SLIPS: usize = 3;

/// Tells the statements of a minimal contradiction.
pub(super) fn tell(problem: &Problem, core: &[usize]) -> Refusal {
    let mut story = Story { problem, core, told: HashSet::new(), reasons: Vec::new(), hints: Vec::new() };
    story.wants();
    story.requirements();
    story.limits();
    let mut hints: Vec<String> = Vec::new();
    for hint in story.hints {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    let wants = core.iter().filter_map(|number| match problem.statements.get(*number) {
        Some(Statement::Wanted { want, .. }) => problem.request.wants.get(*want).map(|want| want.name.clone()),
        _ => None,
    });
    Refusal { reasons: story.reasons, hints, wants: wants.collect() }
}

struct Story<'p, 'r> {
    problem: &'p Problem<'r>,
    core: &'p [usize],
    told: HashSet<usize>,
    reasons: Vec<Reason>,
    hints: Vec<String>,
}

impl<'p, 'r> Story<'p, 'r> {
    fn statements(&self) -> impl Iterator<Item = (usize, &'p Statement<'r>)> + use<'p, 'r> {
        let problem = self.problem;
        self.core.iter().filter_map(move |number| Some((*number, problem.statements.get(*number)?)))
    }

    fn say(&mut self, plain: String, olm: String) {
        self.reasons.push(Reason { plain, olm });
    }

    fn hint(&mut self, hint: impl Into<String>) {
        self.hints.push(hint.into());
    }

    fn wants(&mut self) {
        for (number, statement) in self.statements() {
            match statement {
                Statement::Wanted { want, candidates, nothing } => {
                    self.told.insert(number);
                    let Some(want) = self.problem.request.wants.get(*want) else { continue };
                    let exists = format!("subscription {} exists", want.name);
                    match nothing {
                        Some(nothing) => {
                            let plain =
                                format!("{} asks for package {}, but {}", want.name, want.package, nothing.plain);
                            self.say(plain, format!("{exists}, {}", nothing.olm));
                            self.hint(nothing.hint.clone());
                        }
                        None => self.say(
                            self.asks(want, candidates),
                            format!("{exists}, {}", self.olm_wants(want, candidates)),
                        ),
                    }
                }
                Statement::Asked(candidates) => {
                    self.told.insert(number);
                    let names = list_of(&self.names(candidates));
                    self.say(format!("you ask for {names}"), String::new());
                }
                _ => {}
            }
        }
    }

    fn asks(&self, want: &Want, candidates: &[Var]) -> String {
        let names = self.names(candidates);
        let channel = match &want.choice {
            Choice::Subscription { channel, .. } if !channel.is_empty() => format!(" from channel {channel}"),
            Choice::Extension { channels, .. } if !channels.is_empty() => {
                format!(" from channel {}", list_or(channels))
            }
            _ => String::new(),
        };
        format!("{} asks for package {}{channel}, which means {}", want.name, want.package, list_or(&names))
    }

    fn olm_wants(&self, want: &Want, candidates: &[Var]) -> String {
        let ids: Vec<String> = candidates.iter().map(|var| self.id(*var)).collect();
        match ids.split_last() {
            None => format!("no operators found matching the criteria of subscription {}", want.name),
            Some((one, [])) => format!("subscription {} requires {one}", want.name),
            Some((last, others)) => {
                format!("subscription {} requires at least one of {} or {last}", want.name, others.join(", "))
            }
        }
    }

    /// Each requirement after the bundles it belongs to, bundles with the same requirement together.
    fn requirements(&mut self) {
        let all: Vec<(usize, Var, &Requirement, &[Var])> = self
            .statements()
            .filter_map(|(number, statement)| match statement {
                Statement::Requires { by, requirement, candidates } => {
                    Some((number, *by, *requirement, candidates.as_slice()))
                }
                _ => None,
            })
            .collect();
        let mut known: HashSet<Var> = self
            .statements()
            .filter(|(number, _)| self.told.contains(number))
            .flat_map(|(_, statement)| statement.variables())
            .collect();
        known.extend(
            self.statements().filter_map(|(_, it)| if let Statement::Stays(var) = it { Some(*var) } else { None }),
        );
        loop {
            let open = || all.iter().filter(|(number, ..)| !self.told.contains(number));
            let next = open().find(|(_, by, ..)| known.contains(by)).or_else(|| open().next()).copied();
            let Some((_, _, requirement, candidates)) = next else { return };
            let words = requirement.to_string();
            let same: Vec<(usize, Var)> = open()
                .filter(|(_, _, other, others)| other.to_string() == words && *others == candidates)
                .map(|(number, by, ..)| (*number, *by))
                .collect();
            let by: Vec<Var> = same.iter().map(|(_, by)| *by).collect();
            self.told.extend(same.iter().map(|(number, _)| *number));
            known.extend(candidates);
            self.requirement(&by, requirement, candidates);
        }
    }

    fn requirement(&mut self, by: &[Var], requirement: &Requirement, candidates: &[Var]) {
        let names = self.names(by);
        let verb = if names.len() == 1 { "requires" } else { "require" };
        let message = requirement.failure_message().map(|text| format!(" (\"{text}\")")).unwrap_or_default();
        let providers = self.names(candidates);
        let end = match providers.as_slice() {
            [] => "which no catalog offers".to_owned(),
            _ => format!("which only {} can be", list_or(&providers)),
        };
        let first = by.first().map_or("", |var| self.problem.content(*var).name());
        let olm = format!("bundle {first} requires an operator {}", requirement.olm_text());
        self.say(format!("{} {verb} {requirement}{message}, {end}", list_of(&names)), olm);
        if candidates.is_empty() {
            self.missing(requirement);
        }
    }

    /// What could be done about a requirement that nothing meets.
    fn missing(&mut self, requirement: &Requirement) {
        match requirement {
            Requirement::Package { name, text, .. } => {
                let sources = self.problem.request.sources.iter();
                let offers = sources.filter_map(|source| Some((&source.snapshot, source.snapshot.package(name)?)));
                let versions: BTreeSet<String> = offers
                    .flat_map(|(snapshot, package)| package.bundles.iter().filter_map(|at| snapshot.bundles.get(*at)))
                    .map(|bundle| bundle.version.to_string())
                    .collect();
                let versions: Vec<String> = versions.into_iter().collect();
                if versions.is_empty() {
                    self.hint(format!("add a catalog that has package {name} in version {text}"));
                } else {
                    self.hint(format!(
                        "package {name} is on offer in version {}: add {text} to the catalog, or choose a version of \
                         the operator that requires what there is",
                        list_of(&versions)
                    ));
                }
            }
            Requirement::Api(gvk) => self.missing_api(gvk),
            Requirement::Explained(_, inner) => self.missing(inner),
            Requirement::All(all) => all.iter().for_each(|it| self.missing(it)),
            other => self.hint(format!("add a catalog that has {other}")),
        }
    }

    fn missing_api(&mut self, gvk: &Gvk) {
        let mut similar: BTreeSet<String> = BTreeSet::new();
        for source in &self.problem.request.sources {
            for (other, packages) in source.snapshot.provided_apis() {
                if other.group == gvk.group && other.kind == gvk.kind {
                    similar.extend(packages.iter().map(|package| format!("{} of package {package}", other.version)));
                }
            }
        }
        let similar: Vec<String> = similar.into_iter().collect();
        let text = api_text(gvk);
        if similar.is_empty() {
            self.hint(format!("add a catalog with an operator that provides {text}"));
        } else {
            self.hint(format!("{} is on offer in version {} only", gvk.kind, list_of(&similar)));
        }
    }

    /// What stays, what is forbidden, and what excludes each other.
    fn limits(&mut self) {
        let spoken: HashSet<Var> = self
            .statements()
            .filter(|(_, it)| !matches!(it, Statement::OnePackage(..) | Statement::OneApi(..)))
            .flat_map(|(_, statement)| statement.variables())
            .collect();
        for (_, statement) in self.statements() {
            match statement {
                Statement::Stays(var) => {
                    let name = self.problem.content(*var).name();
                    let olm = format!("clusterserviceversion {name} exists and is not referenced by a subscription");
                    self.say(format!("{name} is installed and no subscription may change it"), olm);
                    self.hint(format!("subscribe to the package of {name} so that it can be upgraded, or remove it"));
                }
                Statement::Prohibited(var, ban) => self.prohibited(*var, ban),
                Statement::Replaces(new, old) => {
                    let (new, old) = (self.problem.content(*new).name(), self.problem.content(*old).name());
                    self.say(format!("{new} takes the place of {old}"), format!("{new} conflicts with {old}"));
                }
                Statement::OnePackage(name, members) => {
                    let involved: Vec<Var> = members.iter().copied().filter(|var| spoken.contains(var)).collect();
                    let names = self.names(&involved);
                    let plain = format!(
                        "only one of {} can be installed, because they are of one package, {name}",
                        list_of(&names)
                    );
                    self.say(
                        plain,
                        self.olm_one("operator from package", name, "originate from package", name, members),
                    );
                    self.hint(format!(
                        "no version of {name} suits everything that needs it: change or remove one of the operators above"
                    ));
                }
                Statement::OneApi(gvk, members) => {
                    let involved: Vec<Var> = members.iter().copied().filter(|var| spoken.contains(var)).collect();
                    let (names, api) = (self.names(&involved), api_text(gvk));
                    let plain = format!(
                        "only one of {} can be installed, because they provide the same API, {api}",
                        list_of(&names)
                    );
                    self.say(plain, self.olm_one("provider of", &api, "provide", &api, members));
                    self.hint(format!("keep only one of the operators that provide {api}"));
                }
                _ => {}
            }
        }
    }

    fn prohibited(&mut self, var: Var, ban: &Ban) {
        let name = self.problem.content(var).name();
        match ban {
            Ban::Deprecated => {
                self.say(
                    format!("{name} has been withdrawn by its catalog"),
                    format!("bundle {} is deprecated", self.id(var)),
                );
                self.hint("choose a channel whose bundles are maintained");
            }
            Ban::Unreadable(error) => {
                self.say(format!("what {name} requires cannot be read ({error})"), error.clone());
                self.hint(format!(
                    "this is a fault of the bundle {name}: tell its maintainer, or choose another version"
                ));
            }
        }
    }

    fn olm_one(&self, role: &str, of: &str, verb: &str, what: &str, members: &[Var]) -> String {
        let ids: Vec<String> = members.iter().map(|var| self.id(*var)).collect();
        let all = ids.split_last().map_or_else(String::new, |(last, rest)| format!("{} and {last}", rest.join(", ")));
        format!("there can be only one {role} {of}, {all} {verb} {what}")
    }

    /// `catalog/namespace/channel/bundle`, as OLM names candidates.
    fn id(&self, var: Var) -> String {
        match self.problem.content(var) {
            Content::Installed(operator) => {
                format!("@existing/{}//{}", self.problem.request.namespace, operator.name)
            }
            Content::Offered(source, entry, bundle) => {
                let (_, channel) = source.snapshot.channel_of(entry);
                format!("{}/{}/{}/{}", source.key.name, source.key.namespace, channel.name, bundle.name)
            }
        }
    }

    /// Each bundle once.
    fn names(&self, vars: &[Var]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for var in vars {
            let name = match self.problem.content(*var) {
                Content::Installed(operator) => format!("{} (installed)", operator.name),
                Content::Offered(_, _, bundle) => bundle.name.clone(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// `a, b and c`; a long list is cut.
pub(super) fn list_of(names: &[String]) -> String {
    joined(names, "and")
}

/// `a, b or c`.
pub(super) fn list_or(names: &[String]) -> String {
    joined(names, "or")
}

fn joined(names: &[String], word: &str) -> String {
    match names.split_last() {
        None => "none".to_owned(),
        Some((one, [])) => one.clone(),
        Some((last, rest)) if names.len() <= MAX_NAMES => format!("{} {word} {last}", rest.join(", ")),
        _ => {
            let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
            format!("{} {word} {} more", shown.join(", "), names.len() - shown.len())
        }
    }
}

/// The name that somebody probably meant.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let allowed = MAX_SLIPS.min(name.len() / 3 + 1);
    let close = known.map(|it| (slips(name, it), it)).filter(|(slips, _)| *slips <= allowed);
    close.min().map(|(_, name)| name)
}

/// Letters to insert, delete or change.
fn slips(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > MAX_SLIPS {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let changed = diagonal + usize::from(x != y);
            diagonal = *slot;
            left = changed.min(diagonal + 1).min(left + 1);
            *slot = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
