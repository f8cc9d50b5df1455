//! Finds the files of a catalog directory.

use std::io;
use std::path::{Path, PathBuf};

use super::ignore::{FILE_NAME, Ignore};

/// Deeper directories are refused: nobody nests catalogs so, but links can.
const MAX_DEPTH: usize = 64;

/// The files of a catalog, in the order in which their documents count: directories sorted by name, files among them.
pub fn catalog_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut ignore = Ignore::default();
    visit(root, &mut Vec::new(), &mut found, &mut ignore)?;
    found.retain(|found: &Found| !ignore.matches(&found.parts));
    let mut paths = Vec::with_capacity(found.len());
    for Found { parts, is_plain } in found {
        let path = root.join(parts.join("/"));
        if !is_plain {
            refuse_special(&path)?;
        }
        paths.push(path);
    }
    Ok(paths)
}

struct Found {
    parts: Vec<String>,
    /// Certainly a file; links and others are looked at.
    is_plain: bool,
}

/// Refuses pipes and devices, which end when somebody else wants them to, or never.
pub(crate) fn refuse_special(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            let message = format!("{} is neither a file nor a directory", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        _ => Ok(()),
    }
}

fn visit(directory: &Path, parts: &mut Vec<String>, found: &mut Vec<Found>, ignore: &mut Ignore) -> io::Result<()> {
    if parts.len() > MAX_DEPTH {
        let message = format!("{} is nested more than {MAX_DEPTH} directories deep", directory.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
    let mut entries: Vec<_> = std::fs::read_dir(directory).map_err(named)?.collect::<Result<_, _>>().map_err(named)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().map_err(|name| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {name:?} is not UTF-8", directory.display()))
        })?;
        // A link to a directory is read as a file by upstream, and fails there; nobody means that.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            parts.push(name);
            visit(&entry.path(), parts, found, ignore)?;
            parts.pop();
        } else if name == FILE_NAME {
            refuse_special(&entry.path())?;
            ignore.add(parts, &std::fs::read_to_string(entry.path())?);
        } else {
            let mut path = parts.clone();
            path.push(name);
            found.push(Found { parts: path, is_plain: kind.is_file() });
        }
    }
    Ok(())
}
