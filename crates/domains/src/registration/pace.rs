//! Politeness: how often one server is asked. Questions to a host keep a distance, and a host that said "later" is left
//! alone until then. Registries block those who do not.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::https::RetryAfter;

/// Hosts that are remembered. Those whose time has passed are forgotten first.
const HOSTS_MAX: usize = 10_000;

/// A server that is busy and does not say until when is left alone this long.
const BACK_OFF_DEFAULT: SignedDuration = SignedDuration::from_secs(60);

/// However long a server wants to be left alone, we ask again after this.
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_hours(24);

/// When each host may be asked next.
pub struct Pace {
    /// Between two questions to one host.
    gap: SignedDuration,
    /// A question that would have to wait longer is not asked.
    patience: SignedDuration,
    next: Mutex<HashMap<String, Timestamp>>,
}

/// When a question may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// After this wait; the place is taken.
    After(SignedDuration),
    /// Not before this time.
    NotBefore(Timestamp),
}

impl Pace {
    /// One question in `gap` to each host; who would wait longer than `patience` is told when to come back.
    pub fn new(gap: SignedDuration, patience: SignedDuration) -> Self {
        Self { gap, patience, next: Mutex::default() }
    }

    /// Takes a place in the host's queue.
    pub fn reserve(&self, host: &str, now: Timestamp) -> Turn {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.len() >= HOSTS_MAX {
            next.retain(|_, at| *at > now);
        }
        let at = next.get(host).copied().unwrap_or(now).max(now);
        let wait = at.duration_since(now);
        if wait > self.patience {
            return Turn::NotBefore(at);
        }
        let following = at.checked_add(self.gap).unwrap_or(at);
        next.insert(host.to_owned(), following);
        Turn::After(wait)
    }

    /// When the next place in a host's queue is, where that is too late to wait for.
    pub fn busy_until(&self, host: &str, now: Timestamp) -> Option<Timestamp> {
        let at = self.next.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied()?;
        (at.duration_since(now) > self.patience).then_some(at)
    }

    /// How many questions a host may be asked now before somebody is told to come back.
    pub fn left(&self, host: &str, now: Timestamp) -> u64 {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied().unwrap_or(now).max(now);
        let room = self.patience - next.duration_since(now);
        if room.is_negative() || self.gap.is_zero() {
            return 0;
        }
        u64::try_from(room.as_millis() / self.gap.as_millis().max(1)).unwrap_or(0) + 1
    }

    /// The host said "later". Returns until when it is left alone.
    pub fn back_off(&self, host: &str, retry: Option<RetryAfter>, now: Timestamp) -> Timestamp {
        let wait = match retry {
            Some(RetryAfter::In(wait)) => wait,
            Some(RetryAfter::At(at)) => at.duration_since(now),
            None => BACK_OFF_DEFAULT,
        };
        let wait = wait.clamp(self.gap, BACK_OFF_MAX);
        let until = now.checked_add(wait).unwrap_or(now);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = next.entry(host.to_owned()).or_insert(until);
        *slot = until.max(*slot);
        *slot
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn secs(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn questions_to_one_host_keep_their_distance_and_others_do_not_wait() {
        let pace = Pace::new(secs(1), secs(3));
        assert_eq!(pace.left("a", at(100)), 4);
        assert_eq!(pace.reserve("a", at(100)), Turn::After(secs(0)));
        assert_eq!(pace.reserve("a", at(100)), Turn::After(secs(1)));
        assert_eq!(pace.left("a", at(100)), 2);
        assert_eq!(pace.reserve("b", at(100)), Turn::After(secs(0)));
        assert_eq!(pace.reserve("a", at(100)), Turn::After(secs(2)));
        assert_eq!(pace.reserve("a", at(100)), Turn::After(secs(3)));
        assert_eq!(pace.left("a", at(100)), 0);
        assert_eq!(pace.busy_until("a", at(100)), Some(at(104)));
        assert_eq!(pace.reserve("a", at(100)), Turn::NotBefore(at(104)));
        assert_eq!((pace.busy_until("a", at(101)), pace.busy_until("c", at(100))), (None, None));
        assert_eq!(pace.reserve("a", at(104)), Turn::After(secs(0)));
    }

    #[test]
    fn a_host_that_says_later_is_left_alone_until_then() {
        let pace = Pace::new(secs(1), secs(3));
        assert_eq!(pace.back_off("a", Some(RetryAfter::In(secs(7))), at(100)), at(107));
        assert_eq!(pace.reserve("a", at(101)), Turn::NotBefore(at(107)));
        assert_eq!(pace.back_off("a", None, at(107)), at(167));
        assert_eq!(pace.back_off("b", Some(RetryAfter::At(at(10_000_000))), at(100)), at(100 + 86_400));
        // A date in the past is no reason to hurry.
        assert_eq!(pace.back_off("c", Some(RetryAfter::At(at(1))), at(100)), at(101));
    }

    proptest! {
        #[test]
        fn no_host_is_ever_asked_twice_within_the_gap(steps in proptest::collection::vec(0_i64..4, 1..60)) {
            let pace = Pace::new(secs(2), secs(5));
            let (mut now, mut last) = (1_000, i64::MIN);
            for step in steps {
                now += step;
                if let Turn::After(wait) = pace.reserve("host", at(now)) {
                    let asked = now + wait.as_secs();
                    prop_assert!(last == i64::MIN || asked - last >= 2);
                    last = asked;
                }
            }
        }
    }
}
