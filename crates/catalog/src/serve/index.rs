//! The index file: opened, checked, read in pieces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::build::{BuildError, build_index};
use crate::fbc::catalog_files;

/// The last bytes of a whole index, with the version of its format.
pub(super) const MAGIC: &[u8; 8] = b"BWIDX002";
/// Of the graph alone; a catalog of ten thousand bundles has ten megabytes.
const MAX_GRAPH_BYTES: u64 = 1024 * 1024 * 1024;

/// What the files of a catalog looked like: names, sizes and times of change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(Vec<(String, u64, u128)>);

impl Fingerprint {
    /// Of a directory, now.
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in catalog_files(root)? {
            let meta = std::fs::metadata(&path)?;
            let changed = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push((name, meta.len(), changed));
        }
        Ok(Fingerprint(files))
    }

    /// Of an image, whose content is told by its digest.
    pub fn of_image(identity: &str) -> Self {
        Fingerprint(vec![(identity.to_owned(), 0, 0)])
    }
}

/// A piece of the index file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) length: u32,
}

/// What is in memory while serving.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Graph {
    pub(super) fingerprint: Fingerprint,
    pub(super) packages: BTreeMap<String, Package>,
    pub(super) bundles: Vec<Bundle>,
    /// Every document, in order.
    pub(super) metas: Vec<Meta>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Package {
    pub(super) default_channel: String,
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) deprecation: Option<String>,
    /// Its document.
    pub(super) meta: usize,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Channel {
    pub(super) head: String,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) deprecation: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) bundle: usize,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) replaces: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) skips: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) skip_range: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deprecation: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Its message without channel and manifests.
    pub(super) light: Span,
    /// Its document.
    pub(super) meta: usize,
    pub(super) has_image: bool,
    /// What its ClusterServiceVersion is called, if the catalog has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) display_name: String,
    /// Group, version and kind of what it provides.
    pub(super) provides: Vec<(String, String, String)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) schema: String,
    pub(super) package: String,
    pub(super) name: String,
    pub(super) span: Span,
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
    pub(super) graph: Graph,
}

impl Index {
    /// Opens an index file.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let read = |error| IndexError::Read { path: path.to_path_buf(), error };
        let damaged = |message: &str| IndexError::Damaged { path: path.to_path_buf(), message: message.to_owned() };
        let file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let mut tail = [0; 16];
        let tail_at = length.checked_sub(16).ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut tail, tail_at).map_err(read)?;
        let (size, magic) = tail.split_at(8);
        if magic != MAGIC {
            return Err(damaged("it does not end as an index does"));
        }
        let size = u64::from_le_bytes(size.try_into().unwrap_or_default());
        let graph_at = tail_at.checked_sub(size).filter(|_| size <= MAX_GRAPH_BYTES);
        let graph_at = graph_at.ok_or_else(|| damaged("its graph is not where it should be"))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        file.read_exact_at(&mut bytes, graph_at).map_err(read)?;
        let graph = serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
        Ok(Index { file, graph })
    }

    /// Whether it was made from the catalog as it is now.
    pub fn is_of(&self, fingerprint: &Fingerprint) -> bool {
        &self.graph.fingerprint == fingerprint
    }

    pub(super) fn read(&self, span: Span) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; span.length as usize];
        self.file.read_exact_at(&mut bytes, span.at)?;
        Ok(bytes)
    }

    pub(super) fn read_text(&self, meta: usize) -> io::Result<String> {
        let span = self.graph.metas.get(meta).map(|meta| meta.span).unwrap_or_default();
        String::from_utf8(self.read(span)?).map_err(io::Error::other)
    }

    /// How many bundles it knows, each once.
    pub fn bundle_count(&self) -> usize {
        self.graph.bundles.len()
    }

    /// Names of packages with their default channels.
    pub fn packages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.graph.packages.iter().map(|(name, package)| (name.as_str(), package.default_channel.as_str()))
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
