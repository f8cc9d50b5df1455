//! The `scale` subresource of custom resources: a Scale shown, and a Scale's replicas written into the object.

use std::sync::Arc;

use bailiwick_machinery::custom::ScalePaths;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::{object, scale};
use serde_json::Value;

use super::admit;
use super::managed_fields::{self, Tracking};
use super::request::Request;
use super::write::Run;
use crate::cache::Object;

/// The Scale of a stored object.
pub async fn of(rq: &Request<'_>, paths: &ScalePaths, object: &Arc<Object>) -> ApiResult<Value> {
    let value = rq.served.present_value(object).await?;
    let (scale, found) = scale::scale_of(&value, paths).map_err(|error| ApiError::new(500, "", error))?;
    if !found && rq.info.verb == "get" {
        let path = &paths.spec_replicas;
        return Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    Ok(scale)
}

/// Lets admission refuse a change of an object by its Scale, of which alone it hears.
pub async fn validate(rq: &Request<'_>, paths: &ScalePaths, new: &Value, old: &Value, run: Run) -> ApiResult<()> {
    let scale = |object: &Value| scale::scale_of(object, paths).map_err(|error| ApiError::new(500, "", error));
    let (mut new, old) = (scale(new)?.0, scale(old)?.0);
    admit::validate_update(rq, &mut new, &old, run).await
}

/// Applies a change of the Scale of an object, as admission lets it be, to the object itself.
pub async fn change(
    rq: &Request<'_>,
    paths: &ScalePaths,
    old: &Value,
    tracking: Tracking<'_>,
    run: Run,
    change: impl FnOnce(&Value) -> ApiResult<Value>,
) -> ApiResult<Value> {
    let (mut old_scale, found) = scale::scale_of(old, paths).map_err(|error| ApiError::new(500, "", error))?;
    if !found {
        // A patch that says nothing of replicas must not set them to zero.
        old_scale["spec"]["replicas"] = i32::MIN.into();
    }
    if let Some(managed) = managed_fields::of_scale(rq, old) {
        old_scale["metadata"]["managedFields"] = managed;
    }
    let mut scale = change(&old_scale)?;
    managed_fields::update_scale(rq, &old_scale, &mut scale, tracking);
    let scale = admit::mutate_update(rq, scale, &old_scale, run).await?;
    let replicas = scale["spec"].get("replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas == i64::from(i32::MIN) {
        let path = &paths.spec_replicas;
        return Err(ApiError::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
    }
    let mut changed = old.clone();
    scale::set_replicas(&mut changed, paths, replicas).map_err(|error| ApiError::new(500, "", error))?;
    if let Some(metadata) = object::metadata_mut(&mut changed) {
        match managed_fields::of_scaled(rq, old, &scale) {
            Some(managed) => metadata.insert("managedFields".into(), managed),
            None => metadata.remove("managedFields"),
        };
    }
    let version = object::meta_str(&scale, "resourceVersion");
    if !version.is_empty() {
        object::set_meta_str(&mut changed, "resourceVersion", version);
    }
    Ok(changed)
}
