//! Every route the server has, asked by everybody from nobody to the administrator. Routes come from the server's own
//! discovery, so none can be forgotten; what each must answer is computed from kube-apiserver's recorded default roles by the
//! few lines in `expected`, which share nothing with the server.

#[path = "access_matrix/expected.rs"]
mod expected;
#[path = "access_matrix/routes.rs"]
mod routes;

use std::sync::Arc;
use std::time::Duration;

use bailiwick::{ControlPlane, Controller, Running};
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::Connection;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use expected::{Caller, Roles};
use routes::Route;

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(60);
/// The namespace that everybody tries to get at.
pub const MINE: &str = "mine";
const OTHER: &str = "other";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

struct Plane {
    running: Running,
    _dir: tempfile::TempDir,
}

struct Answer {
    status: u16,
    body: Value,
}

impl Plane {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let controllers = [Controller::ClusterRoleAggregation, Controller::CustomResourceDefinition];
        let running = ControlPlane::builder(dir.path()).controllers(&controllers).start().await.unwrap();
        Self { running, _dir: dir }
    }

    async fn send(&self, user: &UserInfo, method: &str, uri: &str, body: Option<&Value>) -> Answer {
        let mut request = http::Request::builder().method(method).uri(uri);
        if body.is_some() {
            let patch = "application/merge-patch+json";
            request = request.header("content-type", if method == "PATCH" { patch } else { "application/json" });
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(Full::new(body)).unwrap();
        let response = self.running.server.handle(request, Arc::new(Connection::in_process(user.clone()))).await;
        let status = response.status().as_u16();
        // What streams is not read: that it began says that it is allowed.
        if status == 200 && uri.contains("watch=") {
            return Answer { status, body: Value::Null };
        }
        let bytes = response.into_body().collect().await.expect("a whole answer");
        Answer { status, body: serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default() }
    }

    async fn make(&self, collection: &str, object: Value) {
        let answer = self.send(&master(), "POST", collection, Some(&object)).await;
        assert_eq!(answer.status, 201, "{collection}: {}", answer.body);
    }

    /// Waits until the administrator's GET shows what is wanted.
    async fn wait(&self, path: &str, wanted: impl Fn(&Answer) -> bool) {
        let waiting = async {
            while !wanted(&self.send(&master(), "GET", path, None).await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("{path} never became what it should"));
    }

    async fn prepare(&self) {
        for name in [MINE, OTHER] {
            self.make("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        }
        self.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", expected::definition()).await;
        self.make(&format!("{RBAC}/clusterroles"), expected::view_of_widgets()).await;
        for (namespace, role, subject) in [
            (MINE, "view", json!({"kind": "User", "name": "viewer"})),
            (MINE, "edit", json!({"kind": "User", "name": "editor"})),
            (MINE, "admin", json!({"kind": "User", "name": "owner"})),
            (OTHER, "admin", json!({"kind": "ServiceAccount", "name": "tenant"})),
        ] {
            let binding = json!({
                "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject],
            });
            self.make(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), binding).await;
        }
        let everything = json!({
            "metadata": {"name": "everything"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "root"}],
        });
        self.make(&format!("{RBAC}/clusterrolebindings"), everything).await;
        self.wait("/apis/example.com/v1/widgets", |answer| answer.status == 200).await;
        // The last role of the chain to get what the first one was given.
        let has_widgets = |answer: &Answer| answer.body["rules"].to_string().contains("widgets");
        self.wait(&format!("{RBAC}/clusterroles/admin"), has_widgets).await;
    }
}

fn master() -> UserInfo {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    UserInfo { name: "master".into(), groups, ..UserInfo::default() }
}

/// Everybody, and the roles they have: where, and which.
fn callers() -> Vec<Caller> {
    let someone = |name: &str, roles: &[(&'static str, &'static str)]| Caller {
        name: name.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        roles: roles.to_vec(),
    };
    let mut tenant = someone("system:serviceaccount:other:tenant", &[(OTHER, "admin")]);
    tenant.groups.extend(["system:serviceaccounts".to_owned(), "system:serviceaccounts:other".to_owned()]);
    vec![
        Caller { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], roles: Vec::new() },
        someone("nobody", &[]),
        someone("viewer", &[(MINE, "view")]),
        someone("editor", &[(MINE, "edit")]),
        someone("owner", &[(MINE, "admin")]),
        someone("root", &[("", "cluster-admin")]),
        tenant,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_everybody_as_it_should() {
    let plane = Plane::start().await;
    plane.prepare().await;
    let routes = routes::discover(&plane).await;
    let roles = Roles::recorded();
    let (mut refused, mut allowed, mut wrong) = (0, 0, Vec::new());
    for caller in callers() {
        let user = UserInfo { name: caller.name.clone(), groups: caller.groups.clone(), ..UserInfo::default() };
        for route in &routes {
            let answer = plane.send(&user, route.method, &route.uri, route.body.as_ref()).await;
            let message = answer.body["message"].as_str().unwrap_or_default();
            let may = roles.allow(&caller, route);
            let refusal = expected::refusal(&caller, route);
            let as_expected = match may {
                // Whatever else is wrong with the request, it is not for want of rights.
                true => answer.status != 401 && message != refusal,
                false => answer.status == 403 && message == refusal,
            };
            match may {
                true => allowed += 1,
                false => refused += 1,
            }
            if !as_expected {
                let should = if may { "be allowed" } else { "be refused" };
                let Route { method, uri, .. } = route;
                wrong.push(format!("{} {method} {uri} should {should}: {} {message}", caller.name, answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    println!("{} routes, {allowed} answers allowed and {refused} refused as they should be", routes.len());
    // A matrix that has shrunk tests nothing.
    assert!(routes.len() > 250 && allowed > 500 && refused > 1000, "{} {allowed} {refused}", routes.len());
}
