//! HTTP/2 over TLS by hand, for clients that behave as no library would.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::{IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// One frame from the server.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether the server has said all on this stream.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// One connection.
pub struct Frames {
    reader: ReadHalf<TlsStream<TcpStream>>,
    writer: WriteHalf<TlsStream<TcpStream>>,
}

pub fn encode(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A header as HPACK writes it out in full, nothing remembered.
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        // Lengths of seven bits, then seven more at a time.
        match u8::try_from(text.len()) {
            Ok(len) if len < 127 => block.push(len),
            _ => {
                block.push(127);
                let mut rest = text.len() - 127;
                while rest >= 128 {
                    block.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
    block
}

/// The headers of a request.
pub fn head(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fixed = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "x")];
    fixed.iter().chain(more).flat_map(|(name, value)| literal(name, value)).collect()
}

impl Frames {
    /// A connection that has agreed to HTTP/2 and says nothing.
    pub async fn handshake(address: SocketAddr, ca_pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        bailiwick_auth::tls::add_roots(&mut roots, "CA", ca_pem).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::IpAddress(IpAddr::from(address.ip()));
        let tcp = TcpStream::connect(address).await.unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        let (reader, writer) = tokio::io::split(stream);
        Self { reader, writer }
    }

    pub async fn connect(address: SocketAddr, ca_pem: &str) -> Self {
        let mut frames = Self::handshake(address, ca_pem).await;
        frames.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        frames.send(SETTINGS, 0, 0, &[]).await;
        frames
    }

    /// Writes bytes; false when the server has closed the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.writer.write_all(bytes).await.is_ok() && self.writer.flush().await.is_ok()
    }

    pub async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.write(&encode(kind, flags, stream, payload)).await
    }

    /// Lets the server send more on a stream, or on the connection (0).
    pub async fn open_window(&mut self, stream: u32, bytes: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()).await;
    }

    /// The next frame; `None` when the connection is closed. Pings and settings are answered on the way.
    pub async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.reader.read_exact(&mut head).await.ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; len as usize];
        self.reader.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if matches!(frame.kind, PING | SETTINGS) && frame.flags & ACK == 0 {
            let payload = if frame.kind == PING { frame.payload.clone() } else { Vec::new() };
            self.send(frame.kind, ACK, 0, &payload).await;
        }
        Some(frame)
    }

    /// The status of the answer on a stream; `None` when the connection closes first.
    pub async fn status(&mut self, stream: u32) -> Option<u16> {
        loop {
            let frame = self.next().await?;
            if frame.kind == HEADERS && frame.stream == stream {
                return status(&frame.payload);
            }
        }
    }
}

/// `:status` is always first: an entry of the static table, or a literal of which the name is one.
fn status(block: &[u8]) -> Option<u16> {
    const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    // A change of the table's size may come before.
    let block = if block.first().is_some_and(|byte| byte & 0xe0 == 0x20) { &block[1..] } else { block };
    match *block.first()? {
        indexed @ 0x88..=0x8e => STATIC.get(usize::from(indexed - 0x88)).copied(),
        // Three digits, as they stand or in Huffman's code, where all digits but the first three take six bits.
        _ => {
            let len = usize::from(block.get(1)? & 0x7f);
            let bytes = block.get(2..2 + len)?;
            if block.get(1)? & 0x80 == 0 {
                std::str::from_utf8(bytes).ok()?.parse().ok()
            } else {
                huffman_digits(bytes)
            }
        }
    }
}

fn huffman_digits(bytes: &[u8]) -> Option<u16> {
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut number = 0_u16;
    for _ in 0..3 {
        let five = (0..5).try_fold(0_u8, |code, _| Some(code << 1 | bits.next()?))?;
        let digit = if five < 3 { five } else { (five << 1 | bits.next()?) - 0x19 + 3 };
        number = number * 10 + u16::from(digit);
    }
    Some(number)
}
