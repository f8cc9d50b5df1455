//! OwnerReferencesPermissionEnforcement, off by default: who sets owners must be able to delete the object, and who lets an
//! object keep its owner alive must be able to set finalizers on the owner.

use async_trait::async_trait;
use bailiwick_auth::authz::{Attributes as Access, ResourceTarget, Target};
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupVersion};
use serde_json::Value;

use crate::attributes::{Attributes, Operation, forbidden};
use crate::chain::{Effects, Lookup, Phase, Plugin};

/// The plugin.
pub struct OwnerReferencesPermissionEnforcement;

fn owners(object: Option<&Value>) -> &[Value] {
    let owners = object.and_then(|object| object.get("metadata")?.get("ownerReferences")?.as_array());
    owners.map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn blocks(reference: &Value) -> bool {
    reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

#[async_trait]
impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && matches!(operation, Operation::Create | Operation::Update)
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        owners(attributes.object.as_deref()) != owners(attributes.old_object)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        if attributes.operation != Operation::Create {
            may_delete(attributes).await?;
        }
        let before = owners(attributes.old_object);
        let blocked_before = |new: &Value| before.iter().any(|old| text(old, "uid") == text(new, "uid") && blocks(old));
        let blocking: Vec<&Value> = owners(attributes.object.as_deref())
            .iter()
            .filter(|reference| blocks(reference) && !blocked_before(reference))
            .collect();
        if blocking.is_empty() {
            return Ok(());
        }
        let anything = ResourceTarget {
            group: "*",
            version: "*",
            resource: "*",
            subresource: "finalizers",
            name: "*",
            ..ResourceTarget::default()
        };
        if allowed(attributes, "update", anything).await.is_ok() {
            return Ok(());
        }
        for reference in blocking {
            may_finalize(attributes, reference).await?;
        }
        Ok(())
    }
}

/// The reason why not, as upstream shows it.
async fn allowed(attributes: &Attributes<'_>, verb: &str, target: ResourceTarget<'_>) -> Result<(), String> {
    let access = Access { user: attributes.user, verb, target: Target::Resource(target) };
    let decision = attributes.host.authorize(&access).await;
    if decision.is_allowed() { Ok(()) } else { Err(format!("{}, <nil>", decision.reason())) }
}

async fn may_delete(attributes: &Attributes<'_>) -> ApiResult<()> {
    let resource = attributes.resource;
    let target = ResourceTarget {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: attributes.subresource,
        namespace: attributes.namespace,
        name: attributes.name,
        ..ResourceTarget::default()
    };
    allowed(attributes, "delete", target).await.map_err(|reason| {
        forbidden(attributes, &format!("cannot set an ownerRef on a resource you can't delete: {reason}"))
    })
}

async fn may_finalize(attributes: &Attributes<'_>, reference: &Value) -> ApiResult<()> {
    let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
    let unknown = |error: String| -> ApiError {
        let text = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind \
             {kind}: {error}"
        );
        forbidden(attributes, &text)
    };
    let group_version = GroupVersion::parse(api_version)
        .ok_or_else(|| unknown(format!("unexpected GroupVersion string: {api_version}")))?;
    let mappings = attributes.host.resources_of(&group_version, kind);
    if mappings.is_empty() {
        return Err(unknown(format!("no matches for kind {kind:?} in version {api_version:?}")));
    }
    for mapping in mappings {
        let target = ResourceTarget {
            group: &group_version.group,
            version: &group_version.version,
            resource: &mapping.resource,
            subresource: "finalizers",
            // An owner in a namespace is in that of its dependent.
            namespace: if mapping.namespaced { attributes.namespace } else { "" },
            name: text(reference, "name"),
            ..ResourceTarget::default()
        };
        allowed(attributes, "update", target).await.map_err(|reason| {
            let text = format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}"
            );
            forbidden(attributes, &text)
        })?;
    }
    Ok(())
}
