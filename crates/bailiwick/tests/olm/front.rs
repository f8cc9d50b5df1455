//! A cluster for tests where there is none: a plane of ours behind a door that calls one of its kinds Deployments, and
//! that can be out of order or keep somebody waiting. Nothing runs there; the test says that deployments run.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use bailiwick_testkit::{ADMIN_TOKEN, HttpsBody, HttpsOptions, HttpsServer, whole};
use base64::Engine as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::plane::Plane;

/// How the plane behind the door calls what is a Deployment in front of it.
const INSIDE: &str = "apps.example.com";
const OUTSIDE: &str = "apps";

pub struct Front {
    pub away: Plane,
    door: HttpsServer,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

/// What is wrong with it: how those are answered who ask for something of a resource.
#[derive(Clone)]
struct Trouble {
    method: Method,
    resource: &'static str,
    answer: Answer,
}

#[derive(Clone)]
enum Answer {
    Code(u16),
    /// None at all; whether somebody waits for one.
    Never {
        is_awaited: bool,
    },
}

impl Front {
    pub fn start() -> Result<Self> {
        let away = Plane::start_with(&[])?;
        away.apply(&format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: deployments.{INSIDE}}}\n\
             spec:\n  group: {INSIDE}\n  scope: Namespaced\n  \
             names: {{plural: deployments, singular: deployment, kind: Deployment, listKind: DeploymentList}}\n  \
             versions:\n  - name: v1\n    served: true\n    storage: true\n    subresources: {{status: {{}}}}\n    \
             schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n"
        ))?;
        away.until("Deployments are served", || Ok(away.kubectl(&["get", "deployments", "-A"]).is_ok()))?;
        let trouble: Arc<Mutex<Option<Trouble>>> = Arc::default();
        let behind = Behind {
            client: reqwest::Client::builder().danger_accept_invalid_certs(true).build()?,
            url: away.server.url().to_owned(),
            trouble: trouble.clone(),
        };
        let behind = Arc::new(behind);
        let door = HttpsServer::start(&HttpsOptions::default(), move |request| {
            let behind = behind.clone();
            async move { behind.answer(request).await }
        })?;
        Ok(Self { away, door, trouble })
    }

    /// The kubeconfig that leads there.
    pub fn kubeconfig(&self) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.door.ca_pem);
        let server = format!("https://localhost:{}", self.door.address.port());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": "checked-by-nobody"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        config.to_string()
    }

    /// Has a plane install what a namespace's OperatorGroup is for there.
    pub fn is_target_of(&self, plane: &Plane, namespace: &str) -> Result<()> {
        plane.kubectl(&["create", "namespace", namespace])?;
        let kubeconfig = format!("--from-literal=kubeconfig={}", self.kubeconfig());
        plane.kubectl(&["create", "secret", "generic", "away", "-n", namespace, &kubeconfig])?;
        plane.apply(&format!(
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
             metadata: {{name: og, namespace: {namespace}, annotations: {{bailiwick.dev/target-kubeconfig: away}}}}\n\
             spec: {{targetNamespaces: [{namespace}]}}\n"
        ))?;
        Ok(())
    }

    pub fn deployment(&self, namespace: &str, name: &str) -> Result<Option<Value>> {
        self.away.get(namespace, "deployment", name)
    }

    /// Says of a deployment what its controller would once its pods run.
    pub fn runs(&self, namespace: &str, name: &str) -> Result<()> {
        let deployment = self.deployment(namespace, name)?.context("a deployment")?;
        let generation = &deployment["metadata"]["generation"];
        let status = json!({"status": {"observedGeneration": generation, "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "it runs"}]}});
        let patch = status.to_string();
        let place = ["patch", "deployment", name, "-n", namespace];
        self.away.kubectl(&[&place[..], &["--subresource=status", "--type=merge", "-p", &patch]].concat())?;
        Ok(())
    }

    /// From now on whoever applies a resource is answered with a code.
    pub fn breaks(&self, resource: &'static str, code: u16) {
        self.is(Some(Trouble { method: Method::PATCH, resource, answer: Answer::Code(code) }));
    }

    /// From now on whoever does something to a resource waits for an answer: PATCH applies it, PUT puts it back.
    pub fn holds(&self, method: Method, resource: &'static str) {
        self.is(Some(Trouble { method, resource, answer: Answer::Never { is_awaited: false } }));
    }

    /// Whether somebody waits.
    pub fn is_awaited(&self) -> bool {
        matches!(&*locked(&self.trouble), Some(Trouble { answer: Answer::Never { is_awaited: true }, .. }))
    }

    pub fn works_again(&self) {
        self.is(None);
    }

    fn is(&self, trouble: Option<Trouble>) {
        *locked(&self.trouble) = trouble;
    }
}

fn locked(trouble: &Mutex<Option<Trouble>>) -> MutexGuard<'_, Option<Trouble>> {
    trouble.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Behind {
    client: reqwest::Client,
    url: String,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

impl Behind {
    fn trouble_with(&self, method: &Method, path: &str) -> Option<(&'static str, Answer)> {
        let mut trouble = locked(&self.trouble);
        let is_met = |it: &&mut Trouble| it.method == *method && path.contains(&format!("/{}/", it.resource));
        let met = trouble.as_mut().filter(is_met)?;
        if let Answer::Never { is_awaited } = &mut met.answer {
            *is_awaited = true;
        }
        Some((met.resource, met.answer.clone()))
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<HttpsBody>> {
        let (parts, body) = request.into_parts();
        match self.trouble_with(&parts.method, parts.uri.path()) {
            Some((_, Answer::Never { .. })) => return std::future::pending().await,
            Some((resource, Answer::Code(code))) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": "InOrderToTest", "message": format!("out of order: {resource}")});
                return answer(code, status.to_string());
            }
            None => {}
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = parts.uri.path_and_query().map(|it| it.as_str()).unwrap_or("/");
        let path = path.replacen(&format!("/apis/{OUTSIDE}/v1"), &format!("/apis/{INSIDE}/v1"), 1);
        let mut asked = self.client.request(parts.method, format!("{}{path}", self.url)).bearer_auth(ADMIN_TOKEN);
        for name in ["content-type", "accept"] {
            if let Some(value) = parts.headers.get(name) {
                asked = asked.header(name, value);
            }
        }
        let (outside, inside) = (format!("\"{OUTSIDE}/v1\""), format!("\"{INSIDE}/v1\""));
        let body = String::from_utf8_lossy(&body).replace(&outside, &inside);
        let answered = asked.body(body).send().await.map_err(io::Error::other)?;
        let code = answered.status().as_u16();
        let text = answered.text().await.map_err(io::Error::other)?;
        answer(code, text.replace(&inside, &outside))
    }
}

fn answer(code: u16, text: String) -> io::Result<Response<HttpsBody>> {
    let mut response = Response::new(whole(text));
    *response.status_mut() = StatusCode::from_u16(code).map_err(io::Error::other)?;
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}
