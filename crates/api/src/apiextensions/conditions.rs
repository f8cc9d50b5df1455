//! Conditions that follow from a definition alone. Setting them is a controller's work.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::defaults::aggregate;
use super::schema::unsupported;
use super::walk::schema_of;
use super::{Approval, approval, is_protected, structural};
use crate::fields::{flag, list, text};

/// A condition as it should be, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// `NonStructuralSchema`: what is not structural about a definition; `None` when all is well and the condition should go.
pub fn nonstructural_condition(definition: &Value) -> Option<Condition> {
    let spec = definition.get("spec")?;
    let mut errors = ErrorList::new();
    if flag(spec, "preserveUnknownFields") {
        errors.push(Error::invalid(&Path::new("spec").child("preserveUnknownFields"), true, "must be false"));
    }
    for (index, version) in list(spec, "versions").iter().enumerate() {
        let Some(schema) = schema_of(version) else { continue };
        if let Some(why) = unsupported(schema) {
            let name = text(version, "name");
            let message = format!("failed to check validation schema for version {name}: {why}");
            return Some(Condition { status: "Unknown", reason: "StructuralError", message });
        }
        let path = Path::new("spec").child("versions").index(index).child("schema").child("openAPIV3Schema");
        errors.extend(structural::validate(schema, &path));
    }
    aggregate(&errors).map(|message| Condition { status: "True", reason: "Violations", message })
}

/// `KubernetesAPIApprovalPolicyConformant`: only definitions in groups of the community have it.
pub fn api_approved_condition(definition: &Value) -> Option<Condition> {
    if !is_protected(text(definition.get("spec")?, "group")) {
        return None;
    }
    let annotation = super::approval_annotation(definition);
    let (status, reason, message) = match approval(definition) {
        Approval::Approved => ("True", "ApprovedAnnotation", format!("approved in {annotation}")),
        Approval::Bypassed => ("False", "UnapprovedAnnotation", format!("not approved: {annotation:?}")),
        Approval::Missing => ("False", "MissingAnnotation", super::approval_missing()),
        Approval::Invalid => ("False", "InvalidAnnotation", super::approval_invalid()),
    };
    Some(Condition { status, reason, message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(group: &str, schema: Value) -> Value {
        json!({"spec": {"group": group, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    }

    #[test]
    fn what_is_not_structural_is_named() {
        let good = definition("a.b", json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        assert_eq!(nonstructural_condition(&good), None);
        let bad = definition("a.b", json!({"type": "object", "properties": {"a": {}, "b": {}}}));
        let condition = nonstructural_condition(&bad).expect("violations");
        assert_eq!((condition.status, condition.reason), ("True", "Violations"));
        assert_eq!(
            condition.message,
            "[spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, spec.versions[0].schema.openAPIV3Schema.properties[b].type: Required value: must not be empty for specified object fields]"
        );
        let unsupported = definition("a.b", json!({"type": "object", "$ref": "x"}));
        assert_eq!(nonstructural_condition(&unsupported).expect("error").reason, "StructuralError");
    }

    #[test]
    fn only_groups_of_the_community_need_approval() {
        assert_eq!(api_approved_condition(&definition("a.b", json!({}))), None);
        let mut protected = definition("x.k8s.io", json!({}));
        assert_eq!(api_approved_condition(&protected).expect("protected").reason, "MissingAnnotation");
        protected["metadata"] = json!({"annotations": {"api-approved.kubernetes.io": "https://github.com/x"}});
        let approved = api_approved_condition(&protected).expect("protected");
        assert_eq!((approved.status, approved.message.as_str()), ("True", "approved in https://github.com/x"));
    }
}
