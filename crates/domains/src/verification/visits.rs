//! How often sites are asked for proofs. Whoever claims a name makes us call its site every few seconds, and many may claim the
//! name of one victim: a file is asked for once in a few seconds however many look for it, and all files of one host keep a
//! distance.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::site::SiteEvidence;
use super::{Challenge, site};
use crate::https::HttpClient;
use crate::registration::pace::{Pace, Turn};
use crate::seams::Clock;

/// A file that was asked for within this time is not asked for again: less than lies between two looks of somebody who waits.
const SAME_FILE: SignedDuration = SignedDuration::from_secs(3);
/// Between two questions to one host, whatever files they are for.
const SAME_HOST: SignedDuration = SignedDuration::from_millis(100);
/// Who would wait longer for a turn at a host does not ask.
const PATIENCE: SignedDuration = SignedDuration::from_secs(5);
/// Files that are remembered.
const FILES_MAX: usize = 10_000;

/// What a site said of a file and when, once somebody has asked.
type File<Said> = Arc<tokio::sync::Mutex<Option<(Timestamp, Said)>>>;

/// See the module.
pub struct Visits<Said = SiteEvidence> {
    pace: Pace,
    files: Mutex<HashMap<(String, String), File<Said>>>,
}

impl<Said> Default for Visits<Said> {
    fn default() -> Self {
        Self { pace: Pace::new(SAME_HOST, PATIENCE), files: Mutex::default() }
    }
}

impl Visits {
    /// Asks for the file of a challenge when it is time to.
    pub async fn look(&self, http: &HttpClient, challenge: &Challenge, clock: &dyn Clock) -> SiteEvidence {
        let (host, token) = (challenge.domain.as_str(), challenge.token.as_str());
        let said = self.visit(host, token, clock, site::look(http, challenge)).await;
        said.unwrap_or_else(|| SiteEvidence::not_asked(challenge))
    }
}

impl<Said: Clone> Visits<Said> {
    /// What the host says of the file for a token: asked now, or a moment ago. Nothing when too many wait for the host.
    async fn visit(&self, host: &str, token: &str, clock: &dyn Clock, ask: impl Future<Output = Said>) -> Option<Said> {
        let file = self.file(host, token);
        // Whoever comes second waits for what the first is told.
        let mut known = file.lock().await;
        let now = clock.now();
        if let Some((_, said)) = known.as_ref().filter(|(at, _)| now.duration_since(*at) < SAME_FILE) {
            return Some(said.clone());
        }
        let Turn::After(wait) = self.pace.reserve(host, now) else { return None };
        tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
        let said = ask.await;
        *known = Some((clock.now(), said.clone()));
        Some(said)
    }

    fn file(&self, host: &str, token: &str) -> File<Said> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= FILES_MAX {
            // What nobody waits for is asked for anew: it costs a question, never memory.
            files.retain(|_, file| Arc::strong_count(file) > 1);
        }
        files.entry((host.to_owned(), token.to_owned())).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    #[derive(Default)]
    struct Moved(Mutex<SignedDuration>);

    impl Moved {
        fn by(&self, time: SignedDuration) {
            *self.0.lock().expect("no panic") += time;
        }
    }

    impl Clock for Moved {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + *self.0.lock().expect("no panic")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_file_is_asked_for_once_in_a_few_seconds_however_many_look_for_it() {
        let (visits, clock, asked) = (Visits::default(), Moved::default(), AtomicUsize::new(0));
        let look = |token: &'static str| {
            visits.visit("victim.com", token, &clock, async {
                asked.fetch_add(1, Ordering::SeqCst);
                "there is no file"
            })
        };
        let said = join_all((0..20).map(|_| look("one"))).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(said.iter().all(|said| *said == Some("there is no file")), "all are told the same");
        clock.by(SAME_FILE);
        look("one").await;
        look("two").await;
        assert_eq!(asked.load(Ordering::SeqCst), 3, "later, or for another token, it is asked");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_too_many_wait_for_is_not_asked() {
        let (visits, clock) = (Visits::default(), Moved::default());
        let tokens: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let said = join_all(tokens.iter().map(|token| visits.visit("victim.com", token, &clock, async {}))).await;
        let asked = said.iter().flatten().count();
        assert_eq!(asked, 51, "one in {SAME_HOST:#} for {PATIENCE:#}");
        assert_eq!(visits.visit("other.com", "0", &clock, async {}).await, Some(()), "others do not wait");
    }
}
