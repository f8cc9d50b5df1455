//! The manifests of bundles: from their images, or from the catalog where it holds them itself.

use std::sync::Arc;

use bailiwick_catalog::serve::messages;
use serde_json::{Value, json};

use crate::catalogs::Catalog;
use crate::error::Error;
use crate::object::text;
use crate::pull::Puller;

/// Where OLM notes the properties of a ClusterServiceVersion's bundle.
pub(crate) const PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";

/// What a bundle installs.
#[derive(Clone, Debug)]
pub(crate) struct Manifests {
    pub csv: Value,
    /// Everything else, definitions first.
    pub others: Vec<Value>,
}

impl Manifests {
    /// The definitions among them.
    pub fn definitions(&self) -> impl Iterator<Item = &Value> {
        self.others.iter().filter(|object| is_definition(object))
    }
}

pub(crate) fn is_definition(object: &Value) -> bool {
    text(object, "/kind") == "CustomResourceDefinition"
        && text(object, "/apiVersion").starts_with("apiextensions.k8s.io/")
}

/// Reads bundles.
pub(crate) struct Bundles {
    puller: Arc<Puller>,
}

impl Bundles {
    pub fn new(puller: Arc<Puller>) -> Self {
        Self { puller }
    }

    /// The manifests of a bundle in a channel.
    pub async fn manifests(
        &self,
        catalog: &Catalog,
        package: &str,
        channel: &str,
        name: &str,
    ) -> Result<Manifests, Error> {
        let (index, place) = (catalog.index.clone(), (package.to_owned(), channel.to_owned(), name.to_owned()));
        let describing = tokio::task::spawn_blocking(move || index.describe_bundle(&place.0, &place.1, &place.2)).await;
        let described = describing.map_err(|error| Error::Other(error.to_string()))?.map_err(Error::Other)?;
        let objects: Vec<Value> = match described.bundle_path.is_empty() {
            true => described.object.iter().filter_map(|object| serde_json::from_str(object).ok()).collect(),
            false => self.puller.bundle(&described.bundle_path, &catalog.pull_secrets).await?.objects,
        };
        sorted(objects, &described)
    }
}

fn sorted(objects: Vec<Value>, described: &messages::Bundle) -> Result<Manifests, Error> {
    let (csvs, mut others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| text(object, "/kind") == "ClusterServiceVersion");
    let mut csv = csvs
        .into_iter()
        .next()
        .ok_or_else(|| Error::Other(format!("bundle {} has no ClusterServiceVersion", described.csv_name)))?;
    if text(&csv, "/metadata/name") != described.csv_name {
        let found = text(&csv, "/metadata/name");
        return Err(Error::Other(format!("the image of bundle {} holds {found:?}", described.csv_name)));
    }
    let properties: Vec<Value> = described
        .properties
        .iter()
        .filter_map(|it| Some(json!({"type": it.r#type, "value": serde_json::from_str::<Value>(&it.value).ok()?})))
        .collect();
    if !csv["metadata"]["annotations"].is_object() {
        csv["metadata"]["annotations"] = json!({});
    }
    csv["metadata"]["annotations"][PROPERTIES_ANNOTATION] = json!({"properties": properties}).to_string().into();
    others.sort_by_key(|object| !is_definition(object));
    Ok(Manifests { csv, others })
}
