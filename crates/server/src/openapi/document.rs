//! The native part of documents: which paths one describes, and what it says about them. [`super::assemble`] makes whole
//! documents of it.

use bailiwick_schema::openapi::{Definition, Descriptions, Form, Leaf, closure, gnostic};
use bailiwick_schema::types::Types;
use serde_json::Value;

use super::names;
use super::operation::{Content, Operation, PathItem, Schema};
use super::paths::{self, MEDIA, Paths, UNAUTHORIZED};
use super::shared::Shared;
use crate::registry::Registry;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// The native paths of a document and the group versions it speaks of.
#[derive(Default)]
pub(super) struct Document {
    paths: Paths,
    group_versions: Vec<(String, String)>,
    /// Definitions that others than its paths refer to.
    roots: Vec<Definition>,
}

/// The members of a document's paths and definitions, and what they refer to besides.
pub(super) struct Sections {
    pub paths: Vec<u8>,
    pub definitions: Vec<u8>,
    pub shared: Shared,
}

/// Documents that every server has besides those of groups and versions.
const GENERAL: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// What a version 3 document is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    GroupVersion(&'a str, &'a str),
    Group(&'a str),
    General(&'a str),
}

impl<'a> Subject<'a> {
    /// By the name of the document, which is the path it describes without the first slash.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let segments: Vec<&str> = name.split('/').collect();
        match segments.as_slice() {
            ["api", version] => Some(Self::GroupVersion("", version)),
            ["apis", group, version] if !group.is_empty() => Some(Self::GroupVersion(group, version)),
            ["apis", group] if !group.is_empty() => Some(Self::Group(group)),
            _ => GENERAL.contains(&name).then_some(Self::General(name)),
        }
    }
}

/// The names of all version 3 documents. Groups without native resources have none of their own.
pub(super) fn names(registry: &Registry) -> Vec<String> {
    let mut names: Vec<String> = GENERAL.iter().map(|name| (*name).to_owned()).collect();
    for (group, versions) in registry.groups() {
        if !group.is_empty() && versions.iter().any(|version| has_native(registry, group, version)) {
            names.push(format!("apis/{group}"));
        }
        names
            .extend(versions.iter().map(|version| paths::base_path(group, version).trim_start_matches('/').to_owned()));
    }
    names.sort();
    names
}

/// Whether a group version has resources that are not custom.
pub(super) fn has_native(registry: &Registry, group: &str, version: &str) -> bool {
    registry.resources_of(group, version).iter().any(|served| served.resource.custom.is_none())
}

impl Document {
    /// The native part of the version 3 document about a subject.
    pub(super) fn about(registry: &Registry, subject: Subject<'_>) -> Option<Self> {
        let mut document = Self::default();
        match subject {
            Subject::GroupVersion(group, version) => document.add_group_version(registry, group, version)?,
            Subject::Group(group) => document.add_group(registry, group)?,
            Subject::General(name) => document.add_general(name),
        }
        Some(document)
    }

    /// Everything native, as version 2 has it.
    pub(super) fn everything(registry: &Registry) -> Self {
        let mut document = Self::default();
        GENERAL.iter().for_each(|name| document.add_general(name));
        for (group, versions) in registry.groups() {
            // Groups of custom resources only are not described, and neither are their versions.
            let _ = document.add_group(registry, group);
            for version in versions {
                let _ = document.add_group_version(registry, group, version);
            }
        }
        document
    }

    /// What documents of custom resources refer to.
    pub(super) fn shared(registry: &Registry) -> Self {
        let native = Types::native();
        let types = [native.object_meta(), native.list_meta(), native.delete_options(), native.status()];
        let roots = types.into_iter().map(Definition::Native).chain([Definition::Leaf(Leaf::Patch)]).collect();
        let served = registry.groups().iter().flat_map(|(group, versions)| {
            versions.iter().filter(|version| has_native(registry, group, version)).map(|v| (group.clone(), v.clone()))
        });
        Self { group_versions: served.collect(), roots, ..Self::default() }
    }

    /// With another definition.
    pub(super) fn with(mut self, definition: Option<Definition>) -> Self {
        self.roots.extend(definition);
        self
    }

    fn add_group_version(&mut self, registry: &Registry, group: &str, version: &str) -> Option<()> {
        has_native(registry, group, version).then_some(())?;
        self.group_versions.push((group.to_owned(), version.to_owned()));
        for served in registry.resources_of(group, version) {
            paths::add_resource(&mut self.paths, &served.resource);
        }
        let id = format!("get{}APIResources", names::group_version(group, version));
        let mut operation = discovery(id, names::tag(group, version), "APIResourceList");
        operation.text = "The resources of this group version.".to_owned();
        self.add(format!("{}/", paths::base_path(group, version)), operation);
        Some(())
    }

    fn add_group(&mut self, registry: &Registry, group: &str) -> Option<()> {
        let versions = registry.groups().get(group).filter(|_| !group.is_empty())?;
        versions.iter().any(|version| has_native(registry, group, version)).then_some(())?;
        let name = names::group(group);
        let mut operation = discovery(format!("get{}APIGroup", names::capitalized(&name)), name, "APIGroup");
        operation.text = "The versions of this group.".to_owned();
        self.add(format!("/apis/{group}/"), operation);
        Some(())
    }

    fn add_general(&mut self, name: &str) {
        let mut operation = match name {
            "api" => discovery("getCoreAPIVersions".into(), "core".into(), "APIVersions"),
            "apis" => discovery("getAPIVersions".into(), "apis".into(), "APIGroupList"),
            "version" => discovery("getCodeVersion".into(), "version".into(), ""),
            "openid/v1/jwks" => discovery("getServiceAccountIssuerOpenIDKeyset".into(), "openid".into(), ""),
            _ => discovery("getServiceAccountIssuerOpenIDConfiguration".into(), "WellKnown".into(), ""),
        };
        match name {
            "api" => operation.text = "The versions of the core group.".to_owned(),
            "apis" => operation.text = "The groups and their versions.".to_owned(),
            "version" => {
                operation.text = "The version of this server.".to_owned();
                operation.responses = vec![
                    ("200", Content::Schema(Schema::Definition(Definition::Leaf(Leaf::VersionInfo)))),
                    UNAUTHORIZED,
                ];
                operation.consumes = &["application/json"];
                operation.produces = &["application/json"];
            }
            "openid/v1/jwks" => {
                operation.text = "The public keys that verify service account tokens.".to_owned();
                operation.responses = vec![("200", Content::Text), UNAUTHORIZED];
                operation.consumes = &[];
                operation.produces = &["application/jwk-set+json"];
            }
            _ => {
                operation.text = "The OpenID configuration of the service account issuer.".to_owned();
                operation.responses = vec![("200", Content::Text), UNAUTHORIZED];
                operation.consumes = &[];
                operation.produces = &["application/json"];
            }
        }
        self.add(format!("/{name}/"), operation);
    }

    fn add(&mut self, path: String, operation: Operation) {
        self.paths.insert(path, PathItem { operations: vec![operation] });
    }

    /// The document's members in this form.
    pub(super) fn sections(&self, form: Form, encoding: Encoding) -> std::io::Result<Sections> {
        let mut shared = Shared::default();
        let mut paths = Vec::new();
        for (path, item) in &self.paths {
            let item = item.render(form, &mut shared);
            match (encoding, form) {
                (Encoding::Json, _) => entry(&mut paths, path, &item)?,
                (Encoding::Protobuf, Form::V2) => {
                    gnostic::put_entry(&mut paths, gnostic::v2::document::PATH, &gnostic::v2::PATH_ITEM, path, &item);
                }
                (Encoding::Protobuf, Form::V3) => {
                    gnostic::put_entry(&mut paths, gnostic::v3::document::PATH, &gnostic::v3::PATH_ITEM, path, &item);
                }
            }
        }
        let mut definitions = Vec::new();
        self.each_definition(form, |name, definition| {
            put_definition(&mut definitions, form, encoding, name, &definition)
        })?;
        Ok(Sections { paths, definitions, shared })
    }

    /// Renders every definition the paths need, one after the other.
    fn each_definition(
        &self,
        form: Form,
        mut visit: impl FnMut(&str, Value) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let definitions =
            closure(self.paths.values().flat_map(PathItem::definitions).chain(self.roots.iter().copied()));
        let descriptions = Descriptions::of(definitions.keys().copied());
        let group_versions: Vec<(&str, &str)> =
            self.group_versions.iter().map(|(group, version)| (group.as_str(), version.as_str())).collect();
        definitions
            .iter()
            .try_for_each(|(name, definition)| visit(name, definition.render(form, &descriptions, &group_versions)))
    }
}

/// An operation that answers what the API has.
fn discovery(id: String, tag: String, kind: &str) -> Operation {
    let answer = Types::native()
        .by_gvk("", "v1", kind)
        .map_or(Content::Nothing, |ty| Content::Schema(Schema::Definition(Definition::Native(ty))));
    Operation {
        method: "get",
        id,
        text: String::new(),
        tag,
        action: None,
        parameters: Vec::new(),
        body: None,
        responses: vec![("200", answer), UNAUTHORIZED],
        consumes: MEDIA,
        produces: MEDIA,
    }
}

/// Writes a member of the definitions, after a comma when it is not the first.
pub(super) fn put_definition(
    out: &mut Vec<u8>,
    form: Form,
    encoding: Encoding,
    name: &str,
    definition: &Value,
) -> std::io::Result<()> {
    match (encoding, form) {
        (Encoding::Json, _) => entry(out, name, definition)?,
        (Encoding::Protobuf, Form::V2) => {
            gnostic::put_entry(out, gnostic::v2::document::ENTRY, &gnostic::v2::SCHEMA, name, definition);
        }
        (Encoding::Protobuf, Form::V3) => {
            gnostic::put_entry(out, gnostic::v3::document::ENTRY, &gnostic::v3::SCHEMA_OR_REFERENCE, name, definition);
        }
    }
    Ok(())
}

/// Writes a member of a JSON object, after a comma when it is not the first.
pub(super) fn entry(out: &mut Vec<u8>, name: &str, value: &Value) -> std::io::Result<()> {
    if !out.is_empty() {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, name)?;
    out.push(b':');
    Ok(serde_json::to_writer(out, value)?)
}
