//! Reads a bundle from its directory.

use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::apis::{check_owned, provided};
use super::csv::Csv;
use crate::fbc::{DocumentReader, Fields, ParseError, Property, parse_tolerant, refuse_special};
use crate::go::{Dialect, append_json, compact_json};
use crate::property::{self, Gvk, PackageProperty};

const ANNOTATION_PREFIX: &str = "operators.operatorframework.io.bundle";
const PROPERTIES_ANNOTATION: &str = "olm.properties";
/// Larger manifests do not fit the API server either.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Why a directory is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{path}: {error}")]
    Read { path: String, error: std::io::Error },
    /// What opm says about it.
    #[error("{0}")]
    Invalid(String),
}

/// What a bundle's directory holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleContent {
    /// The name of its ClusterServiceVersion.
    pub name: String,
    pub package: String,
    pub channels: Vec<String>,
    pub default_channel: String,
    /// The manifests, by file name.
    pub objects: Vec<Value>,
    pub properties: Vec<Property>,
    pub dependencies: Vec<Dependency>,
    /// What opm passes over without a word.
    pub faults: Vec<Fault>,
}

/// A file of a bundle that cannot be read, or not as it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Below the bundle's directory.
    pub file: String,
    /// From 1.
    pub line: usize,
    pub message: String,
    pub effect: Effect,
}

/// What became of a faulty file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is not part of the bundle.
    LeftOut,
    /// It is, as far as it could be read.
    Read,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.effect {
            Effect::LeftOut => " (the file is left out)",
            Effect::Read => "",
        };
        write!(f, "{}, line {}: {}{what}", self.file, self.line, self.message)
    }
}

/// What a bundle needs from others, as its `dependencies.yaml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    pub kind: String,
    /// JSON text.
    pub value: String,
}

impl BundleContent {
    /// Its ClusterServiceVersion; every bundle that was read has one.
    pub fn csv(&self) -> Option<Csv<'_>> {
        self.objects.iter().find_map(Csv::new)
    }
}

fn invalid(message: impl Into<String>) -> BundleError {
    BundleError::Invalid(message.into())
}

/// Reads `manifests/` and `metadata/` below a directory.
pub fn read_directory(root: &Path) -> Result<BundleContent, BundleError> {
    let mut bundle = BundleContent::default();
    bundle.objects = read_manifests(&root.join("manifests"), &mut bundle.faults)?;
    let csv = bundle.csv().ok_or_else(|| left_out("no csv in bundle", &bundle.faults))?;
    let name = csv.name().to_owned();
    check_owned(&provided(&bundle.objects, csv), csv).map_err(|error| {
        left_out(&format!("error checking provided apis in bundle {name}: {error}"), &bundle.faults)
    })?;
    bundle.name = name;
    read_metadata(&root.join("metadata"), &mut bundle)?;
    let derived =
        derived_properties(&bundle).map_err(|error| invalid(format!("failed to derive properties: {error}")))?;
    bundle.properties.extend(derived);
    let mut seen = std::collections::HashSet::new();
    bundle.properties.retain(|property| seen.insert((property.kind.clone(), property.value.clone())));
    Ok(bundle)
}

/// What opm says, and the files that are the reason, which it does not say.
fn left_out(message: &str, faults: &[Fault]) -> BundleError {
    let reasons: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    invalid(format!("{message}{reasons}"))
}

/// The document that a file begins with; `None` when it is not readable as one, which is added to the faults.
fn first_document(path: &Path, faults: &mut Vec<Fault>) -> Result<Option<Value>, BundleError> {
    let at = |error| BundleError::Read { path: path.display().to_string(), error };
    refuse_special(path).map_err(|error| invalid(error.to_string()))?;
    let length = std::fs::metadata(path).map_err(at)?.len();
    if length > MAX_FILE_BYTES {
        return Err(invalid(format!("{}: has more than {MAX_FILE_BYTES} bytes", path.display())));
    }
    let data = std::fs::read(path).map_err(at)?;
    let mut parts: Vec<String> =
        path.components().rev().take(2).map(|it| it.as_os_str().to_string_lossy().into_owned()).collect();
    parts.reverse();
    let file = parts.join("/");
    let mut fault = |error: ParseError, effect| {
        faults.push(Fault { file: file.clone(), line: error.line, message: error.message, effect });
    };
    let mut reader = DocumentReader::new(data.as_slice());
    let document = match reader.next_document() {
        Ok(Some(document)) => document,
        Ok(None) => return Ok(None),
        Err(error) => {
            fault(ParseError { line: reader.line(), message: error.to_string() }, Effect::LeftOut);
            return Ok(None);
        }
    };
    let read = parse_tolerant(&document);
    if let Some(warning) = read.warning {
        fault(warning, Effect::Read);
    }
    Ok(read.value.map_err(|error| fault(error, Effect::LeftOut)).ok())
}

/// The files of a directory, by name; directories in it are left out.
fn files(directory: &Path) -> Result<Vec<(String, std::path::PathBuf)>, BundleError> {
    let at = |error| BundleError::Read { path: directory.display().to_string(), error };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        if !entry.file_type().map_err(at)?.is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn read_manifests(directory: &Path, faults: &mut Vec<Fault>) -> Result<Vec<Value>, BundleError> {
    let mut objects = Vec::new();
    let mut csv_found = false;
    for (name, path) in files(directory)? {
        if name.starts_with('.') {
            continue;
        }
        let Some(object) = first_document(&path, faults)? else { continue };
        // Without a kind it is no manifest.
        if object.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
            continue;
        }
        if Csv::new(&object).is_some() && std::mem::replace(&mut csv_found, true) {
            continue;
        }
        objects.push(object);
    }
    if objects.is_empty() {
        return Err(left_out("no bundle objects found", faults));
    }
    Ok(objects)
}

fn read_metadata(directory: &Path, bundle: &mut BundleContent) -> Result<(), BundleError> {
    let mut annotated = false;
    for (_, path) in files(directory)? {
        let Some(document) = first_document(&path, &mut bundle.faults)? else { continue };
        let fields = Fields::of(&document);
        if !annotated {
            let annotations = Fields::of(fields.get("annotations"));
            let text = |name: &str| plain_text(annotations.get(&format!("{ANNOTATION_PREFIX}.{name}")));
            let (package, channels, default) = (text("package.v1"), text("channels.v1"), text("channel.default.v1"));
            annotated = !(package.is_empty() && channels.is_empty() && default.is_empty());
            if annotated {
                bundle.package = package;
                bundle.channels = channels.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
                bundle.default_channel = default;
            }
        }
        if bundle.dependencies.is_empty() {
            bundle.dependencies =
                typed_values(fields.list("dependencies")).map(|(kind, value)| Dependency { kind, value }).collect();
        }
        if bundle.properties.is_empty() {
            bundle.properties =
                typed_values(fields.list("properties")).map(|(kind, value)| Property { kind, value }).collect();
        }
    }
    if annotated { Ok(()) } else { Err(left_out("Could not find annotations file", &bundle.faults)) }
}

fn typed_values(list: &[Value]) -> impl Iterator<Item = (String, String)> + '_ {
    list.iter().map(|item| {
        let fields = Fields::of(item);
        let mut value = String::new();
        append_json(&mut value, fields.get("value"), Dialect::Manifest);
        (fields.text("type"), value)
    })
}

/// Numbers and booleans are taken for the text they are meant to be.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => String::new(),
    }
}

/// What follows from the rest: the package, what an annotation says, and the APIs.
fn derived_properties(bundle: &BundleContent) -> Result<Vec<Property>, String> {
    #[derive(serde::Deserialize)]
    struct Annotated<'a> {
        #[serde(rename = "type")]
        kind: String,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let csv = bundle.csv().ok_or("bundle missing csv")?;
    let mut derived = Vec::new();
    if !bundle.package.is_empty() {
        let package =
            PackageProperty { package_name: bundle.package.clone(), version: csv.version()?, release: csv.release()? };
        derived.push(Property { kind: property::PACKAGE.to_owned(), value: package.to_json() });
    }
    if let Some(text) = csv.annotation(PROPERTIES_ANNOTATION)
        && let Ok(listed) = serde_json::from_str::<Vec<Annotated>>(text)
    {
        derived.extend(listed.into_iter().map(|it| Property { kind: it.kind, value: compact_json(it.value.get()) }));
    }
    for api in provided(&bundle.objects, csv) {
        let gvk = Gvk { group: api.group, kind: api.kind, version: api.version };
        derived.push(Property { kind: property::GVK.to_owned(), value: gvk.to_json() });
    }
    Ok(derived)
}
