//! A role with its rules prepared for questions.

use std::sync::Arc;

use bailiwick_machinery::object::at;
use serde_json::Value;

use super::super::{Attributes, PolicyRule};
use super::lookup::{Lookup, Probe};

/// The most atoms of one role that are kept ready, 16 bytes each. What a role has beyond is searched rule by rule: a stored
/// role may have lists whose product is astronomic.
const ATOMS_MAX: usize = 16 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Role {
    pub rules: Vec<Arc<PolicyRule>>,
    resources: Lookup,
    /// Rules that had no place in `resources`.
    unindexed: Vec<u32>,
    /// Rules on paths.
    paths: Vec<u32>,
}

impl Role {
    pub fn new(rules: Vec<Arc<PolicyRule>>) -> Self {
        let mut role = Self::default();
        let mut room = ATOMS_MAX;
        for (number, rule) in (0u32..).zip(&rules) {
            if !rule.non_resource_urls.is_empty() {
                role.paths.push(number);
            }
            let atoms = rule.verbs.len().saturating_mul(rule.api_groups.len()).saturating_mul(rule.resources.len());
            match room.checked_sub(atoms) {
                Some(left) => {
                    room = left;
                    role.resources.insert(rule, number);
                }
                None => role.unindexed.push(number),
            }
        }
        role.resources.finish();
        role.rules = rules;
        role
    }

    /// The rules of a stored role.
    pub fn of(object: &Value) -> Self {
        let rules = at(object, &["rules"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        // Stored roles were validated; a rule that still does not read grants nothing.
        Self::new(rules.iter().filter_map(PolicyRule::of).map(Arc::new).collect())
    }

    /// The first rule found to allow the request. `probe` is the request's.
    pub fn allowing(&self, attributes: &Attributes<'_>, probe: Option<&Probe>) -> Option<&Arc<PolicyRule>> {
        let allows = |number: u32| self.rule(number).filter(|rule| rule.allows(attributes));
        match probe {
            Some(probe) => self
                .resources
                .candidates(probe)
                .find_map(allows)
                .or_else(|| self.unindexed.iter().copied().find_map(allows)),
            None => self.paths.iter().copied().find_map(allows),
        }
    }

    fn rule(&self, number: u32) -> Option<&Arc<PolicyRule>> {
        self.rules.get(usize::try_from(number).ok()?)
    }

    /// What can be asked of many roles at once.
    pub fn resources(&self) -> &Lookup {
        &self.resources
    }

    /// Whether [`Role::resources`] does not tell all about resources.
    pub fn has_unindexed(&self) -> bool {
        !self.unindexed.is_empty()
    }

    /// Whether any rule is on paths.
    pub fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }
}
