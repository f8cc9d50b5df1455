//! Which of many rules may allow a request, without looking at all of them.
//!
//! A rule is a product of verbs, groups and resources; each member of the product is an [atom], kept as a hash in one sorted
//! table. A request is answered by at most twelve atoms (itself, and with wildcards in each place), and a table knows which
//! kinds of wildcards it has, so that ordinary roles cost a single search. Hashes only nominate: the rule is always asked.
//!
//! [atom]: Lookup::insert

use std::sync::LazyLock;

use super::super::{Attributes, PolicyRule, Target};

/// Makes hashes unpredictable from outside.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
});

/// How many ways to write a rule can match one request: two for the verb, two for the group, three for the resource.
const CLASSES: usize = 12;

/// The atoms that would allow a request, by class.
pub(super) struct Probe {
    atoms: [u64; CLASSES],
    /// The classes that can match: without a subresource there is no `*/subresource`.
    classes: u16,
}

impl Probe {
    /// `None` for paths, which have no atoms.
    pub fn of(attributes: &Attributes<'_>) -> Option<Self> {
        let Target::Resource(target) = &attributes.target else { return None };
        let verbs = [hash([attributes.verb]), hash(["*"])];
        let groups = [hash([target.group]), hash(["*"])];
        let (resources, kinds) = if target.subresource.is_empty() {
            ([hash([target.resource]), hash(["*"]), 0], 2)
        } else {
            let own = hash([target.resource, "/", target.subresource]);
            ([own, hash(["*"]), hash(["*/", target.subresource])], 3)
        };
        let mut probe = Self { atoms: [0; CLASSES], classes: 0 };
        for (v, verb) in verbs.into_iter().enumerate() {
            for (g, group) in groups.into_iter().enumerate() {
                for (r, resource) in resources.into_iter().enumerate().take(kinds) {
                    let class = class(v, g, r);
                    if let Some(atom) = probe.atoms.get_mut(class) {
                        *atom = combine(verb, group, resource);
                        probe.classes |= 1 << class;
                    }
                }
            }
        }
        Some(probe)
    }
}

fn class(verb: usize, group: usize, resource: usize) -> usize {
    (verb * 2 + group) * 3 + resource
}

/// FNV-1a over the parts as if they were one text.
fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(str::bytes);
    bytes.fold(*SEED, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn combine(verb: u64, group: u64, resource: u64) -> u64 {
    let mixed = verb.rotate_left(21) ^ group.rotate_left(42) ^ resource;
    (mixed ^ (mixed >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A table of atoms, each leading to a number that its owner understands.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookup {
    atoms: Vec<(u64, u32)>,
    /// The classes its atoms belong to.
    classes: u16,
}

impl Lookup {
    /// Adds every atom of a rule on resources.
    pub fn insert(&mut self, rule: &PolicyRule, number: u32) {
        let star = |text: &str| usize::from(text == "*");
        for verb in &rule.verbs {
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    let kind = match resource.as_str() {
                        "*" => 1,
                        other if other.starts_with("*/") => 2,
                        _ => 0,
                    };
                    self.classes |= 1 << class(star(verb), star(group), kind);
                    // What could be read as "everything under" is also what it says.
                    if kind == 2 {
                        self.classes |= 1 << class(star(verb), star(group), 0);
                    }
                    let atom = combine(hash([verb.as_str()]), hash([group.as_str()]), hash([resource.as_str()]));
                    self.atoms.push((atom, number));
                }
            }
        }
    }

    /// Adds every atom of another table under one number.
    pub fn insert_all(&mut self, other: &Self, number: u32) {
        self.classes |= other.classes;
        self.atoms.extend(other.atoms.iter().map(|(atom, _)| (*atom, number)));
    }

    /// Makes it ready for [`Lookup::candidates`].
    pub fn finish(&mut self) {
        self.atoms.sort_unstable();
        self.atoms.dedup();
        self.atoms.shrink_to_fit();
    }

    /// The numbers of what may allow the request; some may come twice, and some may turn out not to.
    pub fn candidates<'a>(&'a self, probe: &'a Probe) -> impl Iterator<Item = u32> + 'a {
        let classes = self.classes & probe.classes;
        let present = probe.atoms.iter().enumerate().filter(move |(class, _)| classes & (1 << class) != 0);
        present.flat_map(|(_, atom)| {
            let start = self.atoms.partition_point(|(found, _)| found < atom);
            let rest = self.atoms.get(start..).unwrap_or_default();
            rest.iter().take_while(move |(found, _)| found == atom).map(|(_, number)| *number)
        })
    }
}
