//! What the generic handler knows of a custom resource beyond its descriptor: its schema, compiled when first needed, and
//! how its objects get from one version to another.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bailiwick_schema::structural::rules::Rules;
use bailiwick_schema::structural::{self, Schema};
use bytes::Bytes;
use serde_json::Value;

use crate::resource::GroupVersion;
use crate::status::ApiResult;

/// The schema of one version, compiled when first needed.
#[derive(Default)]
pub struct VersionSchema {
    /// The version's `openAPIV3Schema` as JSON, sharing the bytes of the stored definition; `None` when it has none.
    json: Option<Bytes>,
    compiled: OnceLock<Option<Arc<Schema>>>,
}

impl VersionSchema {
    pub fn new(json: Option<Bytes>) -> Self {
        Self { json, compiled: OnceLock::new() }
    }

    /// `None` when the version has no schema, or one that no longer compiles, which is logged.
    pub fn compiled(&self) -> Option<&Arc<Schema>> {
        let compile = || {
            let value: Value = serde_json::from_slice(self.json.as_ref()?).ok()?;
            structural::compile(&value)
                .inspect_err(|error| tracing::error!(%error, "stored schema does not compile"))
                .ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}

/// The schemas of all versions of a definition, by version.
pub type VersionSchemas = Arc<[(String, Arc<VersionSchema>)]>;

/// Who declares a type by its schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Declaration {
    /// A stored CustomResourceDefinition, which may change and go.
    #[default]
    Stored,
    /// The program that serves it. No stored definition takes its place.
    Compiled,
}

/// A custom resource in one version of its definition.
pub struct CustomType {
    schema: Arc<VersionSchema>,
    rules: OnceLock<Option<Rules>>,
    /// For objects that are stored in another version.
    pub versions: VersionSchemas,
    /// The version objects are stored in.
    pub storage: GroupVersion,
    /// The store revision of the definition as it is now. Objects written later were pruned and defaulted by its schemas.
    pub since: u64,
    /// `spec.preserveUnknownFields`, which only definitions of old still have.
    pub preserve_unknown_fields: bool,
    /// Sent with every answer of a deprecated version.
    pub deprecation_warning: Option<String>,
    /// `None` when versions differ in nothing but their name.
    pub converter: Option<Arc<dyn Converter>>,
    pub scale: Option<ScalePaths>,
    /// Whether the definition is being deleted, and nothing new may come.
    pub terminating: bool,
    pub declaration: Declaration,
}

/// Where the `scale` subresource finds its values, each a path such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    /// Empty when there is none.
    pub label_selector: String,
}

impl ScalePaths {
    /// The fields a path names.
    pub fn fields(path: &str) -> impl Iterator<Item = &str> {
        path.strip_prefix('.').unwrap_or(path).split('.')
    }
}

/// Objects converted, in the order they came.
pub type Converted<'a> = Pin<Box<dyn Future<Output = ApiResult<Vec<Value>>> + Send + 'a>>;

/// Turns objects of one custom resource into another of its versions.
pub trait Converter: Send + Sync {
    /// Converts all objects, whatever version each is in, to `to`.
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a GroupVersion) -> Converted<'a>;
}

impl CustomType {
    pub fn new(schema: Arc<VersionSchema>, storage: GroupVersion, since: u64) -> Self {
        Self {
            rules: OnceLock::new(),
            schema,
            versions: Arc::new([]),
            storage,
            since,
            preserve_unknown_fields: false,
            deprecation_warning: None,
            converter: None,
            scale: None,
            terminating: false,
            declaration: Declaration::Stored,
        }
    }

    /// The compiled schema. `None` when the version has none, or one that no longer compiles.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.compiled()
    }

    /// The compiled schema of any version of the definition.
    pub fn schema_of(&self, version: &str) -> Option<&Arc<Schema>> {
        self.versions.iter().find(|(name, _)| name == version).and_then(|(_, schema)| schema.compiled())
    }

    /// The CEL rules of the schema; `None` when there are none.
    pub fn rules(&self) -> Option<&Rules> {
        let find = || self.schema().map(|schema| Rules::new(schema.clone())).filter(|rules| !rules.is_empty());
        self.rules.get_or_init(find).as_ref()
    }

    /// The schema as the definition has it, for OpenAPI. Parsed anew each time: it is rarely asked for and large.
    pub fn openapi_schema(&self) -> Option<Value> {
        self.schema.json.as_ref().and_then(|json| serde_json::from_slice(json).ok())
    }

    /// The bytes behind [`Self::openapi_schema`]: equal bytes are equal schemas.
    pub fn openapi_schema_json(&self) -> Option<&Bytes> {
        self.schema.json.as_ref()
    }
}

impl fmt::Debug for CustomType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomType(stored as {}, since {})", self.storage, self.since)
    }
}
