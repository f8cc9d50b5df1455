//! AdmissionReviews: what is asked, and what an answer must be to count.

use std::collections::BTreeMap;

use bailiwick_machinery::ApiError;
use bailiwick_merge::go_format::json_type;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::WebhookKind;
use super::hook::{Invocation, ReviewVersion};
use crate::attributes::Attributes;
use crate::cel_request::request_fields;

impl ReviewVersion {
    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
    object: Option<&'a Value>,
    old_object: Option<&'a Value>,
}

/// The question, encoded.
pub(super) fn question(
    version: ReviewVersion,
    uid: &str,
    attributes: &Attributes<'_>,
    invocation: &Invocation<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Review {
        kind: "AdmissionReview",
        api_version: version.api_version(),
        request: Request {
            uid,
            fields: request_fields(attributes, invocation.matched),
            object: invocation.versioned.object.as_deref(),
            old_object: invocation.versioned.old_object.as_deref(),
        },
    })
}

/// An answer that counts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub allowed: bool,
    /// Empty when there is none.
    pub patch: Vec<u8>,
    pub patch_type: String,
    pub result: Option<Value>,
    pub audit_annotations: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

/// Reads the answer to the question `uid`. The error says what is wrong with it.
pub(super) fn answer(version: ReviewVersion, uid: &str, kind: WebhookKind, review: &Value) -> Result<Answer, Unusable> {
    let (api_version, review_kind) = (string(review, "apiVersion"), string(review, "kind"));
    check_type(version, api_version, review_kind)?;
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    let encoded = typed(response, "patch", "[]uint8", Value::as_str)?.unwrap_or_default();
    let patch = STANDARD.decode(encoded).map_err(|_| Unusable::Undecodable(illegal_base64(encoded)))?;
    let allowed = typed(response, "allowed", "bool", Value::as_bool)?.unwrap_or_default();
    let patch_type = typed(response, "patchType", "v1.PatchType", Value::as_str)?;
    let given_uid = typed(response, "uid", "types.UID", Value::as_str)?.unwrap_or_default();
    let result = typed(response, "status", "v1.Status", |value| value.is_object().then(|| value.clone()))?;
    let mut answer = Answer { allowed, result, ..Answer::default() };
    for warning in typed(response, "warnings", "[]string", Value::as_array)?.into_iter().flatten() {
        answer.warnings.push(item(warning, "warnings")?.to_owned());
    }
    for (key, value) in
        typed(response, "auditAnnotations", "map[string]string", Value::as_object)?.into_iter().flatten()
    {
        answer.audit_annotations.insert(key.clone(), item(value, "auditAnnotations")?.to_owned());
    }
    answer.patch_type = patch_type.unwrap_or_default().to_owned();
    if version == ReviewVersion::V1 {
        if given_uid != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {given_uid:?}")));
        }
        if (api_version, review_kind) != (version.api_version(), "AdmissionReview") {
            let shown = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
            return Err(invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={review_kind}"
            )));
        }
        check_patch(kind, &patch, patch_type).map_err(invalid)?;
    } else if !patch.is_empty() {
        answer.patch_type = "JSONPatch".to_owned();
    }
    if kind == WebhookKind::Mutating {
        answer.patch = patch;
    }
    Ok(answer)
}

/// What says to be something else cannot be read as a review. What says nothing is taken for one.
fn check_type(version: ReviewVersion, api_version: &str, kind: &str) -> Result<(), Unusable> {
    let known = |known: &&ReviewVersion| known.api_version() == api_version && kind == "AdmissionReview";
    let short = |version: ReviewVersion| version.api_version().rsplit('/').next().unwrap_or_default();
    match [ReviewVersion::V1, ReviewVersion::V1beta1].iter().find(known) {
        Some(found) if *found == version => Ok(()),
        Some(found) => Err(Unusable::Undecodable(format!(
            "converting ({}.AdmissionReview) to ({}.AdmissionReview): unknown conversion",
            short(*found),
            short(version)
        ))),
        None if api_version.is_empty() || kind.is_empty() => Ok(()),
        None => Err(Unusable::Undecodable(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ))),
    }
}

fn string<'a>(holder: &'a Value, field: &str) -> &'a str {
    holder.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A member of the response, if it is there; another type fails as Go's decoder does.
fn typed<'a, T>(
    response: &'a Value,
    field: &str,
    go: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Unusable> {
    match response.get(field).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| mismatch(value, field, go)),
    }
}

fn item<'a>(value: &'a Value, field: &str) -> Result<&'a str, Unusable> {
    value.as_str().ok_or_else(|| mismatch(value, field, "string"))
}

fn mismatch(value: &Value, field: &str, go: &str) -> Unusable {
    Unusable::Undecodable(format!(
        "json: cannot unmarshal {} into Go struct field AdmissionResponse.response.{field} of type {go}",
        json_type(value)
    ))
}

/// Why an answer does not count.
#[derive(Debug, PartialEq)]
pub(super) enum Unusable {
    /// It is no review.
    Undecodable(String),
    /// It is a review that contradicts itself or the question.
    Invalid(String),
}

fn invalid(text: String) -> Unusable {
    Unusable::Invalid(text)
}

fn check_patch(kind: WebhookKind, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
    let fault = match (kind, patch.is_empty(), patch_type) {
        (WebhookKind::Mutating, false, None) => "webhook returned response.patch but not response.patchType",
        (WebhookKind::Mutating, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (WebhookKind::Mutating, _, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (WebhookKind::Validating, false, _) => "validating webhook may not return response.patch",
        (WebhookKind::Validating, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(fault.to_owned())
}

/// Where Go's decoder stops.
fn illegal_base64(text: &str) -> String {
    let at = text
        .bytes()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')))
        .unwrap_or(text.len());
    format!("illegal base64 data at input byte {at}")
}

/// What a refusal of a webhook is to the client: the Status it sent, made to say who refused.
pub(super) fn refusal(webhook: &str, result: Option<Value>) -> ApiError {
    let given = result.unwrap_or_default();
    let text = |field: &str| given.get(field).and_then(Value::as_str).unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = given.get("code").and_then(Value::as_i64).unwrap_or_default().max(400);
    let status = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    let mut shown = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "message": message, "code": code,
    });
    if !text("reason").is_empty() {
        shown["reason"] = text("reason").into();
    }
    let mut error = ApiError::new(u16::try_from(code).unwrap_or(500), "", message);
    if let Some(Value::Object(details)) = given.get("details") {
        let known = ["name", "group", "kind", "uid", "causes", "retryAfterSeconds"];
        let kept = details.iter().filter(|(name, _)| known.contains(&name.as_str()));
        shown["details"] = Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect());
        let retry = details.get("retryAfterSeconds").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        error.details.get_or_insert_default().retry_after_seconds = retry.unwrap_or_default();
    }
    error.foreign = Some(Box::new(shown));
    error
}
