//! Who owns whom: the objects that have owners, are owners, or wait for their dependents, by uid.
//!
//! Objects without any such relation are not held, so a million plain objects cost nothing here. The graph is a pure
//! structure: what is seen on the watches goes in, and the uids that somebody has to look at come out as [`Task`]s.
//! An owner that was named by a dependent but not seen itself is *virtual* until a request has shown what it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::discovery::ResourceType;

/// On an owner that goes away only after its blocking dependents.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// On an owner that leaves its dependents behind.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";

/// Fewer shared names than this are not worth tidying.
const NAMES_MIN: usize = 1024;
/// Fewer places than this are not worth giving back.
const PLACES_MIN: usize = 4096;

/// An object's uid; shared between the places that name it.
pub(crate) type Uid = Arc<str>;

/// What somebody claims an object to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// An owner reference as the graph needs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    pub blocks: bool,
}

impl Owner {
    /// The object this reference means when it stands on an object in `namespace`.
    pub fn identity(&self, namespace: &Arc<str>) -> Identity {
        Identity {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Whether the reference names `identity` in all but the namespace.
    fn names(&self, identity: &Identity) -> bool {
        self.uid == identity.uid
            && self.api_version == identity.api_version
            && self.kind == identity.kind
            && self.name == identity.name
    }
}

/// How far an object's deletion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    No,
    /// Under way, by others.
    Started,
    /// Waits for us to delete its dependents.
    Foreground,
    /// Waits for us to free its dependents.
    Orphan,
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Whether it should, and whether it can, go away.
    Delete(Uid),
    /// It goes away; its dependents stay.
    Orphan(Uid),
    /// Somebody should be told: it names an owner that is in another namespace.
    Misplaced(Misplaced),
}

/// An object and the owner that it names wrongly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Misplaced {
    pub dependent: Identity,
    pub owner: Owner,
}

/// An object in the graph, as a worker sees it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub identity: Identity,
    /// The type it was seen as; `None` for a virtual node.
    pub resource: Option<Arc<ResourceType>>,
    pub resource_version: Box<str>,
    pub owners: Vec<Owner>,
    pub deletion: Deletion,
    /// Tells this node from a later one with the same uid.
    pub generation: u64,
    dependents: HashSet<Uid>,
    /// Whether the list under way has shown it.
    listed: bool,
}

impl Node {
    pub fn is_virtual(&self) -> bool {
        self.resource.is_none()
    }

    pub fn has_dependents(&self) -> bool {
        !self.dependents.is_empty()
    }

    fn is_needed(&self) -> bool {
        !self.owners.is_empty()
            || !self.dependents.is_empty()
            || matches!(self.deletion, Deletion::Foreground | Deletion::Orphan)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: HashMap<Uid, Node>,
    /// Type names and namespaces, which many nodes share.
    names: HashSet<Arc<str>>,
    /// How many names there may be before unused ones are dropped.
    names_max: usize,
    generations: u64,
}

impl Graph {
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Those that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        let dependents = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        dependents.filter_map(|dependent| self.nodes.get(dependent))
    }

    /// The dependents of `uid` whose reference keeps it from going away.
    pub fn blocking_dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents(uid).filter(move |node| node.owners.iter().any(|owner| &*owner.uid == uid && owner.blocks))
    }

    /// Virtual nodes of a kind nobody knew; to be looked at again when types change.
    pub fn virtual_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.is_virtual())
    }

    /// Whether there is nothing to know.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What there is to do after a whole list: owners that it did not show, and those that wait for us.
    pub fn unsettled(&self) -> Vec<Task> {
        let task = |node: &Node| match node.deletion {
            Deletion::Orphan => Some(Task::Orphan(node.identity.uid.clone())),
            Deletion::Foreground => Some(Task::Delete(node.identity.uid.clone())),
            _ if node.is_virtual() => Some(Task::Delete(node.identity.uid.clone())),
            _ => None,
        };
        self.nodes.values().filter_map(task).collect()
    }

    /// An object exists in this state.
    pub fn present(&mut self, resource: &Arc<ResourceType>, meta: &ObjectMeta, tasks: &mut Vec<Task>) {
        let (Some(uid), Some(name)) = (meta.uid.as_deref(), meta.name.as_deref()) else { return };
        let deletion = deletion(meta);
        let references = meta.owner_references.as_deref().unwrap_or_default();
        let known = self.nodes.contains_key(uid);
        if !known && references.is_empty() && !matches!(deletion, Deletion::Foreground | Deletion::Orphan) {
            return;
        }
        let owners: Vec<Owner> = references.iter().map(|reference| self.owner(reference)).collect();
        let identity = Identity {
            api_version: self.shared(&resource.api.api_version),
            kind: self.shared(&resource.api.kind),
            namespace: self.shared(meta.namespace.as_deref().unwrap_or_default()),
            name: Arc::from(name),
            uid: self.nodes.get_key_value(uid).map_or_else(|| Arc::from(uid), |(uid, _)| uid.clone()),
        };
        let uid = identity.uid.clone();
        let mut node = self.nodes.remove(&uid).unwrap_or_else(|| self.virtual_node(identity.clone()));
        let before = (std::mem::replace(&mut node.owners, owners), node.deletion);
        if node.is_virtual() && node.identity != identity {
            tasks.extend(self.misplaced(&node.dependents, &identity).map(Task::Misplaced));
            tasks.extend(self.mismatched(&node.dependents, &identity).map(Task::Delete));
        }
        let owners = node.owners.clone();
        let has_dependents = !node.dependents.is_empty();
        node.identity = identity;
        node.resource = Some(resource.clone());
        node.resource_version = meta.resource_version.as_deref().unwrap_or_default().into();
        node.deletion = deletion;
        node.listed = true;
        self.nodes.insert(uid.clone(), node);
        self.change_owners(&uid, &before.0, &owners, tasks);
        if deletion != before.1 {
            match deletion {
                Deletion::Orphan => tasks.push(Task::Orphan(uid.clone())),
                Deletion::Foreground => {
                    if has_dependents {
                        tasks.extend(self.dependents(&uid).map(|node| Task::Delete(node.identity.uid.clone())));
                    }
                    tasks.push(Task::Delete(uid.clone()));
                }
                Deletion::No | Deletion::Started => {}
            }
        }
        self.forget_if_unneeded(&uid);
    }

    /// An object is gone: its dependents may have to follow, and an owner may have waited for it.
    pub fn gone(&mut self, uid: &str, tasks: &mut Vec<Task>) {
        let Some(node) = self.nodes.remove(uid) else { return };
        tasks.extend(node.dependents.iter().cloned().map(Task::Delete));
        for owner in &node.owners {
            let Some(owner_node) = self.nodes.get_mut(&owner.uid) else { continue };
            owner_node.dependents.remove(uid);
            if is_sparse(owner_node.dependents.len(), owner_node.dependents.capacity()) {
                owner_node.dependents.shrink_to(2 * owner_node.dependents.len());
            }
            if owner_node.deletion == Deletion::Foreground {
                tasks.push(Task::Delete(owner.uid.clone()));
            }
            self.forget_if_unneeded(&owner.uid);
        }
        // After a hundred thousand dependents went with their owner, their places do not stay.
        if is_sparse(self.nodes.len(), self.nodes.capacity()) {
            self.nodes.shrink_to(2 * self.nodes.len());
        }
    }

    /// A request has shown that there is no such object as `identity` says. Its dependents that say the same are
    /// looked at; those that describe it differently may still be right.
    pub fn not_found(&mut self, identity: &Identity, tasks: &mut Vec<Task>) {
        let Some(node) = self.nodes.get(&identity.uid) else { return };
        let mismatched: Vec<Uid> = self.mismatched(&node.dependents, identity).collect();
        if mismatched.is_empty() && (node.is_virtual() || node.identity == *identity) {
            return self.gone(&identity.uid, tasks);
        }
        let matching = node.dependents.iter().filter(|uid| !mismatched.contains(uid)).cloned();
        tasks.extend(matching.map(Task::Delete));
        if !node.is_virtual() || node.identity != *identity {
            return;
        }
        // Try what the others say it is, in a fixed order so that no claim is left out.
        let mut claims: Vec<Identity> = mismatched
            .iter()
            .filter_map(|uid| self.nodes.get(uid))
            .flat_map(|node| node.owners.iter().map(|owner| owner.identity(&node.identity.namespace)))
            .filter(|claim| claim.uid == identity.uid && claim != identity)
            .collect();
        let order = |claim: &Identity| {
            (claim.kind.clone(), claim.api_version.clone(), claim.namespace.clone(), claim.name.clone())
        };
        claims.sort_by_cached_key(order);
        let next = claims.iter().find(|claim| order(claim) > order(identity)).or_else(|| claims.first()).cloned();
        if let (Some(next), Some(node)) = (next, self.nodes.get_mut(&identity.uid)) {
            node.identity = next;
            tasks.push(Task::Delete(identity.uid.clone()));
        }
    }

    /// A list of `resource` begins.
    pub fn list_started(&mut self, resource: &ResourceType) {
        for node in self.nodes.values_mut().filter(|node| is_of(node, resource)) {
            node.listed = false;
        }
    }

    /// A list has ended. What it did not show is probably gone; a request will tell.
    pub fn listed(&self, resource: &ResourceType, tasks: &mut Vec<Task>) {
        let unseen = self.nodes.values().filter(|node| is_of(node, resource) && !node.listed);
        tasks.extend(unseen.map(|node| Task::Delete(node.identity.uid.clone())));
    }

    /// `resource` is no longer served: for good, or because its server is away. Its objects become virtual, so that
    /// nothing that depends on them or blocks on them is judged before the type can be asked about again.
    pub fn type_removed(&mut self, resource: &ResourceType, tasks: &mut Vec<Task>) {
        for (uid, node) in self.nodes.iter_mut().filter(|(_, node)| is_of(node, resource)) {
            node.resource = None;
            tasks.push(Task::Delete(uid.clone()));
        }
    }

    fn change_owners(&mut self, uid: &Uid, before: &[Owner], after: &[Owner], tasks: &mut Vec<Task>) {
        if before == after {
            return;
        }
        for old in before {
            let new = after.iter().find(|new| new.uid == old.uid);
            if old.blocks && new.is_none_or(|new| !new.blocks) && self.nodes.contains_key(&old.uid) {
                tasks.push(Task::Delete(old.uid.clone()));
            }
            if new.is_none()
                && let Some(owner) = self.nodes.get_mut(&old.uid)
            {
                owner.dependents.remove(uid);
                self.forget_if_unneeded(&old.uid);
            }
        }
        let Some(dependent) = self.nodes.get(uid).map(|node| node.identity.clone()) else { return };
        let namespace = &dependent.namespace;
        let mut doubtful = false;
        for new in after.iter().filter(|new| !before.contains(new)) {
            let claimed = new.identity(namespace);
            match self.nodes.get_mut(&new.uid) {
                Some(owner) => {
                    owner.dependents.insert(uid.clone());
                    let elsewhere = !owner.identity.namespace.is_empty() && owner.identity.namespace != *namespace;
                    let unproven = owner.is_virtual() && owner.identity.namespace != *namespace;
                    if elsewhere && !owner.is_virtual() && !doubtful {
                        let (dependent, owner) = (dependent.clone(), new.clone());
                        tasks.push(Task::Misplaced(Misplaced { dependent, owner }));
                    }
                    doubtful |= elsewhere || unproven || !new.names(&owner.identity);
                }
                None => {
                    let mut owner = self.virtual_node(claimed);
                    owner.dependents.insert(uid.clone());
                    self.nodes.insert(new.uid.clone(), owner);
                    tasks.push(Task::Delete(new.uid.clone()));
                }
            }
        }
        if doubtful {
            tasks.push(Task::Delete(uid.clone()));
        }
    }

    /// The dependents whose reference does not mean `identity`.
    fn mismatched<'a>(
        &'a self,
        dependents: &'a HashSet<Uid>,
        identity: &'a Identity,
    ) -> impl Iterator<Item = Uid> + 'a {
        let nodes = dependents.iter().filter_map(|uid| self.nodes.get(uid));
        let mismatched = nodes.filter(|node| {
            let elsewhere = !identity.namespace.is_empty() && identity.namespace != node.identity.namespace;
            elsewhere || node.owners.iter().any(|owner| owner.uid == identity.uid && !owner.names(identity))
        });
        mismatched.map(|node| node.identity.uid.clone())
    }

    /// The dependents that are in another namespace than `identity`, whose owner it cannot be therefore.
    fn misplaced<'a>(
        &'a self,
        dependents: &'a HashSet<Uid>,
        identity: &'a Identity,
    ) -> impl Iterator<Item = Misplaced> + 'a {
        let nodes = dependents.iter().filter_map(|uid| self.nodes.get(uid));
        let elsewhere =
            nodes.filter(|node| !identity.namespace.is_empty() && identity.namespace != node.identity.namespace);
        elsewhere.filter_map(|node| {
            let owner = node.owners.iter().find(|owner| owner.uid == identity.uid)?;
            Some(Misplaced { dependent: node.identity.clone(), owner: owner.clone() })
        })
    }

    fn owner(&mut self, reference: &OwnerReference) -> Owner {
        // Those who name the same owner share its uid and name.
        let known = self.nodes.get(reference.uid.as_str()).map(|node| &node.identity);
        let uid = known.map_or_else(|| Arc::from(reference.uid.as_str()), |known| known.uid.clone());
        let name = known.map(|known| &known.name).filter(|name| ***name == *reference.name).cloned();
        Owner {
            api_version: self.shared(&reference.api_version),
            kind: self.shared(&reference.kind),
            name: name.unwrap_or_else(|| Arc::from(reference.name.as_str())),
            uid,
            blocks: reference.block_owner_deletion == Some(true),
        }
    }

    fn virtual_node(&mut self, identity: Identity) -> Node {
        self.generations += 1;
        Node {
            identity,
            resource: None,
            resource_version: Box::default(),
            owners: Vec::new(),
            deletion: Deletion::No,
            generation: self.generations,
            dependents: HashSet::new(),
            listed: true,
        }
    }

    fn forget_if_unneeded(&mut self, uid: &str) {
        if self.nodes.get(uid).is_some_and(|node| !node.is_needed()) {
            self.nodes.remove(uid);
        }
    }

    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        if self.names.len() >= self.names_max.max(NAMES_MIN) {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.names_max = self.names.len() * 2;
        }
        let name: Arc<str> = Arc::from(name);
        self.names.insert(name.clone());
        name
    }
}

/// Whether most of a map's places are empty.
fn is_sparse(used: usize, places: usize) -> bool {
    places > PLACES_MIN && used < places / 8
}

fn is_of(node: &Node, resource: &ResourceType) -> bool {
    node.resource.as_ref().is_some_and(|known| known.is(&resource.api.group, &resource.api.plural))
}

/// How far the deletion of an object has come.
fn deletion(meta: &ObjectMeta) -> Deletion {
    if meta.deletion_timestamp.is_none() {
        return Deletion::No;
    }
    let has = |finalizer: &str| meta.finalizers.iter().flatten().any(|found| found == finalizer);
    if has(ORPHAN_FINALIZER) {
        Deletion::Orphan
    } else if has(FOREGROUND_FINALIZER) {
        Deletion::Foreground
    } else {
        Deletion::Started
    }
}

#[cfg(test)]
mod tests;
