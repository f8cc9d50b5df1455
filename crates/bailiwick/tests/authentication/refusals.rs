//! A server's record of whom it refused: each bearer of a token that is not good is answered with 401, each refusal is in the
//! audit log with nobody as its user, and no token is.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use bailiwick_testkit::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::login::{client, eventually, known, who};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n";
/// More than any token has, less than what a head may hold.
pub const LONG_BYTES: usize = 64 * 1024;
/// More than a head may hold.
const TOO_LONG_BYTES: usize = 200 * 1024;

/// How long a token lives that is to expire soon.
const LIFETIME_SECONDS: u64 = 3;

/// An audit log of everything.
pub struct AuditLog(TempDir);

impl AuditLog {
    pub fn new() -> Result<Self> {
        let log = Self(tempfile::tempdir()?);
        std::fs::write(log.path("policy.yaml"), POLICY)?;
        Ok(log)
    }

    /// The flags with which a server writes it.
    pub fn flags(&self) -> [String; 4] {
        let path = |name: &str| self.path(name).display().to_string();
        let [policy, log] = ["--audit-policy-file", "--audit-log-path"].map(str::to_owned);
        [policy, path("policy.yaml"), log, path("audit.log")]
    }

    /// The token is refused, and the refusal is recorded. `what` is wrong with it, said once only.
    pub fn assert_refused(&self, server: &Server, what: &str, plane: &str, token: &str) -> Result<()> {
        let id = what.replace(' ', "-");
        assert_eq!(ask(server, &id, plane, token)?, 401, "a token {what}");
        let log = std::fs::read_to_string(self.path("audit.log"))?;
        let signature = token.rsplit('.').next().unwrap_or_default();
        ensure!(signature.is_empty() || !log.contains(signature), "the token {what} is in the audit log");
        let mut events = log.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        events.retain(|event| event["auditID"] == *id);
        let stages: Vec<&Value> = events.iter().map(|event| &event["stage"]).collect();
        assert_eq!(stages, ["ResponseStarted"], "a token {what}: {events:?}");
        let event = &events[0];
        assert_eq!(event["user"], json!({}), "a token {what} makes nobody of its bearer");
        assert_eq!(event["responseStatus"]["code"], 401, "a token {what}");
        assert_eq!(event["responseStatus"]["reason"], "Unauthorized", "a token {what}");
        assert_eq!(event["requestURI"], target(plane));
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The status with which a bearer of the token is answered, in a request of this audit ID.
pub fn ask(server: &Server, id: &str, plane: &str, token: &str) -> Result<u16> {
    let url = format!("{}{}", server.url(), target(plane));
    Ok(client(server)?.get(url).bearer_auth(token).header("audit-id", id).send()?.status().as_u16())
}

/// A token that was good and has expired since; `until` makes one that expires at a time, in seconds since 1970.
pub fn outlived(server: &Server, until: impl Fn(u64) -> Result<String>) -> Result<String> {
    // Where all of this takes longer than a token lives the next one may do.
    let token = eventually(|| {
        let token = until(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + LIFETIME_SECONDS)?;
        known(server, &token)?;
        Ok(token)
    })?;
    until_refused(server, &token)?;
    Ok(token)
}

/// Waits until a token is good no longer.
pub fn until_refused(server: &Server, token: &str) -> Result<()> {
    eventually(|| {
        ensure!(who(server, token)? == Err(401), "it is still good");
        Ok(())
    })
}

/// What does not fit into a head is refused before it is a request.
pub fn assert_no_request(server: &Server) -> Result<()> {
    match ask(server, "too-long", "", &"x".repeat(TOO_LONG_BYTES)) {
        Ok(status) => assert_eq!(status, 431),
        Err(error) => ensure!(error.downcast_ref::<reqwest::Error>().is_some(), "{error:#}"),
    }
    Ok(())
}

fn target(plane: &str) -> String {
    format!("{plane}/api/v1/namespaces/default/configmaps")
}
