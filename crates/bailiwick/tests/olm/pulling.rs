//! Where catalogs may come from, and how the server gets in there: addresses, pull secrets, authorities.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde_json::json;

use crate::made_up::{Made, catalog_image, publish_text};
use crate::plane::{Plane, catalog_source, condition, subscription};
use crate::registry::{DockerRegistry, Door};

/// A port on which connections are counted, and answered with a text.
fn listener(host: &str, answer: String) -> Result<(u16, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind((host, 0))?;
    let port = listener.local_addr()?.port();
    let called = Arc::new(AtomicUsize::new(0));
    let counted = called.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Ok((port, called))
}

fn refusal(plane: &Plane, name: &str) -> Result<String> {
    let source = plane.until_object(("olm", "catalogsource", name), "refused", |it| {
        it["status"]["reason"] == "RegistryServerError"
    })?;
    Ok(source["status"]["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn private_addresses_are_not_called_for_those_who_write_catalogs() -> Result<()> {
    let (port, called) = listener("127.0.0.1", String::new())?;
    let plane = Plane::start_with(&["--with", "olm"])?;
    for (name, host) in [("literal", "127.0.0.1"), ("name", "localhost")] {
        plane.apply(&catalog_source("olm", name, &format!("{host}:{port}/some/catalog:latest")))?;
        let message = refusal(&plane, name)?;
        assert!(message.contains(&format!("the address of {host} must not be called: loopback")), "{message}");
    }
    plane.apply(&format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: address, namespace: olm}}\n\
         spec: {{sourceType: grpc, address: '127.0.0.1:{port}'}}\n"
    ))?;
    let message = refusal(&plane, "address")?;
    assert!(message.contains("must not be called: loopback"), "{message}");
    plane.apply(&catalog_source("olm", "metadata", "169.254.169.254/latest/meta-data:latest"))?;
    assert!(refusal(&plane, "metadata")?.contains("must not be called: link-local"));
    plane.apply(&format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: cluster}}\n\
         spec: {{source: {{type: Image, image: {{ref: '127.0.0.1:{port}/some/catalog:latest'}}}}}}\n"
    ))?;
    let catalog = plane.until_object(("", "clustercatalog", "cluster"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["reason"] == "Retrying")
    })?;
    let message = condition(&catalog, "Progressing").context("a condition")?["message"].to_string();
    assert!(message.contains("must not be called: loopback"), "{message}");
    assert_eq!(called.load(Ordering::SeqCst), 0, "somebody was called");
    Ok(())
}

#[test]
fn a_registry_cannot_lead_the_server_elsewhere() -> Result<()> {
    let (hidden, called) = listener("127.0.0.2", String::new())?;
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.2:{hidden}/v2/\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    let (port, redirecting) = listener("127.0.0.1", answer)?;
    let login = format!(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://127.0.0.2:{hidden}/token\"\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let (login_port, asking) = listener("127.0.0.1", login)?;
    let (first, second) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{login_port}"));
    let plane =
        Plane::start_with(&["--with", "olm", "--olm-insecure-registry", &first, "--olm-insecure-registry", &second])?;
    for (name, registry) in [("redirect", &first), ("login", &second)] {
        plane.apply(&catalog_source("olm", name, &format!("{registry}/some/catalog:latest")))?;
        let message = refusal(&plane, name)?;
        assert!(message.contains("must not be called: loopback"), "{name}: {message}");
    }
    assert!(redirecting.load(Ordering::SeqCst) > 0 && asking.load(Ordering::SeqCst) > 0, "named registries are called");
    assert_eq!(called.load(Ordering::SeqCst), 0, "somebody else was called");
    Ok(())
}

fn is_ready(source: &serde_json::Value) -> bool {
    source["status"]["connectionState"]["lastObservedState"] == "READY"
}

#[test]
fn pull_secrets_open_a_registry() -> Result<()> {
    let Some(registry) = DockerRegistry::start(&Door::Login)? else { return Ok(()) };
    let image = registry.push(&Door::Login, &catalog_image(&[Made::new("gadget", "1.0.0")])?, "private/catalog")?;
    let plane = Plane::start_with(&["--with", "olm", "--olm-allow-cidrs", "127.0.0.1"])?;
    plane.apply(&catalog_source("olm", "private", &image))?;
    let message = refusal(&plane, "private")?;
    assert!(message.contains("401"), "{message}");
    let config = tempfile::NamedTempFile::new()?;
    std::fs::write(config.path(), registry.docker_config())?;
    let file = format!("--from-file=.dockerconfigjson={}", config.path().display());
    plane.kubectl(&[
        "create",
        "secret",
        "generic",
        "login",
        "-n",
        "olm",
        "--type=kubernetes.io/dockerconfigjson",
        &file,
    ])?;
    let source = catalog_source("olm", "private", &image).replace("publisher: Nobody", "secrets: [login]");
    plane.apply(&source)?;
    plane.until_object(("olm", "catalogsource", "private"), "ready", is_ready)?;
    Ok(())
}

/// The address by which this machine would call others.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only asks for the route.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

#[test]
fn a_registrys_authority_is_named_by_file() -> Result<()> {
    let Some(address) = own_address() else {
        bailiwick_testkit::skip("this machine has no address but the loopback's");
        return Ok(());
    };
    let door = Door::Tls(address);
    let Some(registry) = DockerRegistry::start(&door)? else { return Ok(()) };
    let image = registry.push(&door, &catalog_image(&[Made::new("gadget", "1.0.0")])?, "tls/catalog")?;
    let address = address.to_string();
    let stranger = Plane::start_with(&["--with", "olm", "--olm-allow-cidrs", &address])?;
    stranger.apply(&catalog_source("olm", "tls", &image))?;
    let message = refusal(&stranger, "tls")?;
    assert!(message.contains("certificate"), "{message}");
    drop(stranger);
    let ca = registry.ca_file();
    let ca = ca.to_str().context("a path")?;
    let plane = Plane::start_with(&["--with", "olm", "--olm-allow-cidrs", &address, "--olm-registry-ca-file", ca])?;
    plane.apply(&catalog_source("olm", "tls", &image))?;
    plane.until_object(("olm", "catalogsource", "tls"), "ready", is_ready)?;
    Ok(())
}

#[test]
fn a_bundle_that_is_being_pulled_is_told() -> Result<()> {
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let image = format!("127.0.0.1:{}/test/gadget:v1", silent.local_addr()?.port());
    let catalog = [
        json!({"schema": "olm.package", "name": "gadget", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "gadget", "name": "stable", "entries": [{"name": "gadget.v1.0.0"}]}),
        json!({"schema": "olm.bundle", "package": "gadget", "name": "gadget.v1.0.0", "image": image, "properties": [
            {"type": "olm.package", "value": {"packageName": "gadget", "version": "1.0.0"}}]}),
    ];
    let images = tempfile::tempdir()?;
    let text: String = catalog.iter().map(|document| format!("{document}\n")).collect();
    let catalog = publish_text(images.path(), "c", &text)?;
    let layouts = images.path().to_str().expect("a path");
    let plane = Plane::start_with(&["--with", "olm", "--olm-layout-dir", layouts, "--olm-allow-cidrs", "127.0.0.1"])?;
    plane.apply(&catalog_source("olm", "made-up", &catalog))?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    let waiting = plane.until_object(("operators", "subscription", "gadget"), "unpacking", |it| {
        condition(it, "BundleUnpacking").is_some()
    })?;
    let told = condition(&waiting, "BundleUnpacking").expect("a condition");
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("UnpackingInProgress")));
    drop(silent);
    let failed = plane.until_object(("operators", "subscription", "gadget"), "failed", |it| {
        condition(it, "BundleUnpackFailed").is_some() && condition(it, "BundleUnpacking").is_none()
    })?;
    let message = condition(&failed, "BundleUnpackFailed").expect("a condition")["message"].to_string();
    assert!(message.contains("bundle unpacking failed") && message.contains("gadget"), "{message}");
    Ok(())
}
