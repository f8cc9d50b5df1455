//! Admission around the write handlers: the chain sees every write, and what it wants written along comes back as store operations.

use bailiwick_admission::{
    Attributes, DryRun, EquivalentsCell, KindRef, Operation, OperationOptions, Reinvocation, StatusWrite,
};
use bailiwick_machinery::object;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::DeleteOptions;
use bailiwick_store::{Expect, Op, Revision};
use serde_json::Value;

use super::admission_host::RequestHost;
use super::body::Expected;
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
    options: OperationOptions<'a>,
    run: Run,
}

fn attributes<'a>(rq: &'a Request<'_>, host: &'a RequestHost<'a>, write: Write<'a>) -> Attributes<'a> {
    let expected = Expected::of(rq);
    Attributes {
        operation: write.operation,
        resource: &rq.served.resource,
        subresource: &rq.info.subresource,
        kind: KindRef { group: expected.group, version: expected.version, kind: expected.kind },
        name: write.name,
        namespace: write.namespace,
        object: write.object,
        old_object: write.old,
        user: rq.user,
        dry_run: match write.run {
            Run::Dry => DryRun::Yes,
            Run::Real => DryRun::No,
        },
        options: write.options,
        notes: &rq.notes,
        host,
        deadline: rq.deadline,
        reinvocation: Reinvocation::default(),
        equivalents: EquivalentsCell::default(),
    }
}

/// The namespace of a write: a new Namespace is in itself, as the path of an existing one says.
fn namespace<'a>(rq: &'a Request<'_>, name: &'a str) -> &'a str {
    let resource = &rq.served.resource;
    let of_itself = rq.info.namespace.is_empty() && resource.plural == "namespaces" && resource.group.is_empty();
    if of_itself { name } else { &rq.info.namespace }
}

async fn mutate(rq: &Request<'_>, write: Write<'_>) -> ApiResult<()> {
    let host = RequestHost::new(rq);
    rq.tenant.admission.mutate(&mut attributes(rq, &host, write), &*rq.tenant.lookup).await
}

/// The name a create is known by: that of the path for subresources, else the object's.
fn created_name(rq: &Request<'_>, value: &Value) -> String {
    if rq.info.name.is_empty() { object::name(value).to_owned() } else { rq.info.name.clone() }
}

/// Lets the chain change a new object.
pub async fn mutate_create(rq: &Request<'_>, mut value: Value, run: Run) -> ApiResult<Value> {
    rq.server.caches.wait_current().await.map_err(|error| rq.store_error(error))?;
    let name = created_name(rq, &value);
    let write = Write {
        operation: Operation::Create,
        name: &name,
        namespace: namespace(rq, &name),
        object: Some(&mut value),
        old: None,
        options: OperationOptions::Create(rq.query),
        run,
    };
    mutate(rq, write).await?;
    Ok(value)
}

/// Whether the chain has already let an object pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    NotYet,
    /// Only what is to be committed with it has become stale.
    Before,
}

/// Lets the chain refuse a new object; gives the operations to commit with it.
pub async fn validate_create(rq: &Request<'_>, value: &mut Value, run: Run, passed: Passed) -> ApiResult<Vec<Op>> {
    let name = created_name(rq, value);
    let write = Write {
        operation: Operation::Create,
        name: &name,
        namespace: namespace(rq, &name),
        object: Some(value),
        old: None,
        options: OperationOptions::Create(rq.query),
        run,
    };
    let host = RequestHost::new(rq);
    let (chain, lookup) = (&rq.tenant.admission, &*rq.tenant.lookup);
    let attributes = attributes(rq, &host, write);
    let effects = match passed {
        Passed::NotYet => chain.validate(&attributes, lookup).await?,
        Passed::Before => chain.effects_again(&attributes, lookup).await?,
    };
    effects.writes.iter().map(|status| status_op(rq, status)).collect()
}

/// Lets the chain change and refuse what is answered and not stored: a review, a token request.
pub async fn answered(rq: &Request<'_>, value: Value, run: Run) -> ApiResult<Value> {
    let mut value = mutate_create(rq, value, run).await?;
    validate_create(rq, &mut value, run, Passed::NotYet).await?;
    Ok(value)
}

fn status_op(rq: &Request<'_>, status: &StatusWrite) -> ApiResult<Op> {
    let registry = rq.tenant.registry.load();
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

fn update<'a>(rq: &'a Request<'_>, value: &'a mut Value, old: &'a Value, run: Run) -> Write<'a> {
    Write {
        operation: Operation::Update,
        name: &rq.info.name,
        namespace: namespace(rq, &rq.info.name),
        object: Some(value),
        old: Some(old),
        options: OperationOptions::Update(rq.query),
        run,
    }
}

/// Lets the chain change an updated object, or the Scale of one.
pub async fn mutate_update(rq: &Request<'_>, mut value: Value, old: &Value, run: Run) -> ApiResult<Value> {
    mutate(rq, update(rq, &mut value, old, run)).await?;
    Ok(value)
}

/// Lets the chain refuse an updated object, or the Scale of one.
pub async fn validate_update(rq: &Request<'_>, value: &mut Value, old: &Value, run: Run) -> ApiResult<()> {
    let host = RequestHost::new(rq);
    let attributes = attributes(rq, &host, update(rq, value, old, run));
    rq.tenant.admission.validate(&attributes, &*rq.tenant.lookup).await.map(drop)
}

/// Lets the chain refuse a deletion. Of a collection no single object is named, as upstream has it.
pub async fn delete(rq: &Request<'_>, old: &Value, options: &DeleteOptions, run: Run) -> ApiResult<()> {
    let write = Write {
        operation: Operation::Delete,
        name: &rq.info.name,
        namespace: namespace(rq, &rq.info.name),
        object: None,
        old: Some(old),
        options: OperationOptions::Delete(options),
        run,
    };
    let host = RequestHost::new(rq);
    let mut attributes = attributes(rq, &host, write);
    rq.tenant.admission.mutate(&mut attributes, &*rq.tenant.lookup).await?;
    rq.tenant.admission.validate(&attributes, &*rq.tenant.lookup).await.map(drop)
}
