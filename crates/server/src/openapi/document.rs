//! Documents: which paths one describes, and its bytes. A document is written piece by piece, so that only its bytes are
//! ever whole in memory.

use std::io::Write;

use bailiwick_schema::openapi::{Definition, Descriptions, Form, Leaf, closure, gnostic};
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::names;
use super::operation::{Content, Operation, PathItem, SharedParameters};
use super::paths::{self, MEDIA, Paths, UNAUTHORIZED};
use crate::discovery::KUBERNETES_VERSION;
use crate::registry::Registry;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// The paths of a document and the group versions it speaks of.
#[derive(Default)]
pub(super) struct Document {
    paths: Paths,
    group_versions: Vec<(String, String)>,
}

/// Documents that every server has besides those of groups and versions.
const GENERAL: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// The names of all version 3 documents: the paths they describe without the first slash.
pub(super) fn names(registry: &Registry) -> Vec<String> {
    let mut names: Vec<String> = GENERAL.iter().map(|name| (*name).to_owned()).collect();
    for (group, versions) in registry.groups() {
        if !group.is_empty() {
            names.push(format!("apis/{group}"));
        }
        names
            .extend(versions.iter().map(|version| paths::base_path(group, version).trim_start_matches('/').to_owned()));
    }
    names.sort();
    names
}

impl Document {
    /// The version 3 document of a name.
    pub(super) fn named(registry: &Registry, name: &str) -> Option<Self> {
        let mut document = Self::default();
        let segments: Vec<&str> = name.split('/').collect();
        match segments.as_slice() {
            ["api", version] => document.add_group_version(registry, "", version)?,
            ["apis", group, version] if !group.is_empty() => document.add_group_version(registry, group, version)?,
            ["apis", group] => document.add_group(registry, group)?,
            _ if GENERAL.contains(&name) => document.add_general(name),
            _ => return None,
        }
        Some(document)
    }

    /// Everything, as version 2 has it.
    pub(super) fn everything(registry: &Registry) -> Self {
        let mut document = Self::default();
        GENERAL.iter().for_each(|name| document.add_general(name));
        for (group, versions) in registry.groups() {
            // Groups that are in the registry cannot be missing.
            let _ = document.add_group(registry, group);
            for version in versions {
                let _ = document.add_group_version(registry, group, version);
            }
        }
        document
    }

    fn add_group_version(&mut self, registry: &Registry, group: &str, version: &str) -> Option<()> {
        registry.has_group_version(group, version).then_some(())?;
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
        (!group.is_empty() && registry.groups().contains_key(group)).then_some(())?;
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
                operation.responses =
                    vec![("200", Content::Definition(Definition::Leaf(Leaf::VersionInfo))), UNAUTHORIZED];
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

    /// The bytes of the document.
    pub(super) fn encode(&self, form: Form, encoding: Encoding) -> std::io::Result<Vec<u8>> {
        match (form, encoding) {
            (Form::V3, Encoding::Json) => self.json_v3(),
            (Form::V3, Encoding::Protobuf) => Ok(self.protobuf_v3()),
            (Form::V2, Encoding::Json) => self.json_v2(),
            (Form::V2, Encoding::Protobuf) => Ok(self.protobuf_v2()),
        }
    }

    fn json_v3(&self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        write!(out, r#"{{"openapi":"3.0.0","info":{},"paths":{{"#, info())?;
        entries(&mut out, self.paths.iter().map(|(path, item)| (path.as_str(), item.v3())))?;
        out.extend_from_slice(br#"},"components":{"#);
        let mut first = true;
        self.each_definition(Form::V3, |name, definition| {
            out.extend_from_slice(if first { br#""schemas":{"# } else { b"," });
            first = false;
            entry(&mut out, name, &definition)
        })?;
        if !first {
            out.extend_from_slice(b"},");
        }
        write!(out, r#""securitySchemes":{}}}}}"#, security())?;
        Ok(out)
    }

    fn json_v2(&self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut shared = SharedParameters::new();
        write!(out, r#"{{"swagger":"2.0","info":{},"paths":{{"#, info())?;
        entries(&mut out, self.paths.iter().map(|(path, item)| (path.as_str(), item.v2(&mut shared))))?;
        out.extend_from_slice(br#"},"definitions":{"#);
        let mut first = true;
        self.each_definition(Form::V2, |name, definition| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            entry(&mut out, name, &definition)
        })?;
        let parameters = Value::Object(shared.into_iter().collect());
        write!(
            out,
            r#"}},"parameters":{parameters},"securityDefinitions":{},"security":{}}}"#,
            security(),
            required_security()
        )?;
        Ok(out)
    }

    fn protobuf_v3(&self) -> Vec<u8> {
        use gnostic::v3::{self, document};
        let mut out = Vec::new();
        gnostic::put(&mut out, document::OPENAPI, &v3::TEXT, &"3.0.0".into());
        gnostic::put(&mut out, document::INFO, &v3::INFO, &info());
        gnostic::put_nested(&mut out, document::PATHS, |out| {
            for (path, item) in &self.paths {
                gnostic::put_entry(out, document::PATH, &v3::PATH_ITEM, path, &item.v3());
            }
        });
        gnostic::put_nested(&mut out, document::COMPONENTS, |out| {
            let mut schemas = Vec::new();
            let _ = self.each_definition(Form::V3, |name, definition| {
                gnostic::put_entry(&mut schemas, document::ENTRY, &v3::SCHEMA_OR_REFERENCE, name, &definition);
                Ok(())
            });
            if !schemas.is_empty() {
                gnostic::put_nested(out, document::SCHEMAS, |out| out.extend_from_slice(&schemas));
            }
            gnostic::put(out, document::SECURITY_SCHEMES, &v3::SECURITY_SCHEMES, &security());
        });
        out
    }

    fn protobuf_v2(&self) -> Vec<u8> {
        use gnostic::v2::{self, document};
        let mut out = Vec::new();
        let mut shared = SharedParameters::new();
        gnostic::put(&mut out, document::SWAGGER, &v2::TEXT, &"2.0".into());
        gnostic::put(&mut out, document::INFO, &v2::INFO, &info());
        gnostic::put_nested(&mut out, document::PATHS, |out| {
            for (path, item) in &self.paths {
                gnostic::put_entry(out, document::PATH, &v2::PATH_ITEM, path, &item.v2(&mut shared));
            }
        });
        gnostic::put_nested(&mut out, document::DEFINITIONS, |out| {
            let _ = self.each_definition(Form::V2, |name, definition| {
                gnostic::put_entry(out, document::ENTRY, &v2::SCHEMA, name, &definition);
                Ok(())
            });
        });
        gnostic::put_nested(&mut out, document::PARAMETERS, |out| {
            for (name, parameter) in &shared {
                gnostic::put_entry(out, document::ENTRY, &v2::PARAMETER, name, parameter);
            }
        });
        gnostic::put(&mut out, document::SECURITY, &v2::SECURITY, &required_security());
        gnostic::put(&mut out, document::SECURITY_DEFINITIONS, &v2::SECURITY_DEFINITIONS, &security());
        out
    }

    /// Renders every definition the paths need, one after the other.
    fn each_definition(
        &self,
        form: Form,
        mut visit: impl FnMut(&str, Value) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let definitions = closure(self.paths.values().flat_map(PathItem::definitions));
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
        .map_or(Content::Nothing, |ty| Content::Definition(Definition::Native(ty)));
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

fn info() -> Value {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // Clients compare the title with upstream's.
    json!({"title": "Kubernetes", "version": format!("{major}.{minor}")})
}

fn security() -> Value {
    json!({"BearerToken": {
        "description": "A bearer token.", "in": "header", "name": "authorization", "type": "apiKey",
    }})
}

fn required_security() -> Value {
    json!([{"BearerToken": []}])
}

fn entries<'a>(out: &mut Vec<u8>, entries: impl Iterator<Item = (&'a str, Value)>) -> std::io::Result<()> {
    for (at, (name, value)) in entries.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        entry(out, name, &value)?;
    }
    Ok(())
}

fn entry(out: &mut Vec<u8>, name: &str, value: &Value) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, name)?;
    out.push(b':');
    Ok(serde_json::to_writer(out, value)?)
}
