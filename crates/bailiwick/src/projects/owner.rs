//! A project belongs to the organization it names: it cannot be made without it, and goes with it.

use async_trait::async_trait;
use bailiwick_admission::policy::ParamKind;
use bailiwick_admission::{Attributes, Effects, Lookup, Operation, Phase, Plugin, forbidden};
use bailiwick_machinery::object;
use bailiwick_machinery::status::{ApiError, ApiResult};
use serde_json::{Value, json};

use super::{FINALIZER, GROUP, VERSION};
use crate::bootstrap::OWN_USER;

/// See the module.
pub(crate) struct ProjectOwner;

#[async_trait]
impl Plugin for ProjectOwner {
    fn name(&self) -> &'static str {
        "ProjectOwner"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        matches!((operation, phase), (Operation::Create, Phase::Mutate) | (Operation::Update, Phase::Validate))
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.resource.group == GROUP && attributes.resource.plural == "projects"
    }

    /// The organization becomes the owner, so that the garbage collector takes the project when it goes; and the project
    /// stays until its control plane is empty.
    async fn mutate(&self, attributes: &mut Attributes<'_>, _: &dyn Lookup) -> ApiResult<()> {
        let Some(project) = attributes.object.as_deref() else { return Ok(()) };
        let owner = object::str_at(project, &["spec", "ownerRef", "name"]).to_owned();
        let kind = ParamKind { group: GROUP.to_owned(), version: VERSION.to_owned(), kind: "Organization".to_owned() };
        // A reference that is missing or of another kind is for the schema to refuse.
        if owner.is_empty() || object::str_at(project, &["spec", "ownerRef", "kind"]) != kind.kind {
            return Ok(());
        }
        let found = attributes.host.parameter(&kind, "", &owner).await.map_err(ApiError::internal)?;
        let organization = match found {
            Some(organization) if !object::is_deleting(&organization) => organization,
            Some(_) => return Err(forbidden(attributes, &format!("organization {owner:?} is being deleted"))),
            None => return Err(forbidden(attributes, &format!("organization {owner:?} does not exist"))),
        };
        let reference = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind.kind, "name": owner,
            "uid": object::uid(&organization),
        });
        let Some(metadata) = attributes.object.as_deref_mut().and_then(object::metadata_mut) else { return Ok(()) };
        add(metadata.entry("ownerReferences").or_insert_with(|| json!([])), reference);
        add(metadata.entry("finalizers").or_insert_with(|| json!([])), FINALIZER.into());
        Ok(())
    }

    /// Only the server knows when nothing is left of a control plane.
    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        let has = |project: Option<&Value>| project.is_some_and(|it| object::finalizers(it).contains(&FINALIZER));
        if has(attributes.old_object) && !has(attributes.object.as_deref()) && attributes.user.name != OWN_USER {
            let detail = format!("the finalizer {FINALIZER} is removed by the server when the control plane is empty");
            return Err(forbidden(attributes, &detail));
        }
        Ok(())
    }
}

fn add(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&item)) {
        list.push(item);
    }
}
