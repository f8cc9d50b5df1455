//! The index file: opened, checked, read in pieces.
//!
//! From its beginning: documents and messages of bundles, records of packages, the directory of packages, the list of
//! documents, and a footer of one size with the places of the last two. Only the directory is in memory. The rest is
//! read when somebody asks and stays in the kernel's cache of the file, as that of a mapped file would, without counting
//! as memory of the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::build::{BuildError, build_index};
use super::directory::Directory;
use super::record;
use crate::fbc::catalog_files;

/// The last bytes of a whole index, with the version of its format.
const MAGIC: &[u8; 8] = b"BWIDX003";
const FINGERPRINT_BYTES: usize = 32;
/// Fingerprint, two sections, the number of bundles, magic.
const FOOTER_BYTES: usize = FINGERPRINT_BYTES + 2 * 16 + 8 + MAGIC.len();
/// Of the names of packages alone; a catalog of three thousand packages has two hundred kilobytes.
const MAX_DIRECTORY_BYTES: u64 = 256 * 1024 * 1024;

/// What the files of a catalog looked like: a digest of their names, sizes and times of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Of a directory, now.
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut digest = Sha256::new();
        for path in catalog_files(root)? {
            let meta = std::fs::metadata(&path)?;
            let changed = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let name = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_encoded_bytes();
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update(meta.len().to_le_bytes());
            digest.update(changed.to_le_bytes());
        }
        Ok(Fingerprint(digest.finalize().into()))
    }

    /// Of an image, whose content is told by its digest.
    pub fn of_image(identity: &str) -> Self {
        Fingerprint(Sha256::new().chain_update("image").chain_update(identity).finalize().into())
    }

    /// Enough of it to tell two states apart.
    pub(super) fn short(&self) -> String {
        self.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A piece of the index file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) length: u32,
}

/// A part of the file that may be larger than a [`Span`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) at: u64,
    pub(super) length: u64,
}

/// What stands at the end of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) fingerprint: Fingerprint,
    pub(super) directory: Section,
    pub(super) documents: Section,
    pub(super) bundles: u64,
}

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers =
            [self.directory.at, self.directory.length, self.documents.at, self.documents.length, self.bundles];
        let mut bytes = self.fingerprint.0.to_vec();
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(MAGIC);
        bytes
    }

    fn decode(bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let numbers = bytes.strip_suffix(MAGIC)?;
        let (fingerprint, numbers) = numbers.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let mut numbers = numbers.chunks_exact(8).filter_map(|it| Some(u64::from_le_bytes(it.try_into().ok()?)));
        Some(Footer {
            fingerprint: Fingerprint(*fingerprint),
            directory: Section { at: numbers.next()?, length: numbers.next()? },
            documents: Section { at: numbers.next()?, length: numbers.next()? },
            bundles: numbers.next()?,
        })
    }
}

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error("{path}: the index is damaged: {message}")]
    Damaged { path: PathBuf, message: String },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{0}")]
    Image(String),
    #[error("integrity check failed: cache requires rebuild: {path} does not belong to the catalog as it is now")]
    Stale { path: PathBuf },
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    file: File,
    /// Of all that the footer is the footer of.
    length: u64,
    footer: Footer,
    pub(super) directory: Directory,
}

impl Index {
    /// Opens an index file.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let read = |error| IndexError::Read { path: path.to_path_buf(), error };
        let damaged = |message: &str| IndexError::Damaged { path: path.to_path_buf(), message: message.to_owned() };
        let file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let length = length.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| damaged("it is too short"))?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, length).map_err(read)?;
        let footer = Footer::decode(&footer).ok_or_else(|| damaged("it does not end as an index does"))?;
        let is_inside = |it: Section| it.at.checked_add(it.length).is_some_and(|end| end <= length);
        if !is_inside(footer.directory) || !is_inside(footer.documents) || footer.directory.length > MAX_DIRECTORY_BYTES
        {
            return Err(damaged("its parts are not where they should be"));
        }
        let mut bytes = vec![0; usize::try_from(footer.directory.length).unwrap_or_default()];
        file.read_exact_at(&mut bytes, footer.directory.at).map_err(read)?;
        let directory = Directory::decode(bytes).map_err(damaged)?;
        Ok(Index { file, length, footer, directory })
    }

    /// Whether it was made from the catalog as it is now.
    pub fn is_of(&self, fingerprint: &Fingerprint) -> bool {
        self.fingerprint() == fingerprint
    }

    pub(super) fn fingerprint(&self) -> &Fingerprint {
        &self.footer.fingerprint
    }

    pub(super) fn read(&self, span: Span) -> io::Result<Vec<u8>> {
        let end = span.at.checked_add(u64::from(span.length));
        if end.is_none_or(|end| end > self.length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the index is damaged: a part lies outside of it"));
        }
        let mut bytes = vec![0; span.length as usize];
        self.file.read_exact_at(&mut bytes, span.at)?;
        Ok(bytes)
    }

    pub(super) fn read_text(&self, span: Span) -> io::Result<String> {
        String::from_utf8(self.read(span)?).map_err(io::Error::other)
    }

    /// The record of a package, if there is one of the name.
    pub(super) fn record(&self, name: &str) -> io::Result<Option<record::Package>> {
        self.directory.find(name).map(|span| self.read_record(span)).transpose()
    }

    /// All records, by name.
    pub(super) fn records(&self) -> impl Iterator<Item = io::Result<record::Package>> {
        (0..self.directory.len()).filter_map(|at| self.directory.get(at)).map(|(.., span)| self.read_record(span))
    }

    pub(super) fn read_record(&self, span: Span) -> io::Result<record::Package> {
        record::Package::decode(self.read(span)?.as_slice()).map_err(io::Error::other)
    }

    /// The list of documents, from its beginning.
    pub(super) fn documents_reader(&self) -> impl io::Read {
        let Section { at, length } = self.footer.documents;
        SectionReader { file: &self.file, at, left: length }
    }

    /// How many bundles it knows, each once.
    pub fn bundle_count(&self) -> usize {
        usize::try_from(self.footer.bundles).unwrap_or(usize::MAX)
    }

    /// Names of packages with their default channels.
    pub fn packages(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.directory.len()).filter_map(|at| self.directory.get(at)).map(|(name, channel, _)| (name, channel))
    }
}

struct SectionReader<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl io::Read for SectionReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// The index of a directory: the one in the cache when it is current, a new one otherwise.
pub fn open_or_build(root: &Path, index_path: &Path) -> Result<Index, IndexError> {
    let read = |error| IndexError::Read { path: root.to_path_buf(), error };
    let fingerprint = Fingerprint::of(root).map_err(read)?;
    if let Ok(index) = Index::open(index_path)
        && index.is_of(&fingerprint)
    {
        return Ok(index);
    }
    build_index(root, index_path, fingerprint)?;
    Index::open(index_path)
}
