//! The default roles and bindings: made when missing, brought up to date when something of them was taken away.

use std::sync::Arc;

use bailiwick_auth::authz::defaults::{self, DefaultObject, Needed};
use bailiwick_auth::authz::rbac::RbacKind;
use bailiwick_machinery::object;
use bailiwick_server::{ApiServer, Connection};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{AGENT, send};

/// How often an object that others change at the same time is tried again.
const RACE_RETRIES: usize = 5;

/// Makes the stored default roles and bindings what they must be. All at once, so that a first start waits for the disk
/// only once or twice; a later one finds nothing to write.
pub async fn ensure(server: &Arc<ApiServer>, connection: &Arc<Connection>) -> Result<(), String> {
    let (roles, bindings): (Vec<_>, Vec<_>) =
        defaults::objects().into_iter().partition(|o| matches!(o.kind, RbacKind::ClusterRole | RbacKind::Role));
    // A binding is never there before its role: nobody is to see reasons that speak of missing roles.
    for wave in [roles, bindings] {
        let mut tasks = JoinSet::new();
        for expected in wave {
            let (server, connection) = (server.clone(), connection.clone());
            tasks.spawn(async move { ensure_one(&server, &connection, &expected).await });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| error.to_string())??;
        }
    }
    Ok(())
}

async fn ensure_one(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    expected: &DefaultObject,
) -> Result<(), String> {
    let collection = collection(expected);
    let path = format!("{collection}/{}", expected.name);
    let mut last = String::new();
    for _ in 0..RACE_RETRIES {
        let (status, text) = send(server, connection, http::Request::get(&path).body(Full::default())).await?;
        let needed = match status {
            200 => {
                let existing: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
                let needed = defaults::reconcile(expected, &existing);
                if needed == Needed::Recreate {
                    delete(server, connection, &path, &existing).await?;
                }
                needed
            }
            404 => Needed::Recreate,
            _ => return Err(format!("{path}: {status} {text}")),
        };
        let write = match needed {
            Needed::Nothing => return Ok(()),
            Needed::Update(updated) => http::Request::put(&path).body_json(&updated),
            Needed::Recreate => http::Request::post(&collection).body_json(&expected.object),
        };
        match send(server, connection, write).await? {
            (200 | 201, _) => return Ok(()),
            (404, _) if status == 404 && !super::exists(server, connection, &collection).await? => return Ok(()),
            (404 | 409, text) => last = text,
            (status, text) => return Err(format!("{path}: {status} {text}")),
        }
    }
    Err(format!("{path} keeps changing: {last}"))
}

/// Deletes exactly the object that was seen.
async fn delete(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    path: &str,
    existing: &Value,
) -> Result<(), String> {
    let options = json!({"preconditions": {"uid": object::uid(existing)}});
    let request = http::Request::delete(path).body_json(&options);
    match send(server, connection, request).await? {
        (200 | 404 | 409, _) => Ok(()),
        (status, text) => Err(format!("{path}: {status} {text}")),
    }
}

trait JsonBody {
    fn body_json(self, value: &Value) -> Result<http::Request<Full<bytes::Bytes>>, http::Error>;
}

impl JsonBody for http::request::Builder {
    fn body_json(self, value: &Value) -> Result<http::Request<Full<bytes::Bytes>>, http::Error> {
        self.header("user-agent", AGENT).header("content-type", "application/json").body(Full::from(value.to_string()))
    }
}

fn collection(object: &DefaultObject) -> String {
    let base = format!("/apis/{}/v1", RbacKind::GROUP);
    match object.namespace.as_str() {
        "" => format!("{base}/{}", object.kind.plural()),
        namespace => format!("{base}/namespaces/{namespace}/{}", object.kind.plural()),
    }
}
