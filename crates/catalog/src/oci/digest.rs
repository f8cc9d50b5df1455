//! Digests of content.

use std::fmt;
use std::io::Write;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest::from_hash(&Sha256::digest(bytes))
    }

    fn from_hash(hash: &[u8]) -> Self {
        Digest(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Reads `sha256:…`; other algorithms are not in use.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        (hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))).then(|| Digest(hex.to_owned()))
    }

    /// Without the algorithm.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// Passes bytes on and digests them.
pub(super) struct DigestWriter<W> {
    pub(super) inner: W,
    hash: Sha256,
    pub(super) length: u64,
}

impl<W: Write> DigestWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        DigestWriter { inner, hash: Sha256::new(), length: 0 }
    }

    /// Counts bytes that were written before.
    pub(super) fn seen(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }

    pub(super) fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest::from_hash(&self.hash.finalize()), self.length)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.seen(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
