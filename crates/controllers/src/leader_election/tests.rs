use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use super::*;

/// An API with one lease. `conflicts` says which updates, counted from one, somebody else's write comes before.
struct Leases {
    stored: Mutex<Option<Value>>,
    updates: AtomicUsize,
    conflicts: fn(usize) -> bool,
}

impl Leases {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
        let method = request.method().clone();
        let sent = request.into_body().collect().await.expect("a whole request").to_bytes();
        let (status, body) = match method {
            Method::GET => match self.stored.lock().unwrap().clone() {
                Some(lease) => (StatusCode::OK, lease),
                None => refusal(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::PUT if (self.conflicts)(self.updates.fetch_add(1, Ordering::Relaxed) + 1) => {
                refusal(StatusCode::CONFLICT, "Conflict")
            }
            _ => {
                let lease: Value = serde_json::from_slice(&sent).expect("a lease");
                *self.stored.lock().unwrap() = Some(lease.clone());
                (StatusCode::OK, lease)
            }
        };
        let mut response = Response::new(Full::from(body.to_string()));
        *response.status_mut() = status;
        Ok(response)
    }
}

fn refusal(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason,
                      "reason": reason, "code": status.as_u16()});
    (status, body)
}

struct Served(Arc<Leases>);

impl Service<Request<Body>> for Served {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.clone().answer(request).boxed()
    }
}

/// How often work began and how often it ended within a minute (of paused time), and what metrics say then.
async fn led(conflicts: fn(usize) -> bool) -> (usize, usize, String) {
    let leases = Arc::new(Leases { stored: Mutex::default(), updates: AtomicUsize::new(0), conflicts });
    let client = Client::new(Served(leases), "default");
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |_: BoxFuture<'static, ()>| {
        begun.fetch_add(1, Ordering::Relaxed);
        let ends = Ends(&ended);
        async move {
            let _ends = ends;
            std::future::pending::<()>().await;
        }
    };
    let election = LeaderElection::named("test");
    let metrics = election.metrics.clone();
    // Pinned here, so that work that still goes on is not dropped before its end is looked for.
    let mut leading = pin!(lead(client, election, work, std::future::pending()));
    tokio::select! {
        () = &mut leading => unreachable!("nobody told it to end"),
        () = tokio::time::sleep(Duration::from_secs(60)) => {
            let mut text = String::new();
            metrics.append(&mut text);
            (begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed), text)
        }
    }
}

/// Counts when it is dropped.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_somebody_edits_goes_on_leading() {
    let (begun, ended, metrics) = led(|update| update % 2 == 1).await;
    assert_eq!((begun, ended), (1, 0));
    assert!(metrics.contains("leader_election_master_status{name=\"test\"} 1\n"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_until_the_deadline_ends_its_work() {
    let (begun, ended, metrics) = led(|_| true).await;
    assert_eq!((begun, ended), (1, 1));
    assert!(metrics.contains("leader_election_master_status{name=\"test\"} 0\n"), "{metrics}");
}
