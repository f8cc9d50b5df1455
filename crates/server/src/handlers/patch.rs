//! PATCH: JSON patch, merge patch and strategic merge patch on the newest state.

use bailiwick_machinery::media::{self, Answer};
use bailiwick_machinery::object;
use bailiwick_machinery::status::{ApiError, ApiResult, Details};
use bailiwick_machinery::write_options::{FieldValidation, PatchKind, PatchOptions};
use bailiwick_merge::{JsonPatch, PatchError, merge_patch, strategic_merge_patch};
use bailiwick_schema::decode;
use bytes::Bytes;
use serde_json::Value;

use super::body::{Expected, settle};
use super::request::{Reply, Request};
use super::update::update_object;
use super::write::{self, Run};

/// A patch, parsed once and applied as often as the race for the object needs.
enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// Applies the patch in the body to the named object.
pub async fn patch(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let kind = media::patch_type(rq.content_type(), rq.origin())?;
    let options = PatchOptions::parse(rq.query, kind)?;
    let encoder = rq.encoder(Answer::Object)?;
    let patch = match kind {
        PatchKind::JsonPatch => Patch::Json(json_patch(rq, &body, options.write.field_validation)?),
        PatchKind::MergePatch => Patch::Merge(parse_object(&body)?),
        PatchKind::StrategicMergePatch => Patch::Strategic(parse_object(&body)?),
        PatchKind::Apply => return Err(ApiError::not_implemented("server-side apply")),
    };
    let run = Run::from(options.write.dry_run);
    let updated = update_object(rq, run, |old| apply(rq, &patch, old, options.write.field_validation)).await?;
    rq.object_reply(200, &encoder, &updated)
}

fn parse_object(body: &[u8]) -> ApiResult<Value> {
    decode::check_syntax(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    serde_json::from_slice(body).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
}

fn json_patch(rq: &Request<'_>, body: &[u8], validation: FieldValidation) -> ApiResult<JsonPatch> {
    let patch = JsonPatch::from_value(parse_object(body)?).map_err(patch_error)?;
    let unknown = patch.unknown_fields();
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            Err(ApiError::bad_request(format!("strict decoding error: {}", unknown.join(", "))))
        }
        FieldValidation::Warn => {
            unknown.iter().for_each(|field| rq.warn(field.clone()));
            Ok(patch)
        }
        _ => Ok(patch),
    }
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
    match patch {
        Patch::Json(patch) => patch.clone().apply(&mut patched),
        Patch::Merge(patch) => merge_patch(&mut patched, patch.clone()),
        Patch::Strategic(patch) => match expected.native {
            Some(native) => strategic_merge_patch(std::mem::take(&mut patched), patch.clone(), native)
                .map(|merged| patched = merged),
            None => Err(PatchError::Unforeseen("custom resources have no strategic merge patch".to_owned())),
        },
    }
    .map_err(patch_error)?;
    let decoded = match expected.native {
        Some(native) => decode::decode_value(native, &patched),
        None => Ok(decode::Decoded { value: patched, strict: Vec::new() }),
    };
    let decoded = decoded.map_err(|error| ApiError::bad_request(error.to_string()))?;
    let mut value = settle(rq, decoded, &expected, validation)?;
    write::settle_namespace(rq, &mut value)?;
    if object::name(&value) != rq.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object::name(&value),
            rq.info.name
        )));
    }
    rq.strategy().default(&mut value);
    Ok(value)
}
