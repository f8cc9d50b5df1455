//! Every route the server has, in the root and in a project, asked by everybody from nobody to the administrator. Routes
//! come from the server's discovery and from its own table of paths, so none can be forgotten; what each must answer is
//! computed from kube-apiserver's recorded default roles by the few lines in `expected`, which share nothing with the server.

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
/// The project that everybody tries to get at, and that of the other tenant.
const PROJECT: &str = "ours";
const OTHER_PROJECT: &str = "theirs";
const PLATFORM: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";
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
        let typed = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.make(&format!("{PLATFORM}/organizations"), typed("Organization", "acme", json!({}))).await;
        for project in [PROJECT, OTHER_PROJECT] {
            let spec = json!({"ownerRef": {"kind": "Organization", "name": "acme"}});
            self.make(&format!("{PLATFORM}/projects"), typed("Project", project, spec)).await;
        }
        for project in ["", PROJECT, OTHER_PROJECT] {
            self.prepare_plane(&prefix(project)).await;
        }
        for caller in callers() {
            for (project, namespace, role) in caller.roles {
                self.bind(&prefix(project), namespace, role, &caller.name).await;
            }
        }
    }

    /// A role for somebody in a namespace, or in the whole plane.
    async fn bind(&self, prefix: &str, namespace: &str, role: &str, name: &str) {
        let subject = match name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
            Some((namespace, name)) => json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}),
            None => json!({"kind": "User", "name": name}),
        };
        let binding = json!({
            "metadata": {"name": format!("{}-{role}", name.replace(':', "-"))},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject],
        });
        let collection = match namespace {
            "" => format!("{prefix}{RBAC}/clusterrolebindings"),
            namespace => format!("{prefix}{RBAC}/namespaces/{namespace}/rolebindings"),
        };
        self.make(&collection, binding).await;
    }

    async fn prepare_plane(&self, prefix: &str) {
        for name in [MINE, OTHER] {
            self.make(&format!("{prefix}/api/v1/namespaces"), json!({"metadata": {"name": name}})).await;
        }
        let definitions = format!("{prefix}/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        self.make(&definitions, expected::definition()).await;
        self.make(&format!("{prefix}{RBAC}/clusterroles"), expected::view_of_widgets()).await;
        self.wait(&format!("{prefix}/apis/example.com/v1/widgets"), |answer| answer.status == 200).await;
        // The last role of the chain to get what the first one was given.
        let has_widgets = |answer: &Answer| answer.body["rules"].to_string().contains("widgets");
        self.wait(&format!("{prefix}{RBAC}/clusterroles/admin"), has_widgets).await;
    }
}

/// The short prefix of a project; none for the root.
fn prefix(project: &str) -> String {
    if project.is_empty() { String::new() } else { format!("/projects/{project}") }
}

fn master() -> UserInfo {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    UserInfo { name: "master".into(), groups, ..UserInfo::default() }
}

/// Everybody, and the roles they have: in which project, where in it, and which.
fn callers() -> Vec<Caller> {
    let someone = |name: &str, roles: &[(&'static str, &'static str, &'static str)]| Caller {
        name: name.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        roles: roles.to_vec(),
    };
    let mut neighbour = someone("system:serviceaccount:other:tenant", &[("", OTHER, "admin")]);
    neighbour.groups.extend(["system:serviceaccounts".to_owned(), "system:serviceaccounts:other".to_owned()]);
    vec![
        Caller { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], roles: Vec::new() },
        someone("nobody", &[]),
        someone("viewer", &[("", MINE, "view")]),
        someone("editor", &[("", MINE, "edit")]),
        someone("owner", &[("", MINE, "admin")]),
        someone("root", &[("", "", "cluster-admin")]),
        neighbour,
        // Of the project that is asked for.
        someone("project-viewer", &[(PROJECT, MINE, "view")]),
        someone("project-editor", &[(PROJECT, MINE, "edit")]),
        someone("project-owner", &[(PROJECT, "", "cluster-admin")]),
        // Of another project, where they may do everything.
        someone("other-tenant", &[(OTHER_PROJECT, "", "cluster-admin")]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_everybody_as_it_should() {
    let plane = Plane::start().await;
    plane.prepare().await;
    let mut routes = routes::discover(&plane, "", "").await;
    let of_root = routes.len();
    routes.extend(routes::discover(&plane, PROJECT, &prefix(PROJECT)).await);
    routes.extend(routes::discover(&plane, PROJECT, &format!("{PLATFORM}/projects/{PROJECT}/control-plane")).await);
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
    println!("{of_root} routes of {}, {allowed} answers allowed and {refused} refused as they should be", routes.len());
    // A matrix that has shrunk tests nothing.
    assert!(
        of_root > 300 && routes.len() > 800 && allowed > 2000 && refused > 5000,
        "{} {allowed} {refused}",
        routes.len()
    );
}
