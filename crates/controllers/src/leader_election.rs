//! Leader election by Lease, as clients of Kubernetes do it: of several programs that could do some work one does.
//!
//! Clocks of candidates are never compared: a lease has expired when a candidate has seen it unchanged for its whole
//! duration. A leader that cannot renew in time stops working before others may begin.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{is_already_there, is_conflict};
use crate::metrics::Metrics;
use crate::{Options, run_restarting};

/// How long an ending leader tries to let go of its lease.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Which lease, who asks for it, and how long things take.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    /// Who we are; must differ between candidates.
    pub identity: String,
    /// How long others wait for a leader that is silent.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How often the lease is renewed, or looked at by those who wait.
    pub retry_period: Duration,
    /// Where it is shown who leads.
    pub metrics: Metrics,
}

impl LeaderElection {
    /// The lease of the generic controllers.
    pub fn of_controllers() -> Self {
        Self::named("bailiwick-controllers")
    }

    /// A lease in kube-system, with upstream's times. The identity is this machine and process.
    pub fn named(name: &str) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let nanos = Timestamp::now().as_nanosecond();
        Self {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            identity: format!("{}_{}-{nanos:x}", host.trim(), std::process::id()),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            metrics: Metrics::default(),
        }
    }
}

/// Runs the controllers whenever this candidate leads, until `shutdown` is over.
pub async fn run_elected(
    client: Client,
    options: Options,
    election: LeaderElection,
    shutdown: impl Future<Output = ()>,
) {
    let work = |stopped| run_restarting(client.clone(), options.clone(), stopped);
    lead(client.clone(), election, work, shutdown).await;
}

/// Does `work` whenever this candidate leads, until `shutdown` is over. What work is given says when to end. A leader
/// that is told to end lets go of the lease, so that the next one need not wait.
pub async fn lead<W, F>(client: Client, election: LeaderElection, mut work: W, shutdown: impl Future<Output = ()>)
where
    W: FnMut(BoxFuture<'static, ()>) -> F,
    F: Future<Output = ()>,
{
    let mut shutdown = pin!(shutdown);
    let (metrics, name) = (election.metrics.clone(), election.name.clone());
    metrics.leads(&name, false);
    let mut candidate =
        Candidate { api: Api::namespaced(client, &election.namespace), election, seen: None, seen_at: Instant::now() };
    loop {
        tokio::select! {
            () = candidate.acquire() => {}
            () = &mut shutdown => return,
        }
        tracing::info!(identity = candidate.election.identity, lease = candidate.election.name, "leading");
        metrics.leads(&name, true);
        let (stop, stopped) = oneshot::channel::<()>();
        let work = work(Box::pin(async move {
            // An error says that the sender is gone, which is the signal.
            let _ = stopped.await;
        }));
        let mut work = pin!(work);
        let told_to_end = tokio::select! {
            () = candidate.hold() => false,
            () = &mut shutdown => true,
            () = &mut work => false,
        };
        drop(stop);
        metrics.leads(&name, false);
        if told_to_end {
            work.await;
            // With a store that does not answer the next leader waits for the lease to expire, and we do not wait at all.
            if tokio::time::timeout(RELEASE_TIMEOUT, candidate.release()).await.is_err() {
                tracing::warn!(lease = candidate.election.name, "the lease was not released in time");
            }
            return;
        }
        tracing::warn!(identity = candidate.election.identity, lease = candidate.election.name, "no longer leading");
        // The work of a leader that lost its lease must not go on; dropping it ends it at once.
    }
}

struct Candidate {
    api: Api<Lease>,
    election: LeaderElection,
    /// The lease as it was when it last changed, and when that was by our own clock.
    seen: Option<LeaseSpec>,
    seen_at: Instant,
}

/// What came of asking for the lease.
enum Asked {
    Ours,
    Theirs,
    /// Somebody wrote it while we did. Who has it now is seen when it is asked for again.
    Changed,
}

impl Candidate {
    /// Returns once the lease is ours.
    async fn acquire(&mut self) {
        loop {
            match self.ask().await {
                Ok(Asked::Ours) => return,
                Ok(Asked::Theirs | Asked::Changed) => {}
                Err(error) => tracing::warn!(%error, lease = self.election.name, "the lease cannot be had"),
            }
            tokio::time::sleep(self.election.retry_period).await;
        }
    }

    /// Renews the lease for as long as that works. A renewal that fails is tried again until the deadline, as others
    /// cannot have the lease before it; one that finds another holder is not.
    async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.election.retry_period).await;
            let deadline = renewed + self.election.renew_deadline;
            match tokio::time::timeout_at(deadline, self.ask()).await {
                Ok(Ok(Asked::Ours)) => renewed = Instant::now(),
                Ok(Ok(Asked::Theirs)) | Err(_) => return,
                Ok(Ok(Asked::Changed)) => {
                    tracing::debug!(lease = self.election.name, "somebody changed the lease while it was renewed");
                }
                Ok(Err(error)) => tracing::warn!(%error, lease = self.election.name, "the lease was not renewed"),
            }
            if Instant::now() >= renewed + self.election.renew_deadline {
                return;
            }
        }
    }

    /// Takes or renews the lease if it is free, ours or expired.
    async fn ask(&mut self) -> Result<Asked, kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.election.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.election.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.ours(None)),
            };
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(created) => Ok(self.took(created)),
                Err(error) if is_already_there(&error) => Ok(Asked::Changed),
                Err(error) => Err(error),
            };
        };
        if self.seen != lease.spec {
            self.seen = lease.spec.clone();
            self.seen_at = Instant::now();
        }
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
        let alive = self.seen_at.elapsed() < Duration::from_secs(duration);
        if !holder.is_empty() && holder != self.election.identity && alive {
            return Ok(Asked::Theirs);
        }
        // The resource version of what we read makes the write fail if somebody was faster.
        lease.spec = Some(self.ours(Some(&spec)));
        match self.api.replace(&self.election.name, &PostParams::default(), &lease).await {
            Ok(replaced) => Ok(self.took(replaced)),
            Err(error) if is_conflict(&error) => Ok(Asked::Changed),
            Err(error) => Err(error),
        }
    }

    fn took(&mut self, lease: Lease) -> Asked {
        self.seen = lease.spec;
        self.seen_at = Instant::now();
        Asked::Ours
    }

    /// The lease as we want it, after `before`.
    fn ours(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let already = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.election.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.election.identity.clone()),
            lease_duration_seconds: i32::try_from(self.election.lease_duration.as_secs()).ok(),
            acquire_time: already.and_then(|spec| spec.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if already.is_some() || before.is_none() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    /// Lets go, so that the next candidate need not wait. Whoever cannot let go has others wait.
    async fn release(&self) {
        let Ok(Some(mut lease)) = self.api.get_opt(&self.election.name).await else { return };
        let Some(spec) = lease.spec.as_mut() else { return };
        if spec.holder_identity.as_ref() != Some(&self.election.identity) {
            return;
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        if let Err(error) = self.api.replace(&self.election.name, &PostParams::default(), &lease).await {
            tracing::warn!(%error, lease = self.election.name, "the lease was not released");
        }
    }
}

#[cfg(test)]
mod tests;
