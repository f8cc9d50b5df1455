//! Objects every control plane has from its first start, made through the API like all others.

use std::sync::Arc;

use bailiwick_machinery::user::UserInfo;
use bailiwick_server::{ApiServer, Connection};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// Namespaces that always exist.
const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

/// Creates what is missing. What exists is left as it is.
pub async fn ensure_objects(server: &Arc<ApiServer>) -> Result<(), String> {
    let user = UserInfo {
        name: "system:apiserver".into(),
        groups: vec![UserInfo::MASTERS.into(), UserInfo::AUTHENTICATED.into()],
        ..UserInfo::default()
    };
    let connection = Arc::new(Connection::in_process(user));
    for name in SYSTEM_NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, &connection, "/api/v1/namespaces", name, &namespace).await?;
    }
    for object in bailiwick_api::flowcontrol::bootstrap_objects() {
        let kind = object["kind"].as_str().unwrap_or_default();
        let plural = if kind == "FlowSchema" { "flowschemas" } else { "prioritylevelconfigurations" };
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{plural}");
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        ensure(server, &connection, &path, &name, &object).await?;
    }
    Ok(())
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
        .header("content-type", "application/json")
        .body(Full::from(object.to_string()));
    match send(server, connection, create).await? {
        (201 | 409, _) => Ok(()),
        (404, _) if status == 404 && !exists(server, connection, collection).await? => Ok(()),
        (status, text) => Err(format!("{collection} {name}: {status} {text}")),
    }
}

async fn exists(server: &Arc<ApiServer>, connection: &Arc<Connection>, collection: &str) -> Result<bool, String> {
    let list = http::Request::get(format!("{collection}?limit=1")).body(Full::default());
    Ok(send(server, connection, list).await?.0 == 200)
}

async fn send(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    request: Result<http::Request<Full<bytes::Bytes>>, http::Error>,
) -> Result<(u16, String), String> {
    let request = request.map_err(|error| error.to_string())?;
    let response = server.handle(request, connection.clone()).await;
    let status = response.status().as_u16();
    let Ok(body) = response.into_body().collect().await;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}
