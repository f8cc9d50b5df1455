//! DELETE of one object: at once, or marked and left to its finalizers.

use std::sync::Arc;

use bailiwick_machinery::media::Answer;
use bailiwick_machinery::object;
use bailiwick_machinery::resource::GroupResource;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::{DeleteOptions, PropagationPolicy};
use bailiwick_store::Expect;
use bytes::Bytes;
use serde_json::{Value, json};

use super::admit;
use super::body::decode_delete_options;
use super::request::{Reply, Request};
use super::update::remove;
use super::write::{self, MODIFIED, Run, Written};
use crate::cache::{Object, encode_for_storage};
use crate::http::ResponseBody;

/// Asks the garbage collector to let go of the dependents before the object goes.
const ORPHAN: &str = "orphan";
/// Asks the garbage collector to delete the dependents before the object goes.
const FOREGROUND: &str = "foregroundDeletion";
/// How often a deletion without a precondition is tried again on a newer state.
const CONFLICT_RETRIES: usize = 64;

/// What a deletion came to.
pub enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Box<Object>),
    /// The object waits for its finalizers.
    Marked(Box<Object>),
}

/// Deletes the named object.
pub async fn delete(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let options = decode_delete_options(rq, &body)?;
    let encoder = rq.encoder(Answer::Object)?;
    let deleted = delete_object(rq, &rq.info.name, &options).await?;
    let strategy = &rq.served.resource.strategy;
    match deleted {
        Deleted::Marked(object) => {
            let status = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            rq.object_reply(status, &encoder, Arc::from(object)).await
        }
        Deleted::Gone(object) if strategy.returns_deleted_object() => {
            rq.object_reply(200, &encoder, Arc::from(object)).await
        }
        Deleted::Gone(object) => {
            let status = success_status(rq, &object)?;
            Ok(Reply::new(200, encoder.content_type(), ResponseBody::full(encoder.value(&status)?)))
        }
    }
}

fn success_status(rq: &Request<'_>, object: &Object) -> ApiResult<Value> {
    let value = object.to_value().map_err(ApiError::internal)?;
    let mut details = json!({"name": object.name(), "kind": rq.served.resource.plural, "uid": object::uid(&value)});
    if !rq.served.resource.group.is_empty() {
        details["group"] = rq.served.resource.group.as_str().into();
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    }))
}

/// Deletes one object of the request's resource and namespace.
pub async fn delete_object(rq: &Request<'_>, name: &str, options: &DeleteOptions) -> ApiResult<Deleted> {
    let not_found = || ApiError::not_found(&rq.served.group_resource, name);
    let mut current = rq.current(name).await?.ok_or_else(not_found)?;
    let run = Run::from(options.dry_run);
    for _ in 0..CONFLICT_RETRIES {
        let old = current.to_value().map_err(ApiError::internal)?;
        // What the client would see, if that is not how the object is stored.
        let shown = match rq.served.is_shown_as_stored(&current) {
            true => None,
            false => Some(rq.served.present_value(&current).await?),
        };
        options
            .check_preconditions(object::uid(&old), object::meta_str(&old, "resourceVersion"))
            .map_err(|detail| ApiError::conflict(&by_kind(rq), name, &detail))?;
        admit::delete(rq, shown.as_ref().unwrap_or(&old), options, run).await?;
        let written = match mark(rq, options, &old) {
            None => {
                // What goes keeps the marks of its deletion out of its last state, as upstream's answer does.
                remove(rq, &current, current.stored_json().clone(), Expect::Modified(current.revision), run).await?
            }
            Some(marked) => {
                let value = Bytes::from(encode_for_storage(&marked));
                if value == *current.stored_json() {
                    return Ok(Deleted::Marked(Box::new(current.at_revision(current.revision))));
                }
                let (key, expect) = (current.key().clone(), Expect::Modified(current.revision));
                match write::put(rq, key, value, expect, None, run, Vec::new()).await? {
                    Written::Done(object) => return Ok(Deleted::Marked(Box::new(object))),
                    lost => lost,
                }
            }
        };
        match written {
            Written::Done(object) => return Ok(Deleted::Gone(Box::new(object))),
            Written::Lost(None) | Written::LostCompanion => return Err(not_found()),
            Written::Lost(Some(newer)) => {
                current = rq.cache_spec()?.parse(&newer).ok_or_else(|| ApiError::internal("unreadable object"))?;
            }
        }
    }
    Err(ApiError::conflict(&rq.served.group_resource, name, MODIFIED))
}

/// Preconditions are reported by kind where other conflicts name the resource.
fn by_kind(rq: &Request<'_>) -> GroupResource {
    let kind = rq.served.resource.validated_kind();
    GroupResource { group: kind.group, resource: kind.kind }
}

/// The object marked as being deleted, in stored form; `None` when nothing keeps it.
fn mark(rq: &Request<'_>, options: &DeleteOptions, old: &Value) -> Option<Value> {
    let strategy = &rq.served.resource.strategy;
    let mut marked = old.clone();
    let finalizers = match strategy.follows_propagation_policy(old) {
        true => finalizers_for(options, &object::finalizers(old)),
        false => object::finalizers(old).into_iter().map(str::to_owned).collect(),
    };
    let metadata = object::metadata_mut(&mut marked)?;
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
    let kept = !object::finalizers(&marked).is_empty() || !strategy.removable(&marked);
    if !kept {
        return None;
    }
    let generation = write::generation(&marked);
    let metadata = object::metadata_mut(&mut marked)?;
    if !metadata.contains_key("deletionGracePeriodSeconds") && generation > 0 {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    if !metadata.contains_key("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), write::timestamp(rq.now).into());
    }
    metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    strategy.mark_deleting(&rq.strategy_context(), &mut marked);
    Some(marked)
}

/// The finalizers an object being deleted this way must have: the garbage collector's two are added or dropped as the
/// propagation policy says, everybody else's stay.
fn finalizers_for(options: &DeleteOptions, existing: &[&str]) -> Vec<String> {
    let has = |finalizer: &str| existing.contains(&finalizer);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(PropagationPolicy::Orphan)) => (true, false),
        (None, Some(PropagationPolicy::Foreground)) => (false, true),
        (None, Some(PropagationPolicy::Background)) => (false, false),
        (None, None) => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
    };
    let others = existing.iter().filter(|f| **f != ORPHAN && **f != FOREGROUND).map(|f| (*f).to_owned());
    let mut finalizers: Vec<String> = others.collect();
    finalizers.extend(orphan.then(|| ORPHAN.to_owned()));
    finalizers.extend(foreground.then(|| FOREGROUND.to_owned()));
    finalizers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: Option<PropagationPolicy>, existing: &[&str], expected: &[&str]) {
        let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
        assert_eq!(finalizers_for(&options, existing), expected, "{policy:?} on {existing:?}");
    }

    #[test]
    fn propagation_policy_decides_the_collectors_finalizers() {
        check(None, &[], &[]);
        check(None, &["x.io/f", "orphan"], &["x.io/f", "orphan"]);
        check(Some(PropagationPolicy::Orphan), &["x.io/f"], &["x.io/f", "orphan"]);
        check(Some(PropagationPolicy::Foreground), &["orphan"], &["foregroundDeletion"]);
        check(Some(PropagationPolicy::Background), &["orphan", "x.io/f"], &["x.io/f"]);
    }
}
