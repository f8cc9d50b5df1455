//! Removes the leases by which API servers show that they are there, once their servers have been silent for too long.
//!
//! Only these: other leases belong to whoever made them, and may be meant to stay. Each is looked at when its time would
//! be over, and not before.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::requests::delete_as_seen;
use crate::work_queue::{Outcome, WorkQueue};

/// Where servers keep their leases.
const NAMESPACE: &str = "kube-system";
/// On every such lease, with the name of the program that serves.
const LABEL: &str = "apiserver.kubernetes.io/identity";

/// See the module.
pub(crate) struct ExpiredLeases {
    leases: Api<Lease>,
    queue: WorkQueue<String>,
}

impl ExpiredLeases {
    pub fn new(client: Client) -> Self {
        ExpiredLeases { leases: Api::namespaced(client, NAMESPACE), queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let removing = self.queue.work("expired-leases", 1, |name| async move { self.look_at(&name).await });
        tokio::join!(self.watch(), removing);
    }

    async fn watch(&self) {
        let config = watcher::Config::default().labels(LABEL);
        let mut events = watcher::watcher(self.leases.clone(), config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                // A renewal moves the end, and the queue keeps the earlier date: the lease is then looked at once too often.
                Ok(Event::InitApply(lease) | Event::Apply(lease)) => {
                    let left = remaining(lease.spec.as_ref(), Timestamp::now());
                    self.queue.add_after(lease.name_any(), left);
                }
                Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                Err(error) => tracing::debug!(%error, "watch of servers' leases interrupted"),
            }
        }
    }

    async fn look_at(&self, name: &str) -> Result<Outcome, Error> {
        let Some(lease) = self.leases.get_opt(name).await? else { return Ok(Outcome::Done) };
        let left = remaining(lease.spec.as_ref(), Timestamp::now());
        if !left.is_zero() {
            return Ok(Outcome::After(left));
        }
        tracing::info!(lease = name, "a server has been silent for too long; its lease is removed");
        delete_as_seen(&self.leases, &lease).await.map(|()| Outcome::Done)
    }
}

/// How long a lease holds; no time at all if it does not say.
fn remaining(spec: Option<&LeaseSpec>, now: Timestamp) -> Duration {
    let end = spec.and_then(|spec| {
        let seconds = spec.lease_duration_seconds?;
        spec.renew_time.as_ref()?.0.checked_add(jiff::SignedDuration::from_secs(seconds.into())).ok()
    });
    let left = end.map(|end| end.duration_since(now));
    left.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_lease_holds_for_its_duration_after_the_last_renewal() {
        let renewed = Timestamp::from_second(1_000).unwrap();
        let spec = LeaseSpec {
            renew_time: Some(MicroTime(renewed)),
            lease_duration_seconds: Some(60),
            ..LeaseSpec::default()
        };
        let after = |seconds: i64| remaining(Some(&spec), Timestamp::from_second(1_000 + seconds).unwrap());
        assert_eq!(after(10), Duration::from_secs(50));
        assert_eq!(after(61), Duration::ZERO);
        let unsaid = LeaseSpec { lease_duration_seconds: None, ..spec.clone() };
        assert_eq!(remaining(Some(&unsaid), renewed), Duration::ZERO);
        assert_eq!(remaining(None, renewed), Duration::ZERO);
    }
}
