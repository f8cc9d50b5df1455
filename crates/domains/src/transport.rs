//! One question to one server: UDP first, with the fallbacks that a patient resolver has (a second try, TCP for what does not
//! fit, plain DNS for servers that dislike EDNS). An answer counts only with the right id, question and source; everything
//! that had to be tried is told beside the answer.

mod doh;
mod stream;
mod udp;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

use crate::seams::{Clock, Net};
use crate::wire::{Answer, Ask, ResponseCode};

pub use stream::TlsTrust;

/// How long a server has for its answer. The longest honest round trips are under half a second; the rest is for a second
/// try and for one without EDNS. A person who looks at a name waits for it, so it is no longer.
pub const DEFAULT_PATIENCE: Duration = Duration::from_millis(1500);
/// UDP sockets that are kept open for each family: each has its own random port and 65,536 ids.
const DEFAULT_SOCKETS: usize = 16;

/// How a question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Datagrams on port 53.
    Udp,
    /// A stream on port 53.
    Tcp,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind", content = "detail")]
pub enum Failure {
    /// Silence.
    #[error("no answer in time")]
    Timeout,
    /// The machine answers that nothing listens there.
    #[error("port closed")]
    PortClosed,
    /// There is no way to the address from here.
    #[error("unreachable from here: {0}")]
    Unreachable(String),
    /// The answer came from another address than the one asked.
    #[error("answered from another address: {0}")]
    WrongSource(SocketAddr),
    /// What came is no DNS message.
    #[error("{0}")]
    Malformed(String),
    /// What came answers another question.
    #[error("answered another question")]
    Mismatch,
    /// The stream broke.
    #[error("{0}")]
    Stream(String),
    /// The address is not one of the public internet, so it is not asked.
    #[error("not asked: {0} is not a public address")]
    NotPublic(std::net::IpAddr),
    /// The run has asked as many questions as it may.
    #[error("not asked: the limit of questions is reached")]
    BudgetSpent,
}

/// What was noticed on the way to an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Remark {
    /// The first try was lost.
    Retried,
    /// The UDP answer was truncated, the answer is from TCP.
    Truncated,
    /// The UDP answer was truncated and TCP failed.
    TcpFailed {
        /// How.
        failure: Failure,
    },
    /// Questions with EDNS were not answered, one without was.
    EdnsDropped,
    /// Questions with EDNS were refused, one without was answered.
    EdnsRefused {
        /// The response code.
        code: String,
    },
    /// Something came from another address.
    StraySource {
        /// That address.
        from: SocketAddr,
    },
}

/// A question, its answer or failure, and the circumstances: evidence.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The server asked, as the DNS names it.
    pub server: SocketAddr,
    /// The question.
    pub ask: Ask,
    /// What the answer came by.
    pub channel: Channel,
    /// The answer, or why there is none.
    pub outcome: Result<Answer, Failure>,
    /// From the first packet to the outcome.
    pub rtt: Duration,
    /// When the first packet left.
    pub at: Timestamp,
    /// What was noticed.
    pub remarks: Vec<Remark>,
}

impl Exchange {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.outcome.as_ref().ok()
    }
}

/// How sockets are used.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// How long a server has.
    pub patience: Duration,
    /// UDP sockets for each family.
    pub sockets: usize,
    /// Whom TLS servers must be certified by.
    pub trust: TlsTrust,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self { patience: DEFAULT_PATIENCE, sockets: DEFAULT_SOCKETS, trust: TlsTrust::System }
    }
}

/// Asks servers from one vantage point.
pub struct Transport {
    net: Net,
    clock: Arc<dyn Clock>,
    pool: udp::Pool,
    options: TransportOptions,
    tls: stream::Connector,
    asked: AtomicU64,
}

impl Transport {
    /// Must be used inside a tokio runtime; sockets are opened when first needed.
    pub fn new(net: Net, clock: Arc<dyn Clock>, options: TransportOptions) -> Self {
        let pool = udp::Pool::new(net.clone(), options.sockets);
        let tls = stream::Connector::new(options.trust.clone());
        Self { net, clock, pool, options, tls, asked: AtomicU64::new(0) }
    }

    /// The network that is asked through.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Questions asked so far, second tries not counted.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The clock that exchanges are dated by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Questions asked so far, each channel's tries counted once.
    pub fn questions_asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks by UDP with every fallback.
    pub async fn ask(&self, server: SocketAddr, ask: &Ask) -> Exchange {
        self.ask_within(server, ask, self.options.patience).await
    }

    /// The same with another patience, for servers that are known to be silent.
    pub async fn ask_within(&self, server: SocketAddr, ask: &Ask, patience: Duration) -> Exchange {
        let mut exchange = self.timed(server, ask, Channel::Udp, self.pool.ask(server, ask, patience)).await;
        self.fall_back_from_edns(&mut exchange).await;
        if exchange.answer().is_some_and(Answer::is_truncated) {
            let by_tcp = self.ask_tcp(server, &exchange.ask).await;
            exchange.rtt += by_tcp.rtt;
            match by_tcp.outcome {
                Ok(answer) => {
                    exchange.outcome = Ok(answer);
                    exchange.channel = Channel::Tcp;
                    exchange.remarks.push(Remark::Truncated);
                }
                // The truncated answer stays: it is what a resolver would have.
                Err(failure) => exchange.remarks.push(Remark::TcpFailed { failure }),
            }
        }
        exchange
    }

    /// Asks by UDP with a second try and, after silence, one without EDNS; no TCP.
    pub async fn ask_udp(&self, server: SocketAddr, ask: &Ask) -> Exchange {
        self.timed(server, ask, Channel::Udp, self.pool.ask(server, ask, self.options.patience)).await
    }

    /// Asks by UDP with one question exactly as given: for tests of servers.
    pub async fn ask_udp_strictly(&self, server: SocketAddr, ask: &Ask) -> Exchange {
        self.timed(server, ask, Channel::Udp, self.pool.ask_strictly(server, ask, self.options.patience)).await
    }

    /// Asks by TCP.
    pub async fn ask_tcp(&self, server: SocketAddr, ask: &Ask) -> Exchange {
        let work = async {
            let outcome = stream::ask_tcp(&self.net, server, ask, self.options.patience).await;
            udp::Outcome { outcome, remarks: Vec::new() }
        };
        self.timed(server, ask, Channel::Tcp, work).await
    }

    /// Asks by DNS over TLS.
    pub async fn ask_tls(&self, server: SocketAddr, tls_name: &str, ask: &Ask) -> Exchange {
        let work = async {
            let outcome = self.tls.ask_tls(&self.net, server, tls_name, ask, self.options.patience).await;
            udp::Outcome { outcome, remarks: Vec::new() }
        };
        self.timed(server, ask, Channel::Tls, work).await
    }

    /// Asks by DNS over HTTPS.
    pub async fn ask_https(&self, server: SocketAddr, tls_name: &str, path: &str, ask: &Ask) -> Exchange {
        let work = async {
            let outcome = doh::ask(&self.tls, &self.net, server, tls_name, path, ask, self.options.patience).await;
            udp::Outcome { outcome, remarks: Vec::new() }
        };
        self.timed(server, ask, Channel::Https, work).await
    }

    /// Opens a connection from the vantage point.
    pub async fn connect(&self, server: SocketAddr) -> Result<tokio::net::TcpStream, Failure> {
        stream::within(self.options.patience, stream::connect(&self.net, server)).await
    }

    /// The authorities that certify TLS servers.
    pub fn authorities(&self) -> Result<rustls::RootCertStore, String> {
        stream::authorities(&self.options.trust)
    }

    async fn timed(
        &self,
        server: SocketAddr,
        ask: &Ask,
        channel: Channel,
        work: impl Future<Output = udp::Outcome>,
    ) -> Exchange {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let at = self.clock.now();
        let begin = Instant::now();
        let udp::Outcome { outcome, remarks } = work.await;
        Exchange { server, ask: ask.clone(), channel, outcome, rtt: begin.elapsed(), at, remarks }
    }

    /// A server that does not know EDNS says FORMERR or NOTIMP, without an EDNS part of its own.
    async fn fall_back_from_edns(&self, exchange: &mut Exchange) {
        let Some(answer) = exchange.answer() else { return };
        let refuses = matches!(answer.rcode(), ResponseCode::FormErr | ResponseCode::NotImp);
        if !refuses || exchange.ask.edns.is_none() || answer.edns().is_some() {
            return;
        }
        let code = crate::wire::rcode_text(answer.rcode());
        let plain = self.ask_udp(exchange.server, &exchange.ask.without_edns()).await;
        if plain.answer().is_some_and(|answer| answer.rcode() != ResponseCode::FormErr) {
            exchange.outcome = plain.outcome;
            exchange.rtt += plain.rtt;
            exchange.remarks.push(Remark::EdnsRefused { code });
        }
    }
}
