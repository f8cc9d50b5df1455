//! Loads a catalog: several threads take documents from one reader and hand them on as values; results come back in
//! the order of the files, and so does the first error.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::documents::{Document, DocumentReader, Form};
use super::meta::Meta;
use super::parse::parse_document;
use super::types::{Catalog, Object};
use super::walk::catalog_files;

/// Reading ahead of a file; documents are a few hundred kilobytes at most.
const BUFFER_BYTES: usize = 256 * 1024;
/// More threads would wait for the reader.
const MAX_THREADS: usize = 8;

/// Where a document stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

/// Why a catalog cannot be loaded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// What opm would say, where it refuses the same.
    pub message: String,
    /// `None` for a problem of the directory itself.
    pub location: Option<Location>,
}

impl LoadError {
    /// What went wrong, and where.
    pub fn located(&self) -> String {
        match &self.location {
            Some(at) => format!("{}\n  in {}, line {}", self.message, at.path.display(), at.line),
            None => self.message.clone(),
        }
    }
}

/// Loads all objects of a directory.
pub fn load(root: &Path) -> Result<Catalog, LoadError> {
    let objects = for_each_meta(root, Object::new)?;
    Ok(objects.into_iter().collect())
}

/// Loads the objects of one stream.
pub fn load_text(text: &str) -> Result<Catalog, LoadError> {
    let mut catalog = Catalog::default();
    for_each_in_text(text, |meta| Object::new(meta).map(|object| catalog.push(object)))?;
    Ok(catalog)
}

/// The documents of one stream.
pub(crate) fn metas_of_text(text: &str) -> Result<Vec<Meta>, LoadError> {
    let mut metas = Vec::new();
    for_each_in_text(text, |meta| {
        metas.push(meta);
        Ok(())
    })?;
    Ok(metas)
}

fn for_each_in_text(text: &str, mut take: impl FnMut(Meta) -> Result<(), String>) -> Result<(), LoadError> {
    let mut reader = DocumentReader::new(text.as_bytes());
    let mut line = 1;
    let at = |line, message| LoadError { message, location: Some(Location { path: PathBuf::from("-"), line }) };
    while let Some(document) = reader.next_document().map_err(|error| at(line, error.to_string()))? {
        line = document.line;
        let value = parse_document(&document).map_err(|error| at(error.line, error.message))?;
        identified(value, document.form).and_then(&mut take).map_err(|message| at(line, message))?;
    }
    Ok(())
}

/// Calls `make` for every document of a directory, on several threads, and returns what it made in the order of the
/// documents.
pub fn for_each_meta<T: Send>(
    root: &Path,
    make: impl Fn(Meta) -> Result<T, String> + Sync,
) -> Result<Vec<T>, LoadError> {
    let files = catalog_files(root).map_err(|error| LoadError { message: error.to_string(), location: None })?;
    let source = Mutex::new(Source { files: files.into_iter(), current: None, taken: 0, stopped: false });
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let parts: Vec<Part<T>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&source, &make))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut made = Vec::new();
    let mut first: Option<(usize, LoadError)> = None;
    for part in parts {
        made.extend(part.made);
        if let Some(error) = part.error
            && first.as_ref().is_none_or(|(number, _)| error.0 < *number)
        {
            first = Some(error);
        }
    }
    if let Some((_, error)) = first {
        return Err(error);
    }
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

/// Reads the identity of a document. YAML goes through one more library upstream, which says so in its errors.
fn identified(value: serde_json::Value, form: Form) -> Result<Meta, String> {
    Meta::of(value, form).map_err(|error| match form {
        Form::Json => error,
        Form::Yaml => format!("error unmarshaling JSON: while decoding JSON: {error}"),
    })
}

/// What one thread made, by the number of the document.
struct Part<T> {
    made: Vec<(usize, T)>,
    error: Option<(usize, LoadError)>,
}

fn work<T>(source: &Mutex<Source>, make: &impl Fn(Meta) -> Result<T, String>) -> Part<T> {
    let mut part = Part { made: Vec::new(), error: None };
    loop {
        let mut taking = source.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (number, path, document) = match taking.next() {
            Ok(Some(taken)) => taken,
            Ok(None) => return part,
            Err(error) => {
                taking.stopped = true;
                part.error = Some((taking.taken, error));
                return part;
            }
        };
        drop(taking);
        let result = parse_document(&document).map_err(|error| (error.line, error.message)).and_then(|value| {
            identified(value, document.form).and_then(make).map_err(|message| (document.line, message))
        });
        match result {
            Ok(value) => part.made.push((number, value)),
            Err((line, message)) => {
                source.lock().unwrap_or_else(std::sync::PoisonError::into_inner).stopped = true;
                let location = Some(Location { path: path.to_path_buf(), line });
                part.error = Some((number, LoadError { message, location }));
                return part;
            }
        }
    }
}

struct Source {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<(std::sync::Arc<Path>, DocumentReader<BufReader<File>>)>,
    taken: usize,
    /// After an error nobody takes more: what comes later cannot be the first error.
    stopped: bool,
}

type Taken = (usize, std::sync::Arc<Path>, Document);

impl Source {
    fn next(&mut self) -> Result<Option<Taken>, LoadError> {
        while !self.stopped {
            if self.current.is_none() {
                let Some(path) = self.files.next() else { return Ok(None) };
                let file = File::open(&path).map_err(|error| at(&path, 1, &error))?;
                let reader = DocumentReader::new(BufReader::with_capacity(BUFFER_BYTES, file));
                self.current = Some((path.into(), reader));
            }
            let Some((path, reader)) = self.current.as_mut() else { return Ok(None) };
            match reader.next_document() {
                Ok(Some(document)) => {
                    self.taken += 1;
                    return Ok(Some((self.taken - 1, path.clone(), document)));
                }
                Ok(None) => self.current = None,
                Err(error) => return Err(at(path, reader.line(), &error)),
            }
        }
        Ok(None)
    }
}

fn at(path: &Path, line: usize, error: &std::io::Error) -> LoadError {
    LoadError { message: error.to_string(), location: Some(Location { path: path.to_path_buf(), line }) }
}
