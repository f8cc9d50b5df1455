//! Compressed pieces of documents that fit together: each is deflated on its own and ends on a byte, so that pieces put one
//! after the other are one stream. A document that changes in one place is put together again without compressing the rest.

use std::sync::Arc;

use bailiwick_machinery::status::{ApiError, ApiResult};
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress};

/// Larger texts become several pieces, so that unpacking one takes little time and memory.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Some bytes of a document, deflated.
#[derive(Clone)]
pub(super) struct Piece(Arc<Packed>);

struct Packed {
    deflated: Box<[u8]>,
    /// The size unpacked.
    len: usize,
    /// Of the bytes unpacked.
    crc: Crc,
}

/// Makes pieces. The compressor's tables are worth keeping from one piece to the next.
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Self {
        // The lowest level: texts repeat themselves so much that higher ones gain little for several times the work.
        Self(Compress::new(Compression::fast(), false))
    }

    /// A text in as many pieces as it takes.
    pub(super) fn split(&mut self, text: &[u8]) -> ApiResult<Vec<Piece>> {
        text.chunks(PIECE_BYTES_MAX).map(|part| self.piece(part)).collect()
    }

    /// A text in one piece.
    pub(super) fn piece(&mut self, text: &[u8]) -> ApiResult<Piece> {
        let mut crc = Crc::new();
        crc.update(text);
        Ok(Piece(Arc::new(Packed { deflated: self.deflate(text)?.into(), len: text.len(), crc })))
    }

    fn deflate(&mut self, text: &[u8]) -> ApiResult<Vec<u8>> {
        self.0.reset();
        let mut out = Vec::with_capacity(text.len() / 8 + 64);
        loop {
            let rest = text.get(self.0.total_in() as usize..).unwrap_or_default();
            // A sync flush ends on a byte and leaves the stream open.
            self.0.compress_vec(rest, &mut out, FlushCompress::Sync).map_err(ApiError::internal)?;
            if self.0.total_in() == text.len() as u64 && out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(out.capacity());
        }
    }
}

impl Piece {
    pub(super) fn deflated(&self) -> &[u8] {
        &self.0.deflated
    }

    pub(super) fn len(&self) -> usize {
        self.0.len
    }

    pub(super) fn crc(&self) -> &Crc {
        &self.0.crc
    }

    /// Unpacks to the end of `out`.
    pub(super) fn inflate(&self, inflater: &mut Decompress, out: &mut Vec<u8>) -> ApiResult<()> {
        inflater.reset(false);
        // One byte more than needed: a full buffer would look like one that is too small.
        out.reserve(self.0.len + 1);
        inflater.decompress_vec(&self.0.deflated, out, FlushDecompress::Sync).map_err(ApiError::internal)?;
        match inflater.total_out() == self.0.len as u64 {
            true => Ok(()),
            false => Err(ApiError::internal("a piece of an OpenAPI document did not unpack")),
        }
    }
}

/// A document as pieces.
#[derive(Default)]
pub(super) struct Rendered {
    pieces: Vec<Piece>,
    len: usize,
}

impl Rendered {
    pub(super) fn push(&mut self, piece: Piece) {
        self.len += piece.len();
        self.pieces.push(piece);
    }

    pub(super) fn piece(&self, at: usize) -> Option<&Piece> {
        self.pieces.get(at)
    }

    /// The size unpacked.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The size of all pieces as they are stored.
    pub(super) fn deflated_len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.deflated().len()).sum()
    }
}

/// The size of a text in pieces, unpacked.
pub(super) fn total_len(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::len).sum()
}
