//! The real OpenID provider of `clients/oidc-provider`, for as long as a test needs it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use bailiwick_testkit::tools;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A provider that answers, until dropped.
pub struct Provider {
    pub issuer: String,
    pub ca_file: PathBuf,
    pub ca_pem: String,
    process: Child,
    client: reqwest::blocking::Client,
    _directory: TempDir,
}

/// Where the provider's programs are.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join("oidc-provider")
}

impl Provider {
    /// Starts one; `None`, with a word on why, where Node and npm are missing.
    pub fn start() -> Result<Option<Self>> {
        let modules = match tools::npm(&programs()) {
            Ok(modules) => modules,
            Err(error) => {
                bailiwick_testkit::skip(format_args!("{error:#}"));
                return Ok(None);
            }
        };
        let directory = tempfile::tempdir()?;
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let (ca_file, key_file) = (directory.path().join("ca.pem"), directory.path().join("key.pem"));
        std::fs::write(&ca_file, certified.cert.pem())?;
        std::fs::write(&key_file, certified.signing_key.serialize_pem())?;
        let mut process = Command::new("node")
            .arg(programs().join("server.js"))
            .args([&ca_file, &key_file, &modules])
            // It is a client of itself when it logs somebody in.
            .env("NODE_EXTRA_CA_CERTS", &ca_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("starting node")?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("invariant: stdout is piped")?).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the provider did not come up")?;
        let issuer = ready["issuer"].as_str().context("the provider names its issuer")?.to_owned();
        let client = reqwest::blocking::Client::builder()
            .use_rustls_tls()
            .add_root_certificate(reqwest::Certificate::from_pem(certified.cert.pem().as_bytes())?)
            .build()?;
        Ok(Some(Self { issuer, ca_file, ca_pem: certified.cert.pem(), process, client, _directory: directory }))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.client.post(format!("{}{path}", self.issuer)).body(body.to_string()).send()?;
        let text = answer.error_for_status()?.text()?;
        serde_json::from_str(&text).with_context(|| text)
    }

    /// The id_token of a user who logs in at this client of the provider.
    pub fn login(&self, user: &str, groups: &[&str], client: &str) -> Result<String> {
        token(&self.post("/login", &json!({"user": user, "groups": groups, "client": client}))?)
    }

    /// A token with these claims, signed by `key`: `current`, `stranger` or `none`.
    pub fn forge(&self, claims: &Value, header: &Value, key: &str) -> Result<String> {
        token(&self.post("/forge", &json!({"claims": claims, "header": header, "key": key}))?)
    }

    /// Signs with another key from now on, and forgets the one before.
    pub fn rotate(&self) -> Result<()> {
        self.post("/rotate", &json!({})).map(drop)
    }
}

fn token(answer: &Value) -> Result<String> {
    answer["id_token"].as_str().map(str::to_owned).with_context(|| format!("no id_token: {answer}"))
}

impl Drop for Provider {
    fn drop(&mut self) {
        // Nothing to be done about a process that is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
