//! Tokens of service accounts that are not good, or no longer.

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Server};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};

use crate::login::{client, eventually, known};
use crate::refusals::{AuditLog, LONG_BYTES, ask, assert_no_request, outlived};

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
const NS: &str = "/api/v1/namespaces/default";
/// Upstream's allowance for clocks that differ.
const LEEWAY_SECONDS: u64 = 60;
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";

/// A server whose key is known, and what it records.
struct Issuer {
    server: Server,
    key: KeyPair,
    audit_log: AuditLog,
    _directory: tempfile::TempDir,
}

impl Issuer {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let key = KeyPair::generate()?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(path("signing.pem"), key.serialize_pem())?;
        std::fs::write(path("checking.pem"), key.public_key_pem())?;
        let audit_log = AuditLog::new()?;
        let (signing, checking, recording) = (path("signing.pem"), path("checking.pem"), audit_log.flags());
        let mut flags = vec!["--service-account-signing-key-file", &signing, "--service-account-key-file", &checking];
        flags.extend(["--service-account-issuer", "https://issuer.example"]);
        flags.extend(recording.iter().map(String::as_str));
        let server = Server::start_with(BINARY, &flags)?;
        Ok(Self { server, key, audit_log, _directory: directory })
    }

    /// A request of the administrator's, which must succeed.
    fn admin(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.server.url());
        let request = client(&self.server)?.request(method.parse()?, url).bearer_auth(ADMIN_TOKEN);
        let answer = if body.is_null() { request.send()? } else { request.json(body).send()? };
        let status = answer.status();
        let value: Value = answer.json()?;
        ensure!(status.is_success(), "{method} {path}: {status} {value}");
        Ok(value)
    }

    fn gone(&self, path: &str) -> Result<()> {
        eventually(|| {
            let url = format!("{}{path}", self.server.url());
            let status = client(&self.server)?.get(url).bearer_auth(ADMIN_TOKEN).send()?.status().as_u16();
            ensure!(status == 404, "{path} is still there: {status}");
            Ok(())
        })
    }

    fn account(&self, plane: &str, name: &str) -> Result<()> {
        self.admin("POST", &format!("{plane}{NS}/serviceaccounts"), &json!({"metadata": {"name": name}})).map(drop)
    }

    fn token(&self, plane: &str, account: &str, spec: Value) -> Result<String> {
        let path = format!("{plane}{NS}/serviceaccounts/{account}/token");
        let issued = self.admin("POST", &path, &json!({"spec": spec}))?;
        Ok(issued["status"]["token"].as_str().context("a token")?.to_owned())
    }

    /// The token with other claims and another head, signed by `key`; not signed without one.
    fn forged(&self, token: &str, header: &Value, claims: &Value, key: Option<&KeyPair>) -> Result<String> {
        let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part));
        let mut part = |changes: &Value| -> Result<String> {
            let mut value: Value = serde_json::from_slice(&parts.next().context("a part")??)?;
            for (name, change) in changes.as_object().into_iter().flatten() {
                value[name] = change.clone();
            }
            Ok(URL_SAFE_NO_PAD.encode(value.to_string()))
        };
        let signed = format!("{}.{}", part(header)?, part(claims)?);
        let signature = match key {
            Some(key) => URL_SAFE_NO_PAD.encode(fixed_size(&key.sign(signed.as_bytes())?)?),
            None => String::new(),
        };
        Ok(format!("{signed}.{signature}"))
    }

    /// The status with which a bearer of the token is answered, in a request of this audit ID.
    fn ask(&self, id: &str, plane: &str, token: &str) -> Result<u16> {
        ask(&self.server, id, plane, token)
    }

    /// The token is refused, and the refusal is recorded.
    fn assert_refused(&self, what: &str, plane: &str, token: &str) -> Result<()> {
        self.audit_log.assert_refused(&self.server, what, plane, token)
    }
}

/// An ECDSA signature as tokens have it: both numbers with 32 bytes, instead of ASN.1.
fn fixed_size(der: &[u8]) -> Result<Vec<u8>> {
    let mut rest = der.get(2..).context("a sequence")?;
    let mut out = Vec::new();
    for _ in 0..2 {
        let len = usize::from(*rest.get(1).context("a length")?);
        let number = rest.get(2..2 + len).context("a number")?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        out.resize(out.len() + 32 - number.len(), 0);
        out.extend_from_slice(number);
        rest = &rest[2 + len..];
    }
    Ok(out)
}

#[test]
fn forged_and_foreign_tokens_are_refused_and_audited() -> Result<()> {
    let issuer = Issuer::start()?;
    issuer.account("", "robot")?;
    let good = issuer.token("", "robot", json!({}))?;
    let none = json!({});
    let again = issuer.forged(&good, &none, &none, Some(&issuer.key))?;
    known(&issuer.server, &again).context("what this test forges is good when nothing is wrong with it")?;
    let stranger = KeyPair::generate()?;
    let signed = |header: Value, claims: Value, key: &KeyPair| issuer.forged(&good, &header, &claims, Some(key));
    for (what, token) in [
        ("expired", signed(none.clone(), json!({"iat": 1000, "nbf": 1000, "exp": 4600}), &issuer.key)?),
        (
            "not valid yet",
            signed(none.clone(), json!({"nbf": 9_000_000_000_u64, "exp": 9_000_003_600_u64}), &issuer.key)?,
        ),
        ("for another audience", issuer.token("", "robot", json!({"audiences": ["vault"]}))?),
        ("without algorithm", issuer.forged(&good, &json!({"alg": "none"}), &none, None)?),
        ("of a symmetric algorithm", signed(json!({"alg": "HS256"}), none.clone(), &issuer.key)?),
        ("signed by another key", signed(none.clone(), none.clone(), &stranger)?),
        ("of another issuer", signed(none.clone(), json!({"iss": "https://elsewhere.example"}), &issuer.key)?),
        ("of great length", signed(none.clone(), json!({"padding": "x".repeat(LONG_BYTES)}), &stranger)?),
        ("of no form at all", "nonsense".to_owned()),
    ] {
        issuer.assert_refused(what, "", &token)?;
    }
    assert_no_request(&issuer.server)?;
    assert_eq!(issuer.ask("good", "", &good)?, 403, "known, without rights");
    Ok(())
}

#[test]
fn replayed_tokens_are_refused_and_audited() -> Result<()> {
    let issuer = Issuer::start()?;
    for account in ["deleted", "recreated", "bound"] {
        issuer.account("", account)?;
    }
    let path = |account: &str| format!("{NS}/serviceaccounts/{account}");
    let deleted = issuer.token("", "deleted", json!({}))?;
    let recreated = issuer.token("", "recreated", json!({}))?;
    issuer.admin("POST", &format!("{NS}/secrets"), &json!({"metadata": {"name": "anchor"}}))?;
    let anchor = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "anchor"}});
    let bound = issuer.token("", "bound", anchor)?;
    // They are good for a minute longer, as clocks differ.
    let until = |end: u64| issuer.forged(&bound, &json!({}), &json!({"exp": end - LEEWAY_SECONDS}), Some(&issuer.key));
    let outlived = outlived(&issuer.server, until)?;
    issuer.assert_refused("taken until it expired", "", &outlived)?;
    for token in [&deleted, &recreated, &bound] {
        assert_eq!(issuer.ask("before", "", token)?, 403, "known, without rights");
    }
    issuer.admin("DELETE", &path("deleted"), &Value::Null)?;
    issuer.admin("DELETE", &path("recreated"), &Value::Null)?;
    issuer.account("", "recreated")?;
    issuer.assert_refused("of a deleted account", "", &deleted)?;
    issuer.assert_refused("of an account of the same name", "", &recreated)?;
    issuer.admin("DELETE", &format!("{NS}/secrets/anchor"), &Value::Null)?;
    issuer.assert_refused("bound to what is gone", "", &bound)?;
    issuer.admin("POST", &format!("{NS}/secrets"), &json!({"metadata": {"name": "anchor"}}))?;
    issuer.assert_refused("bound to another of the name", "", &bound)
}

#[test]
fn tokens_of_a_project_are_refused_elsewhere_and_afterwards_and_that_is_audited() -> Result<()> {
    let issuer = Issuer::start()?;
    let typed = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let project = |name: &str| {
        let spec = json!({"ownerRef": {"kind": "Organization", "name": "acme"}});
        issuer.admin("POST", &format!("{PROJECTS}/projects"), &typed("Project", name, spec)).map(drop)
    };
    issuer.admin("POST", &format!("{PROJECTS}/organizations"), &typed("Organization", "acme", json!({})))?;
    project("p1")?;
    project("p2")?;
    issuer.account("/projects/p1", "robot")?;
    let token = issuer.token("/projects/p1", "robot", json!({}))?;
    assert_eq!(issuer.ask("inside", "/projects/p1", &token)?, 403, "known, without rights");
    issuer.assert_refused("of a project at the root", "", &token)?;
    issuer.assert_refused("of another project", "/projects/p2", &token)?;
    issuer.admin("DELETE", &format!("{PROJECTS}/projects/p1"), &Value::Null)?;
    issuer.gone(&format!("{PROJECTS}/projects/p1"))?;
    issuer.assert_refused("of a project that is gone", "/projects/p1", &token)?;
    project("p1")?;
    issuer.account("/projects/p1", "robot")?;
    issuer.assert_refused("of an earlier project of the name", "/projects/p1", &token)
}
