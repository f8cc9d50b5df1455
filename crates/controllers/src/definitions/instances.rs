//! The objects of a definition that is being deleted.

use std::collections::BTreeSet;

use kube::api::ListParams;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::text;
use crate::discovery::{ResourceType, Scope};
use crate::error::{Error, is_not_found};
use crate::requests;

/// Objects listed at a time.
const PAGE_SIZE: u32 = 500;

/// Asks for the deletion of every instance and tells how many are left. Those wait for their finalizers.
pub(super) async fn delete_all(client: &Client, definition: &Value) -> Result<usize, Error> {
    let Some(resource) = served_resource(definition) else { return Ok(0) };
    let listed = list(client, &resource).await?;
    if listed.is_empty() {
        return Ok(0);
    }
    let namespaces: BTreeSet<String> = listed.into_iter().collect();
    for namespace in &namespaces {
        match requests::delete_collection(client, &resource, namespace).await {
            Err(error) if !is_not_found(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(list(client, &resource).await?.len())
}

/// The namespaces of all instances; one entry for each.
async fn list(client: &Client, resource: &ResourceType) -> Result<Vec<String>, Error> {
    let api: Api<PartialObjectMeta<kube::api::DynamicObject>> = Api::all_with(client.clone(), &resource.api);
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut found = Vec::new();
    loop {
        let page = match api.list_metadata(&params).await {
            Ok(page) => page,
            Err(error) if is_not_found(&error) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        found.extend(page.items.iter().map(|object| object.namespace().unwrap_or_default()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE_SIZE).continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// The instances in a version that is served; the stored one while none is, as the server does for a definition that is
/// being deleted.
fn served_resource(definition: &Value) -> Option<ResourceType> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array()?;
    let with = |what: &str| versions.iter().find(|version| version[what] == true);
    let version = text(&with("served").or_else(|| with("storage"))?["name"]);
    let names = &definition["status"]["acceptedNames"];
    let group = text(&spec["group"]);
    let scope = if spec["scope"] == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
    let api = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: text(&names["kind"]).to_owned(),
        plural: text(&names["plural"]).to_owned(),
    };
    Some(ResourceType::new(api, scope))
}
