//! What a webhook said lately.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Answer;

/// Answers that are remembered; beyond, the oldest go first. Upstream's figure.
const ANSWERS_MAX: usize = 8192;

/// See the module.
#[derive(Default)]
pub(super) struct Answers {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    answers: HashMap<String, Entry>,
    /// Keys in the order they were put, each as often as it was, with the number of that time.
    order: VecDeque<(u64, String)>,
    puts: u64,
}

struct Entry {
    answer: Answer,
    expiry: Instant,
    /// When it was put last.
    put: u64,
}

impl Answers {
    pub fn get(&self, key: &str, now: Instant) -> Option<Answer> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.answers.get(key).filter(|entry| entry.expiry > now).map(|entry| entry.answer.clone())
    }

    pub fn put(&self, key: String, answer: Answer, now: Instant, ttl: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.puts += 1;
        let put = known.puts;
        known.order.push_back((put, key.clone()));
        known.answers.insert(key, Entry { answer, expiry: now + ttl, put });
        while known.order.len() > ANSWERS_MAX {
            let Some((put, oldest)) = known.order.pop_front() else { return };
            if known.answers.get(&oldest).is_some_and(|entry| entry.put == put) {
                known.answers.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_forgotten_in_time_and_when_there_are_too_many() {
        let answers = Answers::default();
        let (now, ttl) = (Instant::now(), Duration::from_secs(10));
        let yes = Answer { allowed: true, ..Answer::default() };
        answers.put("a".into(), yes.clone(), now, ttl);
        assert_eq!(answers.get("a", now + Duration::from_secs(9)), Some(yes.clone()));
        assert_eq!(answers.get("a", now + ttl), None);
        for number in 0..ANSWERS_MAX {
            answers.put(number.to_string(), yes.clone(), now, ttl);
        }
        assert_eq!(answers.get("a", now), None);
        assert_eq!(answers.get("0", now), Some(yes));
        assert_eq!(answers.known.lock().expect("unpoisoned").answers.len(), ANSWERS_MAX);
    }
}
