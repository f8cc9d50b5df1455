//! Objects every control plane has from its first start, made through the API like all others.

mod roles;

use std::sync::Arc;

use bailiwick_machinery::user::UserInfo;
use bailiwick_server::{ApiServer, Connection, Priority};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::flow_objects;

/// Who is named as the manager of what we make: the name clients know the API server's own fields by.
const AGENT: &str = "kube-apiserver";

/// Namespaces that always exist.
pub(crate) const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

/// The name of the server to itself.
pub(crate) const OWN_USER: &str = "system:apiserver";

/// Who the server is to itself.
pub(crate) fn own_user() -> UserInfo {
    UserInfo {
        name: OWN_USER.into(),
        groups: vec![UserInfo::MASTERS.into(), UserInfo::AUTHENTICATED.into()],
        ..UserInfo::default()
    }
}

/// Creates what is missing. What exists is left as it is.
pub async fn ensure_objects(server: &Arc<ApiServer>) -> Result<(), String> {
    let connection = Arc::new(Connection::in_process(own_user()));
    for name in SYSTEM_NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, &connection, "/api/v1/namespaces", name, &namespace).await?;
    }
    roles::ensure(server, &connection).await?;
    flow_objects::ensure(server, &connection).await?;
    for (group, version) in server.root().group_versions() {
        let service = api_service(&group, &version);
        let name = format!("{version}.{group}");
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        ensure(server, &connection, path, &name, &service).await?;
    }
    Ok(())
}

/// The record that this server itself serves a group version.
fn api_service(group: &str, version: &str) -> Value {
    let rank = Priority::of_group(group);
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": rank.group, "versionPriority": rank.version,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec,
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available",
            "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]},
    })
}

/// Creates the object unless it is there or its type is not served.
async fn ensure(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    collection: &str,
    name: &str,
    object: &Value,
) -> Result<(), String> {
    let get = http::Request::get(format!("{collection}/{name}")).body(Full::default());
    let status = send(server, connection, get).await?.0;
    if status == 200 {
        return Ok(());
    }
    let create = http::Request::post(collection)
        .header("user-agent", AGENT)
        .header("content-type", "application/json")
        .body(Full::from(object.to_string()));
    match send(server, connection, create).await? {
        (201, _) if object.get("status").is_some() => {
            let patch = http::Request::patch(format!("{collection}/{name}/status"))
                .header("user-agent", AGENT)
                .header("content-type", "application/merge-patch+json")
                .body(Full::from(json!({"status": object["status"]}).to_string()));
            match send(server, connection, patch).await? {
                (200, _) => Ok(()),
                (status, text) => Err(format!("{collection} {name}/status: {status} {text}")),
            }
        }
        (201 | 409, _) => Ok(()),
        (404, _) if status == 404 && !exists(server, connection, collection).await? => Ok(()),
        (status, text) => Err(format!("{collection} {name}: {status} {text}")),
    }
}

async fn exists(server: &Arc<ApiServer>, connection: &Arc<Connection>, collection: &str) -> Result<bool, String> {
    let list = http::Request::get(format!("{collection}?limit=1")).body(Full::default());
    Ok(send(server, connection, list).await?.0 == 200)
}

pub(crate) async fn send(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    request: Result<http::Request<Full<bytes::Bytes>>, http::Error>,
) -> Result<(u16, String), String> {
    let request = request.map_err(|error| error.to_string())?;
    let response = server.handle(request, connection.clone()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}
