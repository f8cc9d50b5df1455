//! A watch that outlives the connection and the member it runs on.
//!
//! Each watch is a gRPC stream of its own, polled by its reader: a reader that stalls holds back one flow-control window
//! and nothing else, while etcd lets its watch fall behind and catch up from history. After any failure the watch goes on
//! at the next member from the revision after the last one delivered, so that nothing is missed and nothing comes twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::client::{Backoff, Client, WatchConnection};
use super::keys::{KeySpace, from_wire, header_revision, to_wire};
use super::proto::{self, WatchRequest, WatchRequestKind};
use super::status::{self, to_error};
use crate::{Error, Event, KeyRange, Result, Revision, WatchItem, WatchStream};

/// etcd ignores a progress request while the watch is catching up, so it is repeated; kube-apiserver uses this period, too.
const PROGRESS_RETRY: Duration = Duration::from_millis(100);
/// A member that was asked for progress and says nothing at all for this long is frozen or cut off, though its connection
/// looks well: reads wait for the answer, so the watch goes on elsewhere rather than until pings have failed.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The creation request and one progress request under way; more would only say the same.
const REQUEST_QUEUE: usize = 2;

/// What all watches of a store are asked to report: progress at least up to `at_least`. Every request is a new `number`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgressWanted {
    pub number: u64,
    pub at_least: Revision,
}

/// Opens a watch on changes in `range` after `after`.
pub fn open(
    client: Arc<Client>,
    keys: KeySpace,
    range: &KeyRange,
    after: Revision,
    wanted: watch::Receiver<ProgressWanted>,
) -> WatchStream {
    let (start, end) = keys.outer_range(range);
    let answered = wanted.borrow().number;
    let watch =
        Watch { client, keys, start, end, delivered: after, wanted, answered, pending: Vec::new(), connection: None };
    futures::stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(item) => Some((Ok(item), Some(watch))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

struct Watch {
    client: Arc<Client>,
    keys: KeySpace,
    start: Bytes,
    end: Bytes,
    /// Everything up to here has been delivered, or was not asked for.
    delivered: Revision,
    wanted: watch::Receiver<ProgressWanted>,
    /// The number of the last progress request that was answered.
    answered: u64,
    /// Events of a response of which more fragments are to come.
    pending: Vec<proto::Event>,
    connection: Option<Connection>,
}

struct Connection {
    member: usize,
    /// Kept open for as long as the watch is to run.
    requests: mpsc::Sender<WatchRequest>,
    responses: tonic::Streaming<proto::WatchResponse>,
    /// The number of the last progress request passed on to this member.
    asked: u64,
    /// Since when it owes us an answer.
    owes_since: Option<Instant>,
}

/// What woke a watch up.
enum Wake {
    Response(Result<Option<proto::WatchResponse>, Status>),
    ProgressDue,
    Silent,
}

impl Watch {
    async fn next(&mut self) -> Result<WatchItem> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(progress) = self.progress_already_made() {
                return Ok(WatchItem::Progress(progress));
            }
            let Some(connection) = &mut self.connection else {
                self.reconnect(&mut backoff).await;
                continue;
            };
            match wake(connection, &mut self.wanted, self.answered).await {
                Wake::ProgressDue => {
                    connection.asked = self.wanted.borrow().number;
                    connection.owes_since.get_or_insert_with(Instant::now);
                    // A full queue holds a progress request already.
                    let _ = connection.requests.try_send(progress_request());
                }
                Wake::Silent => self.disconnect("the member says nothing", &mut backoff).await,
                Wake::Response(Ok(Some(response))) => {
                    connection.owes_since = None;
                    if let Some(item) = self.accept(response).await? {
                        return Ok(item);
                    }
                }
                Wake::Response(Ok(None)) => self.disconnect("the stream ended", &mut backoff).await,
                Wake::Response(Err(status)) => self.disconnect(status.message(), &mut backoff).await,
            }
        }
    }

    /// The answer to a progress request that needs no word from etcd.
    fn progress_already_made(&mut self) -> Option<Revision> {
        let wanted = *self.wanted.borrow_and_update();
        let ready = wanted.number > self.answered && wanted.at_least <= self.delivered && self.pending.is_empty();
        ready.then(|| {
            self.answered = wanted.number;
            self.delivered
        })
    }

    async fn accept(&mut self, mut response: proto::WatchResponse) -> Result<Option<WatchItem>> {
        if response.compact_revision > 0 {
            let compacted = from_wire(response.compact_revision);
            return Err(Error::Compacted { requested: self.delivered, compacted });
        }
        if response.canceled {
            return self.canceled(&response.cancel_reason).await;
        }
        if response.created {
            return Ok(None);
        }
        if response.events.is_empty() && !response.fragment && self.pending.is_empty() {
            return Ok(self.progress(header_revision(&response.header)));
        }
        if response.fragment {
            self.pending.append(&mut response.events);
            return Ok(None);
        }
        let events = if self.pending.is_empty() {
            response.events
        } else {
            self.pending.append(&mut response.events);
            std::mem::take(&mut self.pending)
        };
        Ok(self.events(events))
    }

    fn events(&mut self, events: Vec<proto::Event>) -> Option<WatchItem> {
        let delivered = self.delivered;
        let events: Vec<Event> = events
            .into_iter()
            .filter_map(|event| self.keys.inner_event(event))
            // etcd starts where it is told to; this holds even if it should not.
            .filter(|event| event.revision() > delivered)
            .collect();
        self.delivered = events.last()?.revision();
        Some(WatchItem::Events(events))
    }

    fn progress(&mut self, revision: Revision) -> Option<WatchItem> {
        if revision < self.delivered {
            // A member that lags behind the one the watch came from.
            return None;
        }
        self.delivered = revision;
        let wanted = *self.wanted.borrow();
        if wanted.at_least <= revision {
            self.answered = wanted.number;
        }
        Some(WatchItem::Progress(revision))
    }

    async fn canceled(&mut self, reason: &str) -> Result<Option<WatchItem>> {
        let lost_leader = reason.ends_with("no leader") || reason.ends_with("server stopped");
        if lost_leader || reason.is_empty() {
            self.disconnect(reason, &mut Backoff::new()).await;
            return Ok(None);
        }
        Err(Error::InvalidRequest(format!("etcd refused the watch: {reason}")))
    }

    async fn reconnect(&mut self, backoff: &mut Backoff) {
        let (requests, queue) = mpsc::channel(REQUEST_QUEUE);
        let create = proto::WatchCreateRequest {
            key: self.start.clone(),
            range_end: self.end.clone(),
            start_revision: to_wire(self.delivered.next()),
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        let create = WatchRequest { request: Some(WatchRequestKind::Create(create)) };
        requests.try_send(create).expect("invariant: a new queue has room");
        match self.client.watch(ReceiverStream::new(queue)).await {
            Ok(WatchConnection { member, responses }) => {
                let (asked, owes_since) = (self.answered, None);
                self.connection = Some(Connection { member, requests, responses, asked, owes_since });
            }
            Err(status) => {
                tracing::debug!(%status, "cannot open an etcd watch");
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }

    async fn disconnect(&mut self, reason: &str, backoff: &mut Backoff) {
        if let Some(lost) = self.connection.take() {
            tracing::debug!(reason, delivered = %self.delivered, "etcd watch lost, going on elsewhere");
            self.client.leave(lost.member);
        }
        // Fragments without an end will be sent again as a whole.
        self.pending.clear();
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn wake(connection: &mut Connection, wanted: &mut watch::Receiver<ProgressWanted>, answered: u64) -> Wake {
    let due = async {
        let number = wanted.borrow_and_update().number;
        if number > connection.asked {
            return;
        }
        if number > answered {
            return tokio::time::sleep(PROGRESS_RETRY).await;
        }
        // An error means that the store is gone, and with it everybody who could ask.
        if wanted.changed().await.is_err() {
            std::future::pending().await
        }
    };
    let silent = async {
        match connection.owes_since {
            Some(since) => tokio::time::sleep_until(since + SILENCE_MAX).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        response = connection.responses.message() => Wake::Response(response),
        () = silent => Wake::Silent,
        () = due => Wake::ProgressDue,
    }
}

fn progress_request() -> WatchRequest {
    WatchRequest { request: Some(WatchRequestKind::Progress(proto::WatchProgressRequest {})) }
}

/// How far history is gone, when it is known that some is. Only a refused watch says so.
pub async fn compaction_floor(client: &Client, key: Bytes) -> Result<i64> {
    let mut backoff = Backoff::new();
    for _ in 0..MAX_FLOOR_ATTEMPTS {
        match ask_compaction_floor(client, key.clone()).await {
            Ok(Some(floor)) => return Ok(floor),
            Ok(None) => {}
            Err(status) if status::transient(&status) => {}
            Err(status) => return Err(to_error(&status)),
        }
        tokio::time::sleep(backoff.next()).await;
    }
    Err(Error::Unavailable("etcd does not say how far history is compacted".into()))
}

/// Members are tried in turn; a cluster that loses this many in a row is not up.
const MAX_FLOOR_ATTEMPTS: usize = 5;

async fn ask_compaction_floor(client: &Client, key: Bytes) -> Result<Option<i64>, Status> {
    let (requests, queue) = mpsc::channel(REQUEST_QUEUE);
    let create = proto::WatchCreateRequest { key, start_revision: 1, ..Default::default() };
    let create = WatchRequest { request: Some(WatchRequestKind::Create(create)) };
    requests.try_send(create).expect("invariant: a new queue has room");
    let mut connection = client.watch(ReceiverStream::new(queue)).await?;
    let refusal = async {
        while let Some(response) = connection.responses.message().await? {
            if response.compact_revision > 0 {
                return Ok(Some(response.compact_revision));
            }
        }
        Ok(None)
    };
    // A lagging member may not have heard of the compaction yet and say nothing at all.
    tokio::time::timeout(FLOOR_PATIENCE, refusal).await.unwrap_or(Ok(None))
}

/// etcd looks at watches that start in the past every 100 ms.
const FLOOR_PATIENCE: Duration = Duration::from_secs(2);
