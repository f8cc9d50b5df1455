//! The conditions of definitions.

use std::collections::BTreeMap;

use bailiwick_webhook::ca_bundle_fault;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

/// Groups of the community need its approval, in this annotation.
const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

/// A condition as it should be; its time is when that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    pub fn yes(kind: &'static str, reason: &'static str, message: &str) -> Self {
        Self { kind, status: "True", reason, message: message.to_owned() }
    }

    pub fn no(kind: &'static str, reason: &'static str, message: &str) -> Self {
        Self { kind, status: "False", reason, message: message.to_owned() }
    }
}

/// The condition of a kind, if the status has it.
pub(super) fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    find(status, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Puts a condition into the status; tells whether that changed anything.
pub(super) fn set(status: &mut Value, condition: Condition) -> bool {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return false };
    let now = || Value::from(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let Some(existing) = conditions.iter_mut().find(|existing| existing["type"] == condition.kind) else {
        conditions.push(json!({
            "type": condition.kind, "status": condition.status, "lastTransitionTime": now(),
            "reason": condition.reason, "message": condition.message,
        }));
        return true;
    };
    if existing["status"] == condition.status
        && existing["reason"] == condition.reason
        && existing["message"] == condition.message.as_str()
    {
        return false;
    }
    if existing["status"] != condition.status {
        existing["lastTransitionTime"] = now();
    }
    existing["status"] = condition.status.into();
    existing["reason"] = condition.reason.into();
    existing["message"] = condition.message.into();
    true
}

/// Whether a definition whose names are accepted is served; one whose conversion nobody vouches for is not.
pub(super) fn established(conversion: &Value) -> Condition {
    const KIND: &str = "Established";
    let bundle = conversion["webhook"]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    let pem = BASE64_STANDARD.decode(bundle).unwrap_or_default();
    match bundle.is_empty() || ca_bundle_fault(&pem).is_none() {
        true => Condition::yes(KIND, "InitialNamesAccepted", "the initial names have been accepted"),
        false => Condition::no(KIND, "InvalidCABundle", "The conversion webhook CABundle is invalid"),
    }
}

/// What the community says to a definition in one of its groups; `None` for all other groups.
pub(super) fn api_approval(group: &str, annotations: &BTreeMap<String, String>) -> Option<Condition> {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !protected {
        return None;
    }
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let required = format!("protected groups must have approval annotation {APPROVAL_ANNOTATION:?}");
    Some(match annotations.get(APPROVAL_ANNOTATION).map(String::as_str) {
        None | Some("") => Condition::no(KIND, "MissingAnnotation", &format!("{required}, {see}")),
        Some(text) if text.starts_with("unapproved") => {
            Condition::no(KIND, "UnapprovedAnnotation", &format!("not approved: {text:?}"))
        }
        Some(text) if is_url(text) => Condition::yes(KIND, "ApprovedAnnotation", &format!("approved in {text}")),
        Some(_) => {
            let with = "with either a URL or a reason starting with \"unapproved\"";
            Condition::no(KIND, "InvalidAnnotation", &format!("{required} {with}, {see}"))
        }
    })
}

fn is_url(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_that_nobody_vouches_for_keeps_a_definition_from_being_established() {
        let conversion = |bundle: &str| json!({"webhook": {"clientConfig": {"caBundle": bundle}}});
        assert_eq!(established(&Value::Null).status, "True");
        assert_eq!(established(&conversion("")).status, "True");
        assert_eq!(established(&conversion("Cg==")).reason, "InvalidCABundle");
    }

    #[test]
    fn a_condition_changes_its_time_only_with_its_status() {
        let mut status = json!({"conditions": [
            {"type": "Established", "status": "False", "reason": "A", "message": "m", "lastTransitionTime": "then"},
        ]});
        assert!(!set(&mut status, Condition::no("Established", "A", "m")));
        assert!(set(&mut status, Condition::no("Established", "B", "m")));
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "then");
        assert!(set(&mut status, Condition::yes("Established", "B", "m")));
        assert_ne!(status["conditions"][0]["lastTransitionTime"], "then");
    }
}
