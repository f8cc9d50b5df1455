//! SelfSubjectRulesReview: all that I may do in a namespace.

use bailiwick_machinery::object::str_at;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, UserInfo};
use serde_json::{Map, Value, json};

use crate::authz::{Authorizers, PolicyRule};
use crate::go_format::aggregate;

/// Lists the sender's rules. Nothing of the request is in the answer.
pub fn self_subject_rules_review(authorizers: &Authorizers, user: &UserInfo, review: &Value) -> ApiResult<Value> {
    let namespace = str_at(review, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let found = authorizers.rules_for(user, namespace);
    let on_resources: Vec<Value> =
        found.rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| resource_rule(rule)).collect();
    let on_paths: Vec<Value> = found
        .rules
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls }))
        .collect();
    let mut status =
        json!({ "resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": found.incomplete });
    if !found.errors.is_empty() {
        status["evaluationError"] = aggregate(&found.errors).into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let mut out = Map::new();
    out.insert("verbs".into(), rule.verbs.as_slice().into());
    for (field, list) in
        [("apiGroups", &rule.api_groups), ("resources", &rule.resources), ("resourceNames", &rule.resource_names)]
    {
        if !list.is_empty() {
            out.insert(field.into(), list.as_slice().into());
        }
    }
    out.into()
}
