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

/// Asks for the deletion of every instance. If some are left, which then wait for their finalizers, gives their type.
pub(super) async fn delete_all(client: &Client, definition: &Value) -> Result<Option<ResourceType>, Error> {
    let Some(resource) = served_resource(definition) else { return Ok(None) };
    let listed = list(client, &resource).await?;
    if listed.is_empty() {
        return Ok(None);
    }
    let namespaces: BTreeSet<String> = listed.into_iter().collect();
    for namespace in &namespaces {
        match requests::delete_collection(client, &resource, namespace).await {
            Err(error) if !is_not_found(&error) => return Err(error.into()),
            _ => {}
        }
    }
    let left = list(client, &resource).await?;
    Ok((!left.is_empty()).then_some(resource))
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

/// The instances in the version they are stored in if it is served: that takes no conversion webhook, which may have gone
/// before. Else in any that is served; in the stored one while none is, as the server does for a definition that is being
/// deleted.
fn served_resource(definition: &Value) -> Option<ResourceType> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true);
    let is_served = |version: &&Value| version["served"] == true;
    let version = stored.filter(is_served).or_else(|| versions.iter().find(is_served)).or(stored)?;
    let version = text(&version["name"]);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_are_listed_as_they_are_stored_where_that_is_served() {
        let version =
            |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage});
        for (versions, expected) in [
            ([version("v1", true, false), version("v2", true, true)], "v2"),
            ([version("v1", true, true), version("v2", true, false)], "v1"),
            ([version("v1", true, false), version("v2", false, true)], "v1"),
            ([version("v1", false, false), version("v2", false, true)], "v2"),
        ] {
            let definition = json!({
                "spec": {"group": "g", "scope": "Namespaced", "versions": versions},
                "status": {"acceptedNames": {"plural": "things", "kind": "Thing"}},
            });
            assert_eq!(served_resource(&definition).expect("a type").api.version, expected, "{definition}");
        }
    }
}
