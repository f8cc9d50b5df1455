//! `metadata.managedFields` of what is written: who set which field, by which kind of request.

use std::sync::Arc;

use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::sensitivity::CONCEALED;
use bailiwick_machinery::status::{ApiError, ApiResult, Cause, Details};
use bailiwick_merge::apply::{
    Applied, ApplyError, FieldManager, Force, ReplicasPaths, TypeRef, VersionConverter, entries_of_scale,
    entries_of_scaled_object,
};
use bailiwick_schema::time::Instant;
use bailiwick_schema::types::Types;
use serde_json::Value;

use super::body::Expected;
use super::request::Request;
use crate::registry::{Registry, Served};
use crate::waiting::wait_for;

/// Who is noted as the owner of what a write changes.
#[derive(Clone, Copy)]
pub enum Tracking<'a> {
    /// This manager, by its update.
    Update(&'a str),
    /// Whoever the object says: its managers were settled when it was applied.
    Settled,
}

fn now(rq: &Request<'_>) -> Instant {
    Instant::from_unix(rq.now.as_second(), rq.now.subsec_nanosecond())
}

/// How fields of a resource merge.
pub(super) fn types_of(served: &Served) -> TypeRef<'_> {
    let resource = &served.resource;
    match (resource.native, resource.custom.as_ref().and_then(|custom| custom.schema())) {
        (Some(native), _) => TypeRef::native(native),
        (None, Some(schema)) => TypeRef::custom(schema),
        (None, None) => TypeRef::deduced(),
    }
}

/// The versions an object of the request's resource can be looked at in.
struct Versions<'a> {
    registry: Arc<Registry>,
    own: &'a Served,
}

impl Versions<'_> {
    fn other(&self, api_version: &str) -> Option<&Arc<Served>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let other = self.registry.get(group, version, &self.own.resource.plural)?;
        // Another group may show the same objects, but is no version of this one.
        let same = other.resource.storage == self.own.resource.storage && group == self.own.resource.group;
        same.then_some(other)
    }
}

impl VersionConverter for Versions<'_> {
    fn types(&self, api_version: &str) -> Option<TypeRef<'_>> {
        self.other(api_version).map(|served| types_of(served))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let invalid = || format!("request to convert to an invalid group/version: {api_version}");
        let other = self.other(api_version).ok_or_else(invalid)?;
        let mut converted = object.clone();
        if let Some(converter) = other.resource.custom.as_ref().and_then(|custom| custom.converter.as_ref()) {
            let to = other.resource.group_version();
            let converting = converter.convert(vec![converted], &to);
            // Field management is a computation; only the rare object whose managers used several versions waits here.
            let waiting = wait_for(converting)?;
            return waiting.map_err(|error| error.message)?.pop().ok_or_else(invalid);
        }
        self.own.resource.strategy.to_storage(&mut converted);
        other.resource.strategy.from_storage(&mut converted);
        if let Some(fields) = converted.as_object_mut() {
            fields.insert("apiVersion".into(), api_version.into());
        }
        Ok(converted)
    }
}

fn with_manager<T>(rq: &Request<'_>, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let served = rq.served;
    let versions = Versions { registry: rq.tenant.registry.load_full(), own: served };
    work(&FieldManager {
        types: types_of(served),
        api_version: &served.api_version,
        kind: &served.resource.kind,
        subresource: &rq.info.subresource,
        reset: served.reset_fields(&rq.info.subresource),
        converter: &versions,
    })
}

/// Notes who creates an object.
pub fn create(rq: &Request<'_>, new: &mut Value, tracking: Tracking<'_>) {
    let Tracking::Update(manager) = tracking else { return };
    if let Err(error) = with_manager(rq, |fields| fields.create(new, manager, now(rq))) {
        tracing::warn!(%error, resource = %rq.served.group_resource, "fields of a new object are not tracked");
    }
}

/// Notes who asks, in what is answered and not stored.
pub fn create_virtual(rq: &Request<'_>, new: &mut Value, manager: &str) {
    use bailiwick_merge::apply::{NoOtherVersions, ResetFields};
    let expected = Expected::of(rq);
    let fields = FieldManager {
        types: expected.native.map_or_else(TypeRef::deduced, TypeRef::native),
        api_version: &expected.api_version(),
        kind: expected.kind,
        subresource: &rq.info.subresource,
        reset: &ResetFields::NONE,
        converter: &NoOtherVersions,
    };
    if let Err(error) = fields.create(new, manager, now(rq)) {
        tracing::warn!(%error, kind = expected.kind, "fields of a question are not tracked");
    }
}

/// Notes who changes an object.
pub fn update(rq: &Request<'_>, live: &Value, new: &mut Value, tracking: Tracking<'_>) {
    let Tracking::Update(manager) = tracking else { return };
    if let Err(error) = with_manager(rq, |fields| fields.update(live, new, manager, now(rq))) {
        tracing::warn!(%error, resource = %rq.served.group_resource, "fields of an object are not tracked");
    }
}

/// Applies a configuration to the live object, or makes a new one of it.
pub fn apply(
    rq: &Request<'_>,
    live: Option<&Value>,
    config: &Value,
    manager: &str,
    force: Force,
) -> ApiResult<Applied> {
    let applied = match rq.scale_paths() {
        Some(_) => with_scale_manager(|fields| fields.apply(live, config, manager, force, now(rq))),
        None => with_manager(rq, |fields| fields.apply(live, config, manager, force, now(rq))),
    };
    applied.map_err(|error| match rq.sensitivity().conceals() {
        true => apply_error(error.without_values(CONCEALED)),
        false => apply_error(error),
    })
}

fn apply_error(error: ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(text) => ApiError::bad_request(text),
        ApplyError::Unforeseen(text) => ApiError::new(500, "", text),
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts.0.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: conflict.message(),
                field: conflict.path.clone(),
            });
            let details = Details { causes: causes.collect(), ..Details::default() };
            ApiError::new(409, "Conflict", conflicts.to_string()).with_details(details)
        }
    }
}

/// Field management of the Scale of whatever can be scaled.
fn with_scale_manager<T>(work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    use bailiwick_merge::apply::{NoOtherVersions, ResetFields};
    let scale = Types::native().by_gvk("autoscaling", "v1", "Scale");
    work(&FieldManager {
        types: scale.map_or_else(TypeRef::deduced, TypeRef::native),
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        reset: &ResetFields::NONE,
        converter: &NoOtherVersions,
    })
}

/// Notes who changes a Scale.
pub fn update_scale(rq: &Request<'_>, live: &Value, new: &mut Value, tracking: Tracking<'_>) {
    let Tracking::Update(manager) = tracking else { return };
    if let Err(error) = with_scale_manager(|fields| fields.update(live, new, manager, now(rq))) {
        tracing::warn!(%error, resource = %rq.served.group_resource, "fields of a scale are not tracked");
    }
}

/// The managers of an object as its Scale shows them.
pub fn of_scale(rq: &Request<'_>, object: &Value) -> Option<Value> {
    with_replicas_paths(rq, |paths| entries_of_scale(managed_fields(object), paths)).ok().flatten()
}

/// The managers of an object after its Scale was written.
pub fn of_scaled(rq: &Request<'_>, object: &Value, scale: &Value) -> Option<Value> {
    let api_version = &rq.served.api_version;
    with_replicas_paths(rq, |paths| {
        entries_of_scaled_object(managed_fields(object), managed_fields(scale), api_version, paths)
    })
    .ok()
    .flatten()
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn with_replicas_paths<T>(rq: &Request<'_>, work: impl FnOnce(ReplicasPaths<'_>) -> T) -> T {
    use bailiwick_machinery::custom::ScalePaths;
    use bailiwick_merge::apply::Path;
    let registry = rq.tenant.registry.load();
    let Storage::Stored(stored) = &rq.served.resource.storage else { return work(&[]) };
    let versions = registry.groups().get(&stored.group).cloned().unwrap_or_default();
    let served = versions.iter().filter_map(|version| registry.get(&stored.group, version, &stored.resource));
    let paths: Vec<(&str, Option<Path<'static>>)> = served
        .map(|served| {
            let scale = served.resource.custom.as_ref().and_then(|custom| custom.scale.as_ref());
            let fields = scale.map(|scale| ScalePaths::fields(&scale.spec_replicas).collect::<Vec<&str>>());
            (served.api_version.as_str(), fields.map(|fields| Path::fields(&fields)))
        })
        .collect();
    work(&paths)
}
