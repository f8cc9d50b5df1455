//! Removes the Secrets of bootstrap tokens whose time is over. Each is looked at when it ends, and not before.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::requests::delete_as_seen;
use crate::work_queue::{Outcome, WorkQueue};

/// Where bootstrap tokens are kept.
const NAMESPACE: &str = "kube-system";
/// Only Secrets of their type are watched.
const SELECTOR: &str = "type=bootstrap.kubernetes.io/token";
/// The key that says when a token ends.
const EXPIRATION: &str = "expiration";
/// The longest time that is waited without looking again: clocks are set, and timers have their limits.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// See the module.
pub(crate) struct BootstrapTokens {
    secrets: Api<Secret>,
    queue: WorkQueue<String>,
}

/// How much time a token has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remaining {
    Unlimited,
    For(Duration),
    Over,
}

impl BootstrapTokens {
    pub fn new(client: Client) -> Self {
        Self { secrets: Api::namespaced(client, NAMESPACE), queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let removing = self.queue.work("bootstrap-tokens", 1, |name| async move { self.look_at(&name).await });
        tokio::join!(self.watch(), removing);
    }

    async fn watch(&self) {
        let config = watcher::Config::default().fields(SELECTOR);
        let mut events = watcher::watcher(self.secrets.clone(), config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(secret) | Event::Apply(secret)) => match remaining(&secret, Timestamp::now()) {
                    Remaining::Unlimited => {}
                    Remaining::For(left) => self.queue.add_after(secret.name_any(), left.min(WAIT_MAX)),
                    Remaining::Over => self.queue.add(secret.name_any()),
                },
                Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                Err(error) => tracing::debug!(%error, "watch of bootstrap tokens interrupted"),
            }
        }
    }

    async fn look_at(&self, name: &str) -> Result<Outcome, Error> {
        let Some(secret) = self.secrets.get_opt(name).await? else { return Ok(Outcome::Done) };
        match remaining(&secret, Timestamp::now()) {
            Remaining::Unlimited => return Ok(Outcome::Done),
            Remaining::For(left) => return Ok(Outcome::After(left.min(WAIT_MAX))),
            Remaining::Over => {}
        }
        tracing::info!(secret = name, "a bootstrap token has expired and is removed");
        delete_as_seen(&self.secrets, &secret).await.map(|()| Outcome::Done)
    }
}

/// A time that cannot be read is over, as upstream has it.
fn remaining(secret: &Secret, now: Timestamp) -> Remaining {
    let end = secret.data.as_ref().and_then(|data| data.get(EXPIRATION)).map(|value| value.0.as_slice());
    let Some(end) = end.filter(|end| !end.is_empty()) else { return Remaining::Unlimited };
    let end = std::str::from_utf8(end).ok().and_then(|text| text.parse::<Timestamp>().ok());
    let left = end.and_then(|end| Duration::try_from(end.duration_since(now)).ok());
    left.filter(|left| !left.is_zero()).map_or(Remaining::Over, Remaining::For)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn a_token_has_the_time_its_secret_says() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let of = |end: Option<&str>| {
            let data = end.map(|end| [(EXPIRATION.to_owned(), ByteString(end.as_bytes().to_vec()))].into());
            remaining(&Secret { data, ..Secret::default() }, now)
        };
        assert_eq!(of(None), Remaining::Unlimited);
        assert_eq!(of(Some("")), Remaining::Unlimited);
        assert_eq!(of(Some("2026-01-01T01:00:10+01:00")), Remaining::For(Duration::from_secs(10)));
        assert_eq!(of(Some("2026-01-01T00:00:00Z")), Remaining::Over);
        assert_eq!(of(Some("tomorrow")), Remaining::Over);
    }
}
