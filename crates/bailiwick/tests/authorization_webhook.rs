//! A real authorization webhook over HTTPS: what it is sent, what becomes of its answers, and the configuration file that
//! names it, changed while the server runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick::{AuthorizationMode, AuthorizationOptions, ControlPlane, Running, WebhookOptions};
use bailiwick_auth::authz::webhook::Version;
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::Connection;
use bailiwick_testkit::{Said, Webhook};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A webhook that answers by the name of the user and remembers what it was asked.
struct Authorizer {
    webhook: Webhook,
    asked: Reviews,
}

/// The reviews it got, with their Authorization headers.
type Reviews = Arc<Mutex<Vec<(Value, String)>>>;

impl Authorizer {
    fn start() -> Self {
        let asked = Reviews::default();
        let reviews = asked.clone();
        let webhook = Webhook::start(move |asked| {
            let answer = answer(&asked.body);
            reviews.lock().unwrap().push((asked.body.clone(), asked.authorization().to_owned()));
            async move { answer }
        });
        Self { webhook: webhook.unwrap(), asked }
    }

    /// A kubeconfig that leads here.
    fn kubeconfig(&self, dir: &Path) -> PathBuf {
        self.webhook.write_kubeconfig(dir, "/authorize", json!({"token": "shared-secret"})).unwrap()
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn last(&self) -> (Value, String) {
        self.asked.lock().unwrap().last().cloned().expect("asked")
    }
}

fn answer(review: &Value) -> Said {
    let status = match review["spec"]["user"].as_str().unwrap() {
        "friend" => json!({"allowed": true, "reason": "a friend"}),
        "enemy" => json!({"allowed": false, "denied": true, "reason": "an enemy"}),
        "confused" => json!({"allowed": true, "denied": true}),
        "broken" => return Said::Failure(400, "no"),
        _ => json!({"allowed": false, "reason": "never heard of"}),
    };
    json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": status}).into()
}

struct Plane {
    running: Running,
    webhook: Authorizer,
    dir: tempfile::TempDir,
}

impl Plane {
    async fn start(options: impl FnOnce(&Authorizer, &Path) -> AuthorizationOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let webhook = Authorizer::start();
        let options = options(&webhook, dir.path());
        let builder = ControlPlane::builder(dir.path().join("data")).controllers(&[]).authorization(options);
        Self { running: builder.start().await.unwrap(), webhook, dir }
    }

    /// Status and message.
    async fn get(&self, user: &str, uri: &str) -> (u16, String) {
        let (status, body) = self.send(user, "GET", uri, None).await;
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    }

    async fn send(&self, user: &str, method: &str, uri: &str, body: Option<Value>) -> (u16, Value) {
        let user = UserInfo {
            name: user.to_owned(),
            uid: "7".to_owned(),
            groups: vec!["team".to_owned(), "system:authenticated".to_owned()],
            extra: [("scopes".to_owned(), vec!["x".to_owned()])].into(),
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = self.running.server.handle(request, Arc::new(Connection::in_process(user))).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a whole answer");
        (status, serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default())
    }
}

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn by_flags(webhook: &Authorizer, dir: &Path, version: Version) -> AuthorizationOptions {
    let options = WebhookOptions {
        kubeconfig: webhook.kubeconfig(dir),
        version,
        authorized_ttl: Duration::from_secs(300),
        unauthorized_ttl: Duration::ZERO,
    };
    AuthorizationOptions::modes([AuthorizationMode::Webhook(options), AuthorizationMode::Rbac])
}

#[tokio::test]
async fn the_webhook_decides_before_the_stored_roles_and_is_remembered() {
    let plane = Plane::start(|webhook, dir| by_flags(webhook, dir, Version::V1)).await;
    assert_eq!(plane.get("friend", CONFIGMAPS).await.0, 200);
    assert_eq!(plane.get("friend", CONFIGMAPS).await.0, 200);
    assert_eq!(plane.webhook.calls(), 1, "a yes is remembered");
    assert_eq!(
        plane.get("enemy", "/version").await,
        (403, "forbidden: User \"enemy\" cannot get path \"/version\": an enemy".to_owned())
    );
    assert_eq!(plane.get("stranger", "/version").await.0, 200, "the stored roles say yes");
    let refused = "configmaps is forbidden: User \"stranger\" cannot list resource \"configmaps\" in API group \"\" in the \
                   namespace \"default\": never heard of";
    assert_eq!(plane.get("stranger", CONFIGMAPS).await, (403, refused.to_owned()));
    let calls = plane.webhook.calls();
    assert_eq!(plane.get("stranger", CONFIGMAPS).await.0, 403);
    assert_eq!(plane.webhook.calls(), calls + 1, "a no is not remembered if its time is zero");
}

#[tokio::test]
async fn the_request_is_sent_as_upstream_sends_it() {
    let plane = Plane::start(|webhook, dir| by_flags(webhook, dir, Version::V1)).await;
    let selected = "?fieldSelector=metadata.name%3Dx&labelSelector=a%20in%20(b,c),!d";
    plane.get("stranger", &format!("/apis/coordination.k8s.io/v1/namespaces/default/leases{selected}")).await;
    let (review, credentials) = plane.webhook.last();
    assert_eq!(credentials, "Bearer shared-secret");
    let expected = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "default", "verb": "list", "group": "coordination.k8s.io", "version": "v1",
                "resource": "leases", "name": "x",
                "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "DoesNotExist"},
                ]},
            },
            "user": "stranger", "groups": ["team", "system:authenticated"], "extra": {"scopes": ["x"]}, "uid": "7",
        },
        "status": {"allowed": false},
    });
    assert_eq!(review, expected);
    plane.get("stranger", "/metrics").await;
    let attributes = plane.webhook.last().0["spec"]["nonResourceAttributes"].clone();
    assert_eq!(attributes, json!({"path": "/metrics", "verb": "get"}));

    let old = Plane::start(|webhook, dir| by_flags(webhook, dir, Version::V1beta1)).await;
    old.get("stranger", "/metrics").await;
    let (review, _) = old.webhook.last();
    assert_eq!(review["apiVersion"], "authorization.k8s.io/v1beta1");
    assert_eq!(review["spec"]["group"], json!(["team", "system:authenticated"]));
}

#[tokio::test]
async fn reviews_and_rules_speak_of_the_webhook() {
    let plane = Plane::start(|webhook, dir| by_flags(webhook, dir, Version::V1)).await;
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let question = || Some(json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "x"}}}));
    let status = async |user: &str| plane.send(user, "POST", access, question()).await.1["status"].clone();
    assert_eq!(status("friend").await, json!({"allowed": true, "reason": "a friend"}));
    assert_eq!(status("stranger").await, json!({"allowed": false, "reason": "never heard of"}));
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (_, answer) = plane.send("stranger", "POST", rules, Some(json!({"spec": {"namespace": "default"}}))).await;
    assert_eq!(answer["status"]["incomplete"], true);
    assert_eq!(answer["status"]["evaluationError"], "webhook authorizer does not support user rule resolution");
    assert!(!answer["status"]["resourceRules"].as_array().unwrap().is_empty(), "the stored roles are still listed");
}

/// A configuration with one webhook and the stored roles.
fn config(kubeconfig: &Path, failure_policy: &str, condition: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: remote
  webhook:
    timeout: 5s
    unauthorizedTTL: 1s
    cacheUnauthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: {failure_policy}
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}
    matchConditions: [{{expression: \"{condition}\"}}]
- {{type: RBAC, name: rbac}}
",
        kubeconfig.display()
    )
}

async fn configured(failure_policy: &str, condition: &str) -> Plane {
    Plane::start(|webhook, dir| {
        let path = dir.join("authorization.yaml");
        std::fs::write(&path, config(&webhook.kubeconfig(dir), failure_policy, condition)).unwrap();
        AuthorizationOptions { reload_interval: Duration::from_millis(20), ..AuthorizationOptions::config_file(path) }
    })
    .await
}

#[tokio::test]
async fn a_webhook_that_fails_is_decided_by_its_policy() {
    let open = configured("NoOpinion", "true").await;
    assert_eq!(open.get("broken", "/version").await.0, 200, "the stored roles say yes");
    let (status, message) = open.get("broken", CONFIGMAPS).await;
    assert_eq!(status, 500, "whether it is allowed cannot be said: {message}");
    let closed = configured("Deny", "true").await;
    assert_eq!(closed.get("broken", "/version").await.0, 500);
    assert_eq!(closed.get("confused", "/version").await.0, 500, "yes and no is no");
    assert_eq!(closed.get("stranger", "/version").await.0, 200);
    let master = UserInfo { groups: vec![UserInfo::MASTERS.into()], name: "broken".into(), ..UserInfo::default() };
    let request = http::Request::get(CONFIGMAPS).body(Full::<Bytes>::default()).unwrap();
    let response = closed.running.server.handle(request, Arc::new(Connection::in_process(master))).await;
    assert_eq!(response.status().as_u16(), 200, "masters are not asked about");
}

#[tokio::test]
async fn match_conditions_say_who_is_asked_about() {
    let plane =
        configured("Deny", "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'default'")
            .await;
    assert_eq!(plane.get("enemy", "/version").await.0, 200);
    assert_eq!(plane.webhook.calls(), 0);
    assert_eq!(plane.get("enemy", CONFIGMAPS).await.0, 403);
    assert_eq!(plane.webhook.calls(), 1);
    // One that cannot be evaluated is a failure.
    let failing = configured("Deny", "request.resourceAttributes.namespace == 'default'").await;
    assert_eq!(failing.get("friend", "/version").await.0, 500);
}

#[tokio::test]
async fn the_configuration_is_taken_over_while_the_server_runs() {
    let plane = configured("Deny", "true").await;
    let path = plane.dir.path().join("authorization.yaml");
    let becomes = async |user: &str, wanted: u16| {
        let waiting = async {
            while plane.get(user, "/version").await.0 != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("the file is read again");
    };
    assert_eq!(plane.get("enemy", "/version").await.0, 403);
    let without = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]";
    std::fs::write(&path, without).unwrap();
    becomes("enemy", 200).await;
    // A file that cannot be used, or that would lose the stored roles, changes nothing.
    std::fs::write(&path, "nonsense: [").unwrap();
    std::fs::write(&path, without.replace("RBAC", "AlwaysAllow").replace("rbac", "alwaysallow")).unwrap();
    std::fs::write(&path, config(&plane.webhook.kubeconfig(plane.dir.path()), "Deny", "true")).unwrap();
    becomes("enemy", 403).await;
}

#[tokio::test]
async fn explanations_name_the_authorizer_that_decided() {
    let plane = configured("NoOpinion", "request.user != 'skipped'").await;
    let steps = async |user: &str| {
        let uri = format!("/auth/explain?user={user}&verb=get&path=/metrics");
        let master = UserInfo { groups: vec![UserInfo::MASTERS.into()], ..UserInfo::default() };
        let request = http::Request::get(uri).body(Full::<Bytes>::default()).unwrap();
        let response = plane.running.server.handle(request, Arc::new(Connection::in_process(master))).await;
        let bytes = response.into_body().collect().await.expect("a whole answer");
        let answer: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap();
        let steps = answer["steps"].as_array().unwrap().clone();
        let said: HashMap<String, String> = steps
            .iter()
            .map(|step| (step["authorizer"].as_str().unwrap().to_owned(), step["verdict"].as_str().unwrap().to_owned()))
            .collect();
        (answer["allowed"].as_bool().unwrap(), said)
    };
    let (allowed, said) = steps("friend").await;
    assert!(allowed);
    assert_eq!(said["webhook \"remote\""], "allow");
    assert!(!said.contains_key("RBAC"), "nobody was asked any more");
    let (allowed, said) = steps("skipped").await;
    assert!(!allowed);
    assert_eq!((said["webhook \"remote\""].as_str(), said["RBAC"].as_str()), ("noOpinion", "noOpinion"));
}
