//! Troubles from one look to the next: what began, what has ended, and what could not be seen and so is as it was.

use bailiwick_domains::quote::quote;
use bailiwick_domains::registration::Concern;
use jiff::Timestamp;

use crate::judge::Notice;
use crate::status::Trouble;

/// Between the troubles that one sentence tells.
pub(crate) const SEPARATOR: &str = "; ";

/// What a look changed.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// All that there are now.
    pub now: Vec<Trouble>,
    pub began: Vec<Trouble>,
    pub ended: Vec<Trouble>,
}

impl Difference {
    /// Compares what was found, as topic, concern and text, with what was known. What is `unseen` has not ended.
    pub fn of(
        known: Vec<Trouble>,
        found: impl IntoIterator<Item = (String, Concern, String)>,
        unseen: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Self {
        let mut difference = Self::default();
        for (topic, concern, text) in found {
            let before = known.iter().find(|trouble| trouble.topic == topic);
            let since = before.map_or(now, |before| before.since);
            let trouble = Trouble { topic, concern, text: quote(&text), since };
            if before.is_none() {
                difference.began.push(trouble.clone());
            }
            difference.now.push(trouble);
        }
        let is_gone = |trouble: &Trouble| !difference.now.iter().any(|now| now.topic == trouble.topic);
        let gone: Vec<Trouble> = known.into_iter().filter(is_gone).collect();
        let (kept, ended) = gone.into_iter().partition(|trouble| unseen(&trouble.topic));
        difference.ended = ended;
        difference.now.extend::<Vec<Trouble>>(kept);
        difference
    }

    /// What is to be told of it, about `subject`.
    pub fn notices(&self, subject: &str) -> Vec<Notice> {
        let mut notices = Vec::new();
        if let Some(since) = self.ended.iter().map(|trouble| trouble.since).min() {
            let note = format!("{subject}: mended, after it was so since {since}: {}", texts(&self.ended));
            notices.push(Notice { concern: Concern::None, reason: "TroubleEnded".to_owned(), note });
        }
        if let Some(concern) = self.began.iter().map(|trouble| trouble.concern).max() {
            let note = format!("{subject}: {}", texts(&self.began));
            notices.push(Notice { concern, reason: "TroubleBegan".to_owned(), note });
        }
        notices
    }
}

/// Troubles in one sentence.
pub(crate) fn texts(troubles: &[Trouble]) -> String {
    troubles.iter().map(|trouble| trouble.text.as_str()).collect::<Vec<_>>().join(SEPARATOR)
}
