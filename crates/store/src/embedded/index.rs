//! The ordered index: every key with its current version and the older ones history still needs.
//!
//! Keys live in a sorted list of sorted chunks of a few hundred entries, each chunk knowing how many of its keys are
//! live. Look-ups are two binary searches; an insert moves part of one chunk; and the number of keys in a range is the
//! sum over the chunks between its ends, so that a page of a million-key list costs a few thousand additions for its
//! count and not a walk over what remains.

use std::cmp::Ordering;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::{KeyRange, KeyValue, Revision};

/// Entries per chunk. An insert moves half a chunk on average (some 20 KiB), a count adds up one number per chunk:
/// 512 keeps both near a microsecond at a million keys.
const CHUNK_LEN_MAX: usize = 512;

/// A key's state from one revision on.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// `None` is a tombstone.
    pub value: Option<Bytes>,
    pub create_revision: Revision,
    pub mod_revision: Revision,
}

/// A key with its versions.
#[derive(Debug)]
pub(super) struct Entry {
    key: Bytes,
    current: Version,
    /// Oldest first; boxed because most keys have none.
    older: Option<Box<Older>>,
}

#[derive(Debug, Default)]
struct Older {
    versions: VecDeque<Version>,
}

impl Entry {
    pub fn new(key: Bytes, current: Version) -> Self {
        Self { key, current, older: None }
    }

    fn is_live(&self) -> bool {
        self.current.value.is_some()
    }

    fn key_value(&self, version: &Version) -> Option<KeyValue> {
        let value = version.value.clone()?;
        Some(KeyValue {
            key: self.key.clone(),
            value,
            create_revision: version.create_revision,
            mod_revision: version.mod_revision,
        })
    }

    /// The state as of `at`.
    fn at(&self, at: Revision) -> Option<KeyValue> {
        if self.current.mod_revision <= at {
            return self.key_value(&self.current);
        }
        let versions = &self.older.as_ref()?.versions;
        let newer = versions.partition_point(|version| version.mod_revision <= at);
        self.key_value(versions.get(newer.checked_sub(1)?)?)
    }

    fn supersede(&mut self, version: Version) {
        let old = std::mem::replace(&mut self.current, version);
        self.older.get_or_insert_default().versions.push_back(old);
    }

    /// Drops versions that no read at or above `floor` can see.
    fn prune(&mut self, floor: Revision) {
        let Some(older) = &mut self.older else { return };
        let versions = &mut older.versions;
        while versions.get(1).unwrap_or(&self.current).mod_revision <= floor && !versions.is_empty() {
            versions.pop_front();
        }
        while versions.front().is_some_and(|first| first.value.is_none() && first.mod_revision <= floor) {
            versions.pop_front();
        }
        if versions.is_empty() {
            self.older = None;
        } else if versions.capacity() > 2 * versions.len() + 8 {
            versions.shrink_to_fit();
        }
    }

    fn is_gone(&self, floor: Revision) -> bool {
        !self.is_live() && self.older.is_none() && self.current.mod_revision <= floor
    }
}

#[derive(Debug)]
struct Chunk {
    /// No entry is before it, and it is after every entry of the chunk before.
    first: Bytes,
    live: usize,
    /// All keys here begin with the same `prefix_len` bytes.
    prefix_len: usize,
    /// The eight bytes of each key after that prefix. Searching these first spares a visit to nearly every key.
    heads: Vec<u64>,
    entries: Vec<Entry>,
}

impl Chunk {
    fn new(entries: Vec<Entry>) -> Option<Self> {
        let first = entries.first()?.key.clone();
        let prefix_len = common_len(&first, &entries.last()?.key);
        let live = entries.iter().filter(|entry| entry.is_live()).count();
        let heads = entries.iter().map(|entry| head(&entry.key, prefix_len)).collect();
        Some(Self { first, live, prefix_len, heads, entries })
    }

    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let Some(prefix) = self.entries.first().and_then(|entry| entry.key.get(..self.prefix_len)) else {
            return Err(0);
        };
        match key.get(..self.prefix_len).unwrap_or(key).cmp(prefix) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.entries.len()),
            Ordering::Equal => {}
        }
        let wanted = head(key, self.prefix_len);
        let from = self.heads.partition_point(|head| *head < wanted);
        let alike = self.heads[from..].partition_point(|head| *head == wanted);
        let found = self.entries[from..from + alike].binary_search_by(|entry| entry.key.as_ref().cmp(key));
        found.map(|at| from + at).map_err(|at| from + at)
    }

    fn insert(&mut self, at: usize, entry: Entry) {
        let shared_len = self.entries.first().map_or(0, |first| common_len(&first.key, &entry.key));
        if shared_len < self.prefix_len {
            self.prefix_len = shared_len;
            self.heads = self.entries.iter().map(|entry| head(&entry.key, shared_len)).collect();
        }
        if entry.key < self.first {
            self.first = entry.key.clone();
        }
        self.live += usize::from(entry.is_live());
        self.heads.insert(at, head(&entry.key, self.prefix_len));
        self.entries.insert(at, entry);
    }

    fn remove(&mut self, at: usize) {
        self.heads.remove(at);
        let removed = self.entries.remove(at);
        self.live -= usize::from(removed.is_live());
    }
}

/// The eight bytes of `key` from `at` on as a number that orders like them; short keys are filled up with zeros.
fn head(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    let mut bytes = [0; 8];
    let len = rest.len().min(bytes.len());
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Where a key is, or would go.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: usize,
    entry: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Index {
    chunks: Vec<Chunk>,
}

/// Part of a range read.
pub(super) struct Scan {
    pub entries: Vec<KeyValue>,
    /// Where to go on; `None` at the end of the range.
    pub resume: Option<Bytes>,
}

impl Index {
    /// An index over entries that are already in key order, as a snapshot has them.
    pub fn from_sorted(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut chunks = Vec::new();
        let mut entries = entries.into_iter();
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_LEN_MAX);
            chunk.extend(entries.by_ref().take(CHUNK_LEN_MAX));
            match Chunk::new(chunk) {
                Some(chunk) => chunks.push(chunk),
                None => return Self { chunks },
            }
        }
    }

    /// The newest state of a key.
    pub fn get(&self, key: &[u8]) -> Option<KeyValue> {
        let entry = self.entry(self.find(key).ok()?);
        entry.key_value(&entry.current)
    }

    /// Makes `version` the key's current one and the present one history.
    pub fn set(&mut self, key: &Bytes, version: Version) {
        match self.find(key) {
            Ok(place) => {
                let chunk = &mut self.chunks[place.chunk];
                let entry = &mut chunk.entries[place.entry];
                chunk.live -= usize::from(entry.is_live());
                chunk.live += usize::from(version.value.is_some());
                entry.supersede(version);
            }
            Err(place) => self.insert(place, Entry::new(key.clone(), version)),
        }
    }

    /// Entries of `range` as of `at`, at most `limit`, looking at no more than `steps_max` keys.
    pub fn scan(&self, range: &KeyRange, at: Revision, limit: usize, steps_max: usize) -> Scan {
        let mut entries = Vec::new();
        let mut steps = 0;
        let (mut place, end) = self.bounds(range);
        while (place.chunk, place.entry) < (end.chunk, end.entry)
            && let Some(chunk) = self.chunks.get(place.chunk)
        {
            let to = if place.chunk == end.chunk { end.entry } else { chunk.entries.len() };
            for entry in chunk.entries.get(place.entry..to).unwrap_or_default() {
                if entries.len() == limit || steps == steps_max {
                    return Scan { entries, resume: Some(entry.key.clone()) };
                }
                steps += 1;
                entries.extend(entry.at(at));
            }
            place = Place { chunk: place.chunk + 1, entry: 0 };
        }
        Scan { entries, resume: None }
    }

    /// Where a range begins and ends.
    fn bounds(&self, range: &KeyRange) -> (Place, Place) {
        let from = self.find(&range.start).unwrap_or_else(|place| place);
        let to = match &range.end {
            Some(end) => self.find(end).unwrap_or_else(|place| place),
            None => Place { chunk: self.chunks.len(), entry: 0 },
        };
        (from, to)
    }

    /// How many keys of `range` are live now.
    pub fn count(&self, range: &KeyRange) -> u64 {
        let (from, to) = self.bounds(range);
        let live = |chunk: usize, entries: std::ops::Range<usize>| -> usize {
            let slice = self.chunks.get(chunk).and_then(|chunk| chunk.entries.get(entries)).unwrap_or_default();
            slice.iter().filter(|entry| entry.is_live()).count()
        };
        let chunk_len = |chunk: usize| self.chunks.get(chunk).map_or(0, |chunk| chunk.entries.len());
        let count = if (from.chunk, from.entry) >= (to.chunk, to.entry) {
            0
        } else if from.chunk == to.chunk {
            live(from.chunk, from.entry..to.entry)
        } else {
            let whole: usize = self.chunks[from.chunk + 1..to.chunk].iter().map(|chunk| chunk.live).sum();
            live(from.chunk, from.entry..chunk_len(from.chunk)) + whole + live(to.chunk, 0..to.entry)
        };
        count as u64
    }

    /// Drops versions of `key` that no read at or above `floor` can see, and the key itself if nothing is left.
    pub fn prune(&mut self, key: &[u8], floor: Revision) {
        let Ok(place) = self.find(key) else { return };
        let entries = &mut self.chunks[place.chunk].entries;
        entries[place.entry].prune(floor);
        if entries[place.entry].is_gone(floor) {
            self.chunks[place.chunk].remove(place.entry);
            self.shrink(place.chunk);
        }
    }

    fn entry(&self, place: Place) -> &Entry {
        &self.chunks[place.chunk].entries[place.entry]
    }

    fn find(&self, key: &[u8]) -> Result<Place, Place> {
        let chunk = self.chunks.partition_point(|chunk| chunk.first.as_ref() <= key).saturating_sub(1);
        match self.chunks.get(chunk).map_or(Err(0), |chunk| chunk.find(key)) {
            Ok(entry) => Ok(Place { chunk, entry }),
            Err(entry) => Err(Place { chunk, entry }),
        }
    }

    fn insert(&mut self, mut place: Place, entry: Entry) {
        if self.chunks.is_empty() {
            self.chunks.extend(Chunk::new(vec![entry]));
            return;
        }
        if self.chunks[place.chunk].entries.len() >= CHUNK_LEN_MAX {
            // Appending in key order leaves full chunks behind; anything else splits in halves.
            let len = self.chunks[place.chunk].entries.len();
            let at = if place.entry == len { len } else { len / 2 };
            if at == len {
                self.chunks.splice(place.chunk + 1..place.chunk + 1, Chunk::new(vec![entry]));
                return;
            }
            let tail = self.chunks[place.chunk].entries.split_off(at);
            let front = std::mem::take(&mut self.chunks[place.chunk].entries);
            // Both halves share a longer prefix now.
            self.chunks.splice(place.chunk..=place.chunk, Chunk::new(front).into_iter().chain(Chunk::new(tail)));
            if place.entry > at {
                place = Place { chunk: place.chunk + 1, entry: place.entry - at };
            }
        }
        self.chunks[place.chunk].insert(place.entry, entry);
    }

    /// Joins a chunk that has become small with the next one, or removes it when empty.
    fn shrink(&mut self, at: usize) {
        if self.chunks[at].entries.is_empty() {
            self.chunks.remove(at);
            return;
        }
        let joined_len =
            self.chunks[at].entries.len() + self.chunks.get(at + 1).map_or(CHUNK_LEN_MAX, |c| c.entries.len());
        if joined_len <= CHUNK_LEN_MAX / 2 {
            let next = self.chunks.remove(at + 1);
            let mut entries = std::mem::take(&mut self.chunks[at].entries);
            entries.extend(next.entries);
            self.chunks.splice(at..=at, Chunk::new(entries));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(n: u16) -> Bytes {
        Bytes::from(format!("{n:05}"))
    }

    /// Keys of every awkward shape: shared prefixes, prefixes of each other, zero bytes, nothing at all.
    fn awkward_key(n: u16) -> Bytes {
        let digits = format!("{n:b}").replace('0', "\0");
        Bytes::from(match n % 3 {
            0 => digits,
            1 => format!("shared/prefix/{digits}"),
            _ => "x".repeat(usize::from(n % 40)),
        })
    }

    fn version(revision: u64, live: bool) -> Version {
        Version {
            value: live.then(|| Bytes::from(revision.to_string())),
            create_revision: Revision(revision),
            mod_revision: Revision(revision),
        }
    }

    /// What the index must agree with: each key's whole past as a plain list.
    type Model = BTreeMap<Bytes, Vec<(u64, bool)>>;

    fn model_at<'a>(model: &'a Model, range: &'a KeyRange, at: u64) -> impl Iterator<Item = (Bytes, u64)> + 'a {
        model.iter().filter(|(key, _)| range.contains(key)).filter_map(move |(key, past)| {
            let (revision, live) = past.iter().rev().find(|(revision, _)| *revision <= at)?;
            live.then(|| (key.clone(), *revision))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn reads_and_counts_agree_with_a_plain_map(
            changes in proptest::collection::vec((0u16..1500, prop::bool::weighted(0.7)), 1..3000),
            sorted: bool, awkward: bool, floor_share in 0.0f64..1.0, a in 0u16..1500, b in 0u16..1500,
        ) {
            let mut changes = changes;
            let key = if awkward { awkward_key } else { key };
            if sorted { changes.sort_by_key(|(n, _)| key(*n)); }
            let (mut index, mut model) = (Index::default(), Model::new());
            for (revision, (n, live)) in (1u64..).zip(&changes) {
                index.set(&key(*n), version(revision, *live));
                model.entry(key(*n)).or_default().push((revision, *live));
            }
            let head = changes.len() as u64;
            let floor = (head as f64 * floor_share) as u64;
            for (n, _) in &changes[..floor as usize] {
                index.prune(&key(*n), Revision(floor));
            }
            let range = KeyRange { start: key(a).min(key(b)), end: Some(key(a).max(key(b))) };
            prop_assert_eq!(index.count(&range), model_at(&model, &range, head).count() as u64);
            for at in [floor, (floor + head) / 2, head] {
                let scan = index.scan(&range, Revision(at), usize::MAX, usize::MAX);
                let found: Vec<_> = scan.entries.into_iter().map(|kv| (kv.key, kv.mod_revision.0)).collect();
                prop_assert_eq!(found, model_at(&model, &range, at).collect::<Vec<_>>());
            }
        }

        #[test]
        fn everything_deleted_and_compacted_leaves_nothing(keys in proptest::collection::vec(0u16..2000, 1..2000)) {
            let mut index = Index::default();
            for n in &keys { index.set(&key(*n), version(1, true)); }
            for n in &keys { index.set(&key(*n), version(2, false)); }
            for n in &keys { index.prune(&key(*n), Revision(2)); }
            prop_assert!(index.chunks.is_empty());
        }
    }

    #[test]
    fn pages_resume_where_they_stopped() {
        let mut index = Index::default();
        for n in 0..2000 {
            index.set(&key(n), version(u64::from(n) + 1, true));
        }
        let mut range = KeyRange { start: key(100), end: Some(key(1900)) };
        let mut seen = Vec::new();
        loop {
            let scan = index.scan(&range, Revision(2000), 7, 1000);
            seen.extend(scan.entries.into_iter().map(|kv| kv.key));
            match scan.resume {
                Some(next) => range.start = next,
                None => break,
            }
        }
        assert_eq!(seen, (100..1900).map(key).collect::<Vec<_>>());
    }
}
