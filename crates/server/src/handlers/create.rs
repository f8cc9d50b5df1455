//! POST: a new object.

use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::WriteOptions;
use bailiwick_machinery::{names, object};
use bailiwick_store::{Expect, Op};
use bytes::Bytes;
use serde_json::Value;

use super::admit::{self, Passed};
use super::body::decode_object;
use super::grants;
use super::managed_fields::{self, Tracking};
use super::request::{Reply, Request};
use super::write::{self, Run, Written};
use crate::cache::Object;

/// How often a create is tried again because a quota it counts against was charged by another.
const CONFLICT_RETRIES: usize = 1000;
/// When a client whose names were all taken may ask for another, as upstream.
const GENERATE_NAME_RETRY_SECONDS: u32 = 1;

/// Creates the object in the body.
pub async fn create(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let options = WriteOptions::parse_create(rq.query)?;
    let encoder = rq.encoder(Answer::Object)?;
    let value = decode_object(rq, &body, options.field_validation)?;
    let manager = options.manager(rq.user_agent());
    let created = create_object(rq, value, Run::from(options.dry_run), Tracking::Update(&manager)).await?;
    rq.object_reply(201, &encoder, created.into()).await
}

/// Creates a decoded object, whoever decoded it: POST, PUT to a free name, apply.
pub async fn create_object(rq: &Request<'_>, mut value: Value, run: Run, tracking: Tracking<'_>) -> ApiResult<Object> {
    write::settle_namespace(rq, &mut value)?;
    if rq.served.resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let reason = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&rq.served.group_resource, object::name(&value), reason));
    }
    if !matches!(object::meta_str(&value, "resourceVersion"), "" | "0") {
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    rq.strategy().default(&mut value);
    write::wipe_system_fields(&mut value);
    managed_fields::create(rq, &mut value, tracking);
    let generated = object::name(&value).is_empty() && !object::meta_str(&value, "generateName").is_empty();
    let mut candidate = admit::mutate_create(rq, value, run).await?;
    write::settle_namespace(rq, &mut candidate)?;
    grants::check(rq, &candidate, None).await?;
    let generated = generated && object::name(&candidate).is_empty();
    write::stamp_new(rq, &mut candidate);
    // Only a name that is made up anew needs the object as it was before the type's rules saw it.
    let unnamed = generated.then(|| candidate.clone());
    let mut collisions = 0;
    let mut prepared = false;
    let mut passed = Passed::NotYet;
    for _ in 0..CONFLICT_RETRIES {
        if !prepared {
            if let Some(unnamed) = &unnamed {
                candidate = unnamed.clone();
                let name = names::generate_name(object::meta_str(&candidate, "generateName"), &mut rand::rng());
                object::set_meta_str(&mut candidate, "name", &name);
            }
            write::before_create(rq, &mut candidate)?;
            prepared = true;
        }
        let charges = admit::validate_create(rq, &mut candidate, run, passed).await?;
        passed = Passed::Before;
        match store_new(rq, &candidate, run, charges).await? {
            Written::Done(created) => return Ok(created),
            Written::LostCompanion => {
                rq.server.caches.wait_current().await.map_err(|error| rq.store_error(error))?;
            }
            Written::Lost(_) => {
                collisions += 1;
                if !generated || collisions == names::MAX_ATTEMPTS {
                    return Err(already_exists(rq, &candidate).await);
                }
                prepared = false;
                passed = Passed::NotYet;
            }
        }
    }
    let name = object::name(&candidate);
    Err(ApiError::conflict(&rq.served.group_resource, name, "too many concurrent changes of quotas"))
}

async fn store_new(rq: &Request<'_>, object: &Value, run: Run, charges: Vec<Op>) -> ApiResult<Written> {
    let (namespace, name) = (object::namespace(object), object::name(object));
    // A dry run must see a taken name as a real one would.
    if run == Run::Dry && rq.current(name).await?.is_some() {
        return Ok(Written::Lost(None));
    }
    let (bytes, ttl) = (write::stored_bytes(rq, object).await?, write::ttl(rq, object));
    write::put(rq, rq.served.key(namespace, name), bytes, Expect::Absent, ttl, run, charges).await
}

async fn already_exists(rq: &Request<'_>, object: &Value) -> ApiError {
    let name = object::name(object);
    let mut error = ApiError::already_exists(&rq.served.group_resource, name);
    if !object::meta_str(object, "generateName").is_empty() {
        // Upstream says so whoever made the name.
        error.message.push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = GENERATE_NAME_RETRY_SECONDS;
        }
    }
    if rq.current(name).await.is_ok_and(|existing| existing.is_some_and(|existing| existing.deleting)) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
