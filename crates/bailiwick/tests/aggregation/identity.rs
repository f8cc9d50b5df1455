//! How servers behind us know that it is us: the certificate, and the ConfigMap that tells them whom to believe.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::{Api, api_service, start};
use crate::backend::{Backend, Setup};

const MAP: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const NAME: &str = "v1.things.example.com";

#[tokio::test]
async fn a_server_that_trusts_what_we_publish_believes_us() -> Result<()> {
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    let published = api.json(MAP).await?["data"].clone();
    let names =
        |key: &str| -> Value { serde_json::from_str(published[key].as_str().unwrap_or_default()).unwrap_or_default() };
    assert_eq!(names("requestheader-allowed-names"), json!(["front-proxy-client"]));
    assert_eq!(names("requestheader-username-headers"), json!(["X-Remote-User"]));
    assert_eq!(names("requestheader-uid-headers"), json!(["X-Remote-Uid"]));
    assert_eq!(names("requestheader-group-headers"), json!(["X-Remote-Group"]));
    assert_eq!(names("requestheader-extra-headers-prefix"), json!(["X-Remote-Extra-"]));
    let client_ca = published["requestheader-client-ca-file"].as_str().context("an authority")?.to_owned();
    assert_ne!(published["client-ca-file"], client_ca.as_str(), "clients must not be taken for us");
    // The handshake fails with anybody that this authority does not vouch for.
    let backend = Backend::start(Setup { client_ca: Some(client_ca), ..Setup::default() })?;
    api.register(&api_service(&backend)).await?;
    api.condition(NAME, "Passed").await?;
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_the_operator_is_used_instead() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (certificate, key) = (directory.path().join("proxy.crt"), directory.path().join("proxy.key"));
    let certified = rcgen::generate_simple_self_signed(["our-proxy".to_owned()])?;
    std::fs::write(&certificate, certified.cert.pem())?;
    std::fs::write(&key, certified.signing_key.serialize_pem())?;
    let text = |path: &std::path::Path| path.to_str().map(str::to_owned).context("a path in UTF-8");
    let (certificate, key) = (text(&certificate)?, text(&key)?);
    let server = start(&["--proxy-client-cert-file", &certificate, "--proxy-client-key-file", &key])?;
    let api = Api::admin(&server)?;
    assert_eq!(api.json(MAP).await?["data"]["requestheader-client-ca-file"], Value::Null);
    let backend = Backend::start(Setup { client_ca: Some(certified.cert.pem()), ..Setup::default() })?;
    api.register(&api_service(&backend)).await?;
    api.condition(NAME, "Passed").await?;
    assert!(start(&["--proxy-client-cert-file", &certificate]).is_err(), "a key belongs to it");
    Ok(())
}
