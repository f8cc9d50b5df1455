//! Unpacks layers. Nobody vouches for what is in one: paths and links may not leave the directory, nothing but files,
//! directories and links is made, and what a few kilobytes can grow into is limited. Only the folders that are asked
//! for are written.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// A file of a bundle or catalog is a few megabytes; the largest catalogs, in one file, a few hundred.
const MAX_FILE_BYTES: u64 = 768 * 1024 * 1024;
/// All files of a layer together.
const MAX_LAYER_BYTES: u64 = 2 * 1024 * 1024 * 1024;
const MAX_ENTRIES: usize = 200_000;
/// YAML compresses to a fifth, at best to a fiftieth; beyond this it is an attack.
const MAX_RATIO: u64 = 200;
/// Small layers may compress better than that.
const RATIO_FREE_BYTES: u64 = 16 * 1024 * 1024;
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// Why a layer was refused.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the layer cannot be read: {0}")]
    Read(io::Error),
    #[error("the entry {0:?} leaves the image")]
    Escape(String),
    #[error("the entry {0:?} goes through a link")]
    ThroughLink(String),
    #[error("the entry {0:?} is a device")]
    Device(String),
    #[error("the layer is too large: {0}")]
    TooLarge(String),
    #[error("{path}: {error}")]
    Write { path: String, error: io::Error },
}

/// Applies a layer, compressed in any way, to a directory. `wanted` says which paths matter.
pub fn unpack_layer(
    layer: impl Read,
    compressed_bytes: u64,
    root: &Path,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<(), UnpackError> {
    let limit = MAX_LAYER_BYTES.min(compressed_bytes.saturating_mul(MAX_RATIO).max(RATIO_FREE_BYTES));
    let plain = decompress(layer).map_err(UnpackError::Read)?;
    let mut archive = tar::Archive::new(Limited { inner: plain, left: limit });
    let entries = archive.entries().map_err(read_error)?;
    for (count, entry) in entries.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(UnpackError::TooLarge(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let mut entry = entry.map_err(read_error)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = relative(&name)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if let Some(hidden) = file_name.strip_prefix(WHITEOUT) {
            remove(root, &path, &file_name, hidden, &name)?;
            continue;
        }
        if !wanted(&path) {
            continue;
        }
        refuse_links_above(root, &path, &name)?;
        write_entry(&mut entry, root, &path, &name)?;
    }
    Ok(())
}

fn read_error(error: io::Error) -> UnpackError {
    match error.to_string() {
        text if text.contains(Limited::<io::Empty>::MESSAGE) => {
            UnpackError::TooLarge("it unpacks to far more than its compressed size suggests".to_owned())
        }
        _ => UnpackError::Read(error),
    }
}

/// The path below the root; a leading slash or dot is nothing, two dots are refused.
fn relative(name: &str) -> Result<PathBuf, UnpackError> {
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(UnpackError::Escape(name.to_owned())),
        }
    }
    Ok(path)
}

fn refuse_links_above(root: &Path, path: &Path, name: &str) -> Result<(), UnpackError> {
    let mut current = root.to_path_buf();
    for part in path.parent().into_iter().flat_map(Path::components) {
        current.push(part);
        if current.symlink_metadata().is_ok_and(|meta| meta.file_type().is_symlink()) {
            return Err(UnpackError::ThroughLink(name.to_owned()));
        }
    }
    Ok(())
}

fn remove(root: &Path, path: &Path, file_name: &str, hidden: &str, name: &str) -> Result<(), UnpackError> {
    refuse_links_above(root, path, name)?;
    let parent = root.join(path.parent().unwrap_or(Path::new("")));
    let at = |error| UnpackError::Write { path: path.display().to_string(), error };
    if file_name == OPAQUE {
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            clear(&entry.path()).map_err(at)?;
        }
        return Ok(());
    }
    if hidden.is_empty() || hidden == "." || hidden == ".." {
        return Err(UnpackError::Escape(name.to_owned()));
    }
    clear(&parent.join(hidden)).map_err(at)
}

fn clear(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn write_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    root: &Path,
    path: &Path,
    name: &str,
) -> Result<(), UnpackError> {
    let target = root.join(path);
    let at = |error| UnpackError::Write { path: path.display().to_string(), error };
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(at)?;
    }
    let kind = entry.header().entry_type();
    if kind.is_dir() {
        if target.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            clear(&target).map_err(at)?;
        }
        return fs::create_dir_all(&target).map_err(at);
    }
    if kind.is_file() || kind.is_contiguous() {
        if entry.size() > MAX_FILE_BYTES {
            return Err(UnpackError::TooLarge(format!("{name:?} has {} bytes", entry.size())));
        }
        clear(&target).map_err(at)?;
        let mut file = fs::File::create_new(&target).map_err(at)?;
        io::copy(entry, &mut file).map_err(read_error)?;
        return Ok(());
    }
    if kind.is_symlink() || kind.is_hard_link() {
        let link = entry.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned()).unwrap_or_default();
        return write_link(root, path, &target, &link, kind.is_hard_link(), name);
    }
    if kind.is_block_special() || kind.is_character_special() || kind.is_fifo() {
        return Err(UnpackError::Device(name.to_owned()));
    }
    // Extended headers and the like.
    Ok(())
}

fn write_link(root: &Path, path: &Path, target: &Path, link: &str, hard: bool, name: &str) -> Result<(), UnpackError> {
    let at = |error| UnpackError::Write { path: path.display().to_string(), error };
    if hard {
        let source = relative(link)?;
        refuse_links_above(root, &source, name)?;
        let source = root.join(source);
        if !source.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(UnpackError::Escape(name.to_owned()));
        }
        clear(target).map_err(at)?;
        return fs::copy(source, target).map(|_| ()).map_err(at);
    }
    // A link may point to what lies below its own directory and nowhere else: enough for catalogs, safe without
    // following.
    if link.is_empty() || link.starts_with('/') || Path::new(link).components().any(|it| it == Component::ParentDir) {
        return Err(UnpackError::Escape(name.to_owned()));
    }
    clear(target).map_err(at)?;
    std::os::unix::fs::symlink(link, target).map_err(at)
}

/// Tells compression by the first bytes, whatever the media type says.
fn decompress<'r>(mut layer: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut head = Vec::with_capacity(4);
    layer.by_ref().take(4).read_to_end(&mut head)?;
    let whole = io::Cursor::new(head.clone()).chain(layer);
    Ok(match head.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(ruzstd::decoding::StreamingDecoder::new(whole).map_err(io::Error::other)?),
        _ => Box::new(whole),
    })
}

/// Stops a stream that is longer than it may be.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R> Limited<R> {
    const MESSAGE: &'static str = "the unpacked layer is too long";
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, Self::MESSAGE))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
