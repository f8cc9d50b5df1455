//! Tokens of service accounts: bound to secrets, signed by keys that change, limited in their lifetime.

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Server};
use serde_json::{Value, json};

use crate::login::{Kubectl, client, eventually, known, who};

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");

fn token(kubectl: &Kubectl, more: &[&str]) -> Result<String> {
    let mut arguments = vec!["create", "token", "robot"];
    arguments.extend(more);
    Ok(kubectl.run(&arguments)?.trim().to_owned())
}

#[test]
fn a_token_bound_to_a_secret_works_on_a_server_that_has_just_started() -> Result<()> {
    let mut server = Server::start(BINARY)?;
    let admin = Kubectl::admin(&server)?;
    admin.run(&["create", "serviceaccount", "robot"])?;
    admin.run(&["create", "secret", "generic", "anchor"])?;
    let bound = token(&admin, &["--bound-object-kind=Secret", "--bound-object-name=anchor"])?;
    server.kill();
    server.restart()?;
    let user = known(&server, &bound).context("the very first request with it")?;
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    admin.run(&["delete", "secret", "anchor"])?;
    assert_eq!(who(&server, &bound)?, Err(401), "the secret is gone, and the token with it");
    Ok(())
}

#[test]
fn keys_rotate_without_a_restart() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (signing, checking) = (directory.path().join("signing.pem"), directory.path().join("checking.pem"));
    let (first, second) = (rcgen::KeyPair::generate()?, rcgen::KeyPair::generate()?);
    std::fs::write(&signing, first.serialize_pem())?;
    std::fs::write(&checking, first.public_key_pem())?;
    let path = |path: &std::path::Path| path.to_str().map(str::to_owned).context("a path in UTF-8");
    let server = Server::start_with(
        BINARY,
        &[
            "--service-account-signing-key-file",
            &path(&signing)?,
            "--service-account-key-file",
            &path(&checking)?,
            "--service-account-issuer",
            "https://new.example",
            "--service-account-issuer",
            "https://old.example",
            "--service-account-max-token-expiration",
            "2h",
            "--service-account-jwks-uri",
            "https://keys.example/jwks",
        ],
    )?;
    let admin = Kubectl::admin(&server)?;
    admin.run(&["create", "serviceaccount", "robot"])?;
    let before = token(&admin, &[])?;
    known(&server, &before)?;
    let cut = token(&admin, &["--duration=3h"])?;
    ensure!(cut.contains("requested expiration of 10800 seconds shortened to 7200 seconds"), "a warning: {cut}");

    let get = |path: &str| -> Result<Value> {
        Ok(client(&server)?.get(format!("{}{path}", server.url())).bearer_auth(ADMIN_TOKEN).send()?.json()?)
    };
    let document = get("/.well-known/openid-configuration")?;
    assert_eq!(document["issuer"], "https://new.example");
    assert_eq!(document["jwks_uri"], "https://keys.example/jwks");

    // The new key signs, the old one is still trusted.
    std::fs::write(&signing, second.serialize_pem())?;
    let keys = |count: usize| {
        eventually(|| {
            let keys = get("/openid/v1/jwks")?;
            ensure!(keys["keys"].as_array().is_some_and(|keys| keys.len() == count), "{keys}");
            Ok(())
        })
    };
    keys(2)?;
    let after = token(&admin, &[])?;
    known(&server, &before)?;
    known(&server, &after)?;
    // The old key is withdrawn.
    std::fs::write(&checking, second.public_key_pem())?;
    keys(1)?;
    assert_eq!(who(&server, &before)?, Err(401));
    known(&server, &after).map(drop)
}

#[test]
fn tokens_are_for_their_audience() -> Result<()> {
    let server = Server::start_with(BINARY, &["--api-audiences", "api,alias"])?;
    let admin = Kubectl::admin(&server)?;
    admin.run(&["create", "serviceaccount", "robot"])?;
    let elsewhere = token(&admin, &["--audience=vault"])?;
    assert_eq!(who(&server, &elsewhere)?, Err(401));
    known(&server, &token(&admin, &["--audience=alias"])?)?;
    let review = json!({"spec": {"token": elsewhere, "audiences": ["vault", "other"]}});
    let url = format!("{}/apis/authentication.k8s.io/v1/tokenreviews", server.url());
    let answer: Value = client(&server)?.post(url).bearer_auth(ADMIN_TOKEN).json(&review).send()?.json()?;
    assert_eq!(answer["status"]["audiences"], json!(["vault"]), "{answer}");
    Ok(())
}
