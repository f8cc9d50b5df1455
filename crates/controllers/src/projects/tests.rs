use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::Ready;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use kube::client::Body;
use kube::core::ApiResource;
use serde_json::{Value, json};
use tower_service::Service;

use super::*;
use crate::discovery::Scope;
use crate::work_queue::Outcome;

/// A server on which every project is gone.
struct AllGone;

impl Service<Request<Body>> for AllGone {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                             "reason": "NotFound", "message": "not found",
                             "details": {"name": "shop", "group": "resourcemanager.miloapis.com", "kind": "projects"}});
        let mut response = Response::new(Full::from(refusal.to_string()));
        *response.status_mut() = StatusCode::NOT_FOUND;
        futures::future::ready(Ok(response))
    }
}

fn controllers() -> ProjectControllers {
    ProjectControllers::new(Client::new(AllGone, "default"), &crate::Options::default())
}

fn shop() -> Plane {
    Plane::project("shop")
}

fn seen(kind: Kind, plural: &str, metadata: Value) -> Seen {
    let meta: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
    let scope = if meta.namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
    let api = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Any".to_owned(),
        plural: plural.to_owned(),
    };
    Seen { kind, resource: Arc::new(ResourceType::new(api, scope)), meta }
}

fn deleting() -> Seen {
    seen(Kind::Modified, "namespaces", json!({"name": "team", "deletionTimestamp": "2026-01-02T03:04:05Z"}))
}

/// Tells of something of every kind that is remembered.
fn tell_much(controllers: &ProjectControllers) {
    controllers.changed(&shop(), &deleting());
    controllers.changed(&shop(), &seen(Kind::Added, "resourcequotas", json!({"name": "q", "namespace": "team"})));
    let owner = json!({"apiVersion": "v1", "kind": "Any", "name": "owner", "uid": "1"});
    let owned = json!({"name": "owned", "uid": "2", "namespace": "team", "ownerReferences": [owner]});
    controllers.changed(&shop(), &seen(Kind::Added, "configmaps", owned));
    controllers.state().emptying.insert(shop());
}

/// How much is remembered of projects, by kind.
fn remembered(controllers: &ProjectControllers) -> [usize; 5] {
    let collectors = controllers.collectors().len();
    let state = controllers.state();
    [state.terminating.len(), state.quotas.len(), state.emptying.len(), state.asked.len(), collectors]
}

#[tokio::test]
async fn a_namespace_that_went_with_its_project_does_not_hide_a_later_one_of_the_name() {
    let controllers = controllers();
    controllers.changed(&shop(), &deleting());
    controllers.changed(&shop(), &seen(Kind::Added, "namespaces", json!({"name": "team"})));
    assert!(controllers.state().terminating.is_empty(), "the one that is there now is not being deleted");
    controllers.changed(&shop(), &deleting());
    assert_eq!(controllers.state().terminating.len(), 1);
}

#[tokio::test]
async fn a_namespace_that_is_no_more_is_not_waited_for() {
    let controllers = controllers();
    controllers.changed(&shop(), &deleting());
    let outcome = controllers.perform(Work::Namespace(shop(), "team".to_owned())).await;
    assert_eq!(outcome.expect("nothing to do"), Outcome::Done);
    assert!(controllers.state().terminating.is_empty());
}

#[tokio::test]
async fn nothing_is_kept_of_a_project_that_is_gone() {
    let controllers = controllers();
    tell_much(&controllers);
    controllers.changed(&Plane::project("other"), &deleting());
    assert_eq!(remembered(&controllers), [2, 1, 1, 0, 1]);
    let outcome = controllers.perform(Work::Roles(shop())).await;
    assert_eq!(outcome.expect("nothing to do"), Outcome::Done);
    assert_eq!(remembered(&controllers), [1, 0, 0, 0, 0], "the other project's");
}

#[tokio::test]
async fn what_is_told_of_a_new_project_while_the_old_one_is_asked_is_kept() {
    let controllers = controllers();
    let asking = async {
        tell_much(&controllers);
        controllers.perform(Work::Roles(shop())).await
    };
    let outcome = controllers.ask(&shop(), asking).await;
    assert_eq!(outcome.expect("to be looked at again"), Outcome::Backoff);
    assert_eq!(remembered(&controllers), [1, 1, 1, 0, 1]);
}
