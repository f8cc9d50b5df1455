//! Tables of what a catalog holds.

use std::path::Path;

use crate::fbc::{LoadError, for_each_meta, schema};
use crate::go::{columns, quote};
use crate::model::{Fact, Model, Package, ValidateError, build};
use crate::property::Order;

/// The graph of a catalog directory, refused in the words of opm's lists.
pub fn load(directory: &Path) -> Result<Model, ValidateError> {
    let facts = for_each_meta(directory, |meta| match meta.schema.as_str() {
        schema::BUNDLE => Fact::of_bundle(&meta, Order::Rendered),
        _ => Fact::new(meta),
    });
    let facts = facts.map_err(|LoadError { message, location }| {
        let message = format!("render reference {}: {message}", quote(&directory.to_string_lossy()));
        LoadError { message, location }
    })?;
    build(facts).map_err(ValidateError::Invalid)
}

/// Packages with their display names and default channels.
pub fn packages(model: &Model) -> String {
    let mut rows = vec![row(&["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"])];
    for package in model.packages.values() {
        let default = package.default_channel.as_deref().unwrap_or_default();
        rows.push(row(&[&package.name, display_name(model, package), default]));
    }
    columns(&rows)
}

fn display_name<'m>(model: &'m Model, package: &'m Package) -> &'m str {
    let channel = package.default_channel.as_ref().and_then(|name| package.channels.get(name));
    let head = channel.and_then(|channel| channel.head().ok());
    let bundle = head.and_then(|head| model.bundles.get(head.bundle?));
    bundle.map_or("", |bundle| &bundle.display_name)
}

/// Channels with their heads, of one package or of all.
pub fn channels(model: &Model, package: Option<&str>) -> Result<String, String> {
    let mut rows = vec![row(&["PACKAGE", "CHANNEL", "HEAD"])];
    for package in selected(model, package)? {
        for channel in package.channels.values() {
            let head = channel.head().map_or_else(|error| format!("ERROR: {error}"), |head| head.name.clone());
            rows.push(row(&[&package.name, &channel.name, &head]));
        }
    }
    Ok(columns(&rows))
}

/// Bundles, once for each channel, of one package or of all.
pub fn bundles(model: &Model, package: Option<&str>) -> Result<String, String> {
    let mut rows = vec![row(&["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"])];
    for package in selected(model, package)? {
        for channel in package.channels.values() {
            for entry in channel.entries.values() {
                let image = entry.bundle.and_then(|at| model.bundles.get(at)).map_or("", |bundle| &bundle.image);
                let skips = entry.skips.join(",");
                rows.push(row(&[
                    &package.name,
                    &channel.name,
                    &entry.name,
                    &entry.replaces,
                    &skips,
                    &entry.skip_range,
                    image,
                ]));
            }
        }
    }
    Ok(columns(&rows))
}

fn selected<'m>(model: &'m Model, name: Option<&str>) -> Result<Vec<&'m Package>, String> {
    match name.filter(|name| !name.is_empty()) {
        None => Ok(model.packages.values().collect()),
        Some(name) => match model.packages.get(name) {
            Some(package) => Ok(vec![package]),
            None => Err(format!("package {} not found", quote(name))),
        },
    }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}
