//! A certificate signing request becomes a certificate that logs its holder in.

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use crate::login::{Kubectl, eventually};

/// A request for a user of a group, and the key that goes with it.
fn request(user: &str, group: &str) -> Result<(String, KeyPair)> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    let key = KeyPair::generate()?;
    Ok((params.serialize_request(&key)?.pem()?, key))
}

fn manifest(name: &str, signer: &str, usages: &[&str], pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "signerName": signer, "usages": usages, "request": STANDARD.encode(pem), "expirationSeconds": 3600,
        },
    })
}

fn status(kubectl: &Kubectl, name: &str) -> Result<Value> {
    let object: Value = serde_json::from_str(&kubectl.run(&["get", "csr", name, "-o", "json"])?)?;
    Ok(object["status"].clone())
}

#[test]
fn an_approved_request_becomes_a_certificate_that_logs_in() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let directory = tempfile::tempdir()?;
    let admin = Kubectl::admin(&server)?;
    let (pem, key) = request("carol", "auditors")?;
    let usages = ["digital signature", "client auth"];
    admin.apply(directory.path(), &manifest("carol", "kubernetes.io/kube-apiserver-client", &usages, &pem))?;
    admin.run(&["certificate", "approve", "carol"])?;
    let certificate = eventually(|| {
        let status = status(&admin, "carol")?;
        status["certificate"].as_str().map(str::to_owned).with_context(|| format!("not signed yet: {status}"))
    })?;
    let user = json!({
        "client-certificate-data": certificate, "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let carol = Kubectl::with(&server, directory.path(), "carol", &user)?.whoami()?;
    assert_eq!(carol["username"], "carol");
    assert_eq!(carol["groups"], json!(["auditors", "system:authenticated"]));
    let printed = admin.run(&["get", "csr", "carol", "--no-headers"])?;
    ensure!(printed.contains("Approved,Issued"), "{printed}");
    Ok(())
}

#[test]
fn only_what_is_approved_and_right_is_signed() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let directory = tempfile::tempdir()?;
    let admin = Kubectl::admin(&server)?;
    let (pem, _) = request("mallory", "auditors")?;
    let signer = "kubernetes.io/kube-apiserver-client";
    let submit = |name: &str, signer: &str, usages: &[&str]| {
        admin.apply(directory.path(), &manifest(name, signer, usages, &pem))
    };
    submit("denied", signer, &["client auth"])?;
    admin.run(&["certificate", "deny", "denied"])?;
    submit("serving", signer, &["server auth"])?;
    admin.run(&["certificate", "approve", "serving"])?;
    submit("node", "kubernetes.io/kube-apiserver-client-kubelet", &["client auth", "digital signature"])?;
    admin.run(&["certificate", "approve", "node"])?;
    submit("custom", "example.com/other", &["client auth"])?;
    admin.run(&["certificate", "approve", "custom"])?;
    let failed = |name: &str| {
        eventually(|| {
            let status = status(&admin, name)?;
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let failed = conditions.into_iter().find(|condition| condition["type"] == "Failed");
            failed.with_context(|| format!("no failure yet: {status}"))
        })
    };
    let condition = failed("serving")?;
    assert_eq!(condition["reason"], "SignerValidationFailure");
    assert_eq!(condition["message"], "invalid usage for client certificate: server auth");
    assert_eq!(failed("node")?["message"], "subject organization is not system:nodes");
    // By now the others have had their turn too.
    for name in ["denied", "custom"] {
        assert_eq!(status(&admin, name)?["certificate"], Value::Null, "{name}");
    }
    Ok(())
}

#[test]
fn a_signer_of_ones_own_signs_with_its_own_authority() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (certificate_file, key_file) = (directory.path().join("ca.crt"), directory.path().join("ca.key"));
    std::fs::write(&certificate_file, params.self_signed(&key)?.pem())?;
    std::fs::write(&key_file, key.serialize_pem())?;
    let signer = format!("example.com/mine={},{}", certificate_file.display(), key_file.display());
    let server = Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), &["--custom-signer", &signer])?;
    let admin = Kubectl::admin(&server)?;
    let (pem, key) = request("serving", "anybody")?;
    admin.apply(directory.path(), &manifest("mine", "example.com/mine", &["server auth", "client auth"], &pem))?;
    admin.run(&["certificate", "approve", "mine"])?;
    let certificate = eventually(|| {
        let status = status(&admin, "mine")?;
        status["certificate"].as_str().map(str::to_owned).with_context(|| format!("not signed yet: {status}"))
    })?;
    let user = json!({
        "client-certificate-data": certificate, "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let refused = Kubectl::with(&server, directory.path(), "mine", &user)?.whoami().err();
    ensure!(refused.is_some(), "another authority's certificates do not log in");
    Ok(())
}
