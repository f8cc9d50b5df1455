//! Whoever writes a policy or binding must be allowed to read the parameters it names, which its rules could otherwise
//! be used to find out.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_auth::authz;
use bailiwick_machinery::field::{Error, Path};
use bailiwick_machinery::resource::GroupKind;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, UserInfo};
use serde_json::Value;

use super::index::Policies;
use super::params::ParamKind;
use crate::attributes::{Attributes, Operation};
use crate::chain::{Effects, Lookup, Phase, Plugin};

const GROUP: &str = "admissionregistration.k8s.io";
const SUPERUSERS: &str = "system:masters";

/// The plugin. It stands for a part of upstream's validation of these types, so it is always on.
pub struct ParameterAccess {
    validating: Arc<Policies>,
    mutating: Arc<Policies>,
}

impl ParameterAccess {
    /// Looks up the policies of bindings in these.
    pub fn new(validating: Arc<Policies>, mutating: Arc<Policies>) -> Self {
        Self { validating, mutating }
    }
}

/// What the user must be allowed.
struct Asked<'a> {
    verb: &'a str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

#[async_trait]
impl Plugin for ParameterAccess {
    fn name(&self) -> &'static str {
        "ParameterAccess"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        let resource = attributes.resource;
        if resource.group != GROUP || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let Some(object) = attributes.object.as_deref() else { return Ok(()) };
        if attributes.user.groups.iter().any(|group| group == SUPERUSERS) {
            return Ok(());
        }
        let old = attributes.old_object;
        let (field, refusal) = match resource.plural.as_str() {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
                ("paramKind", check_policy(attributes, object, old).await)
            }
            "validatingadmissionpolicybindings" => {
                ("paramRef", check_binding(&self.validating, attributes, object, old).await)
            }
            "mutatingadmissionpolicybindings" => {
                ("paramRef", check_binding(&self.mutating, attributes, object, old).await)
            }
            _ => return Ok(()),
        };
        let Some(refusal) = refusal else { return Ok(()) };
        let kind = GroupKind { group: resource.group.clone(), kind: resource.kind.clone() };
        let error = Error::forbidden(&Path::new("spec").child(field), refusal);
        Err(ApiError::invalid(&kind, attributes.name, &vec![error]))
    }
}

fn spec<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("spec")?.get(field).filter(|found| !found.is_null())
}

/// Why the user may not write a policy with these parameters.
async fn check_policy(attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Option<String> {
    let given = spec(object, "paramKind")?;
    if old.and_then(|old| spec(old, "paramKind")) == Some(given) {
        return None;
    }
    let kind = ParamKind::of(given)?;
    let resource = attributes.host.parameter_resource(&kind);
    let asked = Asked {
        verb: "get",
        group: &kind.group,
        version: &kind.version,
        resource: resource.as_deref().unwrap_or("*"),
        namespace: "*",
        name: "*",
    };
    let user = shown(attributes.user);
    let text = |field: &str| given.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    (!allowed(attributes, &asked).await).then(|| {
        format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={version})"
        )
    })
}

/// Why the user may not write a binding that chooses these parameters.
async fn check_binding(
    policies: &Policies,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Option<String> {
    let reference = spec(object, "paramRef")?;
    let policy = spec(object, "policyName").and_then(Value::as_str).unwrap_or_default();
    let unchanged = old.is_some_and(|old| {
        spec(old, "paramRef") == Some(reference) && spec(old, "policyName") == spec(object, "policyName")
    });
    if unchanged {
        return None;
    }
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let verb = if text("name").is_empty() { "list" } else { "get" };
    let known = policies.param_kind(policy);
    let kind = known.clone().flatten();
    let resource = kind.as_ref().and_then(|kind| attributes.host.parameter_resource(kind));
    let asked = Asked {
        verb,
        group: kind.as_ref().map_or("*", |kind| &kind.group),
        version: kind.as_ref().map_or("*", |kind| &kind.version),
        resource: resource.as_deref().unwrap_or("*"),
        namespace: text("namespace"),
        name: text("name"),
    };
    if allowed(attributes, &asked).await {
        return None;
    }
    let user = shown(attributes.user);
    let everything = format!("user {user} does not have \"{verb}\" permission for all groups, versions and resources");
    Some(match (known, kind, resource) {
        (None, _, _) => {
            format!("unable to get policy {policy} to determine minimum required permissions and {everything}")
        }
        (_, Some(kind), None) => {
            let version = kind.as_ref().api_version();
            let kind = format!("&ParamKind{{Kind:{},APIVersion:{version},}}", kind.kind);
            format!("unable to resolve paramKind {kind} to determine minimum required permissions and {everything}")
        }
        _ => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
    })
}

async fn allowed(attributes: &Attributes<'_>, asked: &Asked<'_>) -> bool {
    let target = authz::ResourceTarget {
        group: asked.group,
        version: asked.version,
        resource: asked.resource,
        subresource: "",
        namespace: asked.namespace,
        name: asked.name,
        field_selector: "",
        label_selector: "",
    };
    let question =
        authz::Attributes { user: attributes.user, verb: asked.verb, target: authz::Target::Resource(target) };
    attributes.host.authorize(&question).await.is_allowed()
}

/// A user as Go prints one.
fn shown(user: &UserInfo) -> String {
    let extra: Vec<String> = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
