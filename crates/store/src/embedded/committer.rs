//! The one writer: takes all waiting transactions, checks them, makes them durable with one sync, publishes them.
//!
//! Transactions of a batch see each other in order. Nothing of a batch is visible, acknowledged or even refused before
//! its sync, because a refusal may rest on a change that the sync could still lose.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::expiry::expiry_ms;
use super::frame::FrameBuilder;
use super::history::Retention;
use super::log::{AppendError, Log};
use super::queue::{Flow, Request};
use super::shared::Shared;
use super::state::{State, put_event};
use crate::{Change, Error, Event, Expect, KeyValue, Op, Result, Revision, TxnOutcome};

/// Changes pruned from history under one hold of the state's lock: well under a millisecond.
const PRUNE_CHANGES_MAX: usize = 500;
/// Log bytes after which a batch is closed although more transactions wait: bounds the latency of its first.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Keys that expire in one batch.
const EXPIRE_KEYS_MAX: usize = 1000;
/// How often an idle store looks at the age of its history.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Committer {
    shared: Arc<Shared>,
    log: Log,
    retention: Retention,
    frame: FrameBuilder,
    /// Taken from the queue and not yet dealt with, newest first.
    backlog: Vec<Request>,
    /// What earlier transactions of the batch under way did to a key.
    in_flight: HashMap<Bytes, Option<KeyValue>>,
    changes: Vec<(Event, Option<u64>)>,
    replies: Vec<(oneshot::Sender<Result<TxnOutcome>>, TxnOutcome)>,
}

/// Sees to it that nobody waits for a committer that has ended, even by a panic.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.fail(Error::Corrupt("the commit thread has ended unexpectedly".into()));
        self.0.queue.clear();
    }
}

impl Committer {
    pub fn new(shared: Arc<Shared>, log: Log) -> Self {
        let retention = Retention::new(&shared.options);
        Self {
            shared,
            log,
            retention,
            frame: FrameBuilder::default(),
            backlog: Vec::new(),
            in_flight: HashMap::new(),
            changes: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Serves the queue until it is closed, or the store fails.
    pub fn run(mut self, on_commit: impl Fn()) {
        let _guard = EndGuard(Arc::clone(&self.shared));
        let mut taken = Vec::new();
        let mut idle = Duration::ZERO;
        loop {
            let flow = self.shared.queue.take(&mut taken, idle);
            self.backlog.extend(taken.drain(..).rev());
            self.expire();
            while !self.backlog.is_empty() && self.shared.fault.check().is_ok() {
                self.serve();
                on_commit();
            }
            if flow == Flow::Closed {
                self.shared.fail(Error::Closed);
                return;
            }
            idle = if self.tidy() { Duration::ZERO } else { self.idle_time() };
        }
    }

    /// Serves the requests, without a queue. For tests that decide what is in a batch.
    #[cfg(test)]
    pub fn serve_now(&mut self, requests: Vec<Request>) {
        self.backlog.extend(requests.into_iter().rev());
        self.expire();
        while !self.backlog.is_empty() && self.shared.fault.check().is_ok() {
            self.serve();
        }
        self.backlog.clear();
        while self.tidy() {}
    }

    /// Deals with the next compaction or the next batch of transactions.
    fn serve(&mut self) {
        if let Some(Request::Compact { .. }) = self.backlog.last() {
            if let Some(Request::Compact { revision, reply }) = self.backlog.pop() {
                // The caller may have gone.
                let _ = reply.send(self.compact(revision));
            }
            return;
        }
        self.commit_batch();
        // One slice per batch keeps pruning ahead of what batches add without making anyone wait.
        if self.shared.state().is_prunable() {
            self.prune();
        }
    }

    fn commit_batch(&mut self) {
        let now_ms = self.shared.options.clock.now_ms();
        let before = self.plan(now_ms);
        let durable = if self.frame.txn_count() > 0 { self.write_batch(before, now_ms) } else { Ok(()) };
        if durable.is_ok() && !self.changes.is_empty() {
            self.publish(before, now_ms);
        }
        self.changes.clear();
        for (sender, outcome) in self.replies.drain(..) {
            // The caller may have gone; the outcome stands.
            let _ = sender.send(durable.clone().map(|()| outcome));
        }
    }

    /// Decides the outcome of the transactions at hand and encodes what they change. Returns the revision before.
    fn plan(&mut self, now_ms: u64) -> Revision {
        self.in_flight.clear();
        self.frame.begin_batch();
        let shared = Arc::clone(&self.shared);
        let state = shared.state();
        let before = state.revision();
        let mut revision = before;
        while self.frame.finished_len() < BATCH_BYTES_MAX
            && matches!(self.backlog.last(), Some(Request::Txn { .. }))
            && let Some(Request::Txn { ops, reply }) = self.backlog.pop()
        {
            let from = self.changes.len();
            let conflict = ops.into_iter().find_map(|op| self.plan_op(&state, op, revision.next(), now_ms).err());
            let outcome = match conflict {
                Some(conflict) => {
                    self.changes.truncate(from);
                    conflict
                }
                None => {
                    if self.changes.len() > from {
                        revision = revision.next();
                        self.frame.push_txn(self.changes[from..].iter().map(|(event, at)| (event, *at)));
                        // Only needed if another transaction follows in this batch.
                        if !self.backlog.is_empty() {
                            self.remember(from);
                        }
                    }
                    TxnOutcome::Committed { revision }
                }
            };
            self.replies.extend(reply.map(|sender| (sender, outcome)));
        }
        before
    }

    /// Checks one operation and notes its change, if any. The error is the conflict.
    fn plan_op(&mut self, state: &State, op: Op, revision: Revision, now_ms: u64) -> Result<(), TxnOutcome> {
        let current = match self.in_flight.get(op.key()) {
            Some(current) => current.clone(),
            None => state.get(op.key()),
        };
        let expect = match &op {
            Op::Put { expect, .. } | Op::Delete { expect, .. } => *expect,
        };
        let holds = match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Modified(at) => current.as_ref().is_some_and(|kv| kv.mod_revision == at),
        };
        if !holds {
            return Err(TxnOutcome::Conflict { key: op.key().clone(), current });
        }
        match op {
            Op::Put { key, value, ttl, .. } => {
                let expires_at_ms = ttl.map(|ttl| expiry_ms(now_ms, ttl));
                self.changes.push((put_event(key, value, revision, current), expires_at_ms));
            }
            Op::Delete { .. } => {
                if let Some(previous) = current {
                    let change = Change::Delete { key: previous.key.clone(), revision };
                    self.changes.push((Event { change, previous: Some(previous) }, None));
                }
            }
        }
        Ok(())
    }

    /// Lets later transactions of the batch see the changes from position `from` on.
    fn remember(&mut self, from: usize) {
        for (event, _) in &self.changes[from..] {
            let now = match &event.change {
                Change::Put(kv) => Some(kv.clone()),
                Change::Delete { .. } => None,
            };
            self.in_flight.insert(event.key().clone(), now);
        }
    }

    fn write_batch(&mut self, before: Revision, now_ms: u64) -> Result<()> {
        let written = self.log.prepare(self.frame.finished_len(), before, now_ms).and_then(|stamp| {
            let frame = self.frame.finish_batch(stamp, before.next(), now_ms);
            self.log.append(frame)
        });
        written.map_err(|error| self.refuse(error))
    }

    /// Turns a failed append into what callers see, and ends the store if the disk's state is unknown.
    fn refuse(&self, error: AppendError) -> Error {
        match error {
            AppendError::NoSpace(reason) => {
                tracing::warn!(reason, "no space for a commit");
                Error::NoSpace(reason)
            }
            AppendError::Failed(reason) => {
                tracing::error!(reason, "a write failed; the store refuses everything from now on");
                let error = Error::Corrupt(reason);
                self.shared.fail(error.clone());
                error
            }
        }
    }

    /// Makes the durable batch visible, then wakes those who wait for it.
    fn publish(&mut self, before: Revision, now_ms: u64) {
        let head = {
            let mut state = self.shared.state_mut();
            for (event, expires_at_ms) in self.changes.drain(..) {
                state.apply(event, expires_at_ms);
            }
            state.mark_time(now_ms);
            state.retain(&self.retention, now_ms);
            self.shared.set_head(state.revision());
            state.revision()
        };
        let wakers = {
            let state = self.shared.state();
            let mut parked = self.shared.parked();
            if parked.is_empty() { Vec::new() } else { parked.take_concerned(&state, before, head) }
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    fn compact(&mut self, floor: Revision) -> Result<()> {
        let revision = {
            let state = self.shared.state();
            if floor <= state.floor() {
                return Ok(());
            }
            state.check_readable(floor)?;
            state.revision()
        };
        let now_ms = self.shared.options.clock.now_ms();
        self.frame.begin_compact(floor);
        let written = self.log.prepare(self.frame.finished_len(), revision, now_ms).and_then(|stamp| {
            let frame = self.frame.finish_compact(stamp, revision, now_ms);
            self.log.append(frame)
        });
        written.map_err(|error| self.refuse(error))?;
        self.shared.state_mut().raise_floor(floor);
        Ok(())
    }

    /// Puts deletions of expired keys before everything that waits.
    fn expire(&mut self) {
        let state = self.shared.state();
        if state.expiries().next_ms().is_none() {
            return;
        }
        let now_ms = self.shared.options.clock.now_ms();
        let due: Vec<_> = state.expiries().due(now_ms).take(EXPIRE_KEYS_MAX).cloned().collect();
        let deletion = |key| Request::Txn { ops: vec![Op::Delete { key, expect: Expect::Any }], reply: None };
        // The backlog is served from its end: what expired first goes last.
        self.backlog.extend(due.into_iter().rev().map(deletion));
    }

    /// Forgets what has become too old. True when there is more.
    fn tidy(&mut self) -> bool {
        let now_ms = self.shared.options.clock.now_ms();
        self.shared.state_mut().retain(&self.retention, now_ms);
        self.prune()
    }

    /// Forgets a slice of history below the floor. True when there may be more.
    fn prune(&mut self) -> bool {
        let pruned = self.shared.state_mut().prune(PRUNE_CHANGES_MAX);
        // Memory goes free here, after the lock was let go.
        pruned.len() == PRUNE_CHANGES_MAX
    }

    /// How long there is nothing to do unless a request comes.
    fn idle_time(&self) -> Duration {
        let Some(next_ms) = self.shared.state().expiries().next_ms() else { return IDLE_INTERVAL };
        let now_ms = self.shared.options.clock.now_ms();
        Duration::from_millis(next_ms.saturating_sub(now_ms)).min(IDLE_INTERVAL)
    }
}
