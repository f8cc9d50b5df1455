//! Aggregated cluster roles: a role with an `aggregationRule` has the rules of all roles its selectors choose.
//!
//! Keeps of every cluster role its labels, its rules as text and what it gathers. A change of one role is looked at only by
//! those that gather it, and a role is written only when its rules are not what they should be, as upstream does it: by an
//! apply that owns the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Error, is_not_found};
use crate::work_queue::{Outcome, WorkQueue};

/// The name of these writes in managedFields, as upstream.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";
/// Roles written at the same time. Few roles gather others.
const WORKERS: usize = 2;

/// A cluster role as far as it is looked at here.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct ClusterRole {
    metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<Box<RawValue>>,
    #[serde(default, rename = "aggregationRule", skip_serializing_if = "Option::is_none")]
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    cluster_role_selectors: Vec<LabelSelector>,
}

impl kube::Resource for ClusterRole {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> std::borrow::Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// See the module.
pub(crate) struct ClusterRoleAggregation {
    client: Client,
    queue: WorkQueue<String>,
    known: Mutex<Known>,
}

/// What is known of all cluster roles.
#[derive(Default)]
struct Known {
    roles: BTreeMap<String, Role>,
    /// Names seen since a list began.
    listed: Option<BTreeSet<String>>,
}

struct Role {
    labels: BTreeMap<String, String>,
    rules: Box<str>,
    gathers: Option<AggregationRule>,
}

impl ClusterRoleAggregation {
    pub fn new(client: Client) -> Self {
        Self { client, queue: WorkQueue::new(), known: Mutex::default() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let settling = self.queue.work("aggregated roles", WORKERS, |name| async move { self.settle(&name).await });
        tokio::join!(self.watch(), settling);
    }

    /// Gives every role that gathers others what it should have, once: for a control plane that is not followed on its own.
    /// Roles may gather roles that gather; the write of one is seen and calls for the next.
    pub async fn settle_all(client: Client) -> Result<Outcome, Error> {
        let all = Self::new(client);
        for role in all.api().list(&ListParams::default()).await? {
            all.known().seen(role);
        }
        let gathering: Vec<String> = {
            let known = all.known();
            known.roles.iter().filter(|(_, role)| role.gathers.is_some()).map(|(name, _)| name.clone()).collect()
        };
        for name in gathering {
            all.settle(&name).await?;
        }
        Ok(Outcome::Done)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self) -> Api<ClusterRole> {
        Api::all_with(self.client.clone(), &resource())
    }

    async fn watch(&self) {
        let mut events = watcher::watcher(self.api(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let affected = match event {
                Ok(Event::Init) => {
                    self.known().listed = Some(BTreeSet::new());
                    continue;
                }
                Ok(Event::InitApply(role) | Event::Apply(role)) => self.known().seen(role),
                Ok(Event::Delete(role)) => self.known().gone(&role.name_any()),
                Ok(Event::InitDone) => self.known().listed(),
                Err(error) => {
                    tracing::debug!(%error, "watch of cluster roles interrupted");
                    continue;
                }
            };
            affected.into_iter().for_each(|name| self.queue.add(name));
        }
    }

    /// Gives an aggregated role the rules it should have.
    async fn settle(&self, name: &str) -> Result<Outcome, Error> {
        let Some(rules) = self.known().due(name) else { return Ok(Outcome::Done) };
        let config = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match self.api().patch(name, &params, &Patch::Apply(&config)).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

impl Known {
    /// Takes over the state of a role; gives the roles that may have to follow.
    fn seen(&mut self, role: ClusterRole) -> Vec<String> {
        let name = role.name_any();
        let new = Role {
            labels: role.metadata.labels.unwrap_or_default(),
            rules: role.rules.map(|rules| rules.get().into()).unwrap_or_else(|| "null".into()),
            gathers: role.aggregation_rule,
        };
        if let Some(listed) = &mut self.listed {
            listed.insert(name.clone());
        }
        let mut affected = self.gathering(&new);
        if new.gathers.is_some() {
            affected.insert(name.clone());
        }
        if let Some(old) = self.roles.insert(name, new) {
            affected.extend(self.gathering(&old));
        }
        affected.into_iter().collect()
    }

    fn gone(&mut self, name: &str) -> Vec<String> {
        match self.roles.remove(name) {
            Some(old) => self.gathering(&old).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// The list is complete: what it did not have is gone.
    fn listed(&mut self) -> Vec<String> {
        let listed = self.listed.take().unwrap_or_default();
        let missing: Vec<String> = self.roles.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        missing.iter().flat_map(|name| self.gone(name)).collect()
    }

    /// The names of roles that gather this one.
    fn gathering(&self, role: &Role) -> BTreeSet<String> {
        let gathers = |other: &Role| {
            other.gathers.iter().flat_map(|rule| &rule.cluster_role_selectors).any(|selector| selects(selector, role))
        };
        self.roles.iter().filter(|(_, other)| gathers(other)).map(|(name, _)| name.clone()).collect()
    }

    /// The rules a role should have, if it gathers others and has not got them: by selector, then by name, each rule once.
    fn due(&self, name: &str) -> Option<Vec<Value>> {
        let role = self.roles.get(name)?;
        let mut rules: Vec<Value> = Vec::new();
        for selector in &role.gathers.as_ref()?.cluster_role_selectors {
            let chosen = self.roles.iter().filter(|(other, source)| *other != name && selects(selector, source));
            for rule in chosen.flat_map(|(_, source)| parse(&source.rules)) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        (rules != parse(&role.rules)).then_some(rules)
    }
}

fn parse(rules: &str) -> Vec<Value> {
    serde_json::from_str::<Option<Vec<Value>>>(rules).ok().flatten().unwrap_or_default()
}

/// Whether a selector chooses a role by its labels. One that cannot be read chooses nothing.
fn selects(selector: &LabelSelector, role: &Role) -> bool {
    let labels = &role.labels;
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let found = labels.get(&requirement.key);
            let values = requirement.values.as_deref().unwrap_or_default();
            match requirement.operator.as_str() {
                "In" => found.is_some_and(|value| values.contains(value)),
                "NotIn" => found.is_none_or(|value| !values.contains(value)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

fn resource() -> ApiResource {
    ApiResource {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        api_version: "rbac.authorization.k8s.io/v1".into(),
        kind: "ClusterRole".into(),
        plural: "clusterroles".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, labels: Value, rules: Value, selectors: Option<Value>) -> ClusterRole {
        let mut role = json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
        if let Some(selectors) = selectors {
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        }
        serde_json::from_str(&role.to_string()).expect("a role")
    }

    fn rule(resource: &str) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
    }

    fn by_label(key: &str) -> Option<Value> {
        Some(json!([{"matchLabels": {key: "true"}}]))
    }

    #[test]
    fn rules_are_gathered_by_name_and_once() {
        let mut known = Known::default();
        known.seen(role("all", json!({}), Value::Null, by_label("to")));
        known.seen(role("b", json!({"to": "true"}), json!([rule("x"), rule("y")]), None));
        known.seen(role("a", json!({"to": "true"}), json!([rule("y")]), None));
        known.seen(role("other", json!({"to": "false"}), json!([rule("z")]), None));
        assert_eq!(known.due("all"), Some(vec![rule("y"), rule("x")]));
        known.seen(role("all", json!({}), json!([rule("y"), rule("x")]), by_label("to")));
        assert_eq!(known.due("all"), None, "nothing to write");
        assert_eq!(known.due("a"), None, "gathers nothing");
    }

    #[test]
    fn only_those_that_gather_a_role_follow_it() {
        let mut known = Known::default();
        assert_eq!(known.seen(role("edit", json!({"to-admin": "true"}), Value::Null, by_label("to-edit"))), ["edit"]);
        assert_eq!(known.seen(role("admin", json!({}), Value::Null, by_label("to-admin"))), ["admin"]);
        assert_eq!(known.seen(role("x", json!({"to-edit": "true"}), json!([rule("x")]), None)), ["edit"]);
        // What it was gathered by must let go of it.
        assert_eq!(known.seen(role("x", json!({"to-admin": "true"}), json!([rule("x")]), None)), ["admin", "edit"]);
        assert_eq!(known.gone("x"), ["admin"]);
        // A gathered role that gathers passes on what it got.
        assert_eq!(
            known.seen(role("edit", json!({"to-admin": "true"}), json!([rule("x")]), by_label("to-edit"))),
            ["admin", "edit"]
        );
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let mut known = Known::default();
        known.seen(role("all", json!({}), Value::Null, by_label("to")));
        known.seen(role("a", json!({"to": "true"}), json!([rule("x")]), None));
        known.listed = Some(BTreeSet::new());
        known.seen(role("all", json!({}), json!([rule("x")]), by_label("to")));
        assert_eq!(known.listed(), ["all"]);
        assert_eq!(known.due("all"), Some(Vec::new()));
    }
}
