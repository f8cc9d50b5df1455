//! Where operators are installed: this control plane, or a cluster whose kubeconfig is in a Secret, in the name of this
//! service or of a service account.

use std::collections::HashMap;
use std::sync::Mutex;
use std::task::{Context as TaskContext, Poll};

use bailiwick_webhook::{Backend, BackendBody, Endpoint};
use base64::Engine as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::client::Body;
use kube::discovery::{Scope, oneshot};
use kube::{Client, ResourceExt};
use serde_json::Value;
use std::sync::Arc;
use tower_service::Service;

use crate::error::{Error, is_not_found};
use crate::kinds::SECRET;
use crate::object::{annotation, text};

/// On an OperatorGroup or a ClusterExtension: the Secret with the kubeconfig of the cluster to install to.
pub(crate) const TARGET_ANNOTATION: &str = "bailiwick.dev/target-kubeconfig";
/// Keys of the Secret that may hold it; the second is Cluster API's.
const KUBECONFIG_KEYS: [&str; 2] = ["kubeconfig", "value"];

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A control plane or cluster to install to.
pub(crate) struct Target {
    /// In whose name things are installed.
    pub client: Client,
    /// In this service's name: to look, and to remove what it has labelled.
    pub own: Client,
    /// The Secret that leads there; `None` for this control plane.
    pub secret: Option<String>,
    /// Kinds that were asked for; `None` for those that are not served.
    kinds: Mutex<HashMap<GroupVersionKind, Option<(ApiResource, Scope)>>>,
}

/// Finds targets.
pub(crate) struct Targets {
    client: Client,
}

impl Targets {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The target that an object's annotation names; its Secret is in `namespace`. With a service account everything is
    /// done in its name. The error is for whoever wrote the object.
    pub async fn of(
        &self,
        object: &DynamicObject,
        namespace: &str,
        service_account: Option<&str>,
    ) -> Result<Result<Target, String>, Error> {
        let (client, secret) = match annotation(object, TARGET_ANNOTATION) {
            None => (self.client.clone(), None),
            Some(name) => match self.elsewhere(namespace, name).await? {
                Ok(client) => (client, Some(name.to_owned())),
                Err(message) => return Ok(Err(message)),
            },
        };
        let own = client.clone();
        let client = match service_account {
            None => client,
            Some(account) => match HeaderValue::from_str(&format!("system:serviceaccount:{namespace}:{account}")) {
                Ok(user) => Client::new(Impersonating { client, user }, namespace),
                Err(_) => return Ok(Err(format!("{account:?} is no name of a service account"))),
            },
        };
        Ok(Ok(Target { client, own, secret, kinds: Mutex::default() }))
    }

    async fn elsewhere(&self, namespace: &str, name: &str) -> Result<Result<Client, String>, Error> {
        let Some(secret) = SECRET.within(&self.client, namespace).get_opt(name).await? else {
            return Ok(Err(format!("the Secret {namespace}/{name} with the kubeconfig of the target does not exist")));
        };
        let under = |key: &&str| decode_base64(text(&secret.data, &format!("/data/{key}"))).filter(|it| !it.is_empty());
        let found = KUBECONFIG_KEYS.iter().find_map(under);
        let kubeconfig = found.and_then(|data| String::from_utf8(data).ok());
        let Some(kubeconfig) = kubeconfig else {
            let keys = KUBECONFIG_KEYS.join(" nor ");
            return Ok(Err(format!("the Secret {namespace}/{name} has neither {keys} with a kubeconfig")));
        };
        let client = Remote::new(&kubeconfig).map(|remote| Client::new(remote, namespace));
        Ok(client.map_err(|error| format!("the kubeconfig in Secret {namespace}/{name}: {error}")))
    }
}

impl Target {
    /// This control plane, in this service's name.
    pub fn here(client: &Client) -> Self {
        Self { client: client.clone(), own: client.clone(), secret: None, kinds: Mutex::default() }
    }

    /// Where objects of a kind are written; `None` if they are not served there.
    pub async fn api_of(&self, object: &Value, namespace: &str) -> Result<Option<Api<DynamicObject>>, Error> {
        self.api_by(&self.client, object, namespace).await
    }

    /// The same in this service's name.
    pub async fn own_api_of(&self, object: &Value, namespace: &str) -> Result<Option<Api<DynamicObject>>, Error> {
        self.api_by(&self.own, object, namespace).await
    }

    /// The object that stands where another is to be written, if there is one.
    pub async fn present(&self, object: &Value, namespace: &str) -> Result<Option<DynamicObject>, Error> {
        let Some(api) = self.own_api_of(object, namespace).await? else { return Ok(None) };
        Ok(api.get_opt(text(object, "/metadata/name")).await?)
    }

    async fn api_by(
        &self,
        client: &Client,
        object: &Value,
        namespace: &str,
    ) -> Result<Option<Api<DynamicObject>>, Error> {
        let api_version = text(object, "/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, text(object, "/kind"));
        let namespace = match text(object, "/metadata/namespace") {
            "" => namespace,
            own => own,
        };
        let Some((resource, scope)) = self.kind(gvk).await? else { return Ok(None) };
        Ok(Some(match scope {
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        }))
    }

    /// Whether a kind is served there.
    pub async fn serves(&self, group: &str, version: &str, kind: &str) -> Result<bool, Error> {
        Ok(self.kind(GroupVersionKind::gvk(group, version, kind)).await?.is_some())
    }

    /// The kinds of what is deleted with its owner, as far as they are served.
    pub async fn kind(&self, gvk: GroupVersionKind) -> Result<Option<(ApiResource, Scope)>, Error> {
        let lock = || self.kinds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = lock().get(&gvk) {
            return Ok(known.clone());
        }
        let found = match oneshot::pinned_kind(&self.own, &gvk).await {
            Ok((resource, capabilities)) => Some((resource, capabilities.scope)),
            Err(kube::Error::Discovery(_)) => None,
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error.into()),
        };
        lock().insert(gvk, found.clone());
        Ok(found)
    }

    /// A kind was defined meanwhile.
    pub fn look_again(&self) {
        let mut kinds = self.kinds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kinds.retain(|_, found| found.is_some());
    }

    /// How messages call it.
    pub fn name(&self) -> String {
        match &self.secret {
            None => "this control plane".to_owned(),
            Some(secret) => format!("the cluster of Secret {secret}"),
        }
    }
}

pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', '\r'], "")).ok()
}

/// Requests in the name of somebody else.
struct Impersonating {
    client: Client,
    user: HeaderValue,
}

impl Service<Request<Body>> for Impersonating {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert("impersonate-user", self.user.clone());
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await.map_err(Into::into) })
    }
}

/// Requests to another cluster.
struct Remote {
    backend: Arc<Backend>,
    endpoint: Arc<Endpoint>,
    /// Of the kubeconfig's server, without a slash at its end.
    path: String,
}

impl Remote {
    fn new(kubeconfig: &str) -> Result<Self, String> {
        let mut endpoint = Endpoint::from_tenants_kubeconfig(kubeconfig)?;
        let uri: Uri = endpoint.url.parse().map_err(|_| format!("{:?} is no URL", endpoint.url))?;
        let authority = uri.authority().ok_or_else(|| format!("{:?} names no host", endpoint.url))?;
        let path = uri.path().trim_end_matches('/').to_owned();
        endpoint.url = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
        let backend = Backend::new(endpoint.clone()).map_err(|error| error.to_string())?;
        Ok(Self { backend: Arc::new(backend), endpoint: Arc::new(endpoint), path })
    }
}

impl Service<Request<Body>> for Remote {
    type Response = Response<BackendBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (backend, endpoint, path) = (self.backend.clone(), self.endpoint.clone(), self.path.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let rest = parts.uri.path_and_query().map(|rest| rest.as_str()).unwrap_or("/");
            parts.uri = format!("{}{path}{rest}", backend.base()).parse()?;
            parts.version = http::Version::HTTP_11;
            if let Some(value) = endpoint.authorization().await? {
                parts.headers.insert(header::AUTHORIZATION, value);
            }
            let body = body.map_err(|error| -> BoxError { error.into() }).boxed_unsync();
            Ok(backend.request(Request::from_parts(parts, body)).await?)
        })
    }
}

/// The names of namespaces that a target has.
pub(crate) async fn namespaces(client: &Client) -> Result<Vec<DynamicObject>, Error> {
    let list = crate::kinds::NAMESPACE.all(client).list(&kube::api::ListParams::default()).await?;
    let mut items = list.items;
    items.sort_by_key(ResourceExt::name_any);
    Ok(items)
}
