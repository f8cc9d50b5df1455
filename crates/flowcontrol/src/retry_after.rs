//! How long clients that were turned away should wait before they come back: longer while many are turned away, shorter
//! again when few are.

use std::collections::VecDeque;

/// The longest wait asked for, in seconds.
const RETRY_AFTER_MAX: u64 = 32;
/// More refusals than this per second of the present wait double it.
const REFUSALS_PER_SECOND_MAX: u64 = 3;

/// Refusals of one level by second, and the wait that follows from them.
#[derive(Debug)]
pub struct RetryAfter {
    seconds: u64,
    doubled_at: u64,
    /// Seconds with refusals before the present one, and how many.
    history: VecDeque<(u64, u64)>,
    present: (u64, u64),
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self { seconds: 1, doubled_at: 0, history: VecDeque::new(), present: (0, 0) }
    }
}

impl RetryAfter {
    /// Counts a refusal in the second `now` and gives the wait to ask for.
    pub fn refused(&mut self, now: u64) -> u64 {
        if self.present.0 == now {
            self.present.1 += 1;
            return self.seconds;
        }
        self.history.push_back(self.present);
        self.present = (now, 1);
        while self.history.front().is_some_and(|(second, _)| now - second > RETRY_AFTER_MAX) {
            self.history.pop_front();
        }
        let recent = self.history.iter().filter(|(second, _)| now - second <= self.seconds);
        let refused: u64 = recent.map(|(_, count)| count).sum();
        if refused >= REFUSALS_PER_SECOND_MAX * self.seconds && now - self.doubled_at >= self.seconds {
            self.seconds = (self.seconds * 2).min(RETRY_AFTER_MAX);
            self.doubled_at = now;
        } else if refused < self.seconds {
            self.seconds = (self.seconds - 1).max(1);
        }
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_overload_asks_for_longer_and_longer_waits_up_to_the_limit() {
        let mut retry = RetryAfter::default();
        let mut asked = Vec::new();
        for second in 1000..1100 {
            let last = (0..200).map(|_| retry.refused(second)).last().unwrap_or_default();
            if asked.last() != Some(&last) {
                asked.push(last);
            }
        }
        assert_eq!(asked, [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn single_refusals_bring_it_back_to_a_second() {
        let mut retry = RetryAfter::default();
        for second in 1000..1010 {
            for _ in 0..100 {
                retry.refused(second);
            }
        }
        assert!(retry.seconds > 1);
        for second in (1100..3000).step_by(50) {
            retry.refused(second);
        }
        assert_eq!(retry.seconds, 1);
    }
}
