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
use serde_json::{Map, Value};

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
    let (change, duplicates) = match kind {
        PatchKind::JsonPatch => {
            let (operations, duplicates) = parse(&body, DECODING)?;
            (Change::Json(JsonPatch::from_value(operations).map_err(patch_error)?), duplicates)
        }
        PatchKind::MergePatch => {
            let (patch, duplicates) = parse(&body, DECODING)?;
            (Change::Merge(patch), duplicates)
        }
        PatchKind::StrategicMergePatch => {
            let (patch, duplicates) = parse(&body, "")?;
            (Change::Strategic(patch), duplicates)
        }
        PatchKind::Apply => return super::apply::apply(rq, body, &options).await,
    };
    let strict = match options.write.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => strict_errors(&change, duplicates),
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

/// A patch, and which of its fields are there twice.
fn parse(body: &[u8], introduction: &str) -> ApiResult<(Value, Vec<String>)> {
    let bad = |text: String| ApiError::bad_request(format!("{introduction}{text}"));
    let written = decode::fields_written(body).map_err(|error| bad(error.to_string()))?;
    let value: Value = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    // Hardly ever: then it is read once more to tell which.
    let has_duplicates = decode::fields_of(&value) < written;
    let duplicates = has_duplicates.then(|| decode::decode_untyped(body).map(|decoded| decoded.strict));
    Ok((value, duplicates.and_then(Result::ok).unwrap_or_default()))
}

/// What strict field validation says of a patch: fields that it has twice, and those that operations do not have.
fn strict_errors(change: &Change, duplicates: Vec<String>) -> Vec<String> {
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
    let mut patched = patched(&expected, &patch.change, old)?;
    if expected.custom.is_none() {
        check_type(&patched, &expected).map_err(|text| invalid_patch(rq, &patch.change, old, text))?;
    }
    let decoded = match expected.native {
        Some(native) => {
            let mut untouched = take_untouched(&mut patched, &patch.change);
            decode::decode_value(native, &patched).map(|mut decoded| {
                if let Some(fields) = decoded.value.as_object_mut() {
                    fields.append(&mut untouched);
                }
                decoded
            })
        }
        None => Ok(decode::Decoded { value: patched, strict: Vec::new() }),
    };
    let mut decoded = decoded.map_err(|error| invalid_patch(rq, &patch.change, old, error.to_string()))?;
    coerce(&expected, &mut decoded)?;
    decoded.strict.splice(0..0, patch.strict.iter().cloned());
    if validation == FieldValidation::Strict && !decoded.strict.is_empty() {
        let text = format!("strict decoding error: {}", decoded.strict.join(", "));
        return Err(invalid_patch(rq, &patch.change, old, text));
    }
    let mut value = settle(rq, decoded, &expected, validation)?;
    check_identity(rq, &mut value)?;
    rq.strategy().default(&mut value);
    Ok(value)
}

/// What the patch makes of an object, before anybody looks at its type.
fn patched(expected: &Expected<'_>, change: &Change, old: &Value) -> ApiResult<Value> {
    let mut patched = old.clone();
    match change {
        Change::Json(patch) => patch.clone().apply(&mut patched),
        Change::Merge(patch) => merge_patch(&mut patched, patch.clone()),
        Change::Strategic(patch) => match expected.native {
            Some(native) => strategic_merge_patch(std::mem::take(&mut patched), patch.clone(), native)
                .map(|merged| patched = with_type_of(merged, old)),
            None => Err(PatchError::Unforeseen("custom resources have no strategic merge patch".to_owned())),
        },
    }
    .map_err(patch_error)?;
    Ok(patched)
}

/// Takes the fields of an object out of it that the patch does not name. They were read by their type before they were
/// stored, and for a patch of the status or of a label the rest of an object may be all there is to read.
fn take_untouched(patched: &mut Value, change: &Change) -> Map<String, Value> {
    let (Change::Merge(Value::Object(named)) | Change::Strategic(Value::Object(named))) = change else {
        return Map::new();
    };
    let Some(fields) = patched.as_object_mut() else { return Map::new() };
    // Directives are about all that stands beside them.
    if named.keys().any(|name| name.starts_with('$')) {
        return Map::new();
    }
    let untouched = |name: &str| !named.contains_key(name) && !matches!(name, "apiVersion" | "kind");
    let (untouched, touched) = std::mem::take(fields).into_iter().partition(|(name, _)| untouched(name));
    *fields = touched;
    untouched
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

/// The refusal of a patch whose result is no object of the type. It shows that result, which is made once more for it.
fn invalid_patch(rq: &Request<'_>, change: &Change, old: &Value, text: String) -> ApiError {
    let shown = match change {
        // Whoever may patch a Secret may not be one who may read it, and the message is recorded.
        _ if rq.sensitivity().conceals() => CONCEALED.to_owned(),
        Change::Strategic(patch) => go_format(patch),
        Change::Json(_) | Change::Merge(_) => match patched(&Expected::of(rq), change, old) {
            Ok(patched) => patched.to_string(),
            Err(error) => return error,
        },
    };
    let nameless = GroupKind { group: String::new(), kind: String::new() };
    ApiError::invalid(&nameless, "", &vec![Error::invalid(&Path::new("patch"), shown, text)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn untouched(change: Change) -> Vec<String> {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {}, "immutable": true});
        let before = object.clone();
        let mut taken = take_untouched(&mut object, &change);
        let names = taken.keys().cloned().collect();
        object.as_object_mut().expect("an object").append(&mut taken);
        assert_eq!(object, before, "nothing is lost");
        names
    }

    #[test]
    fn what_a_patch_does_not_name_is_not_read_again() {
        assert_eq!(untouched(Change::Merge(json!({"data": {"a": "b"}}))), ["immutable", "metadata"]);
        assert_eq!(untouched(Change::Strategic(json!({"metadata": null, "kind": "X"}))), ["data", "immutable"]);
    }

    #[test]
    fn a_patch_that_may_be_about_anything_has_everything_read() {
        assert!(untouched(Change::Strategic(json!({"$patch": "replace", "data": {}}))).is_empty());
        let operations = json!([{"op": "remove", "path": "/data"}]);
        assert!(untouched(Change::Json(JsonPatch::from_value(operations).expect("a patch"))).is_empty());
        assert!(untouched(Change::Merge(json!("no object"))).is_empty());
    }
}
