//! Requests for another protocol, such as kubectl exec makes: agreed to by the other server, then bytes both ways.

use std::sync::Arc;

use anyhow::{Context, Result};
use bailiwick_testkit::ADMIN_TOKEN;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::api::{DEADLINE, aggregated};
use crate::backend::{Backend, Setup, answering, json_answer, shouting};

const SHOUT: &str = "/apis/things.example.com/v1/namespaces/default/things/a/exec";

fn upgradable() -> Setup {
    Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.rsplit('/').next() {
            Some("exec") => Ok(shouting(request)),
            Some("refused") => answering(json_answer(403, &json!({"message": "not you"}))),
            Some("ignored") => answering(json_answer(200, &json!({}))),
            _ => Err(Box::new(request)),
        }),
        ..Setup::default()
    }
}

/// A connection as the administrator, with the request for another protocol sent.
async fn asking(server: &bailiwick_testkit::Server, path: &str) -> Result<TlsStream<TcpStream>> {
    let address = server.url().trim_start_matches("https://");
    let mut roots = rustls::RootCertStore::empty();
    let ca = std::fs::read(server.data_dir().join("pki/ca.crt"))?;
    for certificate in rustls_pemfile::certs(&mut &*ca) {
        roots.add(certificate?)?;
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost")?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nConnection: Upgrade\r\nUpgrade: shout/1\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    Ok(stream)
}

/// Reads until the text has come.
async fn read_until(stream: &mut TlsStream<TcpStream>, end: &str) -> Result<String> {
    let reading = async {
        let mut text = String::new();
        let mut buffer = [0; 1024];
        while !text.contains(end) {
            let read = stream.read(&mut buffer).await?;
            anyhow::ensure!(read > 0, "the connection ended after {text:?}");
            text.push_str(&String::from_utf8_lossy(buffer.get(..read).context("in range")?));
        }
        Ok(text)
    };
    tokio::time::timeout(DEADLINE, reading).await?
}

#[tokio::test]
async fn bytes_go_both_ways_once_the_protocol_is_another() -> Result<()> {
    let backend = Backend::start(upgradable())?;
    let (server, _api) = aggregated(&backend).await?;
    let mut stream = asking(&server, SHOUT).await?;
    let head = read_until(&mut stream, "\r\n\r\n").await?;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_ascii_lowercase().contains("upgrade: shout/1"), "{head}");
    for word in ["hello", "world"] {
        stream.write_all(word.as_bytes()).await?;
        stream.flush().await?;
        read_until(&mut stream, &word.to_ascii_uppercase()).await?;
    }
    let asked = backend.asked(SHOUT).pop().context("it was asked")?;
    assert_eq!(asked.headers["x-remote-user"], "admin");
    assert!(!asked.headers.contains_key("authorization"));
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_agree_is_heard() -> Result<()> {
    let (server, _api) = aggregated(&Backend::start(upgradable())?).await?;
    let mut stream = asking(&server, &SHOUT.replace("exec", "refused")).await?;
    let answer = read_until(&mut stream, "not you").await?;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let mut stream = asking(&server, &SHOUT.replace("exec", "ignored")).await?;
    let answer = read_until(&mut stream, "invalid upgrade response: status code 200\n").await?;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    Ok(())
}
