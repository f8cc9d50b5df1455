//! The names of packages and where their records are: the only part of an index that is in memory, as the bytes that
//! the file has. Slots of one size, sorted by name, then the texts they point into.

use super::index::Span;

/// End of the name, end of the default channel's name behind it, place and length of the record.
const SLOT_BYTES: usize = 20;
const COUNT_BYTES: usize = 4;

/// Names of packages, sorted.
#[derive(Debug, Default)]
pub(super) struct Directory {
    slots: Vec<u8>,
    texts: String,
}

#[derive(Clone, Copy)]
struct Slot {
    name_end: usize,
    channel_end: usize,
    record: Span,
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
}

impl Directory {
    /// Adds a package; they come in the order of their names.
    pub(super) fn push(&mut self, name: &str, default_channel: &str, record: Span) -> std::io::Result<()> {
        for text in [name, default_channel] {
            self.texts.push_str(text);
            let end = u32::try_from(self.texts.len()).map_err(std::io::Error::other)?;
            self.slots.extend(end.to_le_bytes());
        }
        self.slots.extend(record.at.to_le_bytes());
        self.slots.extend(record.length.to_le_bytes());
        Ok(())
    }

    /// As the file has it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        [&count.to_le_bytes(), self.slots.as_slice(), self.texts.as_bytes()].concat()
    }

    /// Reads what [`Directory::encode`] wrote.
    pub(super) fn decode(mut bytes: Vec<u8>) -> Result<Self, &'static str> {
        const DAMAGED: &str = "its list of packages is not readable";
        let count = bytes.get(..COUNT_BYTES).map(number).ok_or(DAMAGED)?;
        let slots_end = count.checked_mul(SLOT_BYTES).map(|it| it + COUNT_BYTES).filter(|it| *it <= bytes.len());
        let texts = String::from_utf8(bytes.split_off(slots_end.ok_or(DAMAGED)?)).map_err(|_| DAMAGED)?;
        bytes.drain(..COUNT_BYTES);
        let directory = Directory { slots: bytes, texts };
        let mut last = 0;
        for at in 0..count {
            let slot = directory.slot(at).ok_or(DAMAGED)?;
            for end in [slot.name_end, slot.channel_end] {
                directory.texts.get(last..end).ok_or(DAMAGED)?;
                last = end;
            }
        }
        Ok(directory)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() / SLOT_BYTES
    }

    fn slot(&self, at: usize) -> Option<Slot> {
        let bytes = self.slots.get(at.checked_mul(SLOT_BYTES)?..)?.get(..SLOT_BYTES)?;
        let part = |from: usize, to: usize| bytes.get(from..to).map(number);
        Some(Slot {
            name_end: part(0, 4)?,
            channel_end: part(4, 8)?,
            record: Span { at: part(8, 16)? as u64, length: u32::try_from(part(16, 20)?).ok()? },
        })
    }

    /// Name, default channel and record of a package by its number.
    pub(super) fn get(&self, at: usize) -> Option<(&str, &str, Span)> {
        let slot = self.slot(at)?;
        let start = at.checked_sub(1).and_then(|before| self.slot(before)).map_or(0, |before| before.channel_end);
        Some((self.texts.get(start..slot.name_end)?, self.texts.get(slot.name_end..slot.channel_end)?, slot.record))
    }

    /// Where the record of a package is.
    pub(super) fn find(&self, name: &str) -> Option<Span> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (found, _, record) = self.get(middle)?;
            match found.cmp(name) {
                std::cmp::Ordering::Equal => return Some(record),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_package_is_found_and_no_other() {
        let mut directory = Directory::default();
        let names = ["a", "ab", "b", "foo", "ü"];
        for (at, name) in names.iter().enumerate() {
            directory.push(name, "stable", Span { at: 1 << (33 + at), length: 7 }).unwrap();
        }
        let directory = Directory::decode(directory.encode()).unwrap();
        for (at, name) in names.iter().enumerate() {
            let span = Span { at: 1 << (33 + at), length: 7 };
            assert_eq!(directory.find(name), Some(span));
            assert_eq!(directory.get(at), Some((*name, "stable", span)));
        }
        for name in ["", "aa", "c", "z"] {
            assert_eq!(directory.find(name), None);
        }
        assert_eq!(directory.get(names.len()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(count in 0u8..4, bytes in prop::collection::vec(any::<u8>(), 0..120), name in "[a-c]{0,2}") {
            let bytes = [&[count, 0, 0, 0], bytes.as_slice()].concat();
            if let Ok(directory) = Directory::decode(bytes) {
                let _ = directory.find(&name);
                (0..directory.len()).for_each(|at| assert!(directory.get(at).is_some()));
            }
        }
    }
}
