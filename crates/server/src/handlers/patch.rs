//! PATCH: JSON patch, merge patch and strategic merge patch on the newest state.

use bailiwick_machinery::field::{Error, Path};
use bailiwick_machinery::media::{self, Answer};
use bailiwick_machinery::object;
use bailiwick_machinery::resource::{GroupKind, go_name};
use bailiwick_machinery::sensitivity::CONCEALED;
use bailiwick_machinery::status::{ApiError, ApiResult, Details};
use bailiwick_machinery::write_options::{FieldValidation, PatchKind, PatchOptions};
use bailiwick_machinery::yaml;
use bailiwick_merge::go_format::go_format;
use bailiwick_merge::{JsonPatch, PatchError, merge_patch, strategic_merge_patch};
use bailiwick_schema::decode;
use bailiwick_schema::types::Types;
use bytes::Bytes;
use serde_json::Value;

use super::body::{Expected, coerce, not_registered, settle};
use super::managed_fields::Tracking;
use super::request::{Reply, Request};
use super::update::{nameless, update_object};
use super::write::{self, Run};

/// A patch, parsed once and applied as often as the race for the object needs.
struct Patch {
    change: Change,
    /// What strict field validation says of the patch itself.
    strict: Vec<String>,
}

enum Change {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// Applies the patch in the body to the named object.
pub async fn patch(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let kind = media::patch_type(rq.content_type(), rq.origin())?;
    let options = PatchOptions::parse(rq.query, kind)?;
    let encoder = rq.encoder(Answer::Object)?;
    rq.audit.request_body(|| json_of_patch(kind, &body));
    let change = match kind {
        PatchKind::JsonPatch => Change::Json(JsonPatch::from_value(parse(&body, DECODING)?).map_err(patch_error)?),
        PatchKind::MergePatch => Change::Merge(parse(&body, DECODING)?),
        PatchKind::StrategicMergePatch => Change::Strategic(parse(&body, "")?),
        PatchKind::Apply => return super::apply::apply(rq, body, &options).await,
    };
    let strict = match options.write.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => strict_errors(&change, &body),
    };
    let patch = Patch { change, strict };
    let run = Run::from(options.write.dry_run);
    let manager = options.write.manager(rq.user_agent());
    let patched = |old: &Value| apply(rq, &patch, old, options.write.field_validation);
    let updated = update_object(rq, run, Tracking::Update(&manager), patched).await?;
    rq.object_reply(200, &encoder, updated).await
}

/// A patch as JSON; those to apply are YAML. Nothing if it is neither, which its reader will tell.
fn json_of_patch(kind: PatchKind, body: &Bytes) -> Bytes {
    if decode::check_syntax(body).is_ok() {
        return body.clone();
    }
    let text = std::str::from_utf8(body).ok().filter(|_| kind == PatchKind::Apply);
    let value = text.and_then(|text| yaml::decode(text).ok()).map(|decoded| decoded.value);
    value.and_then(|value| serde_json::to_vec(&value).ok()).unwrap_or_default().into()
}

/// How upstream introduces the syntax errors of two of the three kinds of patch.
const DECODING: &str = "error decoding patch: ";

fn parse(body: &[u8], introduction: &str) -> ApiResult<Value> {
    let bad = |text: String| ApiError::bad_request(format!("{introduction}{text}"));
    decode::check_syntax(body).map_err(|error| bad(error.to_string()))?;
    serde_json::from_slice(body).map_err(|error| bad(error.to_string()))
}

/// What strict field validation says of a patch: fields that it has twice, and those that operations do not have.
fn strict_errors(change: &Change, body: &[u8]) -> Vec<String> {
    let duplicates = decode::decode_untyped(body).map(|decoded| decoded.strict).unwrap_or_default();
    match change {
        Change::Merge(_) | Change::Strategic(_) => duplicates,
        Change::Json(patch) => {
            let duplicates = duplicates.iter().map(|duplicate| format!("json patch {duplicate}"));
            let mut errors: Vec<String> = duplicates.chain(patch.unknown_fields().iter().cloned()).collect();
            errors.sort_by_key(|error| operation_index(error));
            errors
        }
    }
}

/// Which operation of a JSON patch an error is about: `json patch unknown field "[3].nonsense"`.
fn operation_index(error: &str) -> Option<usize> {
    error.split_once("\"[")?.1.split_once(']')?.0.parse().ok()
}

fn patch_error(error: PatchError) -> ApiError {
    match error {
        PatchError::BadRequest(text) => ApiError::bad_request(text),
        PatchError::TooLarge(text) => ApiError::request_entity_too_large(text),
        PatchError::Unforeseen(text) => ApiError::new(500, "", text),
        PatchError::Rejected(text) => {
            tracing::debug!(text, "patch rejected");
            ApiError::new(422, "Invalid", PatchError::REJECTED).with_details(Details::default())
        }
    }
}

fn apply(rq: &Request<'_>, patch: &Patch, old: &Value, validation: FieldValidation) -> ApiResult<Value> {
    let expected = Expected::of(rq);
    let mut patched = old.clone();
    match &patch.change {
        Change::Json(patch) => patch.clone().apply(&mut patched),
        Change::Merge(patch) => merge_patch(&mut patched, patch.clone()),
        Change::Strategic(patch) => match expected.native {
            Some(native) => strategic_merge_patch(std::mem::take(&mut patched), patch.clone(), native)
                .map(|merged| patched = with_type_of(merged, old)),
            None => Err(PatchError::Unforeseen("custom resources have no strategic merge patch".to_owned())),
        },
    }
    .map_err(patch_error)?;
    let invalid = |text: String| invalid_patch(rq, &patch.change, &patched, text);
    if expected.custom.is_none() {
        check_type(&patched, &expected).map_err(invalid)?;
    }
    let decoded = match expected.native {
        Some(native) => decode::decode_value(native, &patched),
        None => Ok(decode::Decoded { value: patched.clone(), strict: Vec::new() }),
    };
    let mut decoded = decoded.map_err(|error| invalid(error.to_string()))?;
    coerce(&expected, &mut decoded)?;
    decoded.strict.splice(0..0, patch.strict.iter().cloned());
    if validation == FieldValidation::Strict && !decoded.strict.is_empty() {
        return Err(invalid(format!("strict decoding error: {}", decoded.strict.join(", "))));
    }
    let mut value = settle(rq, decoded, &expected, validation)?;
    check_identity(rq, &mut value)?;
    rq.strategy().default(&mut value);
    Ok(value)
}

/// What a strategic merge patch makes is of the type it was, even if `$retainKeys` did not retain what says so.
fn with_type_of(mut merged: Value, old: &Value) -> Value {
    if let Some(fields) = merged.as_object_mut() {
        for field in ["apiVersion", "kind"] {
            fields.entry(field).or_insert_with(|| old[field].clone());
        }
    }
    merged
}

/// A patch may not make another object of the one the path names.
pub fn check_identity(rq: &Request<'_>, value: &mut Value) -> ApiResult<()> {
    write::settle_namespace(rq, value)?;
    if object::name(value).is_empty() {
        return Err(nameless(rq));
    }
    if object::name(value) != rq.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object::name(value),
            rq.info.name
        )));
    }
    Ok(())
}

/// A patch may not make another kind of the object. The error is the text upstream finds while decoding it as that.
pub fn check_type(patched: &Value, expected: &Expected<'_>) -> Result<(), String> {
    let (api_version, kind) = (object::str_at(patched, &["apiVersion"]), object::str_at(patched, &["kind"]));
    if api_version == expected.api_version() && kind == expected.kind {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match Types::native().by_gvk(group, version, kind) {
        None => Err(not_registered(kind, api_version)),
        Some(other) => {
            decode::decode_value(other, patched).map_err(|error| error.to_string())?;
            let into = go_name(expected.group, expected.kind);
            Err(format!("converting ({version}.{kind}) to ({into}): unknown conversion"))
        }
    }
}

/// The refusal of a patch whose result is no object of the type.
fn invalid_patch(rq: &Request<'_>, change: &Change, patched: &Value, text: String) -> ApiError {
    let shown = match change {
        // Whoever may patch a Secret may not be one who may read it, and the message is recorded.
        _ if rq.sensitivity().conceals() => CONCEALED.to_owned(),
        Change::Strategic(patch) => go_format(patch),
        Change::Json(_) | Change::Merge(_) => patched.to_string(),
    };
    let nameless = GroupKind { group: String::new(), kind: String::new() };
    ApiError::invalid(&nameless, "", &vec![Error::invalid(&Path::new("patch"), shown, text)])
}
