//! The engine: the seams put together, with the limits of one run. Everything that asks the DNS goes through here, so that a
//! hostile zone can neither make it ask for ever nor make it ask addresses that are nobody's business.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::dial;
use crate::resolve::Pace;
use crate::seams::{Clock, Net, Roots, SystemClock, VantagePoint};
use crate::transport::{Channel, Exchange, Failure, TlsTrust, Transport, TransportOptions};
use crate::wire::Ask;

/// The port of DNS.
pub const DNS_PORT: u16 = 53;
/// Questions that one run may ask. A trace over three cuts with thirteen servers of two families each needs fewer.
pub const MAX_QUESTIONS: usize = 200;

/// Asks servers from one vantage point, within limits.
pub struct Engine {
    transport: Transport,
    roots: Arc<Roots>,
    pace: Option<Arc<Pace>>,
}

impl Engine {
    /// Over these seams.
    pub fn new(net: Net, clock: Arc<dyn Clock>, roots: Arc<Roots>, options: TransportOptions) -> Self {
        Self { transport: Transport::new(net, clock, options), roots, pace: None }
    }

    /// From one vantage point with the machine's clock.
    pub fn at(from: VantagePoint, roots: Arc<Roots>) -> Self {
        let trust = roots.ca_file.clone().map_or(TlsTrust::System, TlsTrust::File);
        let options = TransportOptions { trust, ..TransportOptions::default() };
        Self::new(Net::from(from), Arc::new(SystemClock), roots, options)
    }

    /// Polite to servers, together with all engines of the same pace.
    #[must_use]
    pub(crate) fn paced(mut self, pace: Arc<Pace>) -> Self {
        self.pace = Some(pace);
        self
    }

    /// When a server may be asked; at once where nobody keeps a pace.
    pub(crate) fn turn(&self, address: IpAddr) -> Option<Instant> {
        self.pace.as_ref().map(|pace| pace.take(address))
    }

    /// How questions travel.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// What is believed without asking.
    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// The clock that everything is judged by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.transport.clock()
    }

    /// Whether an address that came out of the DNS may be asked.
    pub fn may_ask(&self, address: IpAddr) -> bool {
        self.roots.private_addresses || dial::not_public(address).is_none()
    }
}

/// What is left of the questions of a run.
#[derive(Debug)]
pub struct Budget {
    asked: AtomicUsize,
    limit: usize,
}

impl Budget {
    /// A budget of that many questions.
    pub fn new(limit: usize) -> Self {
        Self { asked: AtomicUsize::new(0), limit }
    }

    /// Takes one; false when none is left.
    pub fn take(&self) -> bool {
        self.asked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| (asked < self.limit).then_some(asked + 1))
            .is_ok()
    }

    /// Whether none is left.
    pub fn is_spent(&self) -> bool {
        self.asked() >= self.limit
    }

    /// Questions asked so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Asks one authoritative server, if the budget and the guard allow.
    pub async fn ask(&self, budget: &Budget, address: IpAddr, ask: &Ask) -> Exchange {
        let server = SocketAddr::new(address, DNS_PORT);
        match self.refusal(budget, address) {
            None => self.transport.ask(server, ask).await,
            Some(failure) => self.not_asked(server, ask, failure),
        }
    }

    /// The same for a server that is given less time than others.
    pub async fn ask_within(&self, budget: &Budget, address: IpAddr, ask: &Ask, patience: Duration) -> Exchange {
        let server = SocketAddr::new(address, DNS_PORT);
        match self.refusal(budget, address) {
            None => self.transport.ask_within(server, ask, patience).await,
            Some(failure) => self.not_asked(server, ask, failure),
        }
    }

    /// Why a server may not be asked.
    pub fn refusal(&self, budget: &Budget, address: IpAddr) -> Option<Failure> {
        if !self.may_ask(address) {
            return Some(Failure::NotPublic(address));
        }
        (!budget.take()).then_some(Failure::BudgetSpent)
    }

    /// The record of a question that was not asked.
    pub fn not_asked(&self, server: SocketAddr, ask: &Ask, failure: Failure) -> Exchange {
        Exchange {
            server,
            ask: ask.clone(),
            channel: Channel::Udp,
            outcome: Err(failure),
            rtt: Duration::ZERO,
            at: self.clock().now(),
            remarks: Vec::new(),
        }
    }
}
