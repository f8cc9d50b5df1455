//! Datagrams. A pool of unconnected sockets carries first tries (and sees answers from wrong addresses); later tries use a
//! connected socket of their own, because only that is told when a port is closed.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::{Failure, Remark};
use crate::seams::{Family, Net};
use crate::wire::{Answer, Ask};

/// The largest datagram there is.
const MAX_DATAGRAM_BYTES: usize = 65_535;
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

    /// Takes an id that no other question on this socket has.
    fn register(self: &Arc<Self>) -> Option<Registration> {
        let mut waiting = self.waiting();
        let id = (0..ID_DRAWS).map(|_| rand::random::<u16>()).find(|id| !waiting.contains_key(id))?;
        let (sender, datagrams) = mpsc::channel(WAITING_DATAGRAMS);
        waiting.insert(id, sender);
        Some(Registration { id, shared: self.clone(), datagrams })
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

/// An id in use; dropping it frees the id.
struct Registration {
    id: u16,
    shared: Arc<Shared>,
    datagrams: mpsc::Receiver<Datagram>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.waiting().remove(&self.id);
    }
}

/// The open sockets of one family; their receivers end with it.
struct Sockets {
    shared: Vec<Arc<Shared>>,
    receivers: Vec<AbortHandle>,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.receivers.iter().for_each(AbortHandle::abort);
    }
}

/// The sockets of a vantage point.
pub(super) struct Pool {
    net: Net,
    size: usize,
    v4: OnceLock<Result<Sockets, String>>,
    v6: OnceLock<Result<Sockets, String>>,
}

impl Pool {
    pub(super) fn new(net: Net, size: usize) -> Self {
        Self { net, size: size.max(1), v4: OnceLock::new(), v6: OnceLock::new() }
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
        let shared = self.socket(target)?;
        let mut first = shared.register().ok_or_else(|| Failure::Unreachable("no free query id".to_owned()))?;
        let packet = ask.encode(first.id).map_err(|error| Failure::Malformed(error.to_string()))?;
        shared.socket.send_to(&packet, target).await.map_err(|error| io_failure(&error))?;

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

    /// One of the open sockets, by chance.
    fn socket(&self, target: SocketAddr) -> Result<&Arc<Shared>, Failure> {
        let cell = match Family::of(target.ip()) {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        let sockets = cell.get_or_init(|| self.open(target).map_err(|error| error.to_string()));
        let sockets = sockets.as_ref().map_err(|error| Failure::Unreachable(error.clone()))?;
        let index = rand::random_range(0..sockets.shared.len().max(1));
        sockets.shared.get(index).ok_or_else(|| Failure::Unreachable("no sockets".to_owned()))
    }

    fn open(&self, target: SocketAddr) -> std::io::Result<Sockets> {
        let mut sockets = Sockets { shared: Vec::new(), receivers: Vec::new() };
        for _ in 0..self.size {
            let socket = std::net::UdpSocket::bind(self.net.source(target))?;
            socket.set_nonblocking(true)?;
            let shared = Arc::new(Shared { socket: UdpSocket::from_std(socket)?, waiting: Mutex::new(HashMap::new()) });
            sockets.receivers.push(tokio::spawn(shared.clone().receive()).abort_handle());
            sockets.shared.push(shared);
        }
        Ok(sockets)
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
        let packet = ask.encode(id).map_err(|error| Failure::Malformed(error.to_string()))?;
        self.socket.send(&packet).await.map(drop).map_err(|error| io_failure(&error))
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
