//! Tokens of a real OpenID provider: by flags and by a configuration that changes, by token and by exec plugin, and those
//! that must be refused.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::Server;
use serde_json::{Value, json};

use crate::login::{Kubectl, eventually, known, who};
use crate::provider::{Provider, programs};
use crate::refusals::{AuditLog, LONG_BYTES, assert_no_request, outlived, until_refused};

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
const CLIENT: &str = "bailiwick";

fn by_flags(provider: &Provider, more: &[&str]) -> Result<Server> {
    let ca_file = provider.ca_file.to_str().context("a path in UTF-8")?;
    let mut flags = vec![
        "--oidc-issuer-url",
        &provider.issuer,
        "--oidc-client-id",
        CLIENT,
        "--oidc-ca-file",
        ca_file,
        "--oidc-groups-claim",
        "groups",
        "--oidc-groups-prefix",
        "oidc:",
    ];
    flags.extend(more);
    Server::start_with(BINARY, &flags)
}

#[test]
fn kubectl_logs_in_with_a_token_and_with_an_exec_plugin() -> Result<()> {
    let Some(provider) = Provider::start()? else { return Ok(()) };
    let server = by_flags(&provider, &[])?;
    let directory = tempfile::tempdir()?;
    let admin = Kubectl::admin(&server)?;
    admin.run(&["create", "clusterrole", "config-reader", "--verb=get,list", "--resource=configmaps"])?;
    admin.run(&["create", "clusterrolebinding", "devs-read", "--clusterrole=config-reader", "--group=oidc:dev"])?;

    let token = provider.login("alice", &["dev"], CLIENT)?;
    let alice = Kubectl::with(&server, directory.path(), "token", &json!({"token": token}))?;
    let user = eventually(|| alice.whoami())?;
    assert_eq!(user["username"], format!("{}#alice", provider.issuer), "{user}");
    assert_eq!(user["groups"], json!(["oidc:dev", "system:authenticated"]));
    alice.run(&["get", "configmaps", "--namespace", "kube-system"])?;
    let refused = alice.run(&["get", "secrets"]).expect_err("no rights").to_string();
    ensure!(refused.contains("secrets is forbidden: User"), "{refused}");

    let plugin = programs().join("exec-plugin.js");
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "node",
        "args": [plugin, provider.issuer, "bob", "dev,qa"],
        "env": [{"name": "NODE_EXTRA_CA_CERTS", "value": provider.ca_file}],
    }});
    let bob = Kubectl::with(&server, directory.path(), "exec", &exec)?;
    let user = bob.whoami()?;
    assert_eq!(user["groups"], json!(["oidc:dev", "oidc:qa", "system:authenticated"]), "{user}");
    bob.run(&["get", "configmaps", "--namespace", "kube-system"]).map(drop)
}

#[test]
fn tokens_that_are_not_good_are_refused_and_audited() -> Result<()> {
    let Some(provider) = Provider::start()? else { return Ok(()) };
    let audit_log = AuditLog::new()?;
    let recording = audit_log.flags();
    let mut flags = vec!["--oidc-required-claim", "tenant=acme"];
    flags.extend(recording.iter().map(String::as_str));
    let server = by_flags(&provider, &flags)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let good = json!({"sub": "alice", "tenant": "acme"});
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let none = json!({});
    let token = provider.forge(&good, &none, "current")?;
    eventually(|| known(&server, &token))?;
    let other = json!({"alg": "RS256", "kid": "another"});
    for (what, token) in [
        ("expired", provider.forge(&with("exp", json!(now - 1)), &none, "current")?),
        ("not valid yet", provider.forge(&with("nbf", json!(now + 300)), &none, "current")?),
        ("for another audience", provider.forge(&with("aud", json!("other")), &none, "current")?),
        ("for nobody", provider.forge(&with("aud", json!([])), &none, "current")?),
        ("without the required claim", provider.forge(&json!({"sub": "alice"}), &none, "current")?),
        ("with another value of it", provider.forge(&with("tenant", json!("evil")), &none, "current")?),
        ("without a user", provider.forge(&json!({"tenant": "acme"}), &none, "current")?),
        ("signed by another key", provider.forge(&good, &none, "stranger")?),
        ("that names an unknown key", provider.forge(&good, &other, "stranger")?),
        ("not signed", provider.forge(&good, &json!({"alg": "none"}), "none")?),
        ("signed symmetrically", provider.forge(&good, &json!({"alg": "HS256"}), "current")?),
        ("of an algorithm that was not allowed", provider.forge(&good, &json!({"alg": "PS256"}), "current")?),
        ("of another issuer", provider.forge(&with("iss", json!("https://elsewhere")), &none, "current")?),
        ("with critical extensions", provider.forge(&good, &json!({"crit": ["exp"]}), "current")?),
        ("of great length", provider.forge(&with("padding", json!("x".repeat(LONG_BYTES))), &none, "current")?),
        ("of which a part is missing", token.rsplit_once('.').context("three parts")?.0.to_owned()),
        ("changed", token.replacen("eyJ", "eyK", 2)),
        ("of another client of the provider", provider.login("alice", &[], "other")?),
    ] {
        audit_log.assert_refused(&server, what, "", &token)?;
    }
    let outlived = outlived(&server, |exp| provider.forge(&with("exp", json!(exp)), &none, "current"))?;
    audit_log.assert_refused(&server, "taken until it expired", "", &outlived)?;
    assert_no_request(&server)?;
    known(&server, &token).context("the good one is still good")?;
    provider.rotate()?;
    let after = provider.forge(&good, &none, "current")?;
    eventually(|| known(&server, &after))?;
    until_refused(&server, &token)?;
    audit_log.assert_refused(&server, "of a key that was withdrawn", "", &token)?;
    let log = server.log();
    ensure!(!log.contains(&token) && !log.contains(&after), "a token is in the log");
    Ok(())
}

#[test]
fn a_new_key_of_the_provider_is_known_at_once() -> Result<()> {
    let Some(provider) = Provider::start()? else { return Ok(()) };
    let server = by_flags(&provider, &[])?;
    let before = provider.login("alice", &[], CLIENT)?;
    eventually(|| known(&server, &before))?;
    provider.rotate()?;
    let after = provider.login("alice", &[], CLIENT)?;
    known(&server, &after).map(drop)
}

fn configuration(provider: &Provider, claim_mappings: &Value, more: &Value) -> Value {
    let mut jwt = json!({
        "issuer": {
            "url": provider.issuer, "certificateAuthority": provider.ca_pem,
            "audiences": ["unused", CLIENT], "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": claim_mappings,
    });
    if let (Some(jwt), Some(more)) = (jwt.as_object_mut(), more.as_object()) {
        jwt.extend(more.clone());
    }
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt],
        "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]},
    })
}

fn write(path: &Path, config: &Value) -> Result<()> {
    // Replaced whole, as editors and mounted volumes do.
    let beside = path.with_extension("new");
    std::fs::write(&beside, config.to_string())?;
    Ok(std::fs::rename(beside, path)?)
}

#[test]
fn a_configuration_maps_claims_by_expressions_and_is_followed_as_it_changes() -> Result<()> {
    let Some(provider) = Provider::start()? else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("authentication.yaml");
    let first = json!({
        "username": {"expression": "'first:' + claims.sub"}, "groups": {"expression": "claims.groups"},
        "uid": {"expression": "claims.sub + '-uid'"},
        "extra": [{"key": "acme.com/issuer", "valueExpression": "claims.iss"}],
    });
    let rules =
        json!({"userValidationRules": [{"expression": "!user.username.endsWith(':mallory')", "message": "banned"}]});
    write(&path, &configuration(&provider, &first, &rules))?;
    let server = Server::start_with(BINARY, &["--authentication-config", path.to_str().context("a path in UTF-8")?])?;
    let alice = provider.login("alice", &["dev"], CLIENT)?;
    let user = eventually(|| known(&server, &alice))?;
    assert_eq!((&user["username"], &user["uid"]), (&json!("first:alice"), &json!("alice-uid")));
    assert_eq!(user["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(user["extra"]["acme.com/issuer"], json!([provider.issuer]));
    let mallory = provider.login("mallory", &[], CLIENT)?;
    assert_eq!(who(&server, &mallory)?, Err(401));

    let anonymous = |path: &str| -> Result<u16> {
        Ok(crate::login::client(&server)?.get(format!("{}{path}", server.url())).send()?.status().as_u16())
    };
    assert_eq!((anonymous("/livez")?, anonymous("/version")?), (200, 401), "anonymous only where configured");

    std::fs::write(&path, "nonsense")?;
    eventually(|| {
        ensure!(server.log().contains("failed to load authentication config"));
        Ok(())
    })?;
    assert_eq!(known(&server, &alice)?["username"], "first:alice", "what cannot be read changes nothing");

    let second = json!({"username": {"claim": "sub", "prefix": "second:"}});
    write(&path, &configuration(&provider, &second, &json!({})))?;
    eventually(|| {
        let user = known(&server, &alice)?;
        ensure!(user["username"] == "second:alice", "{user}");
        Ok(())
    })?;
    assert_eq!(known(&server, &mallory)?["username"], "second:mallory", "the rule is gone");

    let mut none = configuration(&provider, &second, &json!({}));
    none["jwt"] = json!([]);
    write(&path, &none)?;
    until_refused(&server, &alice).context("a removed issuer is believed no longer")
}

#[test]
fn a_configuration_that_makes_no_sense_stops_the_server() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("authentication.yaml");
    std::fs::write(
        &path,
        "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: 'http://a'}}]\n",
    )?;
    let start = Server::start_with(BINARY, &["--authentication-config", path.to_str().context("a path in UTF-8")?]);
    let error = start.err().context("it must not start")?.to_string();
    for wanted in [
        "jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https",
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        "jwt[0].claimMappings.username: Required value: claim or expression is required",
    ] {
        ensure!(error.contains(wanted), "{error}");
    }
    Ok(())
}
