//! A document on its way out: unpacked or as gzip, a chunk at a time, so that even the largest is never whole in memory.

use std::sync::Arc;

use bytes::Bytes;
use flate2::{Crc, Decompress};

use super::piece::Rendered;

/// Pieces are sent together until they are about this large.
const CHUNK_BYTES: usize = 32 * 1024;

/// Deflate, no flags, no time, fastest compression, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// A last deflate block with nothing in it.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Checksum and size, four bytes each.
const GZIP_TRAILER_BYTES: usize = 8;

/// The body of an answer with a document.
pub struct DocumentBody {
    document: Arc<Rendered>,
    at: usize,
    coding: Coding,
    bytes_left: u64,
}

enum Coding {
    Identity(Box<Decompress>),
    Gzip(Crc),
}

impl DocumentBody {
    /// The document as it is.
    pub(super) fn identity(document: Arc<Rendered>) -> Self {
        let bytes_left = document.len() as u64;
        Self { document, at: 0, coding: Coding::Identity(Box::new(Decompress::new(false))), bytes_left }
    }

    /// The document as gzip.
    pub(super) fn gzip(document: Arc<Rendered>) -> Self {
        let around = GZIP_HEADER.len() + LAST_BLOCK.len() + GZIP_TRAILER_BYTES;
        let bytes_left = (document.deflated_len() + around) as u64;
        Self { document, at: 0, coding: Coding::Gzip(Crc::new()), bytes_left }
    }

    /// How many bytes are still to come.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// The next bytes; `None` at the end.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        if self.bytes_left == 0 {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if let (0, Coding::Gzip(_)) = (self.at, &self.coding) {
            chunk.extend_from_slice(&GZIP_HEADER);
        }
        while let Some(piece) = self.document.piece(self.at).filter(|_| chunk.len() < CHUNK_BYTES) {
            self.at += 1;
            match &mut self.coding {
                // Ending early makes the connection fail, which is right for an answer that cannot be given.
                Coding::Identity(inflater) => piece.inflate(inflater, &mut chunk).ok()?,
                Coding::Gzip(crc) => {
                    crc.combine(piece.crc());
                    chunk.extend_from_slice(piece.deflated());
                }
            }
        }
        if let (None, Coding::Gzip(crc)) = (self.document.piece(self.at), &self.coding) {
            chunk.extend_from_slice(&LAST_BLOCK);
            chunk.extend_from_slice(&crc.sum().to_le_bytes());
            // The format has the size modulo 2^32.
            chunk.extend_from_slice(&(self.document.len() as u32).to_le_bytes());
        }
        self.bytes_left = self.bytes_left.saturating_sub(chunk.len() as u64);
        (!chunk.is_empty()).then(|| chunk.into())
    }
}
