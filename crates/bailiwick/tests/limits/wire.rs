//! HTTP/1.1 over TLS by hand, for clients that behave as no library would.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{IpAddr, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// How the end of a body is found.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

/// A client certificate and its key, both PEM.
pub struct Identity<'a> {
    pub certificate_pem: &'a str,
    pub key_pem: &'a str,
}

/// One connection of the administrator.
pub struct Wire {
    reader: BufReader<ReadHalf<TlsStream<TcpStream>>>,
    writer: WriteHalf<TlsStream<TcpStream>>,
    status: u16,
    framing: Framing,
    /// Bytes of a watch that are not a whole line yet.
    partial: Vec<u8>,
}

/// A request head with the administrator's credentials.
pub fn head(method: &str, path: &str, content_type: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\naccept: application/json\r\n\
         content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    )
}

impl Wire {
    pub async fn connect(address: SocketAddr, ca_pem: &str) -> std::io::Result<Self> {
        Self::connect_as(address, ca_pem, None).await
    }

    /// A connection that shows a certificate.
    pub async fn connect_as(
        address: SocketAddr,
        ca_pem: &str,
        identity: Option<Identity<'_>>,
    ) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        bailiwick_auth::tls::add_roots(&mut roots, "CA", ca_pem).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificate_pem, key_pem }) => {
                let chain = bailiwick_auth::tls::certificates_from_pem("client", certificate_pem).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::IpAddress(IpAddr::from(address.ip()));
        let tcp = TcpStream::connect(address).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self { reader: BufReader::new(reader), writer, status: 0, framing: Framing::Length(0), partial: Vec::new() })
    }

    pub async fn send(&mut self, text: &str) {
        // The server may have answered and closed before it has read everything.
        let _ = self.writer.write_all(text.as_bytes()).await;
        let _ = self.writer.flush().await;
    }

    pub async fn request(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        self.exchange(method, path, "application/json", body).await
    }

    pub async fn patch(&mut self, path: &str, patch: &Value) -> Answer {
        self.exchange("PATCH", path, "application/merge-patch+json", patch).await
    }

    pub async fn request_as(&mut self, user: &str, method: &str, path: &str) -> Answer {
        let head = head(method, path, "application/json", 0);
        self.send(&head.replacen("host: x", &format!("host: x\r\nimpersonate-user: {user}"), 1)).await;
        Answer { status: self.head().await, body: self.body().await }
    }

    /// A request of whoever the connection's certificate names.
    #[allow(dead_code, reason = "not every test needs it")]
    pub async fn request_without_token(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let head = head(method, path, "application/json", body.len());
        self.send(&(head.replacen("authorization: Bearer admin-token\r\n", "", 1) + &body)).await;
        Answer { status: self.head().await, body: self.body().await }
    }

    async fn exchange(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = head(method, path, content_type, body.len()) + &body;
        self.send(&request).await;
        Answer { status: self.head().await, body: self.body().await }
    }

    /// Sends a request and reads only the head of its answer.
    pub async fn open(&mut self, method: &str, path: &str) -> u16 {
        self.send(&head(method, path, "application/json", 0)).await;
        self.head().await
    }

    /// The status of the next answer; its body can be read then.
    pub async fn head(&mut self) -> u16 {
        self.headers().await;
        self.status
    }

    /// The headers of the next answer, in lower case; its body can be read then.
    pub async fn headers(&mut self) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).await.unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                self.status = rest.split(' ').next().unwrap_or_default().parse().unwrap();
                self.framing = Framing::Length(0);
                continue;
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                self.framing = Framing::Length(length.trim().parse().unwrap());
            } else if line == "transfer-encoding: chunked" {
                self.framing = Framing::Chunked;
            } else if line.is_empty() {
                return headers;
            }
            headers.extend(line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
    }

    pub async fn body(&mut self) -> Vec<u8> {
        match self.framing {
            Framing::Length(length) => {
                let mut body = vec![0; length];
                self.reader.read_exact(&mut body).await.unwrap();
                body
            }
            Framing::Chunked => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk().await {
                    body.extend(chunk);
                }
                body
            }
        }
    }

    /// The next chunk; `None` is the proper end of the body, anything else that ends it fails the test.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).expect("a chunk or the end of the body");
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).await.unwrap();
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// The next event of a watch; `None` when the watch has ended as it should.
    pub async fn next_event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let chunk = self.chunk().await?;
            self.partial.extend(chunk);
        }
    }

    /// Returns when the server has closed the connection.
    pub async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest).await;
    }
}
