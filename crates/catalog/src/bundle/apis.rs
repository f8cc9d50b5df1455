//! Which APIs a bundle provides and requires.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::csv::Csv;
use crate::fbc::Fields;

/// An API, with the name of its resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKey {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} ({})", self.group, self.version, self.kind, self.plural)
    }
}

/// Every version of every custom resource definition in the bundle, and the aggregated APIs it owns.
pub(super) fn provided(objects: &[Value], csv: Csv) -> BTreeSet<ApiKey> {
    let mut keys = BTreeSet::new();
    for object in objects {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().rsplit('/').next();
        let is_definition = object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition");
        if !is_definition || !matches!(version, Some("v1" | "v1beta1")) {
            continue;
        }
        let spec = Fields::of(object.get("spec").unwrap_or(&Value::Null));
        let names = Fields::of(spec.get("names"));
        let mut versions: Vec<String> =
            spec.list("versions").iter().map(|version| Fields::of(version).text("name")).collect();
        if version == Some("v1beta1") && !spec.text("version").is_empty() {
            versions.push(spec.text("version"));
        }
        keys.extend(versions.into_iter().map(|version| ApiKey {
            group: spec.text("group"),
            version,
            kind: names.text("kind"),
            plural: names.text("plural"),
        }));
    }
    keys.extend(csv.definitions("apiservicedefinitions", "owned").into_iter().map(|owned| owned.api_service()));
    keys
}

/// What the ClusterServiceVersion says it needs.
pub(super) fn required(csv: Csv) -> Result<BTreeSet<ApiKey>, String> {
    let definitions = csv.definitions("customresourcedefinitions", "required").into_iter();
    let mut keys: BTreeSet<ApiKey> = definitions.map(|it| it.custom_resource()).collect::<Result<_, _>>()?;
    keys.extend(csv.definitions("apiservicedefinitions", "required").into_iter().map(|it| it.api_service()));
    Ok(keys)
}

/// Every custom resource that is said to be owned must be defined in the bundle.
pub(super) fn check_owned(provided: &BTreeSet<ApiKey>, csv: Csv) -> Result<(), String> {
    for owned in csv.definitions("customresourcedefinitions", "owned") {
        let key = owned.custom_resource()?;
        if !provided.contains(&key) {
            let found: Vec<String> = provided.iter().map(|key| format!("{key}:{{}}")).collect();
            return Err(format!("couldn't find {key} in bundle. found: map[{}]", found.join(" ")));
        }
    }
    Ok(())
}
