//! Between our keys and etcd's: the prefix goes on here, and comes off here.

use bytes::{Bytes, BytesMut};

use super::proto;
use crate::{Change, Event, KeyRange, KeyValue, Revision, prefix_end};

/// etcd's way to say "to the end of the key space".
const END_OF_KEY_SPACE: &[u8] = b"\0";

/// The part of etcd's key space that is ours.
#[derive(Clone, Debug)]
pub struct KeySpace {
    prefix: Bytes,
    end: Bytes,
}

impl KeySpace {
    pub fn new(prefix: impl Into<Bytes>) -> Self {
        let prefix = prefix.into();
        let end = prefix_end(&prefix).unwrap_or_else(|| Bytes::from_static(END_OF_KEY_SPACE));
        Self { prefix, end }
    }

    /// Our key as etcd has it.
    pub fn outer(&self, key: &[u8]) -> Bytes {
        let mut outer = BytesMut::with_capacity(self.prefix.len() + key.len());
        outer.extend_from_slice(&self.prefix);
        outer.extend_from_slice(key);
        outer.freeze()
    }

    /// Start and end of our range as etcd has them.
    pub fn outer_range(&self, range: &KeyRange) -> (Bytes, Bytes) {
        let end = range.end.as_ref().map_or_else(|| self.end.clone(), |end| self.outer(end));
        (self.outer(&range.start), end)
    }

    /// An entry as our callers see it; `None` if etcd sent a key we did not ask for.
    ///
    /// Copies key and value into one allocation of their own: as slices of the message they came in they would keep a
    /// whole page of a list alive for as long as a cache holds one of its entries.
    pub fn inner(&self, kv: proto::KeyValue) -> Option<KeyValue> {
        let key = kv.key.strip_prefix(self.prefix.as_ref())?;
        let mut both = Vec::with_capacity(key.len() + kv.value.len());
        both.extend_from_slice(key);
        both.extend_from_slice(&kv.value);
        let mut both = Bytes::from(both);
        let value = both.split_off(key.len());
        Some(KeyValue {
            key: both,
            value,
            create_revision: from_wire(kv.create_revision),
            mod_revision: from_wire(kv.mod_revision),
        })
    }

    /// A watch event as our callers see it.
    pub fn inner_event(&self, event: proto::Event) -> Option<Event> {
        let kv = event.kv?;
        let previous = event.prev_kv.and_then(|kv| self.inner(kv));
        let change = if event.r#type == proto::EventType::Delete as i32 {
            let revision = from_wire(kv.mod_revision);
            let key = match &previous {
                Some(previous) => previous.key.clone(),
                None => Bytes::copy_from_slice(kv.key.strip_prefix(self.prefix.as_ref())?),
            };
            Change::Delete { key, revision }
        } else {
            Change::Put(self.inner(kv)?)
        };
        Some(Event { change, previous })
    }
}

/// A revision off the wire. etcd counts in signed integers but never below zero.
pub fn from_wire(revision: i64) -> Revision {
    Revision(u64::try_from(revision).unwrap_or(0))
}

/// A revision for the wire. What etcd cannot count to is "far in the future".
pub fn to_wire(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The revision in a response's header.
pub fn header_revision(header: &Option<proto::ResponseHeader>) -> Revision {
    from_wire(header.as_ref().map_or(0, |header| header.revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(key: &'static [u8], value: &'static [u8]) -> proto::KeyValue {
        proto::KeyValue {
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
            create_revision: 2,
            mod_revision: 3,
            version: 2,
        }
    }

    #[test]
    fn prefix_goes_on_and_comes_off() {
        let keys = KeySpace::new("/b/");
        assert_eq!(keys.outer(b"x"), "/b/x");
        let kv = keys.inner(wire(b"/b/x", b"v")).unwrap();
        assert_eq!((kv.key.as_ref(), kv.value.as_ref()), (&b"x"[..], &b"v"[..]));
        assert_eq!((kv.create_revision, kv.mod_revision), (Revision(2), Revision(3)));
    }

    #[test]
    fn foreign_keys_are_not_ours() {
        assert_eq!(KeySpace::new("/b/").inner(wire(b"/c/x", b"v")), None);
    }

    #[test]
    fn an_open_range_ends_with_our_prefix() {
        let keys = KeySpace::new("/b/");
        let (start, end) = keys.outer_range(&KeyRange { start: Bytes::new(), end: None });
        assert_eq!((start.as_ref(), end.as_ref()), (&b"/b/"[..], &b"/b0"[..]));
        let (start, end) = keys.outer_range(&KeyRange::prefix("a"));
        assert_eq!((start.as_ref(), end.as_ref()), (&b"/b/a"[..], &b"/b/b"[..]));
    }

    #[test]
    fn a_prefix_without_successor_ranges_to_the_end_of_the_key_space() {
        let (_, end) = KeySpace::new(&b"\xff"[..]).outer_range(&KeyRange { start: Bytes::new(), end: None });
        assert_eq!(end, END_OF_KEY_SPACE);
    }

    proptest::proptest! {
        #[test]
        fn a_key_is_in_our_range_exactly_if_it_is_in_etcds(
            prefix in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..4),
            key: Vec<u8>,
            start: Vec<u8>,
            end: Option<Vec<u8>>,
        ) {
            let keys = KeySpace::new(prefix);
            let range = KeyRange { start: start.into(), end: end.map(Into::into) };
            let (outer_start, outer_end) = keys.outer_range(&range);
            let outer = keys.outer(&key);
            let inside = outer >= outer_start && (outer_end == END_OF_KEY_SPACE || outer < outer_end);
            proptest::prop_assert_eq!(inside, range.contains(&key));
        }
    }

    #[test]
    fn a_delete_is_known_by_its_key_even_without_its_past() {
        let keys = KeySpace::new("/b/");
        let event =
            proto::Event { r#type: proto::EventType::Delete as i32, kv: Some(wire(b"/b/x", b"")), prev_kv: None };
        let event = keys.inner_event(event).unwrap();
        assert_eq!(event.change, Change::Delete { key: "x".into(), revision: Revision(3) });
    }
}
