//! What RBAC has to say about a request beyond yes and no.

use std::sync::Arc;

use super::super::explain::{Grant, Miss, ObjectRef, Step, Verdict};
use super::super::{Attributes, Decision, PolicyRule, Reason, ResourceTarget, Target};
use super::Unresolved;
use super::binding::{Binding, Found, RoleKey};
use super::index::{Index, Searched, namespace_of};
use crate::go_format::aggregate;

/// How many near misses of a kind are told: a few show the way, more hide it.
const MISSES_PER_KIND_MAX: usize = 3;

/// Explains a decision.
pub(super) fn explain(index: &Index, attributes: &Attributes<'_>) -> Step {
    if let Searched::Allowed(allowed) = index.search(attributes) {
        let subject = allowed.binding.applying(attributes.user, allowed.found);
        let reason = Reason::Owned(allowed.binding.reason(&subject));
        let mut step = Step::of("RBAC", &Decision::Allow(reason));
        step.grant = Some(grant(allowed.binding, &subject.to_string(), allowed.rule));
        return step;
    }
    let mut misses = Misses::default();
    let mut errors = Vec::new();
    for (binding, found) in index.applying(attributes.user, namespace_of(attributes)) {
        let subject = binding.applying(attributes.user, found).to_string();
        match index.role(&binding.role, &binding.namespace) {
            None => {
                errors.push(Unresolved::from(&binding.role).to_string());
                let (binding, role) = (binding_ref(binding), role_ref(&binding.role, &binding.namespace));
                misses.add(0, Miss::Role { binding, subject, role });
            }
            Some(role) => role.rules.iter().for_each(|rule| misses.compare(attributes, binding, &subject, rule)),
        }
    }
    misses.elsewhere(index, attributes);
    misses.unbound(index, attributes);
    let reason = match errors.as_slice() {
        [] => String::new(),
        errors => format!("RBAC: {}", aggregate(errors)),
    };
    Step { authorizer: "RBAC".into(), verdict: Verdict::NoOpinion, reason, grant: None, misses: misses.nearest_first() }
}

fn grant(binding: &Binding, subject: &str, rule: &Arc<PolicyRule>) -> Grant {
    Grant {
        binding: binding_ref(binding),
        subject: subject.to_owned(),
        role: role_ref(&binding.role, &binding.namespace),
        rule: PolicyRule::clone(rule),
    }
}

fn binding_ref(binding: &Binding) -> ObjectRef {
    let (namespace, name) = (binding.namespace.as_ref().to_owned(), binding.name.as_ref().to_owned());
    ObjectRef { kind: binding.kind().to_owned(), namespace, name }
}

fn role_ref(role: &RoleKey, binding_namespace: &str) -> ObjectRef {
    let namespace = if matches!(role, RoleKey::Role(_)) { binding_namespace } else { "" };
    ObjectRef { kind: role.kind().to_owned(), namespace: namespace.to_owned(), name: role.name().to_owned() }
}

/// Near misses by how near they are.
#[derive(Default)]
struct Misses([Vec<Miss>; 7]);

impl Misses {
    fn add(&mut self, distance: usize, miss: Miss) {
        if let Some(kind) = self.0.get_mut(distance)
            && kind.len() < MISSES_PER_KIND_MAX
            && !kind.contains(&miss)
        {
            kind.push(miss);
        }
    }

    fn nearest_first(self) -> Vec<Miss> {
        self.0.into_iter().flatten().collect()
    }

    /// What a rule the user has lacks.
    fn compare(&mut self, attributes: &Attributes<'_>, binding: &Binding, subject: &str, rule: &Arc<PolicyRule>) {
        let grant = || grant(binding, subject, rule);
        let target = match &attributes.target {
            Target::Path(path) => {
                if rule.covers_path(path) {
                    self.add(1, Miss::Verb { grant: grant() });
                }
                return;
            }
            Target::Resource(target) => target,
        };
        let any_name = ResourceTarget { name: rule.resource_names.first().map_or("", String::as_str), ..*target };
        if rule.covers(target) {
            self.add(1, Miss::Verb { grant: grant() });
        } else if rule.allows(&Attributes { target: Target::Resource(any_name), ..*attributes }) {
            self.add(2, Miss::ResourceName { grant: grant() });
        } else if rule.allows_verb(attributes.verb) && rule.covers_group(target.group) && rule.is_about(target.resource)
        {
            self.add(3, Miss::Subresource { grant: grant() });
        } else if rule.allows_verb(attributes.verb) && rule.covers_resource(target) && !rule.covers_group(target.group)
        {
            self.add(4, Miss::ApiGroup { grant: grant() });
        }
    }

    /// Bindings of other namespaces that would do.
    fn elsewhere(&mut self, index: &Index, attributes: &Attributes<'_>) {
        let Target::Resource(target) = &attributes.target else { return };
        let mut bindings: Vec<&Arc<Binding>> = index
            .bindings()
            .filter(|binding| !binding.namespace.is_empty() && *binding.namespace != *target.namespace)
            .filter(|binding| binding.names(attributes.user))
            .collect();
        bindings.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        for binding in bindings {
            let Some(role) = index.role(&binding.role, &binding.namespace) else { continue };
            let there = ResourceTarget { namespace: &binding.namespace, ..*target };
            let there = Attributes { target: Target::Resource(there), ..*attributes };
            if let Some(rule) = role.rules.iter().find(|rule| rule.allows(&there)) {
                let subject = binding.applying(attributes.user, Found::User(&attributes.user.name)).to_string();
                self.add(5, Miss::Namespace { grant: grant(binding, &subject, rule) });
            }
        }
    }

    /// Roles that would do, if only they were bound.
    fn unbound(&mut self, index: &Index, attributes: &Attributes<'_>) {
        let namespace = namespace_of(attributes);
        let would_do = |rules: &[Arc<PolicyRule>]| rules.iter().any(|rule| rule.allows(attributes));
        let mut roles: Vec<(usize, ObjectRef)> = index
            .roles()
            .filter(|(scope, _, role)| (scope.is_empty() || *scope == namespace) && would_do(&role.rules))
            .map(|(scope, name, role)| {
                let kind = if scope.is_empty() { "ClusterRole" } else { "Role" };
                let found = ObjectRef { kind: kind.to_owned(), namespace: scope.to_owned(), name: name.to_owned() };
                (power(&role.rules), found)
            })
            .collect();
        // The least powerful first: nobody should be given more than they need.
        roles.sort();
        roles.into_iter().for_each(|(_, role)| self.add(6, Miss::Binding { role }));
    }
}

/// Roughly how much a set of rules allows, to compare it with others.
fn power(rules: &[Arc<PolicyRule>]) -> usize {
    /// A star stands for more than any list that people write.
    const STAR: usize = 1000;
    let size = |list: &[String]| if list.iter().any(|item| item == "*") { STAR } else { list.len() };
    let of = |rule: &Arc<PolicyRule>| {
        let things = size(&rule.resources).saturating_mul(size(&rule.api_groups)) + size(&rule.non_resource_urls);
        size(&rule.verbs).saturating_mul(things)
    };
    rules.iter().map(of).fold(0, usize::saturating_add)
}
