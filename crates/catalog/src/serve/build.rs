//! Makes the index file of a catalog in one pass over its documents.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use prost::Message;

use super::index::{Bundle, Channel, Entry, Fingerprint, Graph, MAGIC, Meta, Package, Span};
use super::messages;
use crate::fbc::{self, LoadError, Object, for_each_meta, schema};
use crate::go::to_json;
use crate::model::{self, BundleFacts, Fact};
use crate::property::{self, Gvk, PackageProperty, Properties};

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("build package index: {0}")]
    Invalid(String),
    #[error("{path}: {error}")]
    Write { path: PathBuf, error: io::Error },
}

/// What one document leaves behind.
struct Piece {
    fact: Fact,
    meta: Meta,
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
}

/// Writes the index of a directory; it appears only when it is whole.
pub fn build_index(root: &Path, index_path: &Path, fingerprint: Fingerprint) -> Result<(), BuildError> {
    let partial = index_path.with_extension("part");
    let write = |error| BuildError::Write { path: index_path.to_path_buf(), error };
    if let Some(parent) = index_path.parent() {
        std::fs::create_dir_all(parent).map_err(write)?;
    }
    let file = File::create(&partial).map_err(write)?;
    let spool = Mutex::new(Spool { file: BufWriter::with_capacity(1 << 20, file), length: 0 });
    let built = fill(root, &spool, fingerprint).and_then(|graph| {
        let mut spool = spool.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let graph = serde_json::to_vec(&graph).map_err(|error| write(error.into()))?;
        spool.file.write_all(&graph).map_err(write)?;
        spool.file.write_all(&(graph.len() as u64).to_le_bytes()).map_err(write)?;
        spool.file.write_all(MAGIC).map_err(write)?;
        spool.file.flush().map_err(write)
    });
    match built {
        Ok(()) => std::fs::rename(&partial, index_path).map_err(write),
        Err(error) => {
            let _ = std::fs::remove_file(&partial);
            Err(error)
        }
    }
}

fn fill(root: &Path, spool: &Mutex<Spool>, fingerprint: Fingerprint) -> Result<Graph, BuildError> {
    let pieces = for_each_meta(root, |meta| piece(meta, spool))?;
    let mut graph = Graph { fingerprint, ..Graph::default() };
    let mut facts = Vec::with_capacity(pieces.len());
    // The model numbers bundles in the order of their facts.
    for (number, piece) in pieces.into_iter().enumerate() {
        if let Some(mut bundle) = piece.bundle {
            bundle.meta = number;
            graph.bundles.push(bundle);
        }
        graph.metas.push(piece.meta);
        facts.push(piece.fact);
    }
    let packages_at: Vec<(String, usize)> = graph
        .metas
        .iter()
        .enumerate()
        .filter(|(_, meta)| meta.schema == schema::PACKAGE)
        .map(|(at, meta)| (meta.name.clone(), at))
        .collect();
    let model = model::build(facts).map_err(BuildError::Invalid)?;
    for (name, package) in model.packages {
        let meta = packages_at.iter().find(|(package, _)| package == &name).map_or(0, |(_, at)| *at);
        graph.packages.insert(name, package_of(package, meta));
    }
    Ok(graph)
}

fn package_of(package: model::Package, meta: usize) -> Package {
    let channels = package.channels.into_iter().map(|(name, channel)| {
        let head = channel.head().map(|head| head.name.clone()).unwrap_or_default();
        let entries = channel.entries.into_iter().filter_map(|(name, entry)| {
            let indexed = Entry {
                bundle: entry.bundle?,
                replaces: entry.replaces,
                skips: entry.skips,
                skip_range: entry.skip_range,
                deprecation: entry.deprecation,
            };
            Some((name, indexed))
        });
        (name, Channel { head, entries: entries.collect(), deprecation: channel.deprecation })
    });
    Package {
        default_channel: package.default_channel.unwrap_or_default(),
        channels: channels.collect(),
        deprecation: package.deprecation,
        meta,
    }
}

fn piece(meta: fbc::Meta, spool: &Mutex<Spool>) -> Result<Piece, String> {
    let blob = meta.blob();
    let (schema, package, name) = (meta.schema.clone(), meta.package.clone(), meta.name.clone());
    let (fact, light) = match Object::new(meta)? {
        Object::Bundle(bundle) => {
            let light = Properties::parse(&bundle.properties).ok().map(|properties| light(&bundle, &properties));
            let facts = BundleFacts::new(&bundle);
            let display_name = facts.display_name.clone();
            (Fact::Bundle(facts), light.map(|(light, gvks)| (light, gvks, !bundle.image.is_empty(), display_name)))
        }
        Object::Package(package) => {
            (Fact::Package(fbc::Package { icon: None, description: String::new(), ..package }), None)
        }
        Object::Channel(channel) => (Fact::Channel(channel), None),
        Object::Deprecation(deprecation) => (Fact::Deprecation(deprecation), None),
        Object::Other(_) => (Fact::Other, None),
    };
    let encoded = light.as_ref().map(|(light, ..)| light.encode_to_vec());
    let mut spool = spool.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut append = |bytes: &[u8]| spool.append(bytes).map_err(|error| error.to_string());
    let span = append(blob.as_bytes())?;
    let bundle = match (light, encoded) {
        (Some((_, provides, has_image, display_name)), Some(encoded)) => {
            Some(Bundle { light: append(&encoded)?, meta: 0, has_image, display_name, provides })
        }
        _ => matches!(fact, Fact::Bundle(_)).then(Bundle::default),
    };
    Ok(Piece { fact, meta: Meta { schema, package, name, span }, bundle })
}

type Provided = Vec<(String, String, String)>;

fn light(bundle: &fbc::Bundle, properties: &Properties) -> (messages::Bundle, Provided) {
    let api = |gvk: &Gvk| messages::GroupVersionKind {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        plural: String::new(),
    };
    let typed = |kind: &str, value: String| messages::Typed { r#type: kind.to_owned(), value };
    let mut required = properties.packages_required.iter();
    let dependencies = bundle.properties.iter().filter_map(|it| match it.kind.as_str() {
        property::GVK_REQUIRED => Some(typed(property::GVK, it.value.clone())),
        property::PACKAGE_REQUIRED => {
            let (name, range) = required.next().cloned().unwrap_or_default();
            let package = PackageProperty { package_name: name, version: range, release: String::new() };
            Some(typed(property::PACKAGE, package.to_json()))
        }
        _ => None,
    });
    let message = messages::Bundle {
        csv_name: bundle.name.clone(),
        package_name: bundle.package.clone(),
        bundle_path: bundle.image.clone(),
        provided_apis: properties.gvks.iter().map(api).collect(),
        required_apis: properties.gvks_required.iter().map(api).collect(),
        version: properties.packages.first().map(|package| package.version.clone()).unwrap_or_default(),
        dependencies: dependencies.collect(),
        properties: bundle
            .properties
            .iter()
            .filter(|it| !property::is_heavy(&it.kind))
            .map(|it| {
                typed(&it.kind, if it.value.is_empty() { to_json(&serde_json::Value::Null) } else { it.value.clone() })
            })
            .collect(),
        ..messages::Bundle::default()
    };
    let provides = properties.gvks.iter().map(|it| (it.group.clone(), it.version.clone(), it.kind.clone()));
    (message, provides.collect())
}
