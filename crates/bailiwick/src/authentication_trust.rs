//! The ConfigMap by which aggregated servers learn whom we trust: `extension-apiserver-authentication` in `kube-system`.
//!
//! Several servers may share it, so what others put there stays: authorities and header names are added, never taken
//! away. A map that somebody deletes is back within a minute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::user::UserInfo;
use bailiwick_server::{ApiServer, Connection};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::background::Background;
use crate::bootstrap::send;

const COLLECTION: &str = "/api/v1/namespaces/kube-system/configmaps";
const NAME: &str = "extension-apiserver-authentication";
/// How often the map is looked at; upstream's value.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the map says, by key: PEM bundles, and JSON lists of names.
pub(crate) type Trust = BTreeMap<String, String>;

/// Publishes at once and from then on.
pub(crate) async fn publish(server: &Arc<ApiServer>, trust: Trust) -> Result<Background, String> {
    let user = UserInfo {
        name: "system:apiserver".into(),
        groups: vec![UserInfo::MASTERS.into(), UserInfo::AUTHENTICATED.into()],
        ..UserInfo::default()
    };
    let connection = Arc::new(Connection::in_process(user));
    ensure(server, &connection, &trust).await?;
    let server = Arc::downgrade(server);
    Ok(Background::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(server) = server.upgrade() else { return };
            if let Err(error) = ensure(&server, &connection, &trust).await {
                tracing::warn!(%error, name = NAME, "whom we trust could not be published");
            }
        }
    }))
}

async fn ensure(server: &Arc<ApiServer>, connection: &Arc<Connection>, trust: &Trust) -> Result<(), String> {
    let get = http::Request::get(format!("{COLLECTION}/{NAME}")).body(Full::default());
    let (status, text) = send(server, connection, get).await?;
    let (request, wanted) = if status == 200 {
        let live: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let mut changed = serde_json::Map::new();
        for (key, ours) in trust {
            let theirs = live["data"][key].as_str().unwrap_or_default();
            let combined = combine(theirs, ours);
            if combined != theirs {
                changed.insert(key.clone(), combined.into());
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let version = &live["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "data": changed});
        let request = http::Request::patch(format!("{COLLECTION}/{NAME}"))
            .header("content-type", "application/merge-patch+json")
            .body(Full::from(patch.to_string()));
        (request, 200)
    } else {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": trust,
            "metadata": {"name": NAME, "namespace": "kube-system"},
        });
        let request = http::Request::post(COLLECTION)
            .header("content-type", "application/json")
            .body(Full::from(map.to_string()));
        (request, 201)
    };
    match send(server, connection, request).await? {
        (status, _) if status == wanted || status == 409 => Ok(()),
        // Not every control plane serves ConfigMaps.
        (404, _) => Ok(()),
        (status, text) => Err(format!("{NAME}: {status} {text}")),
    }
}

/// Both: the elements of two JSON lists, or the certificates of two bundles, without repetition.
fn combine(theirs: &str, ours: &str) -> String {
    let list = |text: &str| serde_json::from_str::<Vec<String>>(text).ok();
    if let (Some(mut union), Some(added)) = (list(theirs), list(ours)) {
        for name in added {
            if !union.contains(&name) {
                union.push(name);
            }
        }
        return Value::from(union).to_string();
    }
    let mut bundle = theirs.to_owned();
    for certificate in ours.split_inclusive("-----END CERTIFICATE-----") {
        let certificate = certificate.trim();
        if !certificate.is_empty() && !bundle.contains(certificate) {
            if !bundle.is_empty() && !bundle.ends_with('\n') {
                bundle.push('\n');
            }
            bundle.push_str(certificate);
            bundle.push('\n');
        }
    }
    if list(ours).is_some() { ours.to_owned() } else { bundle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_published_stays() {
        assert_eq!(combine(r#"["X-A"]"#, r#"["X-B","X-A"]"#), r#"["X-A","X-B"]"#);
        assert_eq!(combine("", r#"["X-B"]"#), r#"["X-B"]"#);
        let (a, b) = (certificate("a"), certificate("b"));
        let both = format!("{a}{b}");
        assert_eq!(combine(&a, &b), both);
        assert_eq!(combine(&both, &b), both);
        assert_eq!(combine("", &b), b);
    }

    fn certificate(body: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }
}
