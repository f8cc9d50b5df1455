//! SubjectAccessReview and its relatives: may this user do that.

use std::collections::BTreeMap;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::{namespace as object_namespace, set_meta_str, str_at};
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupKind, UserInfo};
use serde_json::{Map, Value, json};

use super::selectors::{selector_problem, selector_texts, validate_selectors};
use super::subject::with_status;
use crate::authz::{Attributes, Authorizers, ResourceTarget, Target};

/// Answers a SubjectAccessReview: anybody, anywhere.
pub async fn subject_access_review(authorizers: &Authorizers, review: &Value) -> ApiResult<Value> {
    let mut errors = validate_spec(review, Whose::Named);
    errors.extend(validate_metadata(review, "must be empty", &[]));
    refuse(errors)?;
    evaluate(authorizers, &named_user(review), review).await
}

/// Answers a SelfSubjectAccessReview: the sender, anywhere.
pub async fn self_subject_access_review(
    authorizers: &Authorizers,
    user: &UserInfo,
    review: &Value,
) -> ApiResult<Value> {
    let mut errors = validate_spec(review, Whose::Own);
    errors.extend(validate_metadata(review, "must be empty", &[]));
    refuse(errors)?;
    evaluate(authorizers, user, review).await
}

/// Answers a LocalSubjectAccessReview: anybody, in the namespace of the request.
pub async fn local_subject_access_review(
    authorizers: &Authorizers,
    namespace: &str,
    review: &Value,
) -> ApiResult<Value> {
    let mut review = review.clone();
    if object_namespace(&review).is_empty() {
        set_meta_str(&mut review, "namespace", namespace);
    }
    let mut errors = validate_spec(&review, Whose::Named);
    errors.extend(validate_metadata(&review, "must be empty except for namespace", &["namespace"]));
    if present(&review, "resourceAttributes").is_some() {
        let asked = str_at(&review, &["spec", "resourceAttributes", "namespace"]);
        if asked != object_namespace(&review) {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(Error::invalid(&path, asked, "must match metadata.namespace"));
        }
    }
    if let Some(attributes) = present(&review, "nonResourceAttributes") {
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(Error::invalid(&path, go_non_resource(attributes), "disallowed on this kind of request"));
    }
    refuse(errors)?;
    if object_namespace(&review) != namespace {
        let text = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(ApiError::bad_request(text));
    }
    evaluate(authorizers, &named_user(&review), &review).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Named,
}

fn present<'a>(review: &'a Value, field: &str) -> Option<&'a Value> {
    review.get("spec").and_then(|spec| spec.get(field)).filter(|value| !value.is_null())
}

fn validate_spec(review: &Value, whose: Whose) -> ErrorList {
    let spec = Path::new("spec");
    let mut errors = ErrorList::new();
    let (resource, path) = (present(review, "resourceAttributes"), present(review, "nonResourceAttributes"));
    match (resource, path) {
        (Some(_), Some(attributes)) => errors.push(Error::invalid(
            &spec.child("nonResourceAttributes"),
            go_non_resource(attributes),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(Error::invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let no_groups = present(review, "groups").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if whose == Whose::Named && str_at(review, &["spec", "user"]).is_empty() && no_groups {
        errors.push(Error::invalid(&spec.child("user"), "", "at least one of user or group must be specified"));
    }
    if let Some(attributes) = resource {
        errors.extend(validate_selectors(attributes, &spec.child("resourceAttributes")));
    }
    errors
}

/// Upstream shows the value with its internal field names.
fn go_non_resource(attributes: &Value) -> Value {
    json!({ "Path": str_at(attributes, &["path"]), "Verb": str_at(attributes, &["verb"]) })
}

/// A review has no identity. Managed fields, which the server itself may have written, do not count.
fn validate_metadata(review: &Value, detail: &str, allowed: &[&str]) -> Option<Error> {
    let metadata = review.get("metadata").and_then(Value::as_object)?;
    let says_something = |(field, value): (&String, &Value)| {
        let empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
        };
        !empty && field != "managedFields" && !allowed.contains(&field.as_str())
    };
    let has_identity = metadata.iter().any(says_something);
    has_identity.then(|| Error::invalid(&Path::new("metadata"), Value::Object(metadata.clone()), detail))
}

fn refuse(errors: ErrorList) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    // Upstream's internal object has lost its kind here.
    let kind = GroupKind { group: "authorization.k8s.io".to_owned(), kind: String::new() };
    Err(ApiError::invalid(&kind, "", &errors))
}

fn named_user(review: &Value) -> UserInfo {
    let texts = |list: Option<&Value>| -> Vec<String> {
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra: BTreeMap<String, Vec<String>> = present(review, "extra")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), texts(Some(values))))
        .collect();
    UserInfo {
        name: str_at(review, &["spec", "user"]).to_owned(),
        uid: str_at(review, &["spec", "uid"]).to_owned(),
        groups: texts(present(review, "groups")),
        extra,
    }
}

async fn evaluate(authorizers: &Authorizers, user: &UserInfo, review: &Value) -> ApiResult<Value> {
    let mut problems = Vec::new();
    let [field_selector, label_selector] = match present(review, "resourceAttributes") {
        Some(attributes) => selector_texts(attributes),
        None => Default::default(),
    };
    let (verb, target) = match present(review, "resourceAttributes") {
        Some(attributes) => {
            problems.extend(selector_problem(attributes));
            let text = |field| str_at(attributes, &[field]);
            let version = text("version");
            let target = ResourceTarget {
                group: text("group"),
                version: if version.is_empty() { "*" } else { version },
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                field_selector: &field_selector,
                label_selector: &label_selector,
            };
            (text("verb"), Target::Resource(target))
        }
        None => {
            let text = |field| str_at(review, &["spec", "nonResourceAttributes", field]);
            (text("verb"), Target::Path(text("path")))
        }
    };
    let decision = authorizers.authorize(&Attributes { user, verb, target }).await;
    let mut status = Map::new();
    status.insert("allowed".into(), decision.is_allowed().into());
    if decision.is_denied() {
        status.insert("denied".into(), true.into());
    }
    if !decision.reason().is_empty() {
        status.insert("reason".into(), decision.reason().into());
    }
    problems.splice(0..0, decision.error().map(str::to_owned));
    if !problems.is_empty() {
        status.insert("evaluationError".into(), problems.join("; ").into());
    }
    Ok(with_status(review, status.into()))
}
