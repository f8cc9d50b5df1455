//! A server in this process with projects on it, and requests to it by anybody.

use std::sync::Arc;
use std::time::Duration;

use bailiwick::{ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::Connection;
use bailiwick_server::http::ResponseBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
pub const DEADLINE: Duration = Duration::from_secs(60);
pub const GROUP: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";

/// Who sends a request.
#[derive(Clone, Copy)]
pub enum Who<'a> {
    /// The administrator of the platform.
    Admin,
    /// Somebody without any groups but that of all users.
    User(&'a str),
    /// The bearer of a token.
    Token(&'a str),
    Nobody,
}

impl Who<'_> {
    pub fn connection(self) -> Connection {
        let user = |name: &str, groups: &[&str]| UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..UserInfo::default()
        };
        match self {
            Who::Admin => Connection::in_process(user("admin", &[UserInfo::MASTERS, UserInfo::AUTHENTICATED])),
            Who::User(name) => Connection::in_process(user(name, &[UserInfo::AUTHENTICATED])),
            Who::Token(_) | Who::Nobody => Connection::new(None, Vec::new()),
        }
    }
}

pub struct Platform {
    pub running: Running,
    directory: tempfile::TempDir,
}

impl Platform {
    /// A server with an organization and these projects.
    pub async fn with(projects: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let running = ControlPlane::builder(directory.path()).start().await.expect("a server");
        let platform = Platform { running, directory };
        platform.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "acme"}})).await;
        for project in projects {
            platform.project(project).await;
        }
        platform
    }

    /// The same data on another server.
    pub async fn restarted(self) -> Self {
        let Platform { running, directory } = self;
        // Tokens name the address of their issuer.
        let address = running.address;
        running.stop().await;
        let starting = async {
            loop {
                // Whoever still holds a client of the old one lets go of the store in a moment.
                match ControlPlane::builder(directory.path()).listen(address).start().await {
                    Ok(running) => return running,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let running = tokio::time::timeout(DEADLINE, starting).await.expect("a server");
        Platform { running, directory }
    }

    pub async fn project(&self, name: &str) -> Value {
        let spec = json!({"ownerRef": {"kind": "Organization", "name": "acme"}});
        self.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": name}, "spec": spec})).await
    }

    pub async fn send(&self, who: Who<'_>, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Who::Token(token) = who {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request =
            request.header("content-type", content_type).body(Full::<bytes::Bytes>::from(text)).expect("a request");
        let answer = self.running.server.handle(request, Arc::new(who.connection())).await;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.expect("a whole answer");
        let bytes = bytes.to_bytes();
        let value =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        (status, value)
    }

    /// The status of a read that `user` makes as somebody else.
    pub async fn send_as(&self, user: &str, other: &str, group: &str, path: &str) -> u16 {
        let request = http::Request::get(path).header("impersonate-user", other).header("impersonate-group", group);
        self.answer(Who::User(user), request).await.status().as_u16()
    }

    /// The answer to a request without a body.
    pub async fn answer(&self, who: Who<'_>, request: http::request::Builder) -> http::Response<ResponseBody> {
        let request = match who {
            Who::Token(token) => request.header("authorization", format!("Bearer {token}")),
            Who::Admin | Who::User(_) | Who::Nobody => request,
        };
        let request = request.body(Full::<bytes::Bytes>::default()).expect("a request");
        self.running.server.handle(request, Arc::new(who.connection())).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Who::Admin, "GET", path, Value::Null).await
    }

    /// Creates as the administrator.
    pub async fn create(&self, collection: &str, object: Value) -> Value {
        let object = typed(collection, object);
        let (status, created) = self.send(Who::Admin, "POST", collection, object).await;
        assert_eq!(status, 201, "{collection}: {created}");
        created
    }

    pub async fn map(&self, plane: &str, name: &str) -> Value {
        let map = json!({"metadata": {"name": name}, "data": {"of": plane}});
        self.create(&format!("{plane}/api/v1/namespaces/default/configmaps"), map).await
    }

    /// The names in a list.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let (status, list) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {list}");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Asks until the answer is good.
    pub async fn until(&self, path: &str, good: impl Fn(u16, &Value) -> bool) -> Value {
        let asking = async {
            loop {
                let (status, value) = self.get(path).await;
                if good(status, &value) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, asking).await.unwrap_or_else(|_| panic!("{path} never became good"))
    }

    /// Keys that the store has under a prefix.
    pub async fn stored(&self, prefix: &str) -> usize {
        let range = bailiwick_store::KeyRange::prefix(prefix.to_owned());
        let request = bailiwick_store::RangeRequest { range, at: None, limit: None };
        self.running.store().range(request).await.expect("a read").entries.len()
    }

    /// Keys of a project.
    pub async fn stored_of(&self, project: &Value) -> usize {
        self.stored(&format!("p-{}/", project["metadata"]["uid"].as_str().expect("a uid"))).await
    }
}

/// Organizations and projects must say what they are.
pub fn typed(collection: &str, mut object: Value) -> Value {
    let kind = match collection.strip_prefix(GROUP) {
        Some("/organizations") => "Organization",
        Some("/projects") => "Project",
        _ => return object,
    };
    object["apiVersion"] = "resourcemanager.miloapis.com/v1alpha1".into();
    object["kind"] = kind.into();
    object
}

/// A definition of a namespaced type.
pub fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
