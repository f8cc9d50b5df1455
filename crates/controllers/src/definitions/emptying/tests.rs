use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower_service::Service;

use super::*;
use crate::discovery::Scope;
use crate::work_queue::Outcome;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// An API with two instances that wait for their finalizers, which are let go in turn.
#[derive(Default)]
struct Instances {
    requests: AtomicUsize,
    let_go: Notify,
}

fn instance(uid: &str, revision: &str) -> Value {
    let metadata = json!({"name": uid, "uid": uid, "resourceVersion": revision, "finalizers": ["example.com/wait"],
                          "deletionTimestamp": "2026-01-02T03:04:05Z"});
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

impl Instances {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Answer>, Infallible> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if !is_watch {
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                              "metadata": {"resourceVersion": "5"}, "items": [instance("a", "1"), instance("b", "2")]});
            return Ok(Response::new(Full::from(list.to_string()).boxed_unsync()));
        }
        let deletions = futures::stream::iter([("a", "6"), ("b", "7")]).then(move |(uid, revision)| {
            let api = self.clone();
            async move {
                api.let_go.notified().await;
                let line = format!("{}\n", json!({"type": "DELETED", "object": instance(uid, revision)}));
                Ok::<_, Infallible>(Frame::data(line.into()))
            }
        });
        let endless = deletions.chain(futures::stream::pending());
        Ok(Response::new(StreamBody::new(endless).boxed_unsync()))
    }
}

struct Served(Arc<Instances>);

impl Service<Request<Body>> for Served {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Answer>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.clone().answer(request).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_taken_up_again_when_its_last_instance_has_gone_and_nothing_is_asked_meanwhile() {
    let api = Arc::new(Instances::default());
    let queue = Arc::new(WorkQueue::new());
    let emptying = Emptying::new(Client::new(Served(api.clone()), "default"), queue.clone());
    let plural = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    emptying.follow("things.example.com".to_owned(), ResourceType::new(plural.clone(), Scope::Cluster));
    emptying.follow("things.example.com".to_owned(), ResourceType::new(plural, Scope::Cluster));

    let (queued, mut names) = tokio::sync::mpsc::channel(1);
    let worker = queue.clone();
    let working = tokio::spawn(async move {
        worker
            .work("test", 1, |name| {
                let queued = queued.clone();
                async move {
                    let _ = queued.send(name).await;
                    Ok::<_, crate::error::Error>(Outcome::Done)
                }
            })
            .await;
    });
    // Less than a watch lasts before it is renewed.
    let a_while = Duration::from_secs(200);
    tokio::time::sleep(a_while).await;
    assert_eq!(api.requests.load(Ordering::Relaxed), 2, "one list and one watch");
    api.let_go.notify_one();
    tokio::time::sleep(a_while).await;
    assert!(names.try_recv().is_err(), "one instance is left");
    api.let_go.notify_one();
    assert_eq!(names.recv().await.as_deref(), Some("things.example.com"));
    assert_eq!(api.requests.load(Ordering::Relaxed), 2);
    working.abort();
}
