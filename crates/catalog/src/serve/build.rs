//! Makes the index file of a catalog in one pass over its documents.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use prost::Message;

use super::directory::Directory;
use super::documents::Document;
use super::index::{Fingerprint, Footer, Section, Span};
use super::messages;
use super::record::{Api, Bundle, Channel, Entry, Package};
use crate::fbc::{self, LoadError, for_each_meta, schema};
use crate::go::to_json;
use crate::model::{self, BundleFacts, Fact};
use crate::property::{self, Gvk, Order, PackageProperty, Properties};

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("{}", .0.located())]
    Load(#[from] LoadError),
    #[error("build package index: {0}")]
    Invalid(String),
    #[error("{path}: {error}")]
    Write { path: PathBuf, error: io::Error },
}

/// Less the process's mask: an index made as one user is served as another.
const INDEX_MODE: u32 = 0o666;

/// What one document leaves behind.
struct Piece {
    fact: Fact,
    document: Document,
    bundle: Option<Bundle>,
}

/// Appends pieces to the file that is being made.
struct Spool {
    file: BufWriter<File>,
    length: u64,
}

impl Spool {
    fn append(&mut self, bytes: &[u8]) -> io::Result<Span> {
        let at = self.length;
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok(Span { at, length })
    }

    fn section(&mut self, bytes: &[u8]) -> io::Result<Section> {
        let (at, length) = (self.length, bytes.len() as u64);
        self.file.write_all(bytes)?;
        self.length += length;
        Ok(Section { at, length })
    }
}

/// Writes the index of a directory; it appears only when it is whole.
pub fn build_index(root: &Path, index_path: &Path, fingerprint: Fingerprint) -> Result<(), BuildError> {
    let write = |error| BuildError::Write { path: index_path.to_path_buf(), error };
    let parent = index_path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(write)?;
    // A name of its own, since another process may be making the same index, and gone with an error.
    let partial = tempfile::Builder::new()
        .prefix("catalog-")
        .suffix(".part")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(INDEX_MODE))
        .tempfile_in(parent)
        .map_err(write)?;
    let file = partial.as_file().try_clone().map_err(write)?;
    let spool = Mutex::new(Spool { file: BufWriter::with_capacity(1 << 20, file), length: 0 });
    let content = fill(root, &spool)?;
    let mut spool = spool.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    finish(&mut spool, &content, fingerprint).map_err(write)?;
    partial.persist(index_path).map(|_| ()).map_err(|error| write(error.error))
}

/// What a catalog is, besides the documents that were written already.
struct Content {
    packages: Vec<Package>,
    documents: Vec<Document>,
    bundles: usize,
}

fn fill(root: &Path, spool: &Mutex<Spool>) -> Result<Content, BuildError> {
    let pieces = for_each_meta(root, |meta| piece(meta, spool))?;
    let mut documents = Vec::with_capacity(pieces.len());
    let mut facts = Vec::with_capacity(pieces.len());
    // The model numbers bundles in the order of their facts.
    let mut bundles = Vec::new();
    for piece in pieces {
        bundles.extend(piece.bundle);
        documents.push(piece.document);
        facts.push(piece.fact);
    }
    let package_documents: HashMap<&str, Span> =
        documents.iter().filter(|it| it.schema == schema::PACKAGE).map(|it| (it.name.as_str(), it.span)).collect();
    let model = model::build(facts).map_err(BuildError::Invalid)?;
    let count = bundles.len();
    let packages = model.packages.into_values().map(|package| {
        let meta = package_documents.get(package.name.as_str()).copied().unwrap_or_default();
        record_of(package, meta, &mut bundles)
    });
    let packages = packages.collect();
    Ok(Content { packages, documents, bundles: count })
}

/// Writes everything behind the documents.
fn finish(spool: &mut Spool, content: &Content, fingerprint: Fingerprint) -> io::Result<()> {
    let mut directory = Directory::default();
    for package in &content.packages {
        let record = spool.append(&package.encode_to_vec())?;
        directory.push(&package.name, &package.default_channel, record)?;
    }
    let directory = spool.section(&directory.encode())?;
    let mut list = Vec::new();
    content.documents.iter().try_for_each(|document| document.encode(&mut list))?;
    let documents = spool.section(&list)?;
    let footer = Footer { fingerprint, directory, documents, bundles: content.bundles as u64 };
    spool.file.write_all(&footer.encode())?;
    spool.file.flush()
}

/// Takes the bundles of a package out of all bundles and numbers them anew.
fn record_of(package: model::Package, meta: Span, all: &mut [Bundle]) -> Package {
    let mut bundles = Vec::new();
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    let channels = package.channels.into_values().map(|channel| {
        let head = channel.head().map(|head| head.name.clone()).unwrap_or_default();
        let entries = channel.entries.into_values().filter_map(|entry| {
            let bundle = match numbers.entry(entry.bundle?) {
                MapEntry::Occupied(known) => *known.get(),
                MapEntry::Vacant(new) => {
                    let number = u32::try_from(bundles.len()).ok()?;
                    bundles.push(std::mem::take(all.get_mut(*new.key())?));
                    *new.insert(number)
                }
            };
            Some(Entry {
                name: entry.name,
                bundle,
                replaces: entry.replaces,
                skips: entry.skips,
                skip_range: entry.skip_range,
                deprecation: entry.deprecation,
            })
        });
        Channel { name: channel.name, head, entries: entries.collect(), deprecation: channel.deprecation }
    });
    let channels = channels.collect();
    Package {
        name: package.name,
        default_channel: package.default_channel.unwrap_or_default(),
        channels,
        deprecation: package.deprecation,
        meta: meta.into(),
        bundles,
    }
}

fn piece(meta: fbc::Meta, spool: &Mutex<Spool>) -> Result<Piece, String> {
    let blob = meta.blob();
    let mut document = Document {
        schema: meta.schema.clone(),
        package: meta.package.clone(),
        name: meta.name.clone(),
        span: Span::default(),
    };
    let append = |bytes: &[u8]| {
        let mut spool = spool.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        spool.append(bytes).map_err(|error| error.to_string())
    };
    if meta.schema != schema::BUNDLE {
        let fact = match Fact::new(meta)? {
            Fact::Package(package) => Fact::Package(fbc::Package { icon: None, description: String::new(), ..package }),
            other => other,
        };
        document.span = append(blob.as_bytes())?;
        return Ok(Piece { fact, document, bundle: None });
    }
    let properties = Properties::of_document(&meta, Order::Written);
    let facts = BundleFacts::of_document(&meta, &properties, Order::Written)?;
    document.span = append(blob.as_bytes())?;
    let bundle = match properties {
        Ok(properties) => Bundle {
            name: facts.name.clone(),
            light: append(&light(&meta, &facts.image, &properties).encode_to_vec())?.into(),
            meta: document.span.into(),
            has_image: !facts.image.is_empty(),
            display_name: facts.display_name.clone(),
            provides: properties
                .gvks
                .into_iter()
                .map(|it| Api { group: it.group, version: it.version, kind: it.kind })
                .collect(),
        },
        // The model refuses it.
        Err(_) => Bundle::default(),
    };
    Ok(Piece { fact: Fact::Bundle(facts), document, bundle: Some(bundle) })
}

/// What the registry's answers have of a bundle wherever it is.
fn light(meta: &fbc::Meta, image: &str, properties: &Properties) -> messages::Bundle {
    let api = |gvk: &Gvk| messages::GroupVersionKind {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        plural: String::new(),
    };
    let typed = |kind: &str, value: String| messages::Typed { r#type: kind.to_owned(), value };
    let listed = fbc::Fields::of(&meta.body).list("properties").iter().map(|property| {
        let property = fbc::Fields::of(property);
        (property.get("type").as_str().unwrap_or_default(), property.get("value"))
    });
    let mut required = properties.packages_required.iter();
    let dependencies = listed.clone().filter_map(|(kind, value)| match kind {
        property::GVK_REQUIRED => Some(typed(property::GVK, to_json(value))),
        property::PACKAGE_REQUIRED => {
            let (name, range) = required.next().cloned().unwrap_or_default();
            let package = PackageProperty { package_name: name, version: range, release: String::new() };
            Some(typed(property::PACKAGE, package.to_json()))
        }
        _ => None,
    });
    messages::Bundle {
        csv_name: meta.name.clone(),
        package_name: meta.package.clone(),
        bundle_path: image.to_owned(),
        provided_apis: properties.gvks.iter().map(api).collect(),
        required_apis: properties.gvks_required.iter().map(api).collect(),
        version: properties.packages.first().map(|package| package.version.clone()).unwrap_or_default(),
        dependencies: dependencies.collect(),
        properties: listed
            .filter(|(kind, _)| !property::is_heavy(kind))
            .map(|(kind, value)| typed(kind, to_json(value)))
            .collect(),
        ..messages::Bundle::default()
    }
}
