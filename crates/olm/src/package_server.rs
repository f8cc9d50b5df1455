//! The API server of PackageManifests, `packages.operators.coreos.com/v1`: behind the control plane as OLM's package
//! server is, registered by an APIService, read-only. The control plane decides who may ask; nobody else gets in, as only
//! its certificate is accepted.

mod identity;

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::query::Query;
use bailiwick_machinery::resource::GroupResource;
use bailiwick_machinery::selector::{FieldSelector, LabelSelector};
use bailiwick_machinery::status::ApiError;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use crate::catalogs::{Catalog, CatalogKey, Catalogs};
use crate::crds::MANAGER;
use crate::error::Error;
use crate::kinds::API_SERVICE;
use crate::object::text;
use crate::package_manifest;
use identity::Identity;

pub(crate) const GROUP: &str = "packages.operators.coreos.com";
const VERSION: &str = "v1";
/// The service OLM's package server has.
pub const SERVICE: &str = "packageserver-service";
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often registering is tried until it works.
const REGISTER_INTERVAL: Duration = Duration::from_millis(200);
/// Connections at once: the control plane needs a few.
const CONNECTIONS_MAX: usize = 64;

/// Where PackageManifests are served.
#[derive(Debug)]
pub struct PackageServer {
    /// Where the control plane connects to.
    pub listener: TcpListener,
    pub announcement: Announcement,
}

/// How the control plane learns where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// It knows: the service `packageserver-service` of the global namespace was mapped.
    Mapped,
    /// By an annotation of the APIService with the listener's own address.
    Annotated,
    /// By an annotation of the APIService with this URL, where others reach the listener.
    At(String),
}

/// Serves for as long as it is polled.
pub(crate) async fn serve(
    client: &Client,
    server: PackageServer,
    namespace: &str,
    catalogs: Arc<Catalogs>,
) -> Result<Infallible, Error> {
    let io = |error| Error::Io { what: "serving PackageManifests".to_owned(), error };
    let address = server.listener.local_addr().map_err(io)?;
    server.listener.set_nonblocking(true).map_err(io)?;
    let listener = tokio::net::TcpListener::from_std(server.listener).map_err(io)?;
    // At a first start the namespace is made by whoever does the work, which may be another server.
    let Identity { tls, front_proxies, .. } = loop {
        let registered = async {
            let identity = identity::of(client, namespace).await?;
            register(client, namespace, &identity.ca_pem, &server.announcement, address).await?;
            Ok::<_, Error>(identity)
        };
        match registered.await {
            Ok(identity) => break identity,
            Err(error) => {
                tracing::debug!(%error, "PackageManifests are not served yet");
                tokio::time::sleep(REGISTER_INTERVAL).await;
            }
        }
    };
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let answering = Arc::new(Answering { catalogs, global: namespace.to_owned() });
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    // Connections end with us.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { std::future::pending().await };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (acceptor, answering, front_proxies) = (acceptor.clone(), answering.clone(), front_proxies.clone());
        connections.spawn(async move {
            let _place = place;
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            if !certificate.is_some_and(|certificate| identity::is_front_proxy(&front_proxies, certificate)) {
                return;
            }
            let service = service_fn(move |request: Request<Incoming>| {
                let answering = answering.clone();
                async move { Ok::<_, Infallible>(answering.answer(request).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn register(
    client: &Client,
    namespace: &str,
    ca_pem: &str,
    announcement: &Announcement,
    address: std::net::SocketAddr,
) -> Result<(), Error> {
    use base64::Engine as _;
    let name = format!("{VERSION}.{GROUP}");
    let annotations = match announcement {
        Announcement::Mapped => json!({}),
        Announcement::Annotated => json!({"bailiwick.dev/service-url": format!("https://{address}")}),
        Announcement::At(url) => json!({"bailiwick.dev/service-url": url}),
    };
    let service = json!({
        "apiVersion": API_SERVICE.api_version(), "kind": API_SERVICE.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "group": GROUP, "version": VERSION, "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"name": SERVICE, "namespace": namespace},
            "caBundle": base64::engine::general_purpose::STANDARD.encode(ca_pem),
        },
    });
    let parameters = PatchParams::apply(MANAGER).force();
    API_SERVICE.all(client).patch(&name, &parameters, &Patch::Apply(&service)).await?;
    Ok(())
}

struct Answering {
    catalogs: Arc<Catalogs>,
    global: String,
}

/// An answer that is not an error.
enum Content {
    Json(Value),
    Picture(String, Vec<u8>),
}

impl Answering {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        // Indexes are read from files.
        let answering = tokio::task::spawn_blocking(move || self.content(&request)).await;
        match answering {
            Ok(Ok(Content::Json(value))) => response(StatusCode::OK, "application/json", value.to_string()),
            Ok(Ok(Content::Picture(kind, data))) => response(StatusCode::OK, &kind, data),
            Ok(Err(error)) => refused(&error),
            Err(error) => refused(&ApiError::internal(error)),
        }
    }

    fn content(&self, request: &Request<Incoming>) -> Result<Content, ApiError> {
        let resource = resource();
        let path = request.uri().path().trim_matches('/');
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let segments: Vec<&str> = path.split('/').collect();
        let base = ["apis", GROUP, VERSION];
        let Some(rest) = segments.strip_prefix(&base) else {
            return match segments.as_slice() {
                ["apis"] => Ok(Content::Json(group_list())),
                ["apis", GROUP] => Ok(Content::Json(group())),
                ["openapi", "v2"] => Ok(Content::Json(openapi())),
                ["healthz" | "readyz" | "livez"] => Ok(Content::Json("ok".into())),
                _ => Err(ApiError::unknown_path()),
            };
        };
        let (namespace, name, subresource) = match rest {
            [] => return Ok(Content::Json(resource_list())),
            ["packagemanifests"] => (None, None, None),
            ["namespaces", namespace, "packagemanifests"] => (Some(*namespace), None, None),
            ["namespaces", namespace, "packagemanifests", name] => (Some(*namespace), Some(*name), None),
            ["namespaces", namespace, "packagemanifests", name, sub] => (Some(*namespace), Some(*name), Some(*sub)),
            _ => return Err(ApiError::unknown_path()),
        };
        if request.method() != Method::GET {
            return Err(ApiError::method_not_supported(&resource, &request.method().as_str().to_lowercase()));
        }
        if query.flag("watch") == Some(true) {
            return Err(ApiError::method_not_supported(&resource, "watch"));
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let as_table = accept.split(',').next().is_some_and(|first| first.contains("as=Table"));
        let Some(name) = name else { return self.list(namespace, &query, as_table).map(Content::Json) };
        let catalogs = self.visible(namespace);
        let mut found = catalogs.iter().filter_map(|catalog| package_manifest::manifest(catalog, name, namespace));
        let manifest = found.next().ok_or_else(|| ApiError::not_found(&resource, name))?;
        match subresource {
            None if as_table => Ok(Content::Json(table(&[manifest]))),
            None => Ok(Content::Json(manifest)),
            Some("icon") => {
                let (kind, data) =
                    package_manifest::icon(&manifest).ok_or_else(|| ApiError::not_found(&resource, name))?;
                Ok(Content::Picture(kind, data))
            }
            Some(_) => Err(ApiError::unknown_path()),
        }
    }

    /// Those that are shown in a namespace; its own come first.
    fn visible(&self, namespace: Option<&str>) -> Vec<Arc<Catalog>> {
        let Some(namespace) = namespace else { return self.catalogs.sources() };
        let mut visible = self.catalogs.visible_in(namespace, &self.global);
        visible.sort_by_key(|catalog| match &catalog.key {
            CatalogKey::Source { namespace: own, .. } => own != namespace,
            CatalogKey::Cluster { .. } => true,
        });
        visible
    }

    fn list(&self, namespace: Option<&str>, query: &Query, as_table: bool) -> Result<Value, ApiError> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let labels = labels.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default());
        let fields = fields.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut items = Vec::new();
        for catalog in self.visible(namespace) {
            for (package, _) in catalog.index.packages() {
                if fields.exact_name().is_some_and(|name| name != package) {
                    continue;
                }
                let manifest = match as_table && labels.is_empty() {
                    true => row_only(&catalog, package, namespace),
                    false => package_manifest::manifest(&catalog, package, namespace),
                };
                items.extend(manifest.filter(|manifest| {
                    let own = &manifest["metadata"]["labels"];
                    labels.matches(|key| own.get(key).and_then(Value::as_str))
                }));
            }
        }
        Ok(match as_table {
            true => table(&items),
            false => json!({
                "kind": "PackageManifestList", "apiVersion": format!("{GROUP}/{VERSION}"),
                "metadata": {"resourceVersion": ""}, "items": items,
            }),
        })
    }
}

/// As much of a PackageManifest as a table has, for which nothing is read.
fn row_only(catalog: &Catalog, package: &str, namespace: Option<&str>) -> Option<Value> {
    let CatalogKey::Source { namespace: own, name } = &catalog.key else { return None };
    Some(json!({
        "metadata": {
            "name": package, "namespace": namespace.unwrap_or(own), "creationTimestamp": catalog.created,
            "labels": {"catalog": name, "catalog-namespace": own},
        },
        "status": {"catalogSourceDisplayName": catalog.display_name},
    }))
}

fn table(manifests: &[Value]) -> Value {
    let now = jiff::Timestamp::now();
    let row = |manifest: &Value| {
        let metadata = &manifest["metadata"];
        let created: Option<jiff::Timestamp> = text(manifest, "/metadata/creationTimestamp").parse().ok();
        let age = created.map(|created| bailiwick_api::columns::human_duration(now.duration_since(created)));
        json!({
            "cells": [metadata["name"], manifest["status"]["catalogSourceDisplayName"], age.unwrap_or_default()],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
        })
    };
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": ""},
        "columnDefinitions": [
            column("Name", "name", "The name of the package."),
            column("Catalog", "", "The display name of the catalog that has it."),
            column("Age", "", "The age of the catalog."),
        ],
        "rows": manifests.iter().map(row).collect::<Vec<_>>(),
    })
}

fn resource() -> GroupResource {
    GroupResource { group: GROUP.to_owned(), resource: "packagemanifests".to_owned() }
}

fn resource_list() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [
            {"name": "packagemanifests", "singularName": "packagemanifest", "namespaced": true,
             "kind": "PackageManifest", "verbs": ["get", "list"]},
            {"name": "packagemanifests/icon", "singularName": "", "namespaced": true, "kind": "PackageManifest",
             "verbs": ["get"]},
        ],
    })
}

fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version.clone()],
        "preferredVersion": version,
    })
}

fn group_list() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]})
}

/// What `kubectl explain` shows.
fn openapi() -> Value {
    let prefix = "com.coreos.operators.packages.v1";
    let string = |description: &str| json!({"type": "string", "description": description});
    let reference = |name: &str| json!({"$ref": format!("#/definitions/{prefix}.{name}")});
    let collection = format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/packagemanifests");
    let kind = json!({"group": GROUP, "version": VERSION, "kind": "PackageManifest"});
    let operation = |id: &str, action: &str| {
        json!({"get": {
            "operationId": id, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
            "responses": {"200": {"description": "OK", "schema": reference("PackageManifest")}},
        }})
    };
    json!({
        "swagger": "2.0", "info": {"title": "PackageManifests", "version": VERSION},
        "paths": {
            format!("{collection}/{{name}}"): operation("readPackageManifest", "get"),
            collection: operation("listPackageManifest", "list"),
        },
        "definitions": {
            format!("{prefix}.PackageManifest"): {
                "type": "object", "description": "A package that a catalog offers.",
                "properties": {
                    "apiVersion": string("The version of this representation."), "kind": string("PackageManifest."),
                    "metadata": {"type": "object"}, "spec": {"type": "object"},
                    "status": reference("PackageManifestStatus"),
                },
                "x-kubernetes-group-version-kind": [{"group": GROUP, "version": VERSION, "kind": "PackageManifest"}],
            },
            format!("{prefix}.PackageManifestStatus"): {
                "type": "object", "description": "What the catalog says of the package.",
                "properties": {
                    "catalogSource": string("The CatalogSource that has it."),
                    "catalogSourceNamespace": string("Its namespace."),
                    "catalogSourceDisplayName": string("Its name for people."),
                    "catalogSourcePublisher": string("Who publishes it."),
                    "packageName": string("The package."),
                    "defaultChannel": string("The channel that is followed if none is named."),
                    "channels": {"type": "array", "description": "The channels with their newest versions.",
                        "items": reference("PackageChannel")},
                    "provider": {"type": "object", "description": "Who makes the operator."},
                },
            },
            format!("{prefix}.PackageChannel"): {
                "type": "object", "description": "A channel of versions.",
                "properties": {
                    "name": string("The channel."), "currentCSV": string("Its newest version."),
                    "currentCSVDesc": {"type": "object", "description": "What that version says of itself."},
                    "entries": {"type": "array", "description": "All versions of the channel.",
                        "items": {"type": "object"}},
                },
            },
        },
    })
}

fn response(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_str(kind);
    let kind = kind.unwrap_or_else(|_| header::HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn refused(error: &ApiError) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response(status, "application/json", error.to_status().to_string())
}
