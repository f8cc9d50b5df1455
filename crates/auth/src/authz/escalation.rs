//! Nobody hands on more than they hold: what writing a role or a binding takes beyond the right to write it.
//!
//! Whoever writes a role must hold all its rules, or may `escalate` it; whoever writes a binding must hold all rules of the
//! role it refers to, or may `bind` that role. Members of `system:masters` may do both.

use std::sync::Arc;

use bailiwick_machinery::object::str_at;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupResource, UserInfo};
use serde_json::Value;

use super::coverage::{compact, described, uncovered};
use super::rbac::{RbacKind, Unresolved};
use super::{Attributes, Authorizers, PolicyRule, ResourceTarget, Target};
use crate::go_format::{aggregate, quoted_list};

/// Setting an aggregation rule takes everything, because everything can be gathered by it.
const AGGREGATION: &str = "must have cluster-admin privileges to use the aggregationRule";

/// A role or binding about to be written.
pub struct Written<'a> {
    pub user: &'a UserInfo,
    pub kind: RbacKind,
    /// Of the request; empty for cluster-wide objects.
    pub namespace: &'a str,
    /// In the path of the request; a new object has none there.
    pub path_name: &'a str,
    pub object: &'a Value,
    /// What it replaces.
    pub old: Option<&'a Value>,
}

/// Refuses a write that would hand on rights its author does not hold.
pub async fn check(authorizers: &Authorizers, write: &Written<'_>) -> ApiResult<()> {
    if write.user.in_group(UserInfo::MASTERS) || write.old.is_some_and(|old| same_rights(write.object, old)) {
        return Ok(());
    }
    match write.kind {
        RbacKind::Role | RbacKind::ClusterRole => check_role(authorizers, write).await,
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => check_binding(authorizers, write).await,
    }
}

async fn check_role(authorizers: &Authorizers, write: &Written<'_>) -> ApiResult<()> {
    if may(authorizers, write, "escalate", RbacKind::GROUP, write.kind, write.path_name).await {
        return Ok(());
    }
    let rules = write.object.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rules: Vec<Arc<PolicyRule>> = rules.iter().filter_map(PolicyRule::of).map(Arc::new).collect();
    confirm_held(authorizers, write, &rules).map_err(|detail| forbidden(write, &detail))?;
    let aggregates = |role: &Value| {
        let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
        selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
    };
    if write.kind == RbacKind::ClusterRole && (aggregates(write.object) || write.old.is_some_and(aggregates)) {
        let everything = [PolicyRule::on_resources(&["*"], &["*"], &["*"]), PolicyRule::on_paths(&["*"], &["*"])];
        confirm_held(authorizers, write, &everything.map(Arc::new)).map_err(|_| forbidden(write, AGGREGATION))?;
    }
    Ok(())
}

async fn check_binding(authorizers: &Authorizers, write: &Written<'_>) -> ApiResult<()> {
    let (kind, name) = (str_at(write.object, &["roleRef", "kind"]), str_at(write.object, &["roleRef", "name"]));
    let role = match kind {
        "Role" => Some(RbacKind::Role),
        "ClusterRole" => Some(RbacKind::ClusterRole),
        _ => None,
    };
    if let Some(role) = role
        && may(authorizers, write, "bind", str_at(write.object, &["roleRef", "apiGroup"]), role, name).await
    {
        return Ok(());
    }
    if role == Some(RbacKind::Role) && write.namespace.is_empty() {
        return Err(ApiError::bad_request("Namespace parameter required."));
    }
    let rules = authorizers.roles().role_rules(kind, name, write.namespace).map_err(|unresolved| match unresolved {
        // Upstream names the resource of the request, not that of the role.
        Unresolved::NotFound { name, .. } => ApiError::not_found(&resource(write.kind), &name),
        Unresolved::UnsupportedKind(kind) => {
            ApiError::new(500, "", format!("unsupported role reference kind: {kind:?}"))
        }
    })?;
    confirm_held(authorizers, write, &rules).map_err(|detail| forbidden(write, &detail))
}

/// Whether the author may do `verb` to the role of this group, kind and name, in the namespace of the request.
async fn may(
    authorizers: &Authorizers,
    write: &Written<'_>,
    verb: &str,
    group: &str,
    role: RbacKind,
    name: &str,
) -> bool {
    let target = ResourceTarget {
        group,
        version: "*",
        resource: role.plural(),
        namespace: write.namespace,
        name,
        ..ResourceTarget::default()
    };
    let attributes = Attributes { user: write.user, verb, target: Target::Resource(target) };
    authorizers.authorize(&attributes).await.is_allowed()
}

/// Whether the author holds all these rules where the object is; if not, which are missing.
fn confirm_held(authorizers: &Authorizers, write: &Written<'_>, rules: &[Arc<PolicyRule>]) -> Result<(), String> {
    let user = write.user;
    let held = authorizers.roles().held_by(user, write.namespace);
    let missing = uncovered(&held.rules, rules).map_err(|error| error.to_string())?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut detail = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted_list(&user.groups),
        described(&compact(missing)),
    );
    if !held.unresolved.is_empty() {
        let errors: Vec<String> = held
            .unresolved
            .iter()
            .map(|unresolved| match unresolved {
                Unresolved::NotFound { name, .. } => ApiError::not_found(&resource(write.kind), name).message,
                Unresolved::UnsupportedKind(kind) => format!("unsupported role reference kind: {kind:?}"),
            })
            .collect();
        detail.push_str(&format!("; resolution errors: [{}]", aggregate(&errors)));
    }
    Err(detail)
}

fn resource(kind: RbacKind) -> GroupResource {
    GroupResource { group: RbacKind::GROUP.to_owned(), resource: kind.plural().to_owned() }
}

fn forbidden(write: &Written<'_>, detail: &str) -> ApiError {
    ApiError::forbidden(&resource(write.kind), str_at(write.object, &["metadata", "name"]), detail)
}

/// Whether a change touches only what the garbage collector touches.
fn same_rights(new: &Value, old: &Value) -> bool {
    const COLLECTORS: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            COLLECTORS.iter().for_each(|field| drop(metadata.remove(*field)));
            metadata.retain(|_, value| !is_empty(value));
        }
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|_, value| !is_empty(value));
        }
        object
    };
    stripped(new) == stripped(old)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
