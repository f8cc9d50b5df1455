//! A client as programs on client-go are: it knows several servers, goes elsewhere when one does not answer, and repeats
//! what was refused. It tells what certainly was not carried out from what may have been.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use reqwest::Method;
use serde_json::Value;

use super::cluster::ADMIN_TOKEN;
use super::report::Findings;
use crate::conformance::generated::random::Random;

/// What one attempt may take: a server that is paused is given up after it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// Between attempts.
const PAUSE: Duration = Duration::from_millis(40);
/// A request that finds no answer for this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How a silent connection is found dead, so that a watch on a paused server does not wait for it.
const PING: Duration = Duration::from_secs(3);

/// A request that can be sent again.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub content_type: &'static str,
    pub body: Option<Value>,
}

impl Request {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), content_type: "application/json", body: None }
    }

    pub fn with_body(method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), content_type: "application/json", body: Some(body) }
    }
}

/// What became of one attempt.
#[derive(Debug)]
pub enum Attempt {
    Answered(u16, Value),
    /// It certainly was not carried out.
    NotSent,
    /// It may have been carried out, or will be.
    Unknown(String),
}

/// The final answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    /// Whether an earlier attempt may have been carried out as well.
    pub uncertain: bool,
    pub took: Duration,
}

/// See the module.
pub struct Client {
    http: reqwest::Client,
    servers: Vec<String>,
    /// The server in use, until it fails.
    current: AtomicUsize,
    random: Mutex<Random>,
    findings: Arc<Findings>,
}

impl Client {
    pub fn new(servers: Vec<String>, ca: &[u8], seed: u64, findings: Arc<Findings>) -> Result<Self> {
        let http = reqwest::Client::builder()
            .add_root_certificate(reqwest::Certificate::from_pem(ca)?)
            .connect_timeout(Duration::from_secs(2))
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING)
            .http2_keep_alive_while_idle(true)
            .build()?;
        let current = AtomicUsize::new(usize::try_from(seed % servers.len() as u64)?);
        Ok(Self { http, servers, current, random: Mutex::new(Random::new(seed)), findings })
    }

    /// A number below `limit`.
    pub fn random(&self, limit: usize) -> usize {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).below(limit)
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Any of the servers.
    pub fn any_server(&self) -> String {
        self.servers[self.random(self.servers.len())].clone()
    }

    /// The server that requests go to now.
    pub fn server(&self) -> String {
        self.servers[self.current.load(Ordering::Relaxed) % self.servers.len()].clone()
    }

    /// From now on another server is asked.
    pub fn leave(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks one server once.
    pub async fn attempt(&self, server: &str, request: &Request) -> Attempt {
        let mut builder = self.http.request(request.method.clone(), format!("{server}{}", request.path));
        builder = builder.bearer_auth(ADMIN_TOKEN).timeout(ATTEMPT_TIMEOUT);
        if let Some(body) = &request.body {
            builder = builder.header("content-type", request.content_type).body(body.to_string());
        }
        let answer = match builder.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Attempt::NotSent,
            Err(error) => return Attempt::Unknown(chain(&error)),
        };
        let status = answer.status().as_u16();
        match answer.bytes().await {
            Ok(bytes) => Attempt::Answered(status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
            Err(error) => Attempt::Unknown(chain(&error)),
        }
    }

    /// Opens a stream.
    pub async fn stream(&self, server: &str, path: &str) -> reqwest::Result<reqwest::Response> {
        self.http.get(format!("{server}{path}")).bearer_auth(ADMIN_TOKEN).send().await
    }

    /// Asks until somebody answers with anything but "not now"; `None` when nobody has for very long.
    pub async fn send(&self, request: &Request) -> Option<Answer> {
        let begun = Instant::now();
        let mut uncertain = false;
        while begun.elapsed() < PATIENCE {
            match self.attempt(&self.server(), request).await {
                Attempt::Answered(429, _) => self.findings.retried("429"),
                Attempt::Answered(status @ 500.., _) => {
                    uncertain = true;
                    self.findings.retried(if status == 504 { "504" } else { "5xx" });
                    self.leave();
                }
                Attempt::Answered(status, body) => {
                    return Some(Answer { status, body, uncertain, took: begun.elapsed() });
                }
                Attempt::NotSent => {
                    self.findings.retried("connection refused");
                    self.leave();
                }
                Attempt::Unknown(_) => {
                    uncertain = true;
                    self.findings.retried("connection lost");
                    self.leave();
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }
}

/// An error with its causes.
pub fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// `metadata.resourceVersion` as a number.
pub fn resource_version(object: &Value) -> u64 {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0)
}
