//! A proxy in front that names its users, and the ConfigMap that tells aggregated servers how.

use anyhow::{Context, Result};
use bailiwick_testkit::Server;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::login::{Kubectl, builder};

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

#[test]
fn a_front_proxy_names_its_users_and_others_do_not() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let key = KeyPair::generate()?;
    let mut params = named("proxies");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = params.self_signed(&key)?.pem();
    let authority = Issuer::new(params, key);
    let ca_file = directory.path().join("proxy-ca.pem");
    std::fs::write(&ca_file, &authority_pem)?;
    let identity = |name: &str| -> Result<reqwest::Identity> {
        let mut params = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let pem = format!("{}{}", params.signed_by(&key, &authority)?.pem(), key.serialize_pem());
        Ok(reqwest::Identity::from_pem(pem.as_bytes())?)
    };
    let server = Server::start_with(
        env!("CARGO_BIN_EXE_bailiwick"),
        &[
            "--requestheader-client-ca-file",
            ca_file.to_str().context("a path in UTF-8")?,
            "--requestheader-allowed-names",
            "front",
            "--requestheader-username-headers",
            "X-Remote-User",
            "--requestheader-group-headers",
            "X-Remote-Group",
            "--requestheader-uid-headers",
            "X-Remote-Uid",
            "--requestheader-extra-headers-prefix",
            "X-Remote-Extra-",
        ],
    )?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let url = format!("{}/apis/authentication.k8s.io/v1/selfsubjectreviews", server.url());
    let ask = |identity: Option<reqwest::Identity>| -> Result<(u16, Value)> {
        let mut client = builder(&server)?;
        if let Some(identity) = identity {
            client = client.identity(identity);
        }
        let request = client.build()?.post(&url).json(&review).header("X-Remote-User", "frida");
        let request = request.header("X-Remote-Group", "dev").header("X-Remote-Uid", "f");
        let answer = request.header("X-Remote-Extra-Acme.com%2Fproject", "p").send()?;
        Ok((answer.status().as_u16(), answer.json()?))
    };
    let (status, answer) = ask(Some(identity("front")?))?;
    assert_eq!(status, 201, "{answer}");
    let user = &answer["status"]["userInfo"];
    assert_eq!((&user["username"], &user["uid"]), (&json!("frida"), &json!("f")));
    assert_eq!(user["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(user["extra"]["acme.com/project"], json!(["p"]));
    assert_eq!(ask(Some(identity("back")?))?.0, 401, "another name");
    assert_eq!(ask(None)?.0, 403, "without a certificate one is anonymous, whatever the headers say");

    let admin = Kubectl::admin(&server)?;
    let map = ["get", "configmap", "extension-apiserver-authentication", "-n", "kube-system", "-o", "json"];
    let map: Value = serde_json::from_str(&admin.run(&map)?)?;
    assert_eq!(map["data"]["requestheader-username-headers"], r#"["X-Remote-User"]"#);
    // Servers behind us believe the proxies that we believe, and us.
    assert_eq!(map["data"]["requestheader-allowed-names"], r#"["front","front-proxy-client"]"#);
    let ours = std::fs::read_to_string(server.data_dir().join("pki/front-proxy-ca.crt"))?;
    assert_eq!(map["data"]["requestheader-client-ca-file"], format!("{authority_pem}{ours}"));
    let own = std::fs::read_to_string(server.data_dir().join("pki/ca.crt"))?;
    assert_eq!(map["data"]["client-ca-file"], own.as_str());
    Ok(())
}
