//! The etcd v3 engine: many Bailiwick servers without state of their own on one etcd cluster.
//!
//! [`EtcdStore`] is a thin client of exactly the calls the [`Store`] contract needs, over gRPC without generated code. It
//! hides the loss of members: reads and watches go on elsewhere, and a write whose fate is unknown says so
//! ([`Error::Unavailable`]) instead of being sent twice.

mod client;
mod compactor;
mod keys;
mod lease;
mod options;
mod proto;
mod range;
mod status;
mod txn;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch as latest;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use options::{
    Compaction, DEFAULT_COMPACTION_INTERVAL, DEFAULT_CONNECT_TIMEOUT, DEFAULT_REQUEST_TIMEOUT, Identity, Options, Tls,
};

use crate::{
    Error, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Result, Revision, Store, TxnOutcome, WatchStream,
};
use client::{Client, Repeat};
use keys::KeySpace;
use lease::Leases;
use watch::ProgressWanted;

/// Between two attempts to find a living member at start.
const CONNECT_RETRY: Duration = Duration::from_millis(100);

/// A store kept by an etcd cluster.
pub struct EtcdStore {
    client: Arc<Client>,
    keys: KeySpace,
    leases: Leases,
    progress: latest::Sender<ProgressWanted>,
    compactor: Option<JoinHandle<()>>,
}

impl EtcdStore {
    /// Reaches the cluster and starts automatic compaction. [`Error::Unavailable`] if no member answers in time.
    pub async fn connect(options: Options) -> Result<Self> {
        if compactor::MARKER.starts_with(&options.prefix) {
            let marker = compactor::MARKER;
            return Err(Error::InvalidRequest(format!("etcd prefix must not be empty or begin like {marker:?}")));
        }
        let client = Arc::new(Client::new(&options)?);
        await_healthy(&client, options.connect_timeout).await?;
        let compactor = match options.compaction {
            Compaction::Off => None,
            Compaction::Every(interval) => Some(tokio::spawn(compactor::run(client.clone(), interval))),
        };
        let (progress, _) = latest::channel(ProgressWanted::default());
        Ok(Self { client, keys: KeySpace::new(options.prefix), leases: Leases::default(), progress, compactor })
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        if let Some(compactor) = &self.compactor {
            compactor.abort();
        }
    }
}

/// Waits for a member that is up and knows the cluster's leader.
async fn await_healthy(client: &Client, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let asked =
            client.unary::<_, proto::StatusResponse>(proto::path::STATUS, proto::StatusRequest {}, Repeat::Safe);
        let error = match tokio::time::timeout_at(deadline, asked).await {
            Ok(Ok(status)) => {
                tracing::info!(version = status.version, db_bytes = status.db_size, "connected to etcd");
                for complaint in status.errors {
                    tracing::warn!(complaint, "etcd is not well");
                }
                return read_through_leader(client, deadline).await;
            }
            Ok(Err(status)) => status::to_error(&status),
            Err(_) => Error::Unavailable(format!("no etcd member answered within {patience:?}")),
        };
        if Instant::now() + CONNECT_RETRY >= deadline {
            return Err(error);
        }
        tokio::time::sleep(CONNECT_RETRY).await;
    }
}

/// A member tells its status even when the cluster has no leader; a linearizable read is the real proof.
async fn read_through_leader(client: &Client, deadline: Instant) -> Result<()> {
    let request = proto::RangeRequest { key: "\0".into(), count_only: true, ..Default::default() };
    let read = client.unary::<_, proto::RangeResponse>(proto::path::RANGE, request, Repeat::Safe);
    match tokio::time::timeout_at(deadline, read).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) => Err(status::to_error(&status)),
        Err(_) => Err(Error::Unavailable("etcd has no leader".into())),
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn revision(&self) -> Result<Revision> {
        self.read_revision().await
    }

    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)> {
        self.read_one(self.keys.outer(key)).await
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        self.read_range(&request).await
    }

    async fn txn(&self, ops: Vec<Op>) -> Result<TxnOutcome> {
        self.commit(&ops).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        Ok(watch::open(self.client.clone(), self.keys.clone(), &range, after, self.progress.subscribe()))
    }

    async fn request_progress(&self) -> Result<()> {
        let at_least = self.read_revision().await?;
        self.progress.send_modify(|wanted| {
            wanted.number += 1;
            wanted.at_least = wanted.at_least.max(at_least);
        });
        Ok(())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        match compactor::compact(&self.client, revision).await {
            Err(status) if status::known(&status) == Some(status::Known::FutureRevision) => {
                Err(self.future_error(revision).await)
            }
            Err(status) => Err(status::to_error(&status)),
            Ok(()) => Ok(()),
        }
    }

    async fn compacted(&self) -> Result<Revision> {
        self.compaction_floor().await
    }
}
