//! Reviews: questions about tokens and permissions, posted and answered without being stored. Here is what makes a
//! question well formed; the answers are found where authenticators and authorizers are known.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::validation::names;
use bailiwick_machinery::{ApiError, Context, GroupKind, Resource, Scope, Strategy, object};
use serde_json::{Value, json};

use crate::descriptor::Named;
use crate::field_errors::{invalid_each, invalid_shown};
use crate::fields::{list, optional_integer, present, set_default, text, texts};
use crate::go_shape::{self, Shape};

/// The reviews of `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.
pub fn resources() -> Vec<Resource> {
    let authentication = |kind, plural| Named { group: "authentication.k8s.io", version: "v1", kind, plural };
    let authorization = |kind, plural| Named { group: "authorization.k8s.io", version: "v1", kind, plural };
    vec![
        authentication("SelfSubjectReview", "selfsubjectreviews").posted(Scope::Cluster, Unchecked),
        authentication("TokenReview", "tokenreviews").posted(Scope::Cluster, Unchecked),
        authorization("LocalSubjectAccessReview", "localsubjectaccessreviews")
            .posted(Scope::Namespaced, AccessReview::Local),
        authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews")
            .posted(Scope::Cluster, AccessReview::Caller),
        authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews").posted(Scope::Cluster, Unchecked),
        authorization("SubjectAccessReview", "subjectaccessreviews").posted(Scope::Cluster, AccessReview::Anywhere),
    ]
}

/// Refuses a posted review that asks nothing answerable. Upstream does not name the kind in these errors.
pub fn check(resource: &Resource, cx: &Context<'_>, review: &Value) -> ApiResult<()> {
    match resource.kind.as_str() {
        "TokenReview" if object::str_at(review, &["spec", "token"]).is_empty() => {
            Err(ApiError::bad_request("token is required for TokenReview in authentication"))
        }
        "SelfSubjectRulesReview" if object::str_at(review, &["spec", "namespace"]).is_empty() => {
            Err(ApiError::bad_request("no namespace on request"))
        }
        _ => match resource.strategy.validate(cx, review) {
            errors if errors.is_empty() => Ok(()),
            errors => {
                let nameless = GroupKind { group: resource.group.clone(), kind: String::new() };
                Err(ApiError::invalid(&nameless, "", &errors))
            }
        },
    }
}

/// A review whose few rules are not about fields, see [`check`].
struct Unchecked;

impl Strategy for Unchecked {
    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
    }
}

/// The three ways to ask whether somebody may do something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessReview {
    /// Whether anybody may, anywhere.
    Anywhere,
    /// Whether anybody may, in the namespace of the request.
    Local,
    /// Whether the caller may.
    Caller,
}

impl Strategy for AccessReview {
    fn validate(&self, _cx: &Context<'_>, review: &Value) -> ErrorList {
        let spec = review.get("spec").unwrap_or(&Value::Null);
        let path = Path::new("spec");
        let mut errors = self.validate_spec(spec, &path);

        let metadata_rule = match self {
            Self::Local => "must be empty except for namespace",
            Self::Anywhere | Self::Caller => "must be empty",
        };
        if !self.metadata_is_empty(review) {
            errors.push(invalid_shown(&Path::new("metadata"), &shown_metadata(review), metadata_rule));
        }

        if *self == Self::Local {
            if let Some(attributes) = present(spec, "resourceAttributes") {
                let namespace = text(attributes, "namespace");
                if namespace != object::namespace(review) {
                    let path = path.child("resourceAttributes").child("namespace");
                    errors.push(Error::invalid(&path, namespace, "must match metadata.namespace"));
                }
            }
            if let Some(attributes) = present(spec, "nonResourceAttributes") {
                let path = path.child("nonResourceAttributes");
                let shown = shown_non_resource(attributes);
                errors.push(invalid_shown(&path, &shown, "disallowed on this kind of request"));
            }
        }
        errors
    }
}

impl AccessReview {
    fn validate_spec(self, spec: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        match (present(spec, "resourceAttributes"), present(spec, "nonResourceAttributes")) {
            (Some(_), Some(attributes)) => {
                let complaint = "cannot be specified in combination with resourceAttributes";
                let shown = shown_non_resource(attributes);
                errors.push(invalid_shown(&path.child("nonResourceAttributes"), &shown, complaint));
            }
            (None, None) => {
                let complaint = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                errors.push(Error::invalid(&path.child("resourceAttributes"), Value::Null, complaint));
            }
            _ => {}
        }
        if self != Self::Caller && text(spec, "user").is_empty() && list(spec, "groups").is_empty() {
            errors.push(Error::invalid(&path.child("user"), "", "at least one of user or group must be specified"));
        }
        if let Some(attributes) = present(spec, "resourceAttributes") {
            let path = path.child("resourceAttributes");
            if let Some(selector) = present(attributes, "fieldSelector") {
                errors.extend(validate_selector(selector, &path.child("fieldSelector"), validate_field_requirement));
            }
            if let Some(selector) = present(attributes, "labelSelector") {
                errors.extend(validate_selector(selector, &path.child("labelSelector"), validate_label_requirement));
            }
        }
        errors
    }

    fn metadata_is_empty(self, review: &Value) -> bool {
        let ignored = |field: &str| field == "managedFields" || (self == Self::Local && field == "namespace");
        object::metadata(review).into_iter().flatten().all(|(field, value)| ignored(field) || value.is_null())
    }
}

fn validate_selector(selector: &Value, path: &Path, validate_requirement: fn(&Value, &Path) -> ErrorList) -> ErrorList {
    let mut errors = ErrorList::new();
    let raw = text(selector, "rawSelector");
    let requirements = list(selector, "requirements");
    if !raw.is_empty() && !requirements.is_empty() {
        let complaint = "may not specified at the same time as requirements";
        errors.push(Error::invalid(&path.child("rawSelector"), raw, complaint));
    }
    if raw.is_empty() && requirements.is_empty() {
        let complaint = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(Error::required(&path.child("requirements"), complaint));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        errors.extend(validate_requirement(requirement, &path.child("requirements").index(index)));
    }
    errors
}

fn validate_field_requirement(requirement: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if text(requirement, "key").is_empty() {
        errors.push(Error::required(&path.child("key"), "must be specified"));
    }
    errors.extend(validate_operator(requirement, path));
    errors
}

fn validate_label_requirement(requirement: &Value, path: &Path) -> ErrorList {
    let mut errors: ErrorList = validate_operator(requirement, path).into_iter().collect();
    let key = text(requirement, "key");
    errors.extend(invalid_each(&path.child("key"), key, names::qualified_name(key)));
    for (index, value) in texts(requirement, "values").into_iter().enumerate() {
        errors.extend(invalid_each(&path.child("values").index(index), value, names::label_value(value)));
    }
    errors
}

/// Operators we do not know pass: a newer client may ask about more than we understand.
fn validate_operator(requirement: &Value, path: &Path) -> Option<Error> {
    let path = path.child("values");
    let no_values = list(requirement, "values").is_empty();
    match text(requirement, "operator") {
        "In" | "NotIn" if no_values => {
            Some(Error::required(&path, "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "Exists" | "DoesNotExist" if !no_values => {
            Some(Error::forbidden(&path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        }
        _ => None,
    }
}

fn shown_non_resource(attributes: &Value) -> String {
    go_shape::shown(attributes, &[("Path", "path", Shape::Text), ("Verb", "verb", Shape::Text)])
}

/// Metadata with its fields in the order upstream declares them.
fn shown_metadata(review: &Value) -> String {
    const ORDER: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let metadata = review.get("metadata").unwrap_or(&Value::Null);
    let shown: Vec<String> =
        ORDER.iter().filter_map(|field| present(metadata, field).map(|value| format!("\"{field}\":{value}"))).collect();
    format!("{{{}}}", shown.join(","))
}

/// How long a requested token lives unless the request says otherwise.
const DEFAULT_TOKEN_SECONDS: i64 = 60 * 60;
/// Tokens live long enough to be worth caching: ten minutes at least.
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
/// Upstream's ceiling on what may be asked for.
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Rules of the TokenRequest that the `token` subresource of service accounts takes.
pub struct TokenRequest;

impl Strategy for TokenRequest {
    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
        if let Some(spec) = object.get_mut("spec") {
            set_default(spec, "expirationSeconds", || json!(DEFAULT_TOKEN_SECONDS));
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let seconds = present(object, "spec").and_then(|spec| optional_integer(spec, "expirationSeconds"));
        let seconds = seconds.unwrap_or(DEFAULT_TOKEN_SECONDS);
        let complaint = match seconds {
            ..MIN_TOKEN_SECONDS => "may not specify a duration less than 10 minutes",
            MIN_TOKEN_SECONDS..=MAX_TOKEN_SECONDS => return ErrorList::new(),
            _ => "may not specify a duration larger than 2^32 seconds",
        };
        vec![Error::invalid(&Path::new("spec").child("expirationSeconds"), seconds, complaint)]
    }
}

#[cfg(test)]
mod tests;
