//! Migrations: newer forms of the same facts. The only one so far replaces a bundle's manifests by the part of its
//! ClusterServiceVersion that catalogs are read for, which makes catalogs an order of magnitude smaller.

use serde_json::{Map, Value};

use super::csv::Csv;
use super::csv_shape::{CSV_METADATA, SHOWN_SPEC_FIELDS};
use crate::fbc::{Catalog, Property};
use crate::go::{Dialect, Shape, append_typed, check, quote};
use crate::property;

/// How far to migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    None,
    /// `olm.bundle.object` properties become one `olm.csv.metadata`.
    BundleObjectToCsvMetadata,
}

impl Migration {
    /// By the name of the last migration to run; `all` for every one.
    pub fn up_to(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Migration::None),
            "all" | "bundle-object-to-csv-metadata" => Ok(Migration::BundleObjectToCsvMetadata),
            _ => Err(format!("unknown migration level {}", quote(name))),
        }
    }
}

/// Migrates every bundle that has an image to take its manifests from.
pub fn migrate(catalog: &mut Catalog, migration: Migration) -> Result<(), String> {
    if migration == Migration::None {
        return Ok(());
    }
    for bundle in &mut catalog.bundles {
        let migrated = bundle.properties.iter().any(|property| property.kind == property::CSV_METADATA_TYPE);
        if bundle.image.is_empty() || bundle.csv_json.is_empty() || migrated {
            continue;
        }
        let value = csv_metadata(&bundle.csv_json)?;
        bundle.properties.retain(|property| property.kind != property::BUNDLE_OBJECT);
        bundle.properties.push(Property { kind: property::CSV_METADATA_TYPE.to_owned(), value });
    }
    Ok(())
}

fn csv_metadata(csv: &str) -> Result<String, String> {
    let csv: Value = serde_json::from_str(csv).map_err(|error| error.to_string())?;
    let csv = Csv::new(&csv).ok_or("not a ClusterServiceVersion")?;
    let mut fields = Map::new();
    for name in ["annotations", "labels"] {
        fields.insert(name.to_owned(), csv.metadata(name).clone());
    }
    for (name, source) in
        [("apiServiceDefinitions", "apiservicedefinitions"), ("crdDescriptions", "customresourcedefinitions")]
    {
        fields.insert(name.to_owned(), csv.spec(source).clone());
    }
    for name in SHOWN_SPEC_FIELDS {
        fields.insert(name.to_owned(), csv.spec(name).clone());
    }
    let metadata = Value::Object(fields);
    check(&metadata, Shape::Struct(&CSV_METADATA))?;
    let mut out = String::new();
    append_typed(&mut out, &metadata, Shape::Struct(&CSV_METADATA), Dialect::Catalog);
    Ok(out)
}
