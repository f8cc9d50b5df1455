//! How registries are asked: one HTTPS document, or one line to a WHOIS server. [`Exchange`] has the real one here and
//! simulated ones in tests.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::whois;
use crate::dial::Dialer;
use crate::https::{Ask, HttpClient, Reply, Scheme};

/// Real answers are below 64 KiB; the bootstrap list is the largest document there is.
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;

/// From the connection to the last byte of a WHOIS answer.
const WHOIS_TIMEOUT: Duration = Duration::from_secs(10);

/// RFC 3912.
const WHOIS_PORT: u16 = 43;

/// Asks registries and registrars.
pub trait Exchange: Send + Sync {
    /// The document at `url`, which must be https.
    fn document<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Reply, String>>;
    /// The answer of a WHOIS server to one line.
    fn whois<'a>(&'a self, host: &'a str, question: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Over the network.
pub struct Network {
    http: HttpClient,
    dialer: Dialer,
}

impl Network {
    pub fn new(http: HttpClient, dialer: Dialer) -> Self {
        Self { http, dialer }
    }

    async fn ask_whois(&self, host: &str, question: &str) -> Result<Vec<u8>, String> {
        let (mut stream, _) = self.dialer.connect(host, WHOIS_PORT).await.map_err(|error| error.to_string())?;
        let broken = |error: std::io::Error| format!("the connection broke: {error}");
        stream.write_all(format!("{question}\r\n").as_bytes()).await.map_err(broken)?;
        let mut answer = Vec::new();
        let limit = u64::try_from(whois::ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
        match stream.take(limit).read_to_end(&mut answer).await {
            Err(error) if answer.is_empty() => Err(broken(error)),
            // Some servers reset the connection behind their last line.
            _ => Ok(answer),
        }
    }
}

impl Exchange for Network {
    fn document<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Reply, String>> {
        let ask = Ask {
            accept: "application/rdap+json, application/json;q=0.9",
            scheme: Scheme::HttpsOnly,
            bytes_max: DOCUMENT_BYTES_MAX,
        };
        Box::pin(async move { self.http.get(url, ask).await.map_err(|error| error.to_string()) })
    }

    fn whois<'a>(&'a self, host: &'a str, question: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let answered = tokio::time::timeout(WHOIS_TIMEOUT, self.ask_whois(host, question)).await;
            answered.unwrap_or_else(|_| Err(format!("no answer within {} seconds", WHOIS_TIMEOUT.as_secs())))
        })
    }
}
