//! Our transactions as etcd's: expectations become compares, and the losing branch reads what is there instead, so that a
//! conflict costs no second round trip.

use std::collections::HashSet;

use bytes::Bytes;
use tonic::Status;

use super::EtcdStore;
use super::client::Repeat;
use super::keys::{header_revision, to_wire};
use super::proto::{self, Compare, RequestOp, RequestOpKind, ResponseOpKind, path};
use super::status::{Known, known, to_error};
use crate::{Error, Expect, Op, Result, Revision, Store, TxnOutcome};

/// A lease can vanish between being handed out and being used only if this process was stopped for long; once more is enough.
const MAX_LEASE_ATTEMPTS: usize = 2;

impl EtcdStore {
    pub(super) async fn commit(&self, ops: &[Op]) -> Result<TxnOutcome> {
        refuse_duplicates(ops)?;
        if ops.is_empty() {
            // etcd answers an empty transaction from whatever the member has; ours is linearizable.
            return Ok(TxnOutcome::Committed { revision: self.revision().await? });
        }
        for attempt in 1.. {
            let leases = self.leases_for(ops).await.map_err(|status| to_error(&status))?;
            let result: Result<proto::TxnResponse, Status> =
                self.client.unary(path::TXN, self.request(ops, &leases), Repeat::IfNeverSent).await;
            match result {
                Ok(response) => return self.outcome(ops, response),
                Err(status) if known(&status) == Some(Known::LeaseNotFound) && attempt < MAX_LEASE_ATTEMPTS => {
                    leases.iter().for_each(|&lease| self.leases.forget(lease));
                }
                Err(status) => return Err(to_error(&status)),
            }
        }
        unreachable!("invariant: the loop above ends by returning")
    }

    /// One lease for each operation; 0 is none.
    async fn leases_for(&self, ops: &[Op]) -> Result<Vec<i64>, Status> {
        let mut leases = Vec::with_capacity(ops.len());
        for op in ops {
            leases.push(match op {
                Op::Put { ttl: Some(ttl), .. } => self.leases.lease(&self.client, *ttl).await?,
                _ => 0,
            });
        }
        Ok(leases)
    }

    fn request(&self, ops: &[Op], leases: &[i64]) -> proto::TxnRequest {
        let mut request = proto::TxnRequest { success: Vec::with_capacity(ops.len()), ..Default::default() };
        for (op, &lease) in ops.iter().zip(leases) {
            let key = self.keys.outer(op.key());
            if let Some(revision) = expected_revision(op) {
                request.compare.push(Compare::mod_revision(key.clone(), to_wire(revision)));
                let read = proto::RangeRequest { key: key.clone(), ..Default::default() };
                request.failure.push(RequestOpKind::Range(read).into());
            }
            request.success.push(change(op, key, lease));
        }
        request
    }

    fn outcome(&self, ops: &[Op], response: proto::TxnResponse) -> Result<TxnOutcome> {
        if response.succeeded {
            return Ok(TxnOutcome::Committed { revision: header_revision(&response.header) });
        }
        let expecting = ops.iter().filter_map(|op| Some((op, expected_revision(op)?)));
        for ((op, expected), read) in expecting.zip(response.responses) {
            let Some(ResponseOpKind::Range(mut read)) = read.response else { continue };
            let current = read.kvs.pop().and_then(|kv| self.keys.inner(kv));
            let actual = current.as_ref().map_or(Revision(0), |kv| kv.mod_revision);
            if actual != expected {
                return Ok(TxnOutcome::Conflict { key: op.key().clone(), current });
            }
        }
        Err(Error::Unavailable("etcd refused a transaction whose conditions hold".into()))
    }
}

/// The revision the key must have been written at; 0 is "must not exist".
fn expected_revision(op: &Op) -> Option<Revision> {
    match op {
        Op::Put { expect, .. } | Op::Delete { expect, .. } => match expect {
            Expect::Any => None,
            Expect::Absent => Some(Revision(0)),
            Expect::Modified(revision) => Some(*revision),
        },
    }
}

fn change(op: &Op, key: Bytes, lease: i64) -> RequestOp {
    match op {
        Op::Put { value, .. } => RequestOpKind::Put(proto::PutRequest { key, value: value.clone(), lease }).into(),
        Op::Delete { .. } => RequestOpKind::DeleteRange(proto::DeleteRangeRequest { key }).into(),
    }
}

/// etcd accepts some repetitions and refuses others; the contract refuses all.
fn refuse_duplicates(ops: &[Op]) -> Result<()> {
    if ops.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::with_capacity(ops.len());
    for op in ops {
        if !seen.insert(op.key()) {
            let key = String::from_utf8_lossy(op.key());
            return Err(Error::InvalidRequest(format!("key {key:?} is named twice in one transaction")));
        }
    }
    Ok(())
}
