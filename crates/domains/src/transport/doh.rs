//! DNS over HTTPS (RFC 8484): the message in a POST, by HTTP/2 where the server speaks it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::Failure;
use super::stream::{Connector, within};
use crate::seams::Net;
use crate::wire::{Answer, Ask};

/// The media type of a DNS message.
const DNS_MESSAGE: &str = "application/dns-message";
/// The largest DNS message there is.
const MAX_BODY_BYTES: usize = 65_535;

pub(super) async fn ask(
    tls: &Connector,
    net: &Net,
    server: SocketAddr,
    tls_name: &str,
    path: &str,
    ask: &Ask,
    patience: Duration,
) -> Result<Answer, Failure> {
    within(patience, async {
        let stream = tls.open(net, server, tls_name, &[b"h2", b"http/1.1"]).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        // Id 0: caches on the way should see equal questions as equal (RFC 8484 §4.1).
        let packet = ask.encode(0);
        let authority =
            if server.port() == 443 { tls_name.to_owned() } else { format!("{tls_name}:{}", server.port()) };
        let uri = if is_h2 { format!("https://{authority}{path}") } else { path.to_owned() };
        let mut request = Request::post(uri).header("content-type", DNS_MESSAGE).header("accept", DNS_MESSAGE);
        if !is_h2 {
            request = request.header("host", &authority);
        }
        let request =
            request.body(Full::new(Bytes::from(packet))).map_err(|error| Failure::Stream(error.to_string()))?;
        let http = |error: hyper::Error| Failure::Stream(format!("HTTP: {error}"));
        let io = TokioIo::new(stream);
        let response = if is_h2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.map_err(http)?;
            alongside(connection, sender.send_request(request)).await.map_err(http)
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.map_err(http)?;
            alongside(connection, sender.send_request(request)).await.map_err(http)
        };
        read(response?).await
    })
    .await
}

/// Drives a connection while a request is made on it and its body is read.
async fn alongside<T>(
    connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
    request: impl Future<Output = Result<T, hyper::Error>>,
) -> Result<(T, Driver), hyper::Error> {
    let driver = Driver(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    Ok((request.await?, driver))
}

/// Ends the connection's task with the exchange.
struct Driver(tokio::task::AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read((response, _driver): (http::Response<hyper::body::Incoming>, Driver)) -> Result<Answer, Failure> {
    if response.status() != StatusCode::OK {
        return Err(Failure::Stream(format!("HTTP status {}", response.status())));
    }
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| Failure::Stream(error.to_string()))?.to_bytes();
    Answer::parse(body).map_err(|error| Failure::Malformed(error.to_string()))
}
