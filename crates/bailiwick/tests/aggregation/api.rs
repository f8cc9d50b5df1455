//! Talking to the server under test: requests as the administrator or others, APIServices, and waiting for what they become.

use std::time::Duration;

use anyhow::{Context, Result};
use bailiwick_testkit::{ADMIN_TOKEN, Server};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::backend::{Backend, GROUP};

/// Far more than anything here takes; only a bug runs into it.
pub const DEADLINE: Duration = Duration::from_secs(60);
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A client of the server with a token.
pub struct Api {
    client: reqwest::Client,
    base: String,
    token: String,
}

/// Starts the program with further arguments.
pub fn start(arguments: &[&str]) -> Result<Server> {
    Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), arguments)
}

impl Api {
    pub fn admin(server: &Server) -> Result<Self> {
        Self::with_token(server, ADMIN_TOKEN)
    }

    pub fn with_token(server: &Server, token: &str) -> Result<Self> {
        let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build()?;
        Ok(Self { client, base: server.url().to_owned(), token: token.to_owned() })
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.request(reqwest::Method::GET, path)
    }

    /// The status and the text of a path.
    pub async fn text(&self, path: &str) -> Result<(u16, String)> {
        let response = self.get(path).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    /// The JSON of a path that must be there.
    pub async fn json(&self, path: &str) -> Result<Value> {
        let (status, text) = self.text(path).await?;
        anyhow::ensure!(status == 200, "{path}: {status} {text}");
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    }

    /// Aggregated discovery.
    pub async fn discovery(&self) -> Result<Value> {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        Ok(self.get("/apis").header("accept", accept).send().await?.json().await?)
    }

    pub async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        let response = self.request(reqwest::Method::POST, path).json(object).send().await?;
        let (status, text) = (response.status(), response.text().await?);
        anyhow::ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    pub async fn register(&self, service: &Value) -> Result<()> {
        self.post(API_SERVICES, service).await.map(drop)
    }

    /// Changes an APIService by merge patch.
    pub async fn change(&self, name: &str, patch: &Value) -> Result<()> {
        let request = self.request(reqwest::Method::PATCH, &format!("{API_SERVICES}/{name}"));
        let request = request.header("content-type", "application/merge-patch+json").body(patch.to_string());
        let response = request.send().await?;
        anyhow::ensure!(response.status().is_success(), "{}", response.text().await?);
        Ok(())
    }

    /// Waits until the condition `Available` has this reason and gives it.
    pub async fn condition(&self, name: &str, reason: &str) -> Result<Value> {
        let path = format!("{API_SERVICES}?watch=true&fieldSelector=metadata.name%3D{name}");
        let waiting = async {
            let mut response = self.get(&path).send().await?;
            let mut text = String::new();
            while let Some(chunk) = response.chunk().await? {
                text.push_str(&String::from_utf8_lossy(&chunk));
                while let Some(at) = text.find('\n') {
                    let line: String = text.drain(..=at).collect();
                    let event: Value = serde_json::from_str(&line)?;
                    let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    let available = conditions.into_iter().find(|condition| condition["type"] == "Available");
                    if let Some(found) = available.filter(|condition| condition["reason"] == reason) {
                        return Ok(found);
                    }
                }
            }
            anyhow::bail!("the watch of {name} ended")
        };
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(found) => found,
            Err(_) => {
                let now = self.text(&format!("{API_SERVICES}/{name}")).await?;
                anyhow::bail!("{name} never became {reason}: {now:?}")
            }
        }
    }

    /// Asks again and again until the answer is as wanted; for what happens behind the API's back.
    pub async fn until<T>(&self, what: &str, ask: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let asking = async {
            loop {
                if let Some(found) = ask().await? {
                    return Ok(found);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, asking).await.with_context(|| format!("{what} never happened"))?
    }
}

/// An APIService for the backend's group, at its address by annotation.
pub fn api_service(backend: &Backend) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{GROUP}"), "annotations": {"bailiwick.dev/service-url": backend.url()}},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"namespace": "things", "name": "api"}, "caBundle": STANDARD.encode(&backend.ca_pem),
        },
    })
}

/// A server with the backend behind it, available.
pub async fn aggregated(backend: &Backend) -> Result<(Server, Api)> {
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    api.register(&api_service(backend)).await?;
    api.condition(&format!("v1.{GROUP}"), "Passed").await?;
    Ok((server, api))
}
