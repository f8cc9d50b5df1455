//! `bailiwick auth explain`, as an operator runs it.

use anyhow::{Context, Result};
use bailiwick_testkit::Server;
use serde_json::Value;

use crate::login::Kubectl;

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");

/// What it prints and how it ends.
fn explain(server: &Server, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = std::process::Command::new(BINARY)
        .args(["auth", "explain", "--kubeconfig"])
        .arg(server.kubeconfig())
        .args(arguments)
        .output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), text))
}

#[test]
fn it_says_which_binding_allows_a_request_and_what_comes_nearest() -> Result<()> {
    let server = Server::start(BINARY)?;
    let admin = Kubectl::admin(&server)?;
    admin.run(&["create", "rolebinding", "readers", "--clusterrole=view", "--user=alice"])?;

    let (code, text) = explain(&server, &["--as", "alice", "-n", "default", "list", "cm"])?;
    assert_eq!(code, Some(0), "{text}");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("yes: alice may list configmaps in namespace \"default\""));
    for said in [
        "RBAC allows it",
        "RoleBinding \"readers\" of namespace \"default\" gives ClusterRole \"view\" to User \"alice\"",
        "by the rule ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }

    let (code, text) =
        explain(&server, &["--as", "alice", "-n", "default", "delete", "deployments.apps/scale", "web"])?;
    assert_eq!(code, Some(1), "a type that is not served cannot be asked about: {text}");
    let (code, text) = explain(&server, &["--as", "alice", "-n", "default", "delete", "configmaps", "web"])?;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("no: alice may not delete configmaps \"web\" in namespace \"default\"\n"), "{text}");
    assert!(text.contains("nearest to allowing it:") && text.contains("not the verb delete"), "{text}");

    let (code, text) = explain(&server, &["--as", "alice", "-o", "json", "get", "/metrics"])?;
    assert_eq!(code, Some(1), "{text}");
    let explanation: Value = serde_json::from_str(&text)?;
    assert_eq!(explanation["allowed"], false, "{text}");

    let (code, text) = explain(&server, &["get", "secrets"])?;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("yes: you may get secrets in the whole cluster\n"), "{text}");
    Ok(())
}

#[test]
fn only_those_who_may_are_told() -> Result<()> {
    let server = Server::start(BINARY)?;
    let directory = tempfile::tempdir()?;
    Kubectl::with(&server, directory.path(), "nobody", &serde_json::json!({"token": bailiwick_testkit::NOBODY_TOKEN}))?;
    let output = std::process::Command::new(BINARY)
        .args(["auth", "explain", "list", "secrets", "--kubeconfig"])
        .arg(directory.path().join("nobody.kubeconfig"))
        .output()?;
    let text = String::from_utf8(output.stderr).context("text")?;
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("cannot get path \"/auth/explain\""), "{text}");
    Ok(())
}
