//! Names and headers of the files in a data directory.
//!
//! A segment's header ties it to its place: its number, the revision it follows on, and a random stamp that every frame
//! in it repeats. The stamp is what makes reuse of a file safe, and being secret it also keeps a value that imitates a
//! frame from being taken for one.

use crate::Revision;
use crate::embedded::frame::Reader;

/// Frames begin here.
pub(super) const SEGMENT_HEADER_LEN: usize = 64;
const MAGIC: &[u8; 8] = b"BWKLOG1\n";
const CRC_AT: usize = SEGMENT_HEADER_LEN - 4;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub number: u64,
    pub stamp: u64,
    /// The newest revision before this segment.
    pub base: Revision,
    pub created_ms: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.created_ms.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_LEN)?;
        let crc = Reader(&bytes[CRC_AT..]).u32()?;
        let mut reader = Reader(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC || crc32c::crc32c(&bytes[..CRC_AT]) != crc {
            return None;
        }
        Some(Self {
            number: reader.u64()?,
            stamp: reader.u64()?,
            base: Revision(reader.u64()?),
            created_ms: reader.u64()?,
        })
    }
}

/// What a file in the data directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Segment(u64),
    /// A segment whose contents are no longer needed.
    Recycled,
    Snapshot(Revision),
    /// Left by an interrupted creation; never of value.
    Unfinished,
    Foreign,
}

impl FileKind {
    pub fn of(name: &str) -> Self {
        let number = |prefix: &str, suffix: &str| -> Option<u64> {
            name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()
        };
        if let Some(number) = number("log-", ".seg") {
            Self::Segment(number)
        } else if let Some(revision) = number("snapshot-", ".snap") {
            Self::Snapshot(Revision(revision))
        } else if number("recycled-", ".seg").is_some() {
            Self::Recycled
        } else if name.ends_with(UNFINISHED_SUFFIX) {
            Self::Unfinished
        } else {
            Self::Foreign
        }
    }
}

const UNFINISHED_SUFFIX: &str = ".tmp";

pub(super) fn segment_name(number: u64) -> String {
    format!("log-{number:012}.seg")
}

pub(super) fn recycled_name(number: u64) -> String {
    format!("recycled-{number:012}.seg")
}

pub(super) fn snapshot_name(revision: Revision) -> String {
    format!("snapshot-{:020}.snap", revision.0)
}

pub(super) fn unfinished_name(name: &str) -> String {
    format!("{name}{UNFINISHED_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        assert_eq!(FileKind::of(&segment_name(7)), FileKind::Segment(7));
        assert_eq!(FileKind::of(&recycled_name(7)), FileKind::Recycled);
        assert_eq!(FileKind::of(&snapshot_name(Revision(9))), FileKind::Snapshot(Revision(9)));
        assert_eq!(FileKind::of(&unfinished_name(&segment_name(7))), FileKind::Unfinished);
        assert_eq!(FileKind::of("LOCK"), FileKind::Foreign);
    }

    proptest! {
        #[test]
        fn headers_round_trip_and_damage_shows(number: u64, stamp: u64, base: u64, created_ms: u64, at in 0..SEGMENT_HEADER_LEN) {
            let header = SegmentHeader { number, stamp, base: Revision(base), created_ms };
            let mut bytes = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&bytes), Some(header));
            bytes[at] ^= 1;
            prop_assert_eq!(SegmentHeader::decode(&bytes), None);
        }
    }
}
