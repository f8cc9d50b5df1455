//! Ways to come to a server and to see as whom it takes one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bailiwick_testkit::{Program, Server, tools};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// kubectl with credentials of its own.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// kubectl as the administrator.
    pub fn admin(server: &Server) -> Result<Self> {
        Ok(Self { program: tools::find("kubectl-1.36")?, kubeconfig: server.kubeconfig(), home: server.data_dir() })
    }

    /// kubectl with the credentials that `user`, the user of a kubeconfig, describes.
    pub fn with(server: &Server, directory: &Path, name: &str, user: &Value) -> Result<Self> {
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        let authority = server.data_dir().join("pki/ca.crt");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": server.url(), "certificate-authority": authority}}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        Ok(Self { program: tools::find("kubectl-1.36")?, kubeconfig, home: directory.to_owned() })
    }

    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        Program::new(&self.program)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env("HOME", &self.home)
            .timeout(DEADLINE)
            .run()
    }

    /// Creates or changes what a manifest describes.
    pub fn apply(&self, directory: &Path, manifest: &Value) -> Result<String> {
        let path = directory.join("manifest.json");
        std::fs::write(&path, manifest.to_string())?;
        self.run(&["apply", "-f", path.to_str().context("a path in UTF-8")?])
    }

    /// Who the server says we are.
    pub fn whoami(&self) -> Result<Value> {
        let review: Value = serde_json::from_str(&self.run(&["auth", "whoami", "-o", "json"])?)?;
        Ok(review["status"]["userInfo"].clone())
    }
}

/// Runs until `attempt` gives something; its last error when time is up.
pub fn eventually<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + DEADLINE;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > end => return Err(error.context("it did not happen in time")),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// What the server answers to a bearer of this token who asks who they are: the user, or the status code of the refusal.
pub fn who(server: &Server, token: &str) -> Result<Result<Value, u16>> {
    let client = client(server)?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let url = format!("{}/apis/authentication.k8s.io/v1/selfsubjectreviews", server.url());
    let answer = client.post(url).bearer_auth(token).json(&review).send()?;
    match answer.status().as_u16() {
        201 => Ok(Ok(answer.json::<Value>()?["status"]["userInfo"].clone())),
        code => Ok(Err(code)),
    }
}

/// As [`who`], when it must succeed.
pub fn known(server: &Server, token: &str) -> Result<Value> {
    match who(server, token)? {
        Ok(user) => Ok(user),
        Err(code) => bail!("refused with {code}; the server's log:\n{}", server.log()),
    }
}

/// An HTTP client that trusts the server.
pub fn client(server: &Server) -> Result<reqwest::blocking::Client> {
    Ok(builder(server)?.build()?)
}

pub fn builder(server: &Server) -> Result<reqwest::blocking::ClientBuilder> {
    let authority = std::fs::read(server.data_dir().join("pki/ca.crt"))?;
    let builder = reqwest::blocking::Client::builder().use_rustls_tls().timeout(DEADLINE);
    Ok(builder.add_root_certificate(reqwest::Certificate::from_pem(&authority)?))
}
