//! The groups and versions of this server and of those behind it, in the order clients see them.

use bailiwick_aggregation::order::{self, Ranked};
use bailiwick_aggregation::{Route, Table};

use super::{Priority, ordered_groups};
use crate::registry::Registry;

/// Where upstream ranks the versions of custom resources.
const CUSTOM_PRIORITY: Priority = Priority { group: 1000, version: 100 };

/// What is served, here and elsewhere.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub registry: &'a Registry,
    /// Who serves what; `None` if everything is served here.
    pub table: Option<&'a Table>,
}

/// Groups with their versions.
type Groups<'a> = Vec<(&'a str, Vec<&'a str>)>;

impl<'a> Sources<'a> {
    /// The way to a group version that is served elsewhere.
    pub fn remote(&self, group: &str, version: &str) -> Option<&'a Route> {
        self.table?.route(group, version).map(AsRef::as_ref)
    }

    /// The named groups and versions that are served, in the order of aggregated discovery.
    pub fn served(&self) -> Groups<'a> {
        match self.table.filter(|table| !table.is_local()) {
            None => self.local(),
            Some(table) => order::by_groups(self.local_ranked().chain(table.remote_records())),
        }
    }

    /// The named groups and versions that are served, in the order their records ask for.
    pub fn recorded(&self) -> Groups<'a> {
        let Some(table) = self.table else { return self.local() };
        order::by_records(self.ranked(table))
    }

    /// The versions of a group; `None` if there is no such group.
    pub fn versions_of(&self, group: &str) -> Option<Vec<&'a str>> {
        let Some(table) = self.table else {
            return self.registry.groups().get(group).map(|versions| versions.iter().map(String::as_str).collect());
        };
        let of_group = self.ranked(table).filter(|ranked| ranked.group == group);
        order::by_records(of_group).into_iter().next().map(|(_, versions)| versions)
    }

    /// Records, and what is served without a record. A record that we keep ourselves goes with what it records, if a
    /// moment later.
    fn ranked(&self, table: &'a Table) -> impl Iterator<Item = Ranked<'a>> {
        let (registry, this) = (self.registry, *self);
        let is_shown = move |record: &Ranked<'_>| {
            registry.has_group_version(record.group, record.version)
                || this.remote(record.group, record.version).is_some()
                || table.get(&format!("{}.{}", record.version, record.group)).is_some_and(|service| !service.automatic)
        };
        let unrecorded = move |local: &Ranked<'_>| table.get(&format!("{}.{}", local.version, local.group)).is_none();
        table.records().filter(is_shown).chain(self.local_ranked().filter(unrecorded))
    }

    fn local(&self) -> Groups<'a> {
        let registry = self.registry;
        let versions = |group: &str| registry.groups().get(group).into_iter().flatten().map(String::as_str).collect();
        ordered_groups(registry).into_iter().map(|group| (group, versions(group))).collect()
    }

    /// What is served here and nowhere else, as upstream ranks it.
    fn local_ranked(&self) -> impl Iterator<Item = Ranked<'a>> {
        let (registry, this) = (self.registry, *self);
        let groups = registry.groups().iter().filter(|(group, _)| !group.is_empty());
        groups.flat_map(move |(group, versions)| {
            let rank = if registry.is_native_group(group) { Priority::of_group(group) } else { CUSTOM_PRIORITY };
            let here = versions.iter().filter(move |version| this.remote(group, version).is_none());
            here.map(move |version| Ranked {
                group,
                version,
                group_priority: rank.group,
                version_priority: rank.version,
            })
        })
    }
}
