//! How servers behave, as far as it saves time: one that was silent is given less of it, one that drops EDNS is asked without;
//! and how often one server may be asked, because a watch over many domains of one hoster is a load on that hoster.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::transport::{Exchange, Failure, Remark};

/// Servers that are remembered.
const SERVERS_MAX: usize = 100_000;
/// What a server that was silent before has: enough for every honest round trip.
pub(super) const PATIENCE_WITH_THE_SILENT: Duration = Duration::from_millis(500);
/// How long a server is asked without EDNS that seemed to drop it: it may have been lost packets, and without EDNS there are no
/// signatures, so that a signed zone looks broken.
const EDNS_TRIED_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Questions to one address in a second, over all domains that are watched: below every limit that operators set.
const WATCH_PER_SECOND: u32 = 50;
/// Questions of a watch that may come at once.
const WATCH_BURST: u32 = 25;
/// The same for everything that somebody waits for (proofs, checks, first looks), all together. They have a row of their own,
/// so that nobody waits behind the hourly looks.
const AWAITED_PER_SECOND: u32 = 200;
/// A zone check of one server fits.
const AWAITED_BURST: u32 = 100;

/// How a server is best asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// As any other.
    None,
    /// Quickly.
    Silent,
    /// Without EDNS.
    DropsEdns,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    silences: u8,
    /// When it was last seen to.
    drops_edns: Option<Instant>,
}

/// What was seen of servers.
pub(super) struct Habits {
    seen: Mutex<HashMap<IpAddr, Seen>>,
    silent_after: u8,
}

impl Habits {
    /// A server is silent after that many questions in a row.
    pub(super) fn new(silent_after: u8) -> Self {
        Self { seen: Mutex::default(), silent_after }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<IpAddr, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, server: IpAddr) -> Habit {
        match self.seen().get(&server) {
            Some(seen) if seen.drops_edns.is_some_and(|since| since.elapsed() < EDNS_TRIED_AGAIN_AFTER) => {
                Habit::DropsEdns
            }
            Some(seen) if seen.silences >= self.silent_after => Habit::Silent,
            _ => Habit::None,
        }
    }

    /// Only what is out of the ordinary is remembered, and forgotten with the next ordinary answer.
    pub(super) fn learn(&self, exchange: &Exchange) {
        let server = exchange.server.ip();
        let silent = exchange.outcome.as_ref().is_err_and(|failure| *failure == Failure::Timeout);
        let drops_edns = exchange.remarks.contains(&Remark::EdnsDropped);
        let mut all = self.seen();
        if !silent && !drops_edns {
            // Asked without EDNS it answers; only an answer to a question with EDNS says something new.
            if exchange.ask.edns.is_some() && !all.is_empty() {
                all.remove(&server);
            }
            return;
        }
        if all.len() >= SERVERS_MAX && !all.contains_key(&server) {
            return;
        }
        let seen = all.entry(server).or_default();
        seen.silences = if silent { seen.silences.saturating_add(1) } else { 0 };
        // Asked without EDNS it cannot have shown it again.
        if drops_edns && exchange.ask.edns.is_some() {
            seen.drops_edns = Some(Instant::now());
        }
    }
}

/// When each server may be asked next (the generic cell rate algorithm).
pub(crate) struct Pace {
    /// Between two questions to one server.
    gap: Duration,
    /// Questions that may come at once after a rest.
    burst: u32,
    due: Mutex<HashMap<IpAddr, Instant>>,
}

impl Pace {
    pub(crate) fn new(gap: Duration, burst: u32) -> Self {
        Self { gap, burst, due: Mutex::default() }
    }

    /// For looks that nobody waits for.
    pub(crate) fn of_watch() -> Self {
        Self::new(Duration::from_secs(1) / WATCH_PER_SECOND, WATCH_BURST)
    }

    /// For everything else.
    pub(crate) fn of_awaited() -> Self {
        Self::new(Duration::from_secs(1) / AWAITED_PER_SECOND, AWAITED_BURST)
    }

    /// Takes the next place in the server's row: when it may be asked.
    pub(crate) fn take(&self, server: IpAddr) -> Instant {
        let now = Instant::now();
        let gap = self.gap;
        let mut all = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SERVERS_MAX {
            all.retain(|_, due| *due > now);
        }
        let due = all.entry(server).or_insert(now);
        let mine = (*due).max(now);
        *due = mine + gap;
        mine.checked_sub(gap * self.burst).map_or(now, |allowed| allowed.max(now))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::transport::Channel;
    use crate::wire::{Ask, Question, RecordType, parse_name};

    #[tokio::test(start_paused = true)]
    async fn a_server_that_seemed_to_drop_edns_is_asked_with_it_again_after_a_while() {
        let habits = Habits::new(1);
        let server = SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 53);
        let with_edns = Ask::authoritative(Question::new(parse_name("example.com").expect("a name"), RecordType::A));
        let dropped = |ask: Ask| Exchange {
            server,
            ask,
            channel: Channel::Udp,
            outcome: Err(Failure::Mismatch),
            rtt: Duration::ZERO,
            at: jiff::Timestamp::UNIX_EPOCH,
            remarks: vec![Remark::EdnsDropped],
        };
        habits.learn(&dropped(with_edns.clone()));
        assert_eq!(habits.of(server.ip()), Habit::DropsEdns);
        tokio::time::advance(EDNS_TRIED_AGAIN_AFTER - Duration::from_secs(1)).await;
        assert_eq!(habits.of(server.ip()), Habit::DropsEdns);
        // That it answers without is nothing new.
        habits.learn(&dropped(with_edns.without_edns()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(habits.of(server.ip()), Habit::None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_server_is_asked_at_most_so_often() {
        let pace = Pace::of_watch();
        let (busy, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let begin = Instant::now();
        for _ in 0..WATCH_BURST + 2 * WATCH_PER_SECOND {
            tokio::time::sleep_until(pace.take(busy)).await;
        }
        let took = begin.elapsed();
        assert!((Duration::from_millis(1_900)..Duration::from_millis(2_100)).contains(&took), "{took:?}");
        tokio::time::sleep_until(pace.take(other)).await;
        assert_eq!(begin.elapsed(), took, "others do not wait");
    }
}
