//! Events on their way to the sinks: lines of JSON one behind the other, as a log has them, so that a log writes them as
//! they are.

/// Events in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Every event with a newline behind it.
    lines: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
    /// The same events without their bodies, by their number, where some sink may want no larger ones.
    without_bodies: Vec<(usize, Vec<u8>)>,
}

impl Batch {
    /// A batch of one event, a line of JSON with its newline.
    pub(crate) fn of_line(line: Vec<u8>) -> Self {
        Self { ends: vec![line.len()], lines: line, without_bodies: Vec::new() }
    }

    /// Adds an event, a line of JSON with its newline.
    pub(crate) fn push_line(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.ends.push(self.lines.len());
    }

    /// Adds an event, one line of JSON.
    pub fn push(&mut self, event: &[u8]) {
        self.lines.reserve(event.len() + 1);
        self.lines.extend_from_slice(event);
        self.lines.push(b'\n');
        self.ends.push(self.lines.len());
    }

    /// What the last event is without its bodies.
    pub(crate) fn last_without_bodies(&mut self, event: Vec<u8>) {
        self.without_bodies.push((self.ends.len().saturating_sub(1), event));
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How much text all events are, newlines included.
    pub fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// All events, each with a newline behind it.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Where in [`Batch::lines`] each line ends.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The events, each one line of JSON without the newline.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, end| {
            let line = self.lines.get(*start..end.saturating_sub(1)).unwrap_or_default();
            *start = *end;
            Some(line)
        })
    }

    /// The events, each with what it is without its bodies where that is known.
    pub(crate) fn with_shorter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let mut shorter = self.without_bodies.iter().peekable();
        self.iter().enumerate().map(move |(number, event)| {
            let short = shorter.next_if(|(of, _)| *of == number);
            (event, short.map(|(_, short)| short.as_slice()))
        })
    }

    /// Forgets all events and keeps their room for others, if it is not more than `bytes_max`.
    pub(crate) fn clear(&mut self, bytes_max: usize) {
        if self.lines.capacity() > bytes_max {
            self.lines = Vec::new();
        }
        self.lines.clear();
        self.ends.clear();
        self.without_bodies.clear();
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Batch {
    fn from_iter<I: IntoIterator<Item = T>>(events: I) -> Self {
        let mut batch = Self::default();
        events.into_iter().for_each(|event| batch.push(event.as_ref()));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_and_come_back_without_their_newlines() {
        let batch: Batch = ["a", "", "bc"].into_iter().collect();
        assert_eq!(batch.lines(), b"a\n\nbc\n");
        assert_eq!(batch.iter().collect::<Vec<_>>(), [b"a".as_slice(), b"", b"bc"]);
        assert_eq!((batch.len(), batch.bytes(), batch.ends()), (3, 6, [2, 3, 6].as_slice()));
    }

    #[test]
    fn shorter_events_stay_with_those_they_are_of() {
        let mut batch: Batch = ["one", "two"].into_iter().collect();
        batch.last_without_bodies(b"2".to_vec());
        batch.push(b"three");
        let events: Vec<_> = batch.with_shorter().collect();
        assert_eq!(events, [(b"one".as_slice(), None), (b"two", Some(b"2".as_slice())), (b"three", None)]);
    }

    #[test]
    fn a_cleared_batch_keeps_a_little_room() {
        let mut batch: Batch = [vec![b'x'; 1000]].into_iter().collect();
        batch.clear(10_000);
        assert!(batch.is_empty() && batch.lines.capacity() >= 1000);
        batch.push(&[b'x'; 1000]);
        batch.clear(100);
        assert_eq!(batch.lines.capacity(), 0);
    }
}
