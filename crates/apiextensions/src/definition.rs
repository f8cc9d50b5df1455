//! A stored CustomResourceDefinition, read as far as serving needs it, and the descriptors it stands for.

use std::sync::Arc;

use bailiwick_machinery::custom::{Converter, CustomType, Declaration, ScalePaths, VersionSchema, VersionSchemas};
use bailiwick_machinery::resource::{SelectableField, Storage};
use bailiwick_machinery::versions::compare_versions;
use bailiwick_machinery::{GroupResource, GroupVersion, GroupVersionKind, Resource, Scope, Subresource};
use bailiwick_webhook::services::ServiceReference;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::columns::{Columns, PrinterColumn};
use crate::strategy::{CustomResource, CustomResourceStatus};

/// The verbs of a custom resource, in the order discovery tells them.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs left while a definition and its objects are being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// A definition that cannot be read: damage, or another program's writes.
#[derive(Debug, thiserror::Error)]
#[error("the definition cannot be read: {0}")]
pub struct DefinitionError(#[from] serde_json::Error);

/// One CustomResourceDefinition.
#[derive(Debug)]
pub struct Definition {
    pub group: String,
    pub scope: Scope,
    /// What it asks to be called.
    pub names: Names,
    /// What it may be called.
    pub accepted_names: Names,
    pub established: bool,
    /// Whether all it asks to be called is its own.
    pub names_accepted: bool,
    pub terminating: bool,
    pub generation: i64,
    /// Who declares it; the stored one that was read unless somebody says otherwise.
    pub declaration: Declaration,
    versions: Vec<Version>,
    conversion: Option<Conversion>,
    preserve_unknown_fields: bool,
}

/// `spec.names` and `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    #[serde(deserialize_with = "null_as_default")]
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub categories: Vec<String>,
}

#[derive(Debug)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    schema: Option<Bytes>,
    status: bool,
    scale: Option<ScalePaths>,
    columns: Vec<PrinterColumn>,
    selectable_fields: Vec<String>,
}

/// `spec.conversion` when its strategy is `Webhook`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conversion {
    pub client_config: ClientConfig,
    #[serde(default)]
    pub conversion_review_versions: Vec<String>,
}

/// Where a webhook is: `url`, or `service` for those who can resolve one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub service: Option<ServiceReference>,
    /// PEM in base64.
    #[serde(default)]
    pub ca_bundle: Option<String>,
}

/// Makes converters for definitions that have a conversion webhook. Calling out is not this crate's business.
pub trait Converters: Send + Sync {
    fn converter(&self, definition: &str, conversion: &Conversion) -> Arc<dyn Converter>;
}

mod wire {
    use super::*;

    #[derive(Deserialize)]
    pub struct Definition<'a> {
        pub metadata: Metadata,
        #[serde(borrow)]
        pub spec: Spec<'a>,
        #[serde(default)]
        pub status: Status,
    }

    #[derive(Deserialize)]
    pub struct Metadata {
        #[serde(default)]
        pub generation: i64,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Spec<'a> {
        pub group: String,
        pub names: Names,
        pub scope: String,
        #[serde(borrow)]
        pub versions: Vec<Version<'a>>,
        #[serde(default)]
        pub conversion: Option<Conversion>,
        #[serde(default)]
        pub preserve_unknown_fields: bool,
    }

    #[derive(Deserialize)]
    pub struct Conversion {
        #[serde(default)]
        pub strategy: String,
        #[serde(default)]
        pub webhook: Option<super::Conversion>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Version<'a> {
        pub name: String,
        #[serde(default)]
        pub served: bool,
        #[serde(default)]
        pub storage: bool,
        #[serde(default)]
        pub deprecated: bool,
        #[serde(default)]
        pub deprecation_warning: Option<String>,
        #[serde(borrow, default)]
        pub schema: Option<Schema<'a>>,
        #[serde(default)]
        pub subresources: Option<Subresources>,
        #[serde(default, deserialize_with = "null_as_default")]
        pub additional_printer_columns: Vec<PrinterColumn>,
        #[serde(default, deserialize_with = "null_as_default")]
        pub selectable_fields: Vec<Selectable>,
    }

    #[derive(Deserialize)]
    pub struct Schema<'a> {
        #[serde(borrow, default, rename = "openAPIV3Schema")]
        pub open_api: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    pub struct Subresources {
        #[serde(default)]
        pub status: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        pub scale: Option<Scale>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Scale {
        pub spec_replicas_path: String,
        pub status_replicas_path: String,
        #[serde(default)]
        pub label_selector_path: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Selectable {
        pub json_path: String,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct Status {
        pub accepted_names: Names,
        #[serde(deserialize_with = "null_as_default")]
        pub conditions: Vec<Condition>,
    }

    #[derive(Deserialize)]
    pub struct Condition {
        #[serde(rename = "type")]
        pub kind: String,
        pub status: String,
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Definition {
    /// Reads a stored definition. Schemas stay part of `json` and are not looked into.
    pub fn parse(json: &Bytes) -> Result<Self, DefinitionError> {
        let wire: wire::Definition<'_> = serde_json::from_slice(json)?;
        let holds = |kind: &str| wire.status.conditions.iter().any(|c| c.kind == kind && c.status == "True");
        let share = |raw: &RawValue| json.slice_ref(raw.get().as_bytes());
        let versions = wire.spec.versions.into_iter().map(|version| {
            let subresources = version.subresources;
            let status = subresources.as_ref().is_some_and(|s| s.status.is_some());
            Version {
                name: version.name,
                served: version.served,
                storage: version.storage,
                deprecated: version.deprecated,
                deprecation_warning: version.deprecation_warning,
                schema: version.schema.and_then(|schema| schema.open_api).map(share),
                status,
                scale: subresources.and_then(|s| s.scale).map(|scale| ScalePaths {
                    spec_replicas: scale.spec_replicas_path,
                    status_replicas: scale.status_replicas_path,
                    label_selector: scale.label_selector_path.unwrap_or_default(),
                }),
                columns: version.additional_printer_columns,
                selectable_fields: version.selectable_fields.into_iter().map(|field| field.json_path).collect(),
            }
        });
        Ok(Self {
            established: holds("Established"),
            names_accepted: holds("NamesAccepted"),
            terminating: holds("Terminating"),
            generation: wire.metadata.generation,
            declaration: Declaration::Stored,
            scope: if wire.spec.scope == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
            versions: versions.collect(),
            conversion: wire.spec.conversion.filter(|c| c.strategy == "Webhook").and_then(|c| c.webhook),
            preserve_unknown_fields: wire.spec.preserve_unknown_fields,
            group: wire.spec.group,
            names: wire.spec.names,
            accepted_names: wire.status.accepted_names,
        })
    }

    /// `plural.group`, the name of the definition itself.
    pub fn name(&self) -> String {
        format!("{}.{}", self.names.plural, self.group)
    }

    /// What this definition serves: one descriptor for each served version once its names are accepted, or it is
    /// established. `since` is the store revision of the definition. One that is being deleted and serves no version serves the stored one for the
    /// time being, so that its objects can be deleted.
    pub fn resources(&self, since: u64, converters: &dyn Converters) -> Vec<Resource> {
        let Some(storage) = self.versions.iter().find(|version| version.storage) else { return Vec::new() };
        if !self.established && !self.names_accepted {
            return Vec::new();
        }
        let storage = GroupVersion::new(&self.group, &storage.name);
        let converter = self.conversion.as_ref().map(|webhook| converters.converter(&self.name(), webhook));
        let schemas: VersionSchemas = self
            .versions
            .iter()
            .map(|version| (version.name.clone(), Arc::new(VersionSchema::new(version.schema.clone()))))
            .collect();
        let last = self.terminating && !self.versions.iter().any(|version| version.served);
        let served =
            self.versions.iter().zip(schemas.iter()).filter(|(version, _)| version.served || (last && version.storage));
        let resource = |(version, (_, schema)): (&Version, &(String, Arc<VersionSchema>))| {
            let mut custom = CustomType::new(schema.clone(), storage.clone(), since);
            custom.versions = schemas.clone();
            custom.converter = converter.clone();
            self.resource(version, custom)
        };
        served.map(resource).collect()
    }

    fn resource(&self, version: &Version, mut custom: CustomType) -> Resource {
        let names = &self.accepted_names;
        custom.preserve_unknown_fields = self.preserve_unknown_fields;
        custom.deprecation_warning = version.deprecated.then(|| match &version.deprecation_warning {
            Some(warning) => warning.clone(),
            None => self.default_deprecation_warning(&version.name),
        });
        custom.scale = version.scale.clone();
        custom.terminating = self.terminating;
        custom.declaration = self.declaration;
        let custom = Arc::new(custom);
        let rules = Arc::new(CustomResource::new(custom.clone(), version.status));
        let mut subresources = Vec::new();
        let verbs = vec!["get", "patch", "update"];
        if version.status {
            let strategy = Arc::new(CustomResourceStatus::new(custom.clone()));
            subresources.push(Subresource { name: "status".into(), kind: None, verbs: verbs.clone(), strategy });
        }
        if version.scale.is_some() {
            let kind = GroupVersionKind { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into() };
            let strategy = rules.clone();
            subresources.push(Subresource { name: "scale".into(), kind: Some(kind), verbs, strategy });
        }
        Resource {
            group: self.group.clone(),
            version: version.name.clone(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            scope: self.scope,
            verbs: if self.terminating { TERMINATING_VERBS.to_vec() } else { VERBS.to_vec() },
            storage: Storage::Stored(GroupResource { group: self.group.clone(), resource: names.plural.clone() }),
            native: None,
            custom: Some(custom),
            strategy: rules,
            table: Arc::new(Columns::new(version.columns.clone())),
            selectable_fields: version.selectable_fields.iter().map(|path| selectable(path)).collect(),
            subresources,
        }
    }
}

impl Definition {
    /// Names the newest version that is worth moving to, if one is.
    fn default_deprecation_warning(&self, deprecated: &str) -> String {
        let kind = &self.names.kind;
        let warning = format!("{}/{deprecated} {kind} is deprecated", self.group);
        let newer = self
            .versions
            .iter()
            .filter(|version| version.served && !version.deprecated)
            .filter(|version| compare_versions(&version.name, deprecated).is_gt());
        match newer.max_by(|a, b| compare_versions(&a.name, &b.name)) {
            Some(newest) => format!("{warning}; use {}/{} {kind}", self.group, newest.name),
            None => warning,
        }
    }
}

fn selectable(json_path: &str) -> SelectableField {
    SelectableField::at(json_path.strip_prefix('.').unwrap_or(json_path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct NoConverters;

    impl Converters for NoConverters {
        fn converter(&self, _definition: &str, _conversion: &Conversion) -> Arc<dyn Converter> {
            unreachable!("the definition has no conversion")
        }
    }

    #[test]
    fn a_definition_is_served_once_its_names_are_accepted_or_it_is_established() {
        let served = |names_accepted: &str, established: &str| {
            let definition = json!({
                "metadata": {"generation": 1},
                "spec": {
                    "group": "g", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                    "versions": [{"name": "v1", "served": true, "storage": true}],
                },
                "status": {
                    "acceptedNames": {"plural": "things", "kind": "Thing"},
                    "conditions": [
                        {"type": "NamesAccepted", "status": names_accepted},
                        {"type": "Established", "status": established},
                    ],
                },
            });
            let definition = Definition::parse(&definition.to_string().into()).expect("a definition");
            definition.resources(1, &NoConverters).len()
        };
        assert_eq!(served("False", "False"), 0);
        assert_eq!(served("True", "False"), 1);
        assert_eq!(served("False", "True"), 1);
        assert_eq!(served("True", "True"), 1);
    }
}
