//! Roles by name and bindings by whom they name, as one immutable value.
//!
//! Maps are persistent: a change shares everything it does not touch with the value before it, so readers hold a whole,
//! consistent index for as long as they like and nobody waits for anybody. A decision looks only at bindings of two scopes
//! (the cluster and one namespace) that name the user or one of the user's groups, once per distinct role.

use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bailiwick_machinery::UserInfo;
use equivalent::Equivalent;

use super::super::{Attributes, PolicyRule, Target};
use super::binding::{Binding, Found, RoleKey, Subject};
use super::lookup::{Lookup, Probe};
use super::role::Role;

/// A subject with more roles than this in one scope gets a lookup over all of them; with fewer, asking each is faster.
const ROLES_ASKED_MAX: usize = 8;

type Map<V> = imbl::GenericHashMap<Key, V, foldhash::fast::RandomState, imbl::shared_ptr::DefaultSharedPtr>;

/// A name in a namespace, which is empty for the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// A [`Key`] as it is looked for.
#[derive(Clone, Copy)]
struct KeyRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace.hash(state);
        self.name.hash(state);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef { namespace: &self.namespace, name: &self.name }.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.namespace == *key.namespace && *self.name == *key.name
    }
}

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Index {
    roles: Map<Arc<Role>>,
    bindings: Map<Arc<Binding>>,
    users: Map<Arc<Grants>>,
    groups: Map<Arc<Grants>>,
    changes: RoleChanges,
}

/// Counts changes of roles, which make lookups over several of them stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RoleChanges {
    cluster: u64,
    namespaces: u64,
}

impl RoleChanges {
    fn count(&mut self, namespace: &str) {
        let counter = if namespace.is_empty() { &mut self.cluster } else { &mut self.namespaces };
        *counter += 1;
    }

    /// Those that bindings of a scope can notice.
    fn seen_from(self, scope: &str) -> Self {
        if scope.is_empty() { Self { namespaces: 0, ..self } } else { self }
    }
}

/// What the bindings of one scope give to one subject.
#[derive(Default)]
struct Grants {
    /// Sorted by role.
    roles: Vec<RoleGrant>,
    combined: ArcSwapOption<Combined>,
}

#[derive(Clone)]
struct RoleGrant {
    role: RoleKey,
    /// Sorted by name; never empty.
    bindings: Vec<Arc<Binding>>,
}

/// One lookup over all roles of a subject.
struct Combined {
    /// The state of the roles it was made of.
    changes: RoleChanges,
    resources: Lookup,
    /// Roles that have more than the lookup knows.
    more: Vec<u32>,
    on_paths: Vec<u32>,
    missing: bool,
}

/// What allows a request.
pub(super) struct Allowed<'a> {
    pub binding: &'a Arc<Binding>,
    pub rule: &'a Arc<PolicyRule>,
    pub found: Found<'a>,
}

/// The outcome of a search.
pub(super) enum Searched<'a> {
    Allowed(Allowed<'a>),
    /// Nothing allows it, and every role was there.
    Nothing,
    /// Nothing allows it, but some role is missing.
    Incomplete,
}

impl Index {
    pub fn put_role(&mut self, namespace: &str, name: &str, role: Role) {
        self.roles.insert(Key { namespace: namespace.into(), name: name.into() }, Arc::new(role));
        self.changes.count(namespace);
    }

    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        self.roles.remove(&KeyRef { namespace, name });
        self.changes.count(namespace);
    }

    pub fn put_binding(&mut self, binding: Binding) {
        self.remove_binding(&binding.namespace, &binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            self.regrant(&binding.namespace, subject, |roles| grant(roles, &binding));
        }
        let key = Key { namespace: binding.namespace.clone(), name: binding.name.clone() };
        self.bindings.insert(key, binding);
    }

    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.bindings.remove(&KeyRef { namespace, name }) else { return };
        for subject in &binding.subjects {
            self.regrant(&binding.namespace, subject, |roles| withdraw(roles, &binding));
        }
    }

    fn regrant(&mut self, namespace: &Arc<str>, subject: &Subject, change: impl FnOnce(&mut Vec<RoleGrant>)) {
        let (map, name) = match subject {
            Subject::User(name) | Subject::ServiceAccount(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        };
        let key = Key { namespace: namespace.clone(), name: name.clone() };
        let mut roles = map.get(&key).map(|grants| grants.roles.clone()).unwrap_or_default();
        change(&mut roles);
        if roles.is_empty() {
            map.remove(&key);
        } else {
            map.insert(key, Arc::new(Grants { roles, combined: ArcSwapOption::empty() }));
        }
    }

    /// The role as a binding of `namespace` sees it.
    pub fn role(&self, role: &RoleKey, namespace: &str) -> Option<&Arc<Role>> {
        match role {
            RoleKey::Role(name) => self.roles.get(&KeyRef { namespace, name }),
            RoleKey::ClusterRole(name) => self.roles.get(&KeyRef { namespace: "", name }),
            RoleKey::Unsupported(_) => None,
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty() && self.users.is_empty() && self.groups.is_empty()
    }

    /// Every role there is, with its namespace and name, in no order.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str, &Role)> {
        self.roles.iter().map(|(key, role)| (&*key.namespace, &*key.name, &**role))
    }

    /// Every binding there is, in no order.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.bindings.values()
    }

    /// Looks for what allows the request: in the cluster, then in its namespace; by name, then by groups.
    pub fn search<'a>(&'a self, attributes: &Attributes<'a>) -> Searched<'a> {
        let probe = Probe::of(attributes);
        let mut searched = Searched::Nothing;
        let _ = self.visit_grants(attributes.user, namespace_of(attributes), |scope, found, grants| {
            match grants.search(self, scope, attributes, probe.as_ref()) {
                (Some((binding, rule)), _) => {
                    searched = Searched::Allowed(Allowed { binding, rule, found });
                    return ControlFlow::Break(());
                }
                (None, Missing::Some) => searched = Searched::Incomplete,
                (None, Missing::None) => {}
            }
            ControlFlow::Continue(())
        });
        searched
    }

    /// The bindings that apply to a user, cluster-wide first, each once and in the order of names within a scope.
    pub fn applying<'a>(&'a self, user: &'a UserInfo, namespace: &str) -> Vec<(&'a Arc<Binding>, Found<'a>)> {
        let mut all: Vec<(&Arc<Binding>, Found<'a>)> = Vec::new();
        let _ = self.visit_grants(user, namespace, |_, found, grants| {
            all.extend(grants.roles.iter().flat_map(|role| &role.bindings).map(|binding| (binding, found)));
            ControlFlow::Continue(())
        });
        let key = |binding: &Binding| (binding.namespace.clone(), binding.name.clone());
        all.sort_by_key(|(binding, _)| key(binding));
        all.dedup_by(|(a, _), (b, _)| Arc::ptr_eq(a, b));
        all
    }

    /// See [`super::Rbac::names`].
    pub fn names(&self, user: &UserInfo) -> bool {
        let everybody = [UserInfo::AUTHENTICATED, UserInfo::UNAUTHENTICATED];
        let own = || user.groups.iter().filter(|group| !everybody.contains(&group.as_str()));
        if self.users.contains_key(&KeyRef { namespace: "", name: &user.name })
            || own().any(|group| self.groups.contains_key(&KeyRef { namespace: "", name: group }))
        {
            return true;
        }
        self.users.keys().any(|key| *key.name == *user.name)
            || self.groups.keys().any(|key| own().any(|group| *key.name == **group))
    }

    fn visit_grants<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &str,
        mut visit: impl FnMut(&str, Found<'a>, &'a Grants) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let scopes = ["", namespace];
        let scopes = if namespace.is_empty() { scopes.get(..1) } else { scopes.get(..) };
        for scope in scopes.unwrap_or_default().iter().copied() {
            if let Some(grants) = self.users.get(&KeyRef { namespace: scope, name: &user.name }) {
                visit(scope, Found::User(&user.name), grants)?;
            }
            for group in &user.groups {
                if let Some(grants) = self.groups.get(&KeyRef { namespace: scope, name: group }) {
                    visit(scope, Found::Group(group), grants)?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The namespace whose bindings count for a request; empty for none.
pub(super) fn namespace_of<'a>(attributes: &Attributes<'a>) -> &'a str {
    match &attributes.target {
        Target::Resource(target) => target.namespace,
        Target::Path(_) => "",
    }
}

fn grant(roles: &mut Vec<RoleGrant>, binding: &Arc<Binding>) {
    match roles.binary_search_by(|grant| grant.role.cmp(&binding.role)) {
        Ok(found) => {
            let Some(grant) = roles.get_mut(found) else { return };
            if let Err(place) = grant.bindings.binary_search_by(|other| other.name.cmp(&binding.name)) {
                grant.bindings.insert(place, binding.clone());
            }
        }
        Err(place) => roles.insert(place, RoleGrant { role: binding.role.clone(), bindings: vec![binding.clone()] }),
    }
}

fn withdraw(roles: &mut Vec<RoleGrant>, binding: &Arc<Binding>) {
    let Ok(found) = roles.binary_search_by(|grant| grant.role.cmp(&binding.role)) else { return };
    let Some(grant) = roles.get_mut(found) else { return };
    grant.bindings.retain(|other| other.name != binding.name);
    if grant.bindings.is_empty() {
        roles.remove(found);
    }
}

/// A binding and the rule of its role that allows a request.
type Granting<'a> = (&'a Arc<Binding>, &'a Arc<PolicyRule>);

/// Whether roles that a subject should have are not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    None,
    Some,
}

impl Grants {
    fn search<'a>(
        &'a self,
        index: &'a Index,
        scope: &str,
        attributes: &Attributes<'_>,
        probe: Option<&Probe>,
    ) -> (Option<Granting<'a>>, Missing) {
        if self.roles.len() > ROLES_ASKED_MAX {
            return self.search_combined(index, scope, attributes, probe);
        }
        let mut missing = Missing::None;
        for grant in &self.roles {
            let Some(role) = index.role(&grant.role, scope) else {
                missing = Missing::Some;
                continue;
            };
            if let (Some(rule), Some(binding)) = (role.allowing(attributes, probe), grant.bindings.first()) {
                return (Some((binding, rule)), missing);
            }
        }
        (None, missing)
    }

    fn search_combined<'a>(
        &'a self,
        index: &'a Index,
        scope: &str,
        attributes: &Attributes<'_>,
        probe: Option<&Probe>,
    ) -> (Option<Granting<'a>>, Missing) {
        let changes = index.changes.seen_from(scope);
        let combined = match self.combined.load_full().filter(|found| found.changes == changes) {
            Some(combined) => combined,
            None => {
                let combined = Arc::new(self.combine(index, scope));
                self.combined.store(Some(combined.clone()));
                combined
            }
        };
        let ask = |number: u32| {
            let grant = self.roles.get(usize::try_from(number).ok()?)?;
            let rule = index.role(&grant.role, scope)?.allowing(attributes, probe)?;
            Some((grant.bindings.first()?, rule))
        };
        let allowed = match probe {
            Some(probe) => combined
                .resources
                .candidates(probe)
                .find_map(ask)
                .or_else(|| combined.more.iter().copied().find_map(ask)),
            None => combined.on_paths.iter().copied().find_map(ask),
        };
        (allowed, if combined.missing { Missing::Some } else { Missing::None })
    }

    fn combine(&self, index: &Index, scope: &str) -> Combined {
        let mut combined = Combined {
            changes: index.changes.seen_from(scope),
            resources: Lookup::default(),
            more: Vec::new(),
            on_paths: Vec::new(),
            missing: false,
        };
        for (number, grant) in (0u32..).zip(&self.roles) {
            let Some(role) = index.role(&grant.role, scope) else {
                combined.missing = true;
                continue;
            };
            combined.resources.insert_all(role.resources(), number);
            if role.has_unindexed() {
                combined.more.push(number);
            }
            if role.has_paths() {
                combined.on_paths.push(number);
            }
        }
        combined.resources.finish();
        combined
    }
}
