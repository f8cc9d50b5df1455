//! From what people type to a resource: by plural, singular, short name or kind, with or without its group.

use anyhow::{Context, bail};
use kube::Client;
use serde_json::Value;

/// Discovery of everything in two requests.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub group: String,
    pub plural: String,
}

/// The resource that is meant. A name with a group that is not served is taken as it is: roles may speak of what is yet to
/// come.
pub async fn resolve(client: &Client, typed: &str) -> anyhow::Result<Found> {
    let mut groups = Vec::new();
    for path in ["/api", "/apis"] {
        let request = http::Request::get(path).header("accept", AGGREGATED).body(Vec::new())?;
        let document: Value = client.request(request).await.context("the server does not say what it serves")?;
        groups.extend(document["items"].as_array().cloned().unwrap_or_default());
    }
    if let Some(found) = find(&groups, typed) {
        return Ok(found);
    }
    match typed.split_once('.') {
        Some((plural, group)) => Ok(Found { group: group.to_owned(), plural: plural.to_owned() }),
        None if typed == "*" => Ok(Found { group: "*".to_owned(), plural: "*".to_owned() }),
        None => bail!(
            "the server has no resource {typed:?}; name its group too if it is yet to come, as in {typed}.example.com"
        ),
    }
}

fn find(groups: &[Value], typed: &str) -> Option<Found> {
    let typed = typed.to_lowercase();
    let (name, wanted) = typed.split_once('.').map_or((typed.as_str(), None), |(name, group)| (name, Some(group)));
    for group in groups {
        let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
        if wanted.is_some_and(|wanted| wanted != group_name) {
            continue;
        }
        for resource in group["versions"].as_array().into_iter().flatten().flat_map(resources) {
            let plural = resource["resource"].as_str().unwrap_or_default();
            let is = |value: &Value| value.as_str().is_some_and(|text| text.to_lowercase() == name);
            let short = resource["shortNames"].as_array().into_iter().flatten().any(is);
            if plural == name || is(&resource["singularResource"]) || is(&resource["responseKind"]["kind"]) || short {
                return Some(Found { group: group_name.to_owned(), plural: plural.to_owned() });
            }
        }
    }
    None
}

fn resources(version: &Value) -> impl Iterator<Item = &Value> {
    version["resources"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_found_in_all_their_forms() {
        let resource = |plural: &str, singular: &str, kind: &str, short: &[&str]| json!({"resource": plural, "singularResource": singular, "responseKind": {"kind": kind}, "shortNames": short});
        let groups = [
            json!({"metadata": {}, "versions": [{"resources": [resource("configmaps", "configmap", "ConfigMap", &["cm"])]}]}),
            json!({"metadata": {"name": "g.io"}, "versions": [{"resources": [resource("events", "event", "Event", &[])]}]}),
        ];
        let configmaps = Some(Found { group: String::new(), plural: "configmaps".into() });
        for typed in ["configmaps", "configmap", "cm", "ConfigMap"] {
            assert_eq!(find(&groups, typed), configmaps, "{typed}");
        }
        assert_eq!(find(&groups, "events.g.io"), Some(Found { group: "g.io".into(), plural: "events".into() }));
        assert_eq!(find(&groups, "events.other.io"), None);
    }
}
