//! Datagrams. A pool of unconnected sockets carries first tries (and sees answers from wrong addresses); later tries use a
//! connected socket of their own, because only that is told when a port is closed.
//!
//! Whoever forges an answer must guess the id and the port. So a socket of the pool is replaced by one with another port
//! after a few questions or seconds: a process that runs for months gives nobody the time to find its ports.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::{Failure, Remark};
use crate::seams::{Family, Net};
use crate::wire::{Answer, Ask};

/// The largest datagram that is read whole: 1,232 bytes are asked for, and some servers send what they like.
const MAX_DATAGRAM_BYTES: usize = 8_192;
/// Questions that one port carries.
const QUESTIONS_PER_PORT: usize = 256;
/// How long a port takes new questions.
const PORT_LIFE: Duration = Duration::from_secs(10);
/// Datagrams for one question that may wait to be looked at; more are noise and are dropped.
const WAITING_DATAGRAMS: usize = 4;
/// How often a free id is drawn before the socket counts as full.
const ID_DRAWS: usize = 64;

/// What became of a question.
pub(super) struct Outcome {
    pub(super) outcome: Result<Answer, Failure>,
    pub(super) remarks: Vec<Remark>,
}

type Datagram = (SocketAddr, Bytes);

/// A socket that many questions share.
struct Shared {
    socket: UdpSocket,
    waiting: Mutex<HashMap<u16, mpsc::Sender<Datagram>>>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u16, mpsc::Sender<Datagram>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn receive(self: Arc<Self>) {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            // An error here is about an earlier packet of one of many questions; each has its own deadline.
            let Ok((length, from)) = self.socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let Some(datagram) = buffer.get(..length) else { continue };
            let Some(id) = datagram.first_chunk::<2>() else { continue };
            if let Some(sender) = self.waiting().get(&u16::from_be_bytes(*id)) {
                let _ = sender.try_send((from, Bytes::copy_from_slice(datagram)));
            }
        }
    }
}

/// A socket in use by the pool or by a question; when both are done with it, it is closed.
struct Port {
    shared: Arc<Shared>,
    receiver: AbortHandle,
    opened: Instant,
    questions: AtomicUsize,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

impl Port {
    /// On a port that the system chooses by chance.
    fn open(source: SocketAddr) -> std::io::Result<Arc<Self>> {
        let socket = std::net::UdpSocket::bind(source)?;
        socket.set_nonblocking(true)?;
        let shared = Arc::new(Shared { socket: UdpSocket::from_std(socket)?, waiting: Mutex::new(HashMap::new()) });
        let receiver = tokio::spawn(shared.clone().receive()).abort_handle();
        Ok(Arc::new(Self { shared, receiver, opened: Instant::now(), questions: AtomicUsize::new(0) }))
    }

    fn is_worn(&self) -> bool {
        self.questions.load(Ordering::Relaxed) >= QUESTIONS_PER_PORT || self.opened.elapsed() >= PORT_LIFE
    }

    /// Takes an id that no other question on this socket has.
    fn register(self: Arc<Self>) -> Option<Registration> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let (id, datagrams) = {
            let mut waiting = self.shared.waiting();
            let id = (0..ID_DRAWS).map(|_| rand::random::<u16>()).find(|id| !waiting.contains_key(id))?;
            let (sender, datagrams) = mpsc::channel(WAITING_DATAGRAMS);
            waiting.insert(id, sender);
            (id, datagrams)
        };
        Some(Registration { id, port: self, datagrams })
    }
}

/// An id in use; dropping it frees the id.
struct Registration {
    id: u16,
    port: Arc<Port>,
    datagrams: mpsc::Receiver<Datagram>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.port.shared.waiting().remove(&self.id);
    }
}

/// The sockets of a vantage point.
pub(super) struct Pool {
    net: Net,
    size: usize,
    v4: Mutex<Vec<Arc<Port>>>,
    v6: Mutex<Vec<Arc<Port>>>,
}

impl Pool {
    pub(super) fn new(net: Net, size: usize) -> Self {
        Self { net, size: size.max(1), v4: Mutex::default(), v6: Mutex::default() }
    }

    /// With a second try on a connected socket after a quarter of the time, and one without EDNS after half of it.
    pub(super) async fn ask(&self, server: SocketAddr, ask: &Ask, patience: Duration) -> Outcome {
        self.run(server, ask, patience, Tries::Several).await
    }

    /// One packet as given, repeated once as given.
    pub(super) async fn ask_strictly(&self, server: SocketAddr, ask: &Ask, patience: Duration) -> Outcome {
        self.run(server, ask, patience, Tries::AsGiven).await
    }

    async fn run(&self, server: SocketAddr, ask: &Ask, patience: Duration, tries: Tries) -> Outcome {
        let mut remarks = Vec::new();
        let outcome = self.converse(server, ask, patience, tries, &mut remarks).await;
        let outcome = outcome.unwrap_or_else(Err);
        Outcome { outcome, remarks }
    }

    async fn converse(
        &self,
        server: SocketAddr,
        ask: &Ask,
        patience: Duration,
        tries: Tries,
        remarks: &mut Vec<Remark>,
    ) -> Result<Result<Answer, Failure>, Failure> {
        let target = self.net.route(server);
        let port = self.port(target)?;
        let mut first = port.register().ok_or_else(|| Failure::Unreachable("no free query id".to_owned()))?;
        let packet = ask.encode(first.id);
        first.port.shared.socket.send_to(&packet, target).await.map_err(|error| io_failure(&error))?;

        let begin = Instant::now();
        let deadline = begin + patience;
        let mut listener = Listener { target, ask, stray: None, odd: None };
        if let Some(answer) = listener.pooled(&mut first, begin + patience / 4).await {
            return Ok(Ok(answer));
        }

        let second = Connected::open(&self.net, target).await?;
        let plain = ask.without_edns();
        let second_id = rand::random();
        second.send(ask, second_id).await?;
        let mut plain_id = None;
        let mut until = begin + patience / 2;
        let answer = loop {
            let mut expected = vec![(second_id, ask)];
            if let Some(id) = plain_id {
                expected.push((id, &plain));
            }
            tokio::select! {
                answer = listener.pooled(&mut first, until) => if let Some(answer) = answer { break Some(Ok((answer, false))) },
                received = second.receive(&expected, until) => match received {
                    Ok(Some((answer, id))) => {
                        remarks.push(Remark::Retried);
                        break Some(Ok((answer, Some(id) == plain_id)));
                    }
                    Ok(None) => {}
                    Err(failure) => break Some(Err(failure)),
                },
            }
            if Instant::now() >= deadline {
                break None;
            }
            if Instant::now() >= until {
                until = deadline;
                if tries == Tries::Several && ask.edns.is_some() && plain_id.is_none() {
                    let id = rand::random();
                    second.send(&plain, id).await?;
                    plain_id = Some(id);
                }
            }
        };
        if let Some(from) = listener.stray {
            remarks.push(Remark::StraySource { from });
        }
        match answer {
            Some(Ok((answer, without_edns))) => {
                if without_edns {
                    remarks.push(Remark::EdnsDropped);
                }
                Ok(Ok(answer))
            }
            Some(Err(failure)) => Ok(Err(failure)),
            None => Ok(Err(listener.verdict())),
        }
    }

    /// One of the open sockets, by chance; a worn one is replaced by a fresh one.
    fn port(&self, target: SocketAddr) -> Result<Arc<Port>, Failure> {
        let ports = match Family::of(target.ip()) {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        let mut ports = ports.lock().unwrap_or_else(PoisonError::into_inner);
        let index = rand::random_range(0..self.size);
        if let Some(port) = ports.get(index).filter(|port| !port.is_worn()) {
            return Ok(port.clone());
        }
        let fresh = Port::open(self.net.source(target)).map_err(|error| Failure::Unreachable(error.to_string()))?;
        match ports.get_mut(index) {
            Some(worn) => *worn = fresh.clone(),
            None => ports.push(fresh.clone()),
        }
        Ok(fresh)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tries {
    Several,
    AsGiven,
}

/// Looks at what comes for one question on a shared socket.
struct Listener<'a> {
    target: SocketAddr,
    ask: &'a Ask,
    stray: Option<SocketAddr>,
    odd: Option<Failure>,
}

impl Listener<'_> {
    /// The answer, or nothing until then.
    async fn pooled(&mut self, registration: &mut Registration, until: Instant) -> Option<Answer> {
        loop {
            let received = tokio::select! {
                received = registration.datagrams.recv() => received,
                () = sleep_until(until) => return None,
            };
            let (from, bytes) = received?;
            match Answer::parse(bytes) {
                Ok(answer) if !answer.answers(registration.id, self.ask) => self.odd = Some(Failure::Mismatch),
                Ok(_) if from != self.target => self.stray = Some(from),
                Ok(answer) => return Some(answer),
                Err(error) if from == self.target => self.odd = Some(Failure::Malformed(error.to_string())),
                Err(_) => {}
            }
        }
    }

    /// Why there was no answer.
    fn verdict(&self) -> Failure {
        match (&self.stray, &self.odd) {
            (Some(from), _) => Failure::WrongSource(*from),
            (None, Some(odd)) => odd.clone(),
            (None, None) => Failure::Timeout,
        }
    }
}

/// A socket for one server.
struct Connected {
    socket: UdpSocket,
}

impl Connected {
    async fn open(net: &Net, target: SocketAddr) -> Result<Self, Failure> {
        let open = async {
            let socket = UdpSocket::bind(net.source(target)).await?;
            socket.connect(target).await?;
            Ok(Self { socket })
        };
        open.await.map_err(|error: std::io::Error| io_failure(&error))
    }

    async fn send(&self, ask: &Ask, id: u16) -> Result<(), Failure> {
        self.socket.send(&ask.encode(id)).await.map(drop).map_err(|error| io_failure(&error))
    }

    /// The first answer to one of those questions, and its id.
    async fn receive(&self, expected: &[(u16, &Ask)], until: Instant) -> Result<Option<(Answer, u16)>, Failure> {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            let length = tokio::select! {
                received = self.socket.recv(&mut buffer) => received.map_err(|error| io_failure(&error))?,
                () = sleep_until(until) => return Ok(None),
            };
            let datagram = buffer.get(..length).unwrap_or_default();
            if let Ok(answer) = Answer::parse(Bytes::copy_from_slice(datagram))
                && let Some((id, _)) = expected.iter().find(|(id, ask)| answer.answers(*id, ask))
            {
                return Ok(Some((answer, *id)));
            }
        }
    }
}

/// What an error of the system says about the server.
pub(super) fn io_failure(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::PortClosed,
        ErrorKind::TimedOut => Failure::Timeout,
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable => {
            Failure::Unreachable(error.to_string())
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            Failure::Stream(format!("the connection was closed: {error}"))
        }
        _ => Failure::Unreachable(error.to_string()),
    }
}
