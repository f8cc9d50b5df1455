//! ResourceQuota: no more objects in a namespace than its quotas allow.
//!
//! Usage is read from `status.used` and its increase is handed back as [`Effects`], to be committed with the new
//! object. So unlike upstream, where usage is raised first and corrected later, a create that fails counts nothing and
//! two creates cannot both take the last place.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bailiwick_machinery::object::{at, meta_str, name as object_name};
use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupResource, Resource};
use bailiwick_schema::quantity::Quantity;
use serde_json::{Map, Value};

use crate::attributes::{Attributes, DryRun, Operation, forbidden};
use crate::chain::{Effects, Lookup, Phase, Plugin, StatusWrite};

/// The plugin.
pub struct ResourceQuota;

#[async_trait]
impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && operation == Operation::Create
    }

    fn has_effects(&self) -> bool {
        true
    }

    async fn validate(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup, effects: &mut Effects) -> ApiResult<()> {
        if attributes.namespace.is_empty() || !attributes.subresource.is_empty() || !is_counted(attributes.resource) {
            return Ok(());
        }
        let quotas = lookup.resource_quotas(attributes.namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let names = usage_names(&attributes.resource.group_resource());
        // Every quota is checked before any is charged.
        let mut charged = Vec::new();
        for quota in &quotas {
            charged.extend(charge(attributes, quota, &names)?);
        }
        if attributes.dry_run == DryRun::No {
            effects.writes.extend(charged);
        }
        Ok(())
    }
}

/// Not what is never stored, and not events, whose number only their TTL bounds.
fn is_counted(resource: &Resource) -> bool {
    let event = resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io");
    resource.storage != Storage::Virtual && resource.plural != "namespaces" && !event
}

/// The names under which quotas count objects of a resource; the usage controller counts by the same.
pub fn usage_names(resource: &GroupResource) -> Vec<String> {
    let mut names = vec![format!("count/{resource}")];
    if resource.group.is_empty() && matches!(resource.resource.as_str(), "configmaps" | "resourcequotas" | "secrets") {
        names.push(resource.resource.clone());
    }
    names
}

/// A quota's limits or usage of the names in question, ordered as messages list them.
type Amounts = BTreeMap<String, Quantity>;

/// Charges one more object to a quota. `None` if the quota does not count such objects.
fn charge(attributes: &Attributes<'_>, quota: &Value, names: &[String]) -> ApiResult<Option<StatusWrite>> {
    let hard = amounts(quota, "hard", names)?;
    if hard.is_empty() || has_scopes(quota) {
        return Ok(None);
    }
    let used = amounts(quota, "used", names)?;
    let quota_name = object_name(quota);
    if hard.keys().any(|name| !used.contains_key(name)) {
        let listed: Vec<&str> = hard.keys().map(String::as_str).collect();
        let detail = format!("status unknown for quota: {quota_name}, resources: {}", listed.join(","));
        return Err(forbidden(attributes, &detail));
    }
    let one = Quantity::from_integer(1);
    let mut exceeded = Vec::new();
    let mut raised = Vec::new();
    for (name, limit) in &hard {
        let Some(before) = used.get(name) else { continue };
        let after = before.add(&one);
        if after > *limit {
            exceeded.push((name, before, limit));
        } else {
            raised.push((name, after));
        }
    }
    if !exceeded.is_empty() {
        let list = |show: fn(&Quantity, &Quantity) -> String| {
            let shown = exceeded.iter().map(|(name, used, hard)| format!("{name}={}", show(used, hard)));
            shown.collect::<Vec<_>>().join(",")
        };
        let (requested, used, limited) =
            (list(|_, _| "1".to_owned()), list(|used, _| used.to_string()), list(|_, hard| hard.to_string()));
        let detail = format!("exceeded quota: {quota_name}, requested: {requested}, used: {used}, limited: {limited}");
        return Err(forbidden(attributes, &detail));
    }
    Ok(Some(write(attributes.namespace, quota, &raised)))
}

/// Objects that are merely counted have no scopes to match.
fn has_scopes(quota: &Value) -> bool {
    let non_empty = |path: &[&str]| at(quota, path).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    non_empty(&["spec", "scopes"]) || non_empty(&["spec", "scopeSelector", "matchExpressions"])
}

fn amounts(quota: &Value, field: &str, names: &[String]) -> ApiResult<Amounts> {
    let Some(status) = at(quota, &["status", field]).and_then(Value::as_object) else { return Ok(Amounts::new()) };
    names
        .iter()
        .filter_map(|name| status.get(name).map(|amount| (name, amount)))
        .map(|(name, amount)| {
            let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            let unreadable = |error| ApiError::internal(format!("quota {}: {name}: {error}", object_name(quota)));
            Ok((name.clone(), text.parse::<Quantity>().map_err(unreadable)?))
        })
        .collect()
}

fn write(namespace: &str, quota: &Value, raised: &[(&String, Quantity)]) -> StatusWrite {
    let mut object = quota.clone();
    let used = object
        .get_mut("status")
        .and_then(Value::as_object_mut)
        .map(|status| status.entry("used").or_insert_with(|| Map::new().into()));
    if let Some(used) = used.and_then(Value::as_object_mut) {
        used.extend(raised.iter().map(|(name, amount)| ((*name).clone(), amount.to_string().into())));
    }
    StatusWrite {
        resource: GroupResource { group: String::new(), resource: "resourcequotas".to_owned() },
        namespace: namespace.to_owned(),
        name: object_name(quota).to_owned(),
        resource_version: meta_str(quota, "resourceVersion").to_owned(),
        object,
    }
}

#[cfg(test)]
mod tests;
