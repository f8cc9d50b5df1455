//! The log's unit: one frame holds one group commit, all or nothing.
//!
//! A frame carries its length, a CRC32C over everything after the checksum, the stamp of the segment it was written
//! for (so that bytes left over in a recycled segment never parse), its first revision and an end marker. Decoding
//! arbitrary bytes never panics and never yields a frame that was not written as such.
//!
//! ```text
//! magic u32 | crc u32 | stamp u64 | payload_len u32 | kind u32 | first_revision u64 | time_ms u64 | payload | end u32 | pad to 8
//! batch payload:   txn_count u32, then per transaction: change_count u32, changes
//! change:          kind u8, key_len u32, [value_len u32], [expires_at_ms u64], key, [value]
//! compact payload: floor u64
//! ```

use bytes::Bytes;

use crate::{Change, Event, Revision};

/// Frames begin at multiples of this, which keeps the search for survivors behind a damaged frame cheap.
pub(super) const FRAME_ALIGN: usize = 8;
const MAGIC: u32 = u32::from_le_bytes(*b"BWf1");
const END: u32 = u32::from_le_bytes(*b"1fWB");
const HEADER_LEN: usize = 40;
const END_LEN: usize = 4;
/// Larger lengths are taken for damage; far above what a batch may hold.
const PAYLOAD_LEN_MAX: usize = 1 << 30;

const KIND_BATCH: u32 = 1;
const KIND_COMPACT: u32 = 2;

const CHANGE_DELETE: u8 = 0;
const CHANGE_PUT: u8 = 1;
const CHANGE_PUT_EXPIRING: u8 = 2;

/// One change as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Put { key: Bytes, value: Bytes, expires_at_ms: Option<u64> },
    Delete { key: Bytes },
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameBody {
    /// Transactions with consecutive revisions from the frame's first.
    Batch(Vec<Vec<Record>>),
    /// History up to this revision was given up. Takes no revision itself.
    Compact(Revision),
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub first_revision: Revision,
    pub time_ms: u64,
    pub body: FrameBody,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFault {
    /// Not the beginning of a frame of this segment: the log ends here, or the header is damaged.
    NoFrame,
    /// Begins like a frame but is incomplete or damaged.
    Damaged,
}

/// Builds frames in one reused buffer.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder {
    buf: Vec<u8>,
    txn_count: u32,
}

/// A buffer that grew beyond this for one large batch is given back afterwards.
const BUFFER_KEEP_MAX: usize = 8 << 20;

impl FrameBuilder {
    /// Begins a batch.
    pub fn begin_batch(&mut self) {
        self.begin();
        self.put_u32(0);
    }

    fn begin(&mut self) {
        if self.buf.capacity() > BUFFER_KEEP_MAX {
            self.buf = Vec::new();
        }
        self.buf.clear();
        self.buf.resize(HEADER_LEN, 0);
        self.txn_count = 0;
    }

    /// Adds a transaction: its changes, and when each key expires.
    pub fn push_txn<'a>(&mut self, changes: impl ExactSizeIterator<Item = (&'a Event, Option<u64>)>) {
        self.txn_count += 1;
        self.put_u32(to_u32(changes.len()));
        for (event, expires_at_ms) in changes {
            match &event.change {
                Change::Delete { key, .. } => {
                    self.buf.push(CHANGE_DELETE);
                    self.put_u32(to_u32(key.len()));
                    self.buf.extend_from_slice(key);
                }
                Change::Put(kv) => {
                    self.buf.push(if expires_at_ms.is_some() { CHANGE_PUT_EXPIRING } else { CHANGE_PUT });
                    self.put_u32(to_u32(kv.key.len()));
                    self.put_u32(to_u32(kv.value.len()));
                    if let Some(at) = expires_at_ms {
                        self.put_u64(at);
                    }
                    self.buf.extend_from_slice(&kv.key);
                    self.buf.extend_from_slice(&kv.value);
                }
            }
        }
    }

    /// Transactions in the batch so far.
    pub fn txn_count(&self) -> u32 {
        self.txn_count
    }

    /// How long the frame will be when finished now.
    pub fn finished_len(&self) -> usize {
        (self.buf.len() + END_LEN).next_multiple_of(FRAME_ALIGN)
    }

    /// Completes the batch; `stamp` is the segment's.
    pub fn finish_batch(&mut self, stamp: u64, first_revision: Revision, time_ms: u64) -> &[u8] {
        let count = self.txn_count;
        self.buf[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&count.to_le_bytes());
        self.finish(KIND_BATCH, stamp, first_revision, time_ms)
    }

    /// Begins a frame that records a compaction.
    pub fn begin_compact(&mut self, floor: Revision) {
        self.begin();
        self.put_u64(floor.0);
    }

    /// Completes the record of a compaction that happened at `revision`.
    pub fn finish_compact(&mut self, stamp: u64, revision: Revision, time_ms: u64) -> &[u8] {
        self.finish(KIND_COMPACT, stamp, revision, time_ms)
    }

    fn finish(&mut self, kind: u32, stamp: u64, first_revision: Revision, time_ms: u64) -> &[u8] {
        let payload_len = to_u32(self.buf.len() - HEADER_LEN);
        self.put_u32(END);
        self.buf.resize(self.buf.len().next_multiple_of(FRAME_ALIGN), 0);
        let header = &mut self.buf[..HEADER_LEN];
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[8..16].copy_from_slice(&stamp.to_le_bytes());
        header[16..20].copy_from_slice(&payload_len.to_le_bytes());
        header[20..24].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&first_revision.0.to_le_bytes());
        header[32..40].copy_from_slice(&time_ms.to_le_bytes());
        let crc = crc32c::crc32c(&self.buf[8..]);
        self.buf[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.buf
    }

    fn put_u32(&mut self, value: u32) {
        self.buf.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.buf.extend_from_slice(&value.to_le_bytes());
    }
}

fn to_u32(len: usize) -> u32 {
    u32::try_from(len).expect("invariant: a transaction's size is limited far below 4 GiB")
}

/// The length of the intact frame at the beginning of `bytes`, checked but not decoded.
pub(super) fn check_frame(bytes: &[u8], stamp: u64) -> Result<usize, FrameFault> {
    let mut header = Reader(bytes);
    if header.u32() != Some(MAGIC) {
        return Err(FrameFault::NoFrame);
    }
    let (Some(crc), Some(found_stamp), Some(payload_len)) = (header.u32(), header.u64(), header.u32()) else {
        return Err(FrameFault::Damaged);
    };
    if found_stamp != stamp {
        return Err(FrameFault::NoFrame);
    }
    let payload_len = payload_len as usize;
    if payload_len > PAYLOAD_LEN_MAX {
        return Err(FrameFault::Damaged);
    }
    let len = (HEADER_LEN + payload_len + END_LEN).next_multiple_of(FRAME_ALIGN);
    let frame = bytes.get(..len).ok_or(FrameFault::Damaged)?;
    let end = frame.get(HEADER_LEN + payload_len..).and_then(|rest| Reader(rest).u32());
    if end != Some(END) || frame.get(8..).map(crc32c::crc32c) != Some(crc) {
        return Err(FrameFault::Damaged);
    }
    Ok(len)
}

/// Decodes the frame at the beginning of `bytes`; also says how long it is. Keys and values are copied out, one
/// allocation for both, so that a long-lived value does not keep a whole segment in memory.
pub(super) fn decode_frame(bytes: &[u8], stamp: u64) -> Result<(Frame, usize), FrameFault> {
    let len = check_frame(bytes, stamp)?;
    decode_checked(&bytes[..len]).map(|frame| (frame, len)).ok_or(FrameFault::Damaged)
}

fn decode_checked(frame: &[u8]) -> Option<Frame> {
    let mut reader = Reader(frame.get(16..)?);
    let payload_len = reader.u32()? as usize;
    let kind = reader.u32()?;
    let first_revision = Revision(reader.u64()?);
    let time_ms = reader.u64()?;
    let mut payload = Reader(reader.bytes(payload_len)?);
    let body = match kind {
        KIND_BATCH => FrameBody::Batch(decode_batch(&mut payload)?),
        KIND_COMPACT => FrameBody::Compact(Revision(payload.u64()?)),
        _ => return None,
    };
    payload.0.is_empty().then_some(Frame { first_revision, time_ms, body })
}

fn decode_batch(payload: &mut Reader<'_>) -> Option<Vec<Vec<Record>>> {
    let txn_count = payload.u32()? as usize;
    // Every transaction takes at least four bytes, so a hostile count cannot make us allocate more than the frame.
    let mut txns = Vec::with_capacity(txn_count.min(payload.0.len() / 4));
    for _ in 0..txn_count {
        let change_count = payload.u32()? as usize;
        let mut records = Vec::with_capacity(change_count.min(payload.0.len() / 5));
        for _ in 0..change_count {
            records.push(decode_record(payload)?);
        }
        txns.push(records);
    }
    Some(txns)
}

fn decode_record(payload: &mut Reader<'_>) -> Option<Record> {
    let kind = payload.u8()?;
    let key_len = payload.u32()? as usize;
    if kind == CHANGE_DELETE {
        return Some(Record::Delete { key: Bytes::copy_from_slice(payload.bytes(key_len)?) });
    }
    let value_len = payload.u32()? as usize;
    let expires_at_ms = match kind {
        CHANGE_PUT => None,
        CHANGE_PUT_EXPIRING => Some(payload.u64()?),
        _ => return None,
    };
    let both = payload.bytes(key_len.checked_add(value_len)?)?;
    let (key, value) = copy_pair(both, key_len);
    Some(Record::Put { key, value, expires_at_ms })
}

/// Copies `key ++ value` into one allocation shared by two handles.
pub(super) fn copy_pair(both: &[u8], key_len: usize) -> (Bytes, Bytes) {
    let mut key = Bytes::copy_from_slice(both);
    let value = key.split_off(key_len);
    (key, value)
}

/// Takes little-endian numbers off the front of a slice.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::KeyValue;

    fn event(record: &Record, revision: Revision) -> (Event, Option<u64>) {
        match record.clone() {
            Record::Put { key, value, expires_at_ms } => {
                let kv = KeyValue { key, value, create_revision: revision, mod_revision: revision };
                (Event { change: Change::Put(kv), previous: None }, expires_at_ms)
            }
            Record::Delete { key } => (Event { change: Change::Delete { key, revision }, previous: None }, None),
        }
    }

    fn encode(frame: &Frame, stamp: u64) -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        match &frame.body {
            FrameBody::Compact(floor) => {
                builder.begin_compact(*floor);
                builder.finish_compact(stamp, frame.first_revision, frame.time_ms).to_vec()
            }
            FrameBody::Batch(txns) => {
                builder.begin_batch();
                for txn in txns {
                    let events: Vec<_> = txn.iter().map(|record| event(record, frame.first_revision)).collect();
                    builder.push_txn(events.iter().map(|(event, at)| (event, *at)));
                }
                builder.finish_batch(stamp, frame.first_revision, frame.time_ms).to_vec()
            }
        }
    }

    fn any_bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..len_max).prop_map(Bytes::from)
    }

    fn any_record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any_bytes(40), any_bytes(200), any::<Option<u64>>()).prop_map(|(key, value, expires_at_ms)| Record::Put {
                key,
                value,
                expires_at_ms
            }),
            any_bytes(40).prop_map(|key| Record::Delete { key }),
        ]
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        let body = prop_oneof![
            proptest::collection::vec(proptest::collection::vec(any_record(), 0..4), 0..5).prop_map(FrameBody::Batch),
            any::<u64>().prop_map(|floor| FrameBody::Compact(Revision(floor))),
        ];
        (any::<u64>(), any::<u64>(), body).prop_map(|(revision, time_ms, body)| Frame {
            first_revision: Revision(revision),
            time_ms,
            body,
        })
    }

    proptest! {
        #[test]
        fn a_decoded_frame_is_the_encoded_one(frame in any_frame(), stamp: u64, trailing in any_bytes(32)) {
            let mut bytes = encode(&frame, stamp);
            let len = bytes.len();
            prop_assert_eq!(len % FRAME_ALIGN, 0);
            bytes.extend_from_slice(&trailing);
            prop_assert_eq!(decode_frame(&bytes, stamp), Ok((frame, len)));
        }

        #[test]
        fn another_segments_frame_is_not_a_frame(frame in any_frame(), stamp: u64) {
            let bytes = encode(&frame, stamp);
            prop_assert_eq!(decode_frame(&bytes, stamp.wrapping_add(1)), Err(FrameFault::NoFrame));
        }

        #[test]
        fn every_flipped_bit_is_noticed(frame in any_frame(), at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = encode(&frame, 7);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode_frame(&bytes, 7).is_err());
        }

        #[test]
        fn every_cut_is_noticed(frame in any_frame(), at: prop::sample::Index) {
            let bytes = encode(&frame, 7);
            prop_assert!(decode_frame(&bytes[..at.index(bytes.len())], 7).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any_bytes(300)) {
            let _ = decode_frame(&bytes, 7);
        }

        /// The payload parser must stand on its own: an intact checksum does not make the contents sensible.
        #[test]
        fn arbitrary_payloads_with_good_checksums_never_panic(kind in 0u32..4, payload in any_bytes(200)) {
            let mut builder = FrameBuilder::default();
            builder.begin();
            builder.buf.extend_from_slice(&payload);
            let bytes = builder.finish(kind, 7, Revision(1), 0).to_vec();
            prop_assert!(check_frame(&bytes, 7).is_ok());
            let _ = decode_frame(&bytes, 7);
        }
    }
}
