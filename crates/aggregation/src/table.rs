//! All APIServices at one moment: who serves what, looked up by every request without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::api_service::ApiService;
use crate::order::Ranked;
use crate::route::Route;

/// The APIServices there are. Never changes; a new one takes its place.
#[derive(Default)]
pub struct Table {
    /// By name, the local ones too.
    services: BTreeMap<String, Arc<ApiService>>,
    /// Remote ones by group and version.
    routes: HashMap<String, BTreeMap<String, Arc<Route>>>,
}

impl Table {
    /// This table with a service more, or changed.
    pub(crate) fn with(&self, service: Arc<ApiService>, route: Option<Arc<Route>>) -> Self {
        let mut table = self.without(&service.name);
        if let Some(route) = route {
            let versions = table.routes.entry(service.group.clone()).or_default();
            versions.insert(service.version.clone(), route);
        }
        table.services.insert(service.name.clone(), service);
        table
    }

    /// This table without a service.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut table = Self { services: self.services.clone(), routes: self.routes.clone() };
        let Some(service) = table.services.remove(name) else { return table };
        if let Some(versions) = table.routes.get_mut(&service.group) {
            versions.remove(&service.version);
            if versions.is_empty() {
                table.routes.remove(&service.group);
            }
        }
        table
    }

    /// Whether this server serves everything itself.
    pub fn is_local(&self) -> bool {
        self.routes.is_empty()
    }

    /// The way to a group version that another server serves.
    pub fn route(&self, group: &str, version: &str) -> Option<&Arc<Route>> {
        self.routes.get(group)?.get(version)
    }

    /// The way a path outside of resources takes: the discovery documents of remote group versions.
    pub fn route_of_path(&self, path: &str) -> Option<&Arc<Route>> {
        if let Some(rest) = path.strip_prefix("/apis/") {
            let mut segments = rest.split('/');
            let (group, version) = (segments.next()?, segments.next()?);
            return self.route(group, version);
        }
        let core = path == "/api" || path.starts_with("/api/");
        core.then(|| self.routes.get("")?.values().next()).flatten()
    }

    /// The way to a version 3 OpenAPI document, by its name, that another server has.
    pub fn route_of_document(&self, name: &str) -> Option<&Arc<Route>> {
        let rest = name.strip_prefix("apis/")?;
        let (group, version) = rest.split_once('/').map_or((rest, None), |(group, version)| (group, Some(version)));
        let mut routes = self.routes.get(group)?.iter();
        let has = |route: &Arc<Route>| route.documents().openapi_v3().contains_key(name);
        routes.find(|(own, route)| version.is_none_or(|version| version == *own) && has(route)).map(|(_, route)| route)
    }

    /// All remote ones, by name.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        let remote = |service: &'_ Arc<ApiService>| self.route(&service.group, &service.version);
        self.services.values().filter_map(remote)
    }

    /// All services, with their ranks.
    pub fn records(&self) -> impl Iterator<Item = Ranked<'_>> {
        self.services.values().map(|service| ranked(service))
    }

    /// Remote services, with their ranks.
    pub fn remote_records(&self) -> impl Iterator<Item = Ranked<'_>> {
        self.routes().map(|route| ranked(route.service()))
    }

    /// All services, by name.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.services.values()
    }

    pub fn get(&self, name: &str) -> Option<&Arc<ApiService>> {
        self.services.get(name)
    }
}

fn ranked(service: &ApiService) -> Ranked<'_> {
    Ranked {
        group: &service.group,
        version: &service.version,
        group_priority: service.group_priority,
        version_priority: service.version_priority,
    }
}
