//! The control plane that an object belongs to, and the way to its API.

pub mod stream;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use tower_service::Service;

use crate::work_queue::WorkQueue;

/// The root control plane, or that of a project.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plane(Option<Arc<str>>);

impl Plane {
    /// The one that has no name.
    pub const ROOT: Plane = Plane(None);

    /// That of a project.
    pub fn project(name: &str) -> Self {
        Plane(Some(Arc::from(name)))
    }

    /// The project's name; none for the root.
    pub fn project_name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("/"))
    }
}

/// The way to the API of a plane. Keeps no connection and no task: a client is made when there is something to ask.
#[derive(Clone)]
pub struct PlaneClient {
    root: Client,
    plane: Plane,
}

impl From<Client> for PlaneClient {
    fn from(root: Client) -> Self {
        Self { root, plane: Plane::ROOT }
    }
}

impl PlaneClient {
    /// The API of `plane`, on the server that `root` leads to.
    pub fn of(root: &Client, plane: &Plane) -> Self {
        Self { root: root.clone(), plane: plane.clone() }
    }

    /// A client; cheap for the root, and a short-lived task for a project.
    pub fn get(&self) -> Client {
        match &self.plane.0 {
            None => self.root.clone(),
            Some(project) => {
                let prefix = format!("/projects/{project}");
                Client::new(Prefixed { client: self.root.clone(), prefix }, self.root.default_namespace())
            }
        }
    }
}

/// Sends requests to paths below a prefix.
#[derive(Clone)]
struct Prefixed {
    client: Client,
    prefix: String,
}

impl Service<Request<Body>> for Prefixed {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let below = format!("{}{path}", self.prefix);
        Box::pin(async move {
            *request.uri_mut() = Uri::try_from(below)?;
            Ok(client.send(request).await?)
        })
    }
}

/// The part of a shared queue that belongs to one plane.
pub(crate) struct PlaneQueue<K> {
    plane: Plane,
    pub shared: Arc<WorkQueue<(Plane, K)>>,
}

impl<K: Clone + Ord + std::hash::Hash + fmt::Debug> PlaneQueue<K> {
    pub fn new(plane: &Plane, shared: &Arc<WorkQueue<(Plane, K)>>) -> Self {
        Self { plane: plane.clone(), shared: shared.clone() }
    }

    pub fn add(&self, key: K) {
        self.shared.add((self.plane.clone(), key));
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        self.shared.add_after((self.plane.clone(), key), delay);
    }
}
