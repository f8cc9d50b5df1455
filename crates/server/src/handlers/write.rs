//! What all writes share: admission, the rules of the type, encoding and the compare-and-set on the store.

use std::time::Duration;

use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::object;
use bailiwick_machinery::resource::Scope;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::strategy::{Generation, Strategy, any_path_segment_name};
use bailiwick_machinery::validation::metadata::{validate_object_meta, validate_object_meta_update};
use bailiwick_machinery::write_options::DryRun;
use bailiwick_store::{Expect, KeyRange, KeyValue, Op, RangeRequest, Revision, TxnOutcome};
use bytes::Bytes;
use serde_json::Value;

use super::request::Request;
use crate::cache::{Object, encode_for_storage};

/// What an update that lost the race says.
pub const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Whether a write takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Real,
    /// Everything but the store write happens.
    Dry,
}

impl From<DryRun> for Run {
    fn from(dry_run: DryRun) -> Self {
        match dry_run {
            DryRun::All => Self::Dry,
            DryRun::No => Self::Real,
        }
    }
}

/// How a write on the store ended.
pub enum Written {
    Done(Object),
    /// Somebody else was faster; this is what is there now.
    Lost(Option<KeyValue>),
    /// Somebody else changed what was to be written along with the object.
    LostCompanion,
}

/// Drops what the server alone decides about a new object.
pub fn wipe_system_fields(object: &mut Value) {
    let Some(metadata) = object::metadata_mut(object) else { return };
    let fields = ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];
    for field in fields.into_iter().chain(["resourceVersion"]) {
        metadata.remove(field);
    }
}

/// Fills what the server alone decides about a new object, once admission has had its first round.
pub fn stamp_new(rq: &Request<'_>, object: &mut Value) {
    wipe_system_fields(object);
    let Some(metadata) = object::metadata_mut(object) else { return };
    metadata.insert("creationTimestamp".into(), timestamp(rq.now).into());
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
}

/// RFC 3339 in whole seconds, as metadata has it.
pub fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Runs the type's rules on a new object; admission has had its say.
pub fn before_create(rq: &Request<'_>, object: &mut Value) -> ApiResult<()> {
    let strategy = rq.strategy();
    let cx = rq.strategy_context();
    dedup_owner_references(rq, object);
    strategy.prepare_for_create(&cx, object);
    if strategy.generation() != Generation::None {
        set_generation(object, 1);
    }
    let resource = &rq.served.resource;
    let mut errors = validate_object_meta(object, resource.scope, strategy.name_validator());
    errors.extend(strategy.validate(&cx, object));
    if !errors.is_empty() {
        return Err(ApiError::invalid(&resource.validated_kind(), object::name(object), &errors));
    }
    strategy.warnings_on_create(object).into_iter().for_each(|warning| rq.warn(warning));
    strategy.canonicalize(object);
    Ok(())
}

/// Runs the type's rules on a changed object; admission has had its say.
pub fn before_update(rq: &Request<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
    let strategy = rq.strategy();
    let cx = rq.strategy_context();
    carry_over(object, old);
    dedup_owner_references(rq, object);
    strategy.prepare_for_update(&cx, object, old);
    bump_generation(strategy, object, old);
    let resource = &rq.served.resource;
    let mut errors = validate_object_meta_update(object, old);
    errors.extend(strategy.validate_update(&cx, object, old));
    if !errors.is_empty() {
        if resource.native.is_some() {
            errors = as_often_as_upstream(rq, object, old, errors);
        } else {
            errors.splice(0..0, validate_object_meta_update(object, old));
        }
        return Err(ApiError::invalid(&resource.validated_kind(), object::name(object), &errors));
    }
    strategy.warnings_on_update(object, old).into_iter().for_each(|warning| rq.warn(warning));
    strategy.canonicalize(object);
    Ok(())
}

/// Upstream checks the metadata of native types once for all types and once for each, as new and as changed, and reports
/// what it finds each time. Worth repeating only once something is wrong.
fn as_often_as_upstream(rq: &Request<'_>, object: &Value, old: &Value, once: ErrorList) -> ErrorList {
    let scope = rq.served.resource.scope;
    let mut errors = validate_object_meta(object, scope, any_path_segment_name);
    errors.extend(validate_object_meta_update(object, old));
    errors.extend(once);
    errors.extend(validate_object_meta(object, scope, rq.strategy().name_validator()));
    errors
}

/// Drops repeated owner references, telling the client.
fn dedup_owner_references(rq: &Request<'_>, object: &mut Value) {
    let Some(references) = object::metadata_mut(object).and_then(|m| m.get_mut("ownerReferences")) else { return };
    let Some(list) = references.as_array_mut() else { return };
    let mut duplicates: Vec<String> = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(list.len());
    for reference in list.drain(..) {
        if kept.contains(&reference) {
            duplicates.push(object::str_at(&reference, &["uid"]).to_owned());
        } else {
            kept.push(reference);
        }
    }
    *list = kept;
    if !duplicates.is_empty() {
        rq.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
}

/// What an update leaves out keeps its value, and what only the server sets cannot be changed.
fn carry_over(object: &mut Value, old: &Value) {
    let Some(before) = object::metadata(old) else { return };
    let Some(after) = object::metadata_mut(object) else { return };
    if after.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
        copy(before, after, "uid");
    }
    copy(before, after, "creationTimestamp");
    copy(before, after, "generation");
    after.remove("selfLink");
    if before.contains_key("deletionTimestamp") {
        copy(before, after, "deletionTimestamp");
        if !after.contains_key("deletionGracePeriodSeconds") {
            copy(before, after, "deletionGracePeriodSeconds");
        }
    }
}

fn copy(from: &serde_json::Map<String, Value>, to: &mut serde_json::Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

pub fn generation(object: &Value) -> i64 {
    object::metadata(object).and_then(|m| m.get("generation")).and_then(Value::as_i64).unwrap_or_default()
}

pub fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object::metadata_mut(object) {
        metadata.insert("generation".into(), generation.into());
    }
}

fn bump_generation(strategy: &dyn Strategy, object: &mut Value, old: &Value) {
    let changed = match strategy.generation() {
        Generation::None => return,
        Generation::Spec => object.get("spec") != old.get("spec"),
        Generation::AllButMetadataAndStatus => {
            differ_besides(object, old, &["metadata", "status", "kind", "apiVersion"])
        }
        Generation::AllButMetadata => differ_besides(object, old, &["metadata"]),
    };
    if changed {
        set_generation(object, generation(old) + 1);
    }
}

/// Whether two objects differ in any field but these.
fn differ_besides(a: &Value, b: &Value, ignored: &[&str]) -> bool {
    fn rest<'a>(value: &'a Value, ignored: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields.filter(move |(name, _)| !ignored.contains(&name.as_str()))
    }
    !rest(a, ignored).eq(rest(b, ignored))
}

/// The request's namespace and the object's must agree; an object that names none gets the request's.
pub fn settle_namespace(rq: &Request<'_>, object: &mut Value) -> ApiResult<()> {
    if rq.served.resource.scope == Scope::Cluster {
        object::set_meta_str(object, "namespace", "");
        return Ok(());
    }
    let asked = rq.info.namespace.as_str();
    let found = object::namespace(object);
    if found.is_empty() {
        object::set_meta_str(object, "namespace", asked);
        return Ok(());
    }
    if found != asked {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Encodes an object in its storage form.
pub async fn stored_bytes(rq: &Request<'_>, object: &Value) -> ApiResult<Bytes> {
    let converted = rq.served.storage_value(object).await?;
    Ok(encode_for_storage(converted.as_ref().unwrap_or(object)).into())
}

/// Writes an object, together with `also` (quota usage and the like), if the store still is as `expect` says.
pub async fn put(
    rq: &Request<'_>,
    key: Bytes,
    value: Bytes,
    expect: Expect,
    ttl: Option<Duration>,
    run: Run,
    also: Vec<Op>,
) -> ApiResult<Written> {
    let revision = match run {
        Run::Dry => match expect {
            Expect::Modified(revision) => revision,
            _ => Revision::default(),
        },
        Run::Real => {
            let Some(expect) = settled(rq, &key, expect).await? else { return Ok(Written::Lost(None)) };
            let mut ops = also;
            ops.push(Op::Put { key: key.clone(), value: value.clone(), expect, ttl });
            match rq.server.caches.commit(ops).await.map_err(|error| rq.store_error(error))? {
                TxnOutcome::Committed { revision } => revision,
                TxnOutcome::Conflict { key: lost, current } if lost == key => return Ok(Written::Lost(current)),
                TxnOutcome::Conflict { .. } => return Ok(Written::LostCompanion),
            }
        }
    };
    as_object(rq, key, value, revision).map(Written::Done)
}

/// What the store must find for a write to happen; `None` if it cannot. Differs from what the writer expects where objects
/// exist without being stored.
async fn settled(rq: &Request<'_>, key: &Bytes, expect: Expect) -> ApiResult<Option<Expect>> {
    let Some(base) = &rq.cache_spec()?.base else { return Ok(Some(expect)) };
    if expect != Expect::Absent || !base.contains(key) {
        return Ok(Some(base.settle(expect)));
    }
    // It is there from the start, unless it was deleted, and then something stored says so.
    rq.server.caches.wait_current().await.map_err(|error| rq.store_error(error))?;
    if rq.cache().await?.get(key).is_some() {
        return Ok(None);
    }
    let request = RangeRequest { range: KeyRange::single(key.clone()), at: None, limit: None };
    let found = rq.server.caches.store().range(request).await.map_err(|error| rq.store_error(error))?;
    Ok(Some(found.entries.first().map_or(Expect::Absent, |kv| Expect::Modified(kv.mod_revision))))
}

/// The deletion of an object.
pub fn deletion(rq: &Request<'_>, key: Bytes, expect: Expect) -> ApiResult<Op> {
    Ok(match &rq.cache_spec()?.base {
        Some(base) => base.delete(key, expect),
        None => Op::Delete { key, expect },
    })
}

/// Bytes just written, as the reader of the answer sees them.
pub fn as_object(rq: &Request<'_>, key: Bytes, value: Bytes, revision: Revision) -> ApiResult<Object> {
    let kv = KeyValue { key, value, create_revision: revision, mod_revision: revision };
    Object::parse(&kv, rq.cache_spec()?.layout(), &[]).map_err(ApiError::internal)
}

/// How long an object of this type lives unless written again.
pub fn ttl(rq: &Request<'_>, object: &Value) -> Option<Duration> {
    rq.served.resource.strategy.ttl_seconds(object).map(Duration::from_secs)
}
