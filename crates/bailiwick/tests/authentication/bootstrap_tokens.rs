//! Bootstrap tokens: Secrets of kube-system whose bearers get in for as long as the Secrets last.

use anyhow::{Result, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Server};
use serde_json::{Value, json};

use crate::login::{client, eventually, known, who};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const TOKEN: &str = "abcdef.0123456789abcdef";

fn secret(id: &str, expiration: &str) -> Value {
    json!({
        "metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": expiration, "auth-extra-groups": "system:bootstrappers:joining",
        },
    })
}

fn create(server: &Server, secret: &Value) -> Result<()> {
    let request = client(server)?.post(format!("{}{SECRETS}", server.url())).bearer_auth(ADMIN_TOKEN).json(secret);
    let response = request.send()?;
    ensure!(response.status() == 201, "{}", response.text()?);
    Ok(())
}

#[test]
fn a_bootstrap_token_lets_in_while_its_secret_lasts() -> Result<()> {
    let server = Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), &["--enable-bootstrap-token-auth"])?;
    ensure!(who(&server, TOKEN)? == Err(401), "nobody yet");
    create(&server, &secret("abcdef", "2999-01-01T00:00:00Z"))?;
    let user = known(&server, TOKEN)?;
    assert_eq!(user["username"], "system:bootstrap:abcdef");
    assert_eq!(user["groups"], json!(["system:bootstrappers", "system:bootstrappers:joining", "system:authenticated"]));
    let path = format!("{}{SECRETS}/bootstrap-token-abcdef", server.url());
    ensure!(client(&server)?.delete(path).bearer_auth(ADMIN_TOKEN).send()?.status().is_success());
    ensure!(who(&server, TOKEN)? == Err(401), "it goes with its Secret, at once");
    Ok(())
}

#[test]
fn an_expired_token_lets_nobody_in_and_is_removed() -> Result<()> {
    let server = Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), &["--enable-bootstrap-token-auth=true"])?;
    create(&server, &secret("abcdef", "2020-01-01T00:00:00Z"))?;
    ensure!(who(&server, TOKEN)? == Err(401));
    let path = format!("{}{SECRETS}/bootstrap-token-abcdef", server.url());
    eventually(|| {
        let status = client(&server)?.get(&path).bearer_auth(ADMIN_TOKEN).send()?.status();
        ensure!(status == 404, "{status}");
        Ok(())
    })
}

#[test]
fn without_the_flag_such_secrets_are_secrets_like_others() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    create(&server, &secret("abcdef", "2999-01-01T00:00:00Z"))?;
    ensure!(who(&server, TOKEN)? == Err(401));
    Ok(())
}
