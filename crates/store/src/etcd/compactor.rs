//! Automatic compaction by one of all servers that share a cluster.
//!
//! The servers race for a marker key outside everybody's prefix, compared by how often it was written: whoever moves it
//! compacts, up to the revision it saw one interval ago. Key and procedure are kube-apiserver's, so that both may share an etcd.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

use super::client::{Client, Repeat};
use super::keys::{header_revision, to_wire};
use super::proto::{self, Compare, RequestOpKind, ResponseOpKind, path};
use super::status::{Known, known};
use crate::Revision;

/// The marker key. Its value is the revision of the last winner, for people who look; its version counts the turns.
pub const MARKER: &str = "compact_rev_key";

/// What one server knows of the race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// How often the marker had been written when we last looked.
    version: i64,
    /// The cluster's revision at that time: history up to here is one interval old.
    revision: Revision,
}

/// What came of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Another server was faster.
    Lost,
    /// We won, and history up to here is gone; 0 when there was nothing to do yet.
    Won(Revision),
}

/// Takes a turn each `interval`, for ever.
pub async fn run(client: Arc<Client>, interval: Duration) {
    let mut turn = Turn::default();
    loop {
        tokio::time::sleep(interval).await;
        match take_turn(&client, &mut turn).await {
            Ok(TurnOutcome::Won(revision)) => tracing::info!(%revision, "compacted etcd history"),
            Ok(TurnOutcome::Lost) => tracing::debug!("another server compacts etcd history"),
            Err(status) => tracing::warn!(%status, "cannot compact etcd history"),
        }
    }
}

/// Tries to win one turn, and compacts if it does.
pub async fn take_turn(client: &Client, turn: &mut Turn) -> Result<TurnOutcome, Status> {
    let marker = Bytes::from_static(MARKER.as_bytes());
    let previous = *turn;
    let request = proto::TxnRequest {
        compare: vec![Compare::version(marker.clone(), previous.version)],
        success: vec![
            RequestOpKind::Put(proto::PutRequest {
                key: marker.clone(),
                value: previous.revision.to_string().into(),
                lease: 0,
            })
            .into(),
        ],
        failure: vec![RequestOpKind::Range(proto::RangeRequest { key: marker, ..Default::default() }).into()],
    };
    let response: proto::TxnResponse = client.unary(path::TXN, request, Repeat::IfNeverSent).await?;
    turn.revision = header_revision(&response.header);
    if !response.succeeded {
        turn.version = marker_version(response);
        return Ok(TurnOutcome::Lost);
    }
    turn.version = previous.version + 1;
    if previous.revision == Revision(0) {
        return Ok(TurnOutcome::Won(previous.revision));
    }
    compact(client, previous.revision).await?;
    Ok(TurnOutcome::Won(previous.revision))
}

/// Forgets history up to `revision`; already forgotten is fine.
pub async fn compact(client: &Client, revision: Revision) -> Result<(), Status> {
    let request = proto::CompactionRequest { revision: to_wire(revision) };
    let result: Result<proto::CompactionResponse, Status> = client.unary(path::COMPACT, request, Repeat::Safe).await;
    match result {
        Err(status) if known(&status) != Some(Known::Compacted) => Err(status),
        _ => Ok(()),
    }
}

fn marker_version(mut response: proto::TxnResponse) -> i64 {
    match response.responses.pop().and_then(|op| op.response) {
        Some(ResponseOpKind::Range(mut read)) => read.kvs.pop().map_or(0, |kv| kv.version),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "../../tests/etcd_server/mod.rs"]
mod etcd_server;

#[cfg(test)]
mod tests {
    use super::etcd_server::Cluster;
    use super::*;
    use crate::etcd::{EtcdStore, Options};
    use crate::{Op, Store};

    async fn write(store: &EtcdStore) -> Revision {
        let op = Op::Put { key: "a".into(), value: "x".into(), expect: crate::Expect::Any, ttl: None };
        store.txn(vec![op]).await.unwrap();
        store.revision().await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_turn_has_one_winner_who_forgets_what_was_old_a_turn_ago() {
        let cluster = Cluster::single().await;
        let mut options = Options::new([cluster.members[0].client_url.clone()]);
        options.compaction = crate::etcd::Compaction::Off;
        let store = EtcdStore::connect(options).await.unwrap();
        let client = &store.client;
        let (mut ann, mut bob) = (Turn::default(), Turn::default());

        write(&store).await;
        assert_eq!(take_turn(client, &mut ann).await.unwrap(), TurnOutcome::Won(Revision(0)));
        assert_eq!(take_turn(client, &mut bob).await.unwrap(), TurnOutcome::Lost);
        assert_eq!(store.compacted().await.unwrap(), Revision(0), "nobody knows yet what is old");

        let old = store.revision().await.unwrap();
        let young = write(&store).await;
        assert_eq!(take_turn(client, &mut bob).await.unwrap(), TurnOutcome::Won(old));
        assert_eq!(take_turn(client, &mut ann).await.unwrap(), TurnOutcome::Lost);
        assert_eq!(store.compacted().await.unwrap(), old);
        assert!(young > old);

        // Both know the marker again; whoever is first takes the turn.
        let seen_by_ann = store.revision().await.unwrap();
        write(&store).await;
        assert_eq!(take_turn(client, &mut ann).await.unwrap(), TurnOutcome::Won(seen_by_ann));
        assert_eq!(take_turn(client, &mut bob).await.unwrap(), TurnOutcome::Lost);
        assert_eq!(store.compacted().await.unwrap(), seen_by_ann);
    }
}
