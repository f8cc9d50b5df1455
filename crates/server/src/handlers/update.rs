//! PUT: an object replaced, and the read-change-write loop that patches share.

use std::sync::Arc;

use bailiwick_machinery::field::{Error, Path};
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::object;
use bailiwick_machinery::resource::GroupKind;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::WriteOptions;
use bailiwick_merge::apply::revert_managed_times;
use bailiwick_store::{Expect, KeyValue, TxnOutcome};
use bytes::Bytes;
use serde_json::Value;

use super::admit;
use super::apply::may_create;
use super::body::decode_object;
use super::create::create_object;
use super::grants;
use super::managed_fields::{self, Tracking};
use super::request::{Reply, Request};
use super::scale;
use super::write::{self, MODIFIED, Run, Written};
use crate::cache::Object;

/// How often a change without a resourceVersion is tried again on a newer state before the client is told.
const CONFLICT_RETRIES: usize = 64;

/// Replaces the named object by the body.
pub async fn update(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let options = WriteOptions::parse_update(rq.query)?;
    let encoder = rq.encoder(Answer::Object)?;
    let mut given = decode_object(rq, &body, options.field_validation)?;
    write::settle_namespace(rq, &mut given)?;
    check_name(rq, &given)?;
    let run = Run::from(options.dry_run);
    let strategy = rq.strategy();
    let manager = options.manager(rq.user_agent());
    let tracking = Tracking::Update(&manager);
    if rq.current(&rq.info.name).await?.is_none() && rq.subresource().is_none() && strategy.allow_create_on_update() {
        object::set_meta_str(&mut given, "resourceVersion", "");
        may_create(rq).await?;
        let created = create_object(rq, given, run, tracking).await?;
        return rq.object_reply(201, &encoder, created.into()).await;
    }
    strategy.default(&mut given);
    let updated = update_object(rq, run, tracking, |_| Ok(given.clone())).await?;
    rq.object_reply(200, &encoder, updated).await
}

fn check_name(rq: &Request<'_>, given: &Value) -> ApiResult<()> {
    let name = object::name(given);
    if name.is_empty() {
        return Err(nameless(rq));
    }
    if name != rq.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            rq.info.name
        )));
    }
    Ok(())
}

/// An object that does not say its name.
pub fn nameless(rq: &Request<'_>) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        rq.info.name
    ))
}

/// Applies `change` to the newest state of the named object and stores the result. A change that carries no
/// resourceVersion is tried again when somebody else was faster.
pub async fn update_object(
    rq: &Request<'_>,
    run: Run,
    tracking: Tracking<'_>,
    change: impl Fn(&Value) -> ApiResult<Value>,
) -> ApiResult<Arc<Object>> {
    let mut current = rq.current(&rq.info.name).await?.ok_or_else(|| rq.not_found())?;
    for _ in 0..CONFLICT_RETRIES {
        match attempt(rq, run, &current, tracking, &change).await? {
            Attempt::Done(object) => return Ok(object),
            Attempt::Lost(None) => return Err(rq.not_found()),
            Attempt::Lost(Some(newer)) => {
                current = rq.cache_spec()?.parse(&newer).ok_or_else(|| ApiError::internal("unreadable object"))?;
            }
        }
    }
    Err(ApiError::conflict(&rq.served.group_resource, &rq.info.name, MODIFIED))
}

enum Attempt {
    Done(Arc<Object>),
    Lost(Option<KeyValue>),
}

async fn attempt(
    rq: &Request<'_>,
    run: Run,
    current: &Arc<Object>,
    tracking: Tracking<'_>,
    change: &impl Fn(&Value) -> ApiResult<Value>,
) -> ApiResult<Attempt> {
    let old = rq.served.present_value(current).await?;
    let mut new = match rq.scale_paths() {
        Some(paths) => scale::change(rq, paths, &old, tracking, run, change).await?,
        None => {
            let mut new = change(&old)?;
            check_uid(rq, &new, &old)?;
            managed_fields::update(rq, &old, &mut new, tracking);
            admit::mutate_update(rq, new, &old, run).await?
        }
    };
    grants::check(rq, &new, Some(&old)).await?;
    let conditional = check_versions(rq, &mut new, &old)?;
    write::settle_namespace(rq, &mut new)?;
    write::before_update(rq, &mut new, &old)?;
    // Times alone are no change.
    revert_managed_times(&mut new, &old);
    match rq.scale_paths() {
        Some(paths) => scale::validate(rq, paths, &new, &old, run).await?,
        None => admit::validate_update(rq, &mut new, &old, run).await?,
    }
    let value = write::stored_bytes(rq, &new).await?;
    let expect = Expect::Modified(current.revision);
    let lost = |newer: Option<KeyValue>| match conditional {
        Conditional::Yes => Err(ApiError::conflict(&rq.served.group_resource, &rq.info.name, MODIFIED)),
        Conditional::No => Ok(Attempt::Lost(newer)),
    };
    if is_finished(rq, &new) {
        return match remove(rq, current, value, expect, run).await? {
            Written::Done(object) => Ok(Attempt::Done(Arc::new(object))),
            Written::Lost(newer) => lost(newer),
            Written::LostCompanion => lost(None),
        };
    }
    if value == *current.stored_json() {
        return Ok(Attempt::Done(current.clone()));
    }
    let ttl = write::ttl(rq, &new);
    match write::put(rq, current.key().clone(), value, expect, ttl, run, Vec::new()).await? {
        Written::Done(object) => Ok(Attempt::Done(Arc::new(object))),
        Written::Lost(newer) => lost(newer),
        Written::LostCompanion => lost(None),
    }
}

#[derive(PartialEq)]
enum Conditional {
    Yes,
    No,
}

/// Refuses a change of an object that has been replaced by another of its name.
fn check_uid(rq: &Request<'_>, new: &Value, old: &Value) -> ApiResult<()> {
    let resource = &rq.served.group_resource;
    let (asked, found) = (object::uid(new), object::uid(old));
    if rq.info.verb == "update" && !asked.is_empty() && asked != found {
        let mut detail = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}");
        if rq.served.resource.custom.is_some() {
            let key = [&resource.group, &resource.resource, &rq.info.namespace, &rq.info.name];
            let key: Vec<&str> = key.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            detail = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: {detail}",
                key.join("/")
            );
        }
        return Err(ApiError::conflict(resource, &rq.info.name, &detail));
    }
    Ok(())
}

/// Holds what the client believes to be there against what is.
fn check_versions(rq: &Request<'_>, new: &mut Value, old: &Value) -> ApiResult<Conditional> {
    let resource = &rq.served.group_resource;
    let version = object::meta_str(old, "resourceVersion").to_owned();
    match object::meta_str(new, "resourceVersion") {
        "" | "0" => {
            if !rq.strategy().allow_unconditional_update() {
                return Err(version_required(rq));
            }
            object::set_meta_str(new, "resourceVersion", &version);
            Ok(Conditional::No)
        }
        // A patch that says nothing about the version has the newest; one that does will not match a newer state.
        given if given == version && rq.info.verb == "patch" => Ok(Conditional::No),
        given if given == version => Ok(Conditional::Yes),
        given if given.bytes().all(|b| b.is_ascii_digit()) => {
            Err(ApiError::conflict(resource, &rq.info.name, MODIFIED))
        }
        given => Err(ApiError::new(500, "", format!("strconv.ParseUint: parsing {given:?}: invalid syntax"))),
    }
}

/// The refusal of an update that does not say what it updates, for types that insist on it.
fn version_required(rq: &Request<'_>) -> ApiError {
    let resource = rq.served.group_resource.clone();
    let kind = GroupKind { group: resource.group, kind: resource.resource };
    let path = Path::new("metadata").child("resourceVersion");
    ApiError::invalid(&kind, &rq.info.name, &vec![Error::invalid(&path, 0, "must be specified for an update")])
}

/// Whether the last finalizer of an object being deleted is gone.
pub fn is_finished(rq: &Request<'_>, object: &Value) -> bool {
    object::is_deleting(object)
        && object::finalizers(object).is_empty()
        && rq.served.resource.strategy.removable(object)
}

/// Deletes the object from the store; the answer shows `last`, its final state.
pub async fn remove(rq: &Request<'_>, current: &Object, last: Bytes, expect: Expect, run: Run) -> ApiResult<Written> {
    let key = current.key().clone();
    let revision = match run {
        Run::Dry => current.revision,
        Run::Real => {
            let op = write::deletion(rq, key.clone(), expect)?;
            match rq.server.caches.commit(vec![op]).await.map_err(|error| rq.store_error(error))? {
                TxnOutcome::Committed { revision } => revision,
                TxnOutcome::Conflict { current, .. } => return Ok(Written::Lost(current)),
            }
        }
    };
    write::as_object(rq, key, last, revision).map(Written::Done)
}
