//! Admission around the write handlers: the chain sees every write, and what it wants written along comes back as store operations.

use bailiwick_admission::{Attributes, DryRun, Operation, StatusWrite};
use bailiwick_machinery::object;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::{Expect, Op, Revision};
use serde_json::Value;

use super::request::Request;
use super::write::Run;
use crate::cache::encode_for_storage;

/// What is being written, as the chain asks for it.
struct Write<'a> {
    operation: Operation,
    name: &'a str,
    namespace: &'a str,
    object: Option<&'a mut Value>,
    old: Option<&'a Value>,
    run: Run,
}

fn attributes<'a>(rq: &'a Request<'_>, write: Write<'a>) -> Attributes<'a> {
    Attributes {
        operation: write.operation,
        resource: &rq.served.resource,
        subresource: &rq.info.subresource,
        name: write.name,
        namespace: write.namespace,
        object: write.object,
        old_object: write.old,
        user: rq.user,
        dry_run: match write.run {
            Run::Dry => DryRun::Yes,
            Run::Real => DryRun::No,
        },
        options: &Value::Null,
    }
}

/// The namespace of the write: a namespace object is in itself, as upstream sees it.
fn namespace<'a>(rq: &'a Request<'_>) -> &'a str {
    &rq.info.namespace
}

/// Lets the chain change a new object.
pub async fn mutate_create(rq: &Request<'_>, mut value: Value, run: Run) -> ApiResult<Value> {
    rq.server.caches.wait_current().await.map_err(|error| rq.store_error(error))?;
    let name = object::name(&value).to_owned();
    let write = Write {
        operation: Operation::Create,
        name: &name,
        namespace: namespace(rq),
        object: Some(&mut value),
        old: None,
        run,
    };
    rq.server.config.admission.mutate(&mut attributes(rq, write), &*rq.server.lookup).await?;
    Ok(value)
}

/// Lets the chain refuse a new object; gives the operations to commit with it.
pub async fn validate_create(rq: &Request<'_>, value: &mut Value, run: Run) -> ApiResult<Vec<Op>> {
    let name = object::name(value).to_owned();
    let write = Write {
        operation: Operation::Create,
        name: &name,
        namespace: namespace(rq),
        object: Some(value),
        old: None,
        run,
    };
    let effects = rq.server.config.admission.validate(&attributes(rq, write), &*rq.server.lookup).await?;
    effects.writes.iter().map(|status| status_op(rq, status)).collect()
}

fn status_op(rq: &Request<'_>, status: &StatusWrite) -> ApiResult<Op> {
    let registry = rq.server.registry.load();
    let served = registry
        .any_version(&status.resource.group, &status.resource.resource)
        .ok_or_else(|| ApiError::internal(format!("{} is not served", status.resource)))?;
    let revision: u64 = status.resource_version.parse().map_err(ApiError::internal)?;
    Ok(Op::Put {
        key: served.key(&status.namespace, &status.name),
        value: encode_for_storage(&status.object).into(),
        expect: Expect::Modified(Revision(revision)),
        ttl: None,
    })
}

/// Lets the chain change an updated object.
pub async fn mutate_update(rq: &Request<'_>, mut value: Value, old: &Value, run: Run) -> ApiResult<Value> {
    let write = Write {
        operation: Operation::Update,
        name: &rq.info.name,
        namespace: namespace(rq),
        object: Some(&mut value),
        old: Some(old),
        run,
    };
    rq.server.config.admission.mutate(&mut attributes(rq, write), &*rq.server.lookup).await?;
    Ok(value)
}

/// Lets the chain refuse an updated object.
pub async fn validate_update(rq: &Request<'_>, value: &mut Value, old: &Value, run: Run) -> ApiResult<()> {
    let write = Write {
        operation: Operation::Update,
        name: &rq.info.name,
        namespace: namespace(rq),
        object: Some(value),
        old: Some(old),
        run,
    };
    rq.server.config.admission.validate(&attributes(rq, write), &*rq.server.lookup).await.map(drop)
}

/// Lets the chain refuse a deletion.
pub async fn delete(rq: &Request<'_>, name: &str, old: &Value, run: Run) -> ApiResult<()> {
    let write =
        Write { operation: Operation::Delete, name, namespace: namespace(rq), object: None, old: Some(old), run };
    let mut attributes = attributes(rq, write);
    rq.server.config.admission.mutate(&mut attributes, &*rq.server.lookup).await?;
    rq.server.config.admission.validate(&attributes, &*rq.server.lookup).await.map(drop)
}
