//! What is made of a project when the stream tells everything it has, before anything else happens: a control plane that
//! lacks nothing is not disturbed.

use std::collections::HashSet;
use std::time::Duration;

use super::stream::{Kind, Seen};
use super::work::Work;
use super::{CA_BUNDLE, ProjectControllers, is_event, is_related};
use crate::Controller;
use crate::monitor::{Change, Observer};
use crate::plane::Plane;

impl ProjectControllers {
    /// All that a project has stored.
    pub(super) fn listed(&self, plane: &Plane, all: &[Seen]) {
        self.complete_namespaces(plane, all);
        for seen in all {
            let of = (seen.resource.api.group.as_str(), seen.resource.api.plural.as_str());
            // Those are dealt with as a whole.
            if matches!(of, ("", "serviceaccounts" | "configmaps")) {
                continue;
            }
            let is_namespace = of == ("", "namespaces");
            if !is_namespace || seen.meta.deletion_timestamp.is_some() {
                self.changed_alone(plane, seen);
            }
        }
        self.relate_all(plane, all);
    }

    /// What a change calls for, apart from relations between objects.
    fn changed_alone(&self, plane: &Plane, seen: &Seen) {
        let plain = Seen { kind: Kind::Modified, ..seen.without_relations() };
        self.changed(plane, &plain);
    }

    fn complete_namespaces(&self, plane: &Plane, all: &[Seen]) {
        let named = |plural: &str, name: &str| -> HashSet<&str> {
            let found =
                all.iter().filter(|seen| seen.resource.is("", plural) && seen.meta.name.as_deref() == Some(name));
            found.filter_map(|seen| seen.meta.namespace.as_deref()).collect()
        };
        let (accounts, bundles) = (named("serviceaccounts", "default"), named("configmaps", CA_BUNDLE));
        let namespaces = all.iter().filter(|seen| seen.resource.is("", "namespaces"));
        for seen in namespaces.filter(|seen| seen.meta.deletion_timestamp.is_none()) {
            let Some(name) = seen.meta.name.as_deref() else { continue };
            let work = |make: fn(Plane, String) -> Work| make(plane.clone(), name.to_owned());
            // The namespaces that every project has from the start have both from the start.
            let is_own = !matches!(name, "default" | "kube-system" | "kube-public");
            if is_own && !accounts.contains(name) {
                self.want(Controller::ServiceAccount, work(Work::Account), Duration::ZERO);
            }
            if is_own && !bundles.contains(name) {
                self.want(Controller::RootCa, work(Work::Bundle), Duration::ZERO);
            }
        }
    }

    /// Feeds the garbage collector of a project whose objects are related. Twice: the first time shows who is an owner, the
    /// second time who of them exists, so that only what is missing has to be asked for.
    fn relate_all(&self, plane: &Plane, all: &[Seen]) {
        if !self.runs(Controller::GarbageCollector) || !all.iter().any(|seen| is_related(&seen.meta)) {
            return;
        }
        let collector = self.collector(plane);
        collector.hold();
        for seen in all.iter().chain(all).filter(|seen| !is_event(&seen.resource)) {
            collector.observe(&seen.resource, Change::Present(&seen.meta));
        }
        collector.release();
    }
}
