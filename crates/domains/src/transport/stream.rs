//! Streams: TCP and TLS, with the two-byte length in front of each message (RFC 1035 §4.2.2, RFC 7858).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Failure;
use super::udp::io_failure;
use crate::seams::Net;
use crate::wire::{Answer, Ask};

/// Whom a TLS server must be certified by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsTrust {
    /// The system's authorities.
    System,
    /// The authorities of a PEM file.
    File(PathBuf),
}

/// Asks by TCP.
pub(super) async fn ask_tcp(net: &Net, server: SocketAddr, ask: &Ask, patience: Duration) -> Result<Answer, Failure> {
    within(patience, async {
        let mut stream = connect(net, server).await?;
        exchange(&mut stream, ask).await
    })
    .await
}

/// Runs something that must be done in time.
pub(super) async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(patience, work).await.unwrap_or(Err(Failure::Timeout))
}

/// Opens a connection from the vantage point.
pub(super) async fn connect(net: &Net, server: SocketAddr) -> Result<TcpStream, Failure> {
    let target = net.route(server);
    let open = async {
        let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(net.source(target))?;
        let stream = socket.connect(target).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    open.await.map_err(|error: std::io::Error| io_failure(&error))
}

/// Sends one message and reads one.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), ask: &Ask) -> Result<Answer, Failure> {
    let id = rand::random();
    let packet = ask.encode(id);
    let length = u16::try_from(packet.len()).map_err(|_| Failure::Malformed("the question is too long".to_owned()))?;
    let mut framed = Vec::with_capacity(packet.len() + 2);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(&packet);
    let io = |error: std::io::Error| io_failure(&error);
    stream.write_all(&framed).await.map_err(io)?;
    stream.flush().await.map_err(io)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await.map_err(io)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).await.map_err(io)?;
    let answer = Answer::parse(Bytes::from(message)).map_err(|error| Failure::Malformed(error.to_string()))?;
    if answer.answers(id, ask) { Ok(answer) } else { Err(Failure::Mismatch) }
}

/// Opens TLS connections; reads the authorities when the first is opened.
pub(super) struct Connector {
    trust: TlsTrust,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Connector {
    pub(super) fn new(trust: TlsTrust) -> Self {
        Self { trust, config: OnceLock::new() }
    }

    pub(super) async fn ask_tls(
        &self,
        net: &Net,
        server: SocketAddr,
        tls_name: &str,
        ask: &Ask,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        within(patience, async {
            let mut stream = self.open(net, server, tls_name, &[b"dot"]).await?;
            exchange(&mut stream, ask).await
        })
        .await
    }

    /// A TLS stream to a server that proves that name.
    pub(super) async fn open(
        &self,
        net: &Net,
        server: SocketAddr,
        tls_name: &str,
        protocols: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let config = self.config.get_or_init(|| client_config(&self.trust));
        let config = config.as_ref().map_err(|error| Failure::Stream(error.clone()))?;
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from(tls_name.to_owned())
            .map_err(|error| Failure::Stream(format!("{tls_name}: {error}")))?;
        let stream = connect(net, server).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        stream.map_err(|error| Failure::Stream(format!("TLS: {error}")))
    }
}

fn client_config(trust: &TlsTrust) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(authorities(trust)?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The authorities that are trusted.
pub(super) fn authorities(trust: &TlsTrust) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'static>> = match trust {
        TlsTrust::System => rustls_native_certs::load_native_certs().certs,
        TlsTrust::File(path) => {
            let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            rustls_pemfile::certs(&mut pem.as_slice()).filter_map(Result::ok).collect()
        }
    };
    roots.add_parsable_certificates(certificates);
    Ok(roots)
}
