//! What the server does for admission policies: it finds their parameters and merges the configurations they make.

use std::sync::Arc;

use bailiwick_admission::policy::ParamKind;
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_merge::apply::{Duplicates, TypeRef, atomics, merge_configuration, validate};
use bailiwick_schema::decode::decode_value;
use bailiwick_store::{KeyRange, Revision};
use serde_json::Value;

use crate::cache::{Object, ResourceCache};
use crate::registry::Served;
use crate::tenant::Tenant;

/// Fields of a native type that an object has and the type does not.
pub fn unknown_fields(served: &Served, object: &Value) -> Vec<String> {
    let Some(native) = served.resource.native else { return Vec::new() };
    decode_value(native, object).map(|decoded| decoded.strict).unwrap_or_default()
}

/// An object with everything a configuration says. Configurations may not set atomic parts: what they do not mention
/// there would be lost.
pub fn merge(types: TypeRef<'_>, object: &Value, configuration: &Value) -> Result<Value, String> {
    validate(types, configuration, Duplicates::Refused)
        .map_err(|errors| format!("failed to convert patch object to typed object: {errors}"))?;
    let atomics = atomics(types, configuration);
    if !atomics.is_empty() {
        let paths = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"));
    }
    validate(types, object, Duplicates::Allowed)
        .map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    merge_configuration(types, object, configuration).map_err(|errors| format!("failed to merge patch: {errors}"))
}

/// The resource of a kind of parameters, if it is served and stored.
pub fn parameter(tenant: &Tenant, kind: &ParamKind) -> Option<Arc<Served>> {
    let registry = tenant.registry.load();
    let found = registry.resources_of(&kind.group, &kind.version).into_iter();
    found.filter(|served| served.resource.kind == kind.kind).find(|served| served.cache.is_some()).cloned()
}

async fn stored(tenant: &Tenant, kind: &ParamKind) -> Result<(Arc<Served>, Arc<ResourceCache>), String> {
    let unknown = || format!("paramKind kind `{kind}` not known");
    let served = parameter(tenant, kind).ok_or_else(unknown)?;
    let spec = served.cache.clone().ok_or_else(unknown)?;
    let cache = tenant.caches.resource(&spec).await.map_err(|error| error.to_string())?;
    Ok((served, cache))
}

async fn shown(served: &Served, object: &Arc<Object>) -> Result<Value, String> {
    served.present_value(object).await.map_err(|error| error.message)
}

/// The parameter of this name.
pub async fn one(tenant: &Tenant, kind: &ParamKind, namespace: &str, name: &str) -> Result<Option<Value>, String> {
    let (served, cache) = stored(tenant, kind).await?;
    match cache.get(&served.key(namespace, name)) {
        Some(object) => shown(&served, &object).await.map(Some),
        None => Ok(None),
    }
}

/// The parameters with these labels, in the order of their names.
pub async fn matching(
    tenant: &Tenant,
    kind: &ParamKind,
    namespace: &str,
    selector: &LabelSelector,
) -> Result<Vec<Value>, String> {
    let (served, cache) = stored(tenant, kind).await?;
    let snapshot = cache.snapshot(Revision::default());
    let range = KeyRange::prefix(served.prefix(namespace));
    let mut found = Vec::new();
    for object in snapshot.range(&range).filter(|object| selector.matches(|key| object.label(key))) {
        found.push(shown(&served, object).await?);
    }
    Ok(found)
}
