//! Writes catalogs as opm does: package by package, in each the package, channels, bundles, other objects and
//! deprecations; as JSON with four spaces or as YAML documents.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use super::meta::Meta;
use super::types::{Bundle, Catalog, Channel, Deprecation, Package, Property, schema};
use crate::go::{append_string, pretty_json};

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Json,
    Yaml,
}

/// The whole catalog as text.
pub fn write_catalog(catalog: &Catalog, output: Output) -> String {
    let mut out = String::new();
    by_package(catalog).into_values().for_each(|part| part.write(&mut out, output));
    write_rest(&mut out, catalog, output);
    out
}

/// Writes a catalog into a directory that is not there yet or empty: a folder with one file for each package. It is
/// there as a whole or not at all.
pub fn write_directory(catalog: &Catalog, root: &Path, output: Output) -> io::Result<()> {
    let name = match output {
        Output::Json => "catalog.json",
        Output::Yaml => "catalog.yaml",
    };
    if std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::other(format!("output dir {:?} must be empty", root.display().to_string())));
    }
    let absolute = std::path::absolute(root)?;
    let parent = absolute.parent().unwrap_or(&absolute);
    std::fs::create_dir_all(parent)?;
    let beside = tempfile::tempdir_in(parent)?;
    for (package, part) in by_package(catalog) {
        let mut text = String::new();
        part.write(&mut text, output);
        let is_one_element = Path::new(package).components().map(|it| it.as_os_str()).eq([package]);
        if !is_one_element || matches!(package, "." | "..") {
            let message = format!("invalid package name {package:?}: must be a single local path element");
            return Err(io::Error::other(message));
        }
        std::fs::create_dir(beside.path().join(package))?;
        std::fs::write(beside.path().join(package).join(name), text)?;
    }
    let mut rest = String::new();
    write_rest(&mut rest, catalog, output);
    if !rest.is_empty() {
        std::fs::write(beside.path().join(name), rest)?;
    }
    // As any directory of the user, not as a temporary one.
    std::fs::create_dir_all(root)?;
    std::fs::set_permissions(beside.path(), std::fs::metadata(root)?.permissions())?;
    std::fs::rename(beside.path(), root)?;
    // It has another name now, so there is nothing to remove.
    let _ = beside.keep();
    Ok(())
}

/// What belongs to no package.
fn write_rest(out: &mut String, catalog: &Catalog, output: Output) {
    catalog.others.iter().filter(|meta| meta.package.is_empty()).for_each(|meta| write_meta(out, meta, output));
}

/// Appends an object of an unknown schema.
pub fn write_meta(out: &mut String, meta: &Meta, output: Output) {
    emit(out, meta.blob().trim_end(), output);
}

#[derive(Default)]
struct Part<'c> {
    packages: Vec<&'c Package>,
    channels: Vec<&'c Channel>,
    bundles: Vec<&'c Bundle>,
    others: Vec<&'c Meta>,
    deprecations: Vec<&'c Deprecation>,
}

impl Part<'_> {
    fn write(mut self, out: &mut String, output: Output) {
        self.channels.sort_by(|a, b| a.name.cmp(&b.name));
        self.bundles.sort_by(|a, b| a.name.cmp(&b.name));
        self.others.sort_by(|a, b| a.schema.cmp(&b.schema));
        self.packages.iter().for_each(|package| emit(out, &package_json(package), output));
        self.channels.iter().for_each(|channel| emit(out, &channel_json(channel), output));
        self.bundles.iter().for_each(|bundle| emit(out, &bundle_json(bundle), output));
        self.others.iter().for_each(|meta| write_meta(out, meta, output));
        self.deprecations.iter().for_each(|deprecation| emit(out, &deprecation_json(deprecation), output));
    }
}

/// What belongs to no package is left out, except other objects, which come last.
fn by_package(catalog: &Catalog) -> BTreeMap<&str, Part<'_>> {
    let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
    catalog.packages.iter().for_each(|item| parts.entry(&item.name).or_default().packages.push(item));
    catalog.channels.iter().for_each(|item| parts.entry(&item.package).or_default().channels.push(item));
    catalog.bundles.iter().for_each(|item| parts.entry(&item.package).or_default().bundles.push(item));
    catalog.others.iter().for_each(|item| parts.entry(&item.package).or_default().others.push(item));
    catalog.deprecations.iter().for_each(|item| parts.entry(&item.package).or_default().deprecations.push(item));
    parts.remove("");
    parts
}

fn emit(out: &mut String, json: &str, output: Output) {
    match output {
        Output::Json => {
            out.push_str(&pretty_json(json, 4));
            out.push('\n');
        }
        Output::Yaml => {
            out.push_str("---\n");
            let value: Value = serde_json::from_str(json).unwrap_or_default();
            bailiwick_machinery::yaml::encode_to(out, &value);
        }
    }
}

/// An object that is being written, field by field.
struct Writer {
    out: String,
}

impl Writer {
    fn new(schema: &str) -> Self {
        let mut writer = Writer { out: String::from("{") };
        writer.text("schema", schema);
        writer
    }

    fn key(&mut self, key: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        append_string(&mut self.out, key);
        self.out.push(':');
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        append_string(&mut self.out, value);
    }

    fn text_unless_empty(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    fn object(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push('{');
        write(self);
        self.out.push('}');
    }

    fn list<T>(&mut self, key: &str, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.key(key);
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            write(self, item);
        }
        self.out.push(']');
    }

    fn list_unless_empty<T>(&mut self, key: &str, items: &[T], write: impl FnMut(&mut Self, &T)) {
        if !items.is_empty() {
            self.list(key, items, write);
        }
    }

    fn properties(&mut self, properties: &[Property]) {
        self.list_unless_empty("properties", properties, |writer, property| {
            writer.object(|writer| {
                writer.text("type", &property.kind);
                writer.key("value");
                let value = if property.value.is_empty() { "null" } else { &property.value };
                writer.out.push_str(value);
            });
        });
    }

    fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

pub(super) fn package_json(package: &Package) -> String {
    let mut writer = Writer::new(schema::PACKAGE);
    writer.text("name", &package.name);
    writer.text("defaultChannel", &package.default_channel);
    if let Some(icon) = &package.icon {
        writer.key("icon");
        writer.object(|writer| {
            match &icon.data {
                Some(data) => writer.text("base64data", &base64::engine::general_purpose::STANDARD.encode(data)),
                None => {
                    writer.key("base64data");
                    writer.out.push_str("null");
                }
            }
            writer.text("mediatype", &icon.media_type);
        });
    }
    writer.text_unless_empty("description", &package.description);
    writer.properties(&package.properties);
    writer.finish()
}

pub(super) fn channel_json(channel: &Channel) -> String {
    let mut writer = Writer::new(schema::CHANNEL);
    writer.text("name", &channel.name);
    writer.text("package", &channel.package);
    writer.list("entries", &channel.entries, |writer, entry| {
        writer.object(|writer| {
            writer.text("name", &entry.name);
            writer.text_unless_empty("replaces", &entry.replaces);
            writer.list_unless_empty("skips", &entry.skips, |writer, skip| append_string(&mut writer.out, skip));
            writer.text_unless_empty("skipRange", &entry.skip_range);
        });
    });
    writer.properties(&channel.properties);
    writer.finish()
}

pub(crate) fn bundle_json(bundle: &Bundle) -> String {
    let mut writer = Writer::new(schema::BUNDLE);
    writer.text_unless_empty("name", &bundle.name);
    writer.text_unless_empty("package", &bundle.package);
    writer.text("image", &bundle.image);
    writer.properties(&bundle.properties);
    writer.list_unless_empty("relatedImages", &bundle.related_images, |writer, image| {
        writer.object(|writer| {
            writer.text("name", &image.name);
            writer.text("image", &image.image);
        });
    });
    writer.finish()
}

pub(super) fn deprecation_json(deprecation: &Deprecation) -> String {
    let mut writer = Writer::new(schema::DEPRECATIONS);
    writer.text("package", &deprecation.package);
    writer.list("entries", &deprecation.entries, |writer, entry| {
        writer.object(|writer| {
            writer.key("reference");
            writer.object(|writer| {
                writer.text("schema", &entry.schema);
                writer.text_unless_empty("name", &entry.name);
            });
            writer.text("message", &entry.message);
        });
    });
    writer.finish()
}
