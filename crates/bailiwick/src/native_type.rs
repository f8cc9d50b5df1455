//! Types of the caller's own, compiled into the program: a declaration, and typed functions that default, prepare and
//! check objects.
//!
//! A declaration says what a CustomResourceDefinition says, and is checked like one, but nothing is stored: the type is
//! there from the first request, cannot be changed or removed through the API, and a definition of the same name is
//! refused. Everything that works with custom resources works with it: server-side apply, CEL rules,
//! defaults, pruning, subresources, printer columns, OpenAPI and `kubectl explain`.

mod columns;
mod hooks;
mod protection;

use std::sync::Arc;

use bailiwick_apiextensions::Definition;
use bailiwick_apiextensions::definition::{Conversion, Converters};
use bailiwick_machinery::custom::{Converter, Declaration};
use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::strategy::{Context, NameValidator};
use bailiwick_machinery::user::UserInfo;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use columns::ComputedColumn;
use hooks::{Hooked, Hooks, Path};
pub(crate) use protection::CompiledTypes;

/// What hooks may be written for: `serde_json::Value`, a type made by kube's `CustomResource` derive, or any that reads
/// and writes whole objects.
pub trait Hookable: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Hookable for T {}

/// Why a declared type cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum NativeTypeError {
    #[error("native type {name}: {faults}")]
    Invalid { name: String, faults: String },
}

/// A type to be served, with its rules. See the module's text.
pub struct NativeType<T = Value> {
    /// In the form of a CustomResourceDefinition.
    definition: Value,
    hooks: Hooks<T>,
    columns: Vec<ComputedColumn<T>>,
    converter: Option<Arc<dyn Converter>>,
}

impl NativeType<Value> {
    /// A namespaced type with this group, version and kind. Its plural is the kind in lower case with an `s`, and it
    /// takes any fields, until the methods below say otherwise.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self::from_definition(json!({"spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": format!("{}s", kind.to_ascii_lowercase())},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        }}))
    }

    /// A type declared as a CustomResourceDefinition (its `spec`; the rest is ignored), with as many versions as that
    /// has.
    pub fn from_definition(definition: Value) -> Self {
        Self { definition, hooks: Hooks::default(), columns: Vec::new(), converter: None }
    }

    /// With hooks that see objects as `T` instead of JSON.
    pub fn typed<T: Hookable>(self) -> NativeType<T> {
        NativeType {
            definition: self.definition,
            hooks: Hooks::default(),
            columns: Vec::new(),
            converter: self.converter,
        }
    }
}

impl<T: Hookable + kube::CustomResourceExt> NativeType<T> {
    /// The type that kube's `CustomResource` derive declares: names, scope, schema, subresources and columns come from
    /// its attributes and from the documentation of its fields.
    pub fn of() -> Self {
        // A definition is data and always has a JSON form.
        let definition = serde_json::to_value(T::crd()).unwrap_or_default();
        Self { definition, hooks: Hooks::default(), columns: Vec::new(), converter: None }
    }
}

/// The declaration.
impl<T: Hookable> NativeType<T> {
    /// The lower-case plural, which is the path segment.
    pub fn plural(mut self, plural: &str) -> Self {
        self.definition["spec"]["names"]["plural"] = plural.into();
        self
    }

    /// A short name for kubectl.
    pub fn short_name(mut self, name: &str) -> Self {
        push(&mut self.definition["spec"]["names"]["shortNames"], name.into());
        self
    }

    /// A category, such as `all`, by which kubectl lists several types at once.
    pub fn category(mut self, name: &str) -> Self {
        push(&mut self.definition["spec"]["names"]["categories"], name.into());
        self
    }

    /// Objects live outside of namespaces.
    pub fn cluster_scoped(mut self) -> Self {
        self.definition["spec"]["scope"] = "Cluster".into();
        self
    }

    /// What objects look like: a structural schema (OpenAPI v3, as in definitions, with CEL rules) of the whole object.
    pub fn schema(self, schema: Value) -> Self {
        self.each_version(|version| version["schema"] = json!({"openAPIV3Schema": schema}))
    }

    /// With a `status` that only writes through the `status` subresource change.
    pub fn with_status(self) -> Self {
        self.each_version(|version| version["subresources"]["status"] = json!({}))
    }

    /// A column of `kubectl get`, taken from a path such as `.spec.size`. `kind` is `string`, `integer`, `number`,
    /// `boolean` or `date`.
    pub fn column(self, name: &str, kind: &str, json_path: &str) -> Self {
        let column = json!({"name": name, "type": kind, "jsonPath": json_path});
        self.each_version(|version| push(&mut version["additionalPrinterColumns"], column.clone()))
    }

    /// A column of `kubectl get` with a computed cell, after the others.
    pub fn computed_column(
        mut self,
        name: &str,
        kind: &str,
        description: &str,
        cell: impl Fn(&T) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.columns.push(ComputedColumn::new(name, kind, description, cell));
        self
    }

    /// A field that field selectors may name, such as `.spec.room`.
    pub fn selectable_field(self, json_path: &str) -> Self {
        let field = json!({"jsonPath": json_path});
        self.each_version(|version| push(&mut version["selectableFields"], field.clone()))
    }

    fn each_version(mut self, change: impl Fn(&mut Value)) -> Self {
        if let Some(versions) = self.definition["spec"]["versions"].as_array_mut() {
            versions.iter_mut().for_each(change);
        }
        self
    }

    /// Converts between versions of the type. Without it versions differ in nothing but their name.
    pub fn converter(mut self, converter: impl Converter + 'static) -> Self {
        self.converter = Some(Arc::new(converter));
        self
    }
}

/// The rules. Each method adds one hook and replaces an earlier one of its kind. Hooks run after what the schema says,
/// and only on objects that `T` can read; others are refused.
impl<T: Hookable> NativeType<T> {
    /// Fills in what the client left out, on every write. Must change nothing the second time.
    pub fn default(mut self, hook: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.hooks.default = Some(Box::new(hook));
        self
    }

    /// Sets on creation what a client may not decide.
    pub fn prepare_for_create(mut self, hook: impl Fn(&Context<'_>, &mut T) + Send + Sync + 'static) -> Self {
        self.hooks.prepare_for_create = Some(Box::new(hook));
        self
    }

    /// Sets on update what a client may not decide; the second object is the stored one.
    pub fn prepare_for_update(mut self, hook: impl Fn(&Context<'_>, &mut T, &T) + Send + Sync + 'static) -> Self {
        self.hooks.prepare_for_update = Some(Box::new(hook));
        self
    }

    /// Tells what is wrong with an object, new or changed.
    pub fn validate(mut self, hook: impl Fn(&Context<'_>, &T) -> ErrorList + Send + Sync + 'static) -> Self {
        self.hooks.validate = Some(Box::new(hook));
        self
    }

    /// Tells what is wrong with a change, besides what [`NativeType::validate`] says of its result; the second object
    /// is the stored one.
    pub fn validate_update(mut self, hook: impl Fn(&Context<'_>, &T, &T) -> ErrorList + Send + Sync + 'static) -> Self {
        self.hooks.validate_update = Some(Box::new(hook));
        self
    }

    /// Tells what is wrong with a write through `status`; the second object is the stored one.
    pub fn validate_status(mut self, hook: impl Fn(&Context<'_>, &T, &T) -> ErrorList + Send + Sync + 'static) -> Self {
        self.hooks.validate_status = Some(Box::new(hook));
        self
    }

    /// Advice to whoever writes this object, which kubectl shows as warnings.
    pub fn warnings(mut self, hook: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.hooks.warnings = Some(Box::new(hook));
        self
    }

    /// The rule for names, instead of that of DNS subdomains.
    pub fn name_validator(mut self, validator: NameValidator) -> Self {
        self.hooks.name_validator = Some(validator);
        self
    }

    /// Seconds after which an object deletes itself.
    pub fn ttl_seconds(mut self, hook: impl Fn(&T) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.hooks.ttl_seconds = Some(Box::new(hook));
        self
    }
}

/// A declared type, whatever its hooks are written for.
pub(crate) trait DeclaredType: Send {
    /// Its descriptors; objects stored up to `since` may be of an older schema. Taken once.
    fn resources(&mut self, since: u64) -> Result<Vec<Resource>, NativeTypeError>;
}

impl<T: Hookable> DeclaredType for NativeType<T> {
    fn resources(&mut self, since: u64) -> Result<Vec<Resource>, NativeTypeError> {
        let definition = self.checked()?;
        let hooks = Arc::new(std::mem::take(&mut self.hooks));
        let computed: Arc<[ComputedColumn<T>]> = std::mem::take(&mut self.columns).into();
        let mut resources = definition.resources(since, self);
        for resource in &mut resources {
            resource.strategy = Arc::new(Hooked::new(resource.strategy.clone(), hooks.clone(), Path::Object));
            for subresource in resource.subresources.iter_mut().filter(|subresource| subresource.name == "status") {
                subresource.strategy = Arc::new(Hooked::new(subresource.strategy.clone(), hooks.clone(), Path::Status));
            }
            if !computed.is_empty() {
                resource.table = Arc::new(columns::WithComputed::new(resource.table.clone(), computed.clone()));
            }
        }
        Ok(resources)
    }
}

impl<T: Hookable> NativeType<T> {
    /// The declaration, once it has passed what definitions must pass.
    fn checked(&self) -> Result<Definition, NativeTypeError> {
        let spec = &self.definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
        let mut object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "generation": 1}, "spec": spec,
        });
        if self.converter.is_some() {
            // Marks that there is a converter; nobody calls the webhook.
            object["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://in-process.invalid"}}});
        }
        let invalid = |faults: String| NativeTypeError::Invalid { name: name.clone(), faults };
        let rules = bailiwick_api::apiextensions::resources().into_iter().next().map(|resource| resource.strategy);
        if let Some(rules) = rules {
            rules.default(&mut object);
            let cx = Context { now: Timestamp::now(), user: &UserInfo::default(), warnings: None };
            rules.prepare_for_create(&cx, &mut object);
            let faults: Vec<String> = rules.validate(&cx, &object).iter().map(ToString::to_string).collect();
            if !faults.is_empty() {
                return Err(invalid(faults.join("; ")));
            }
        }
        object["status"] = json!({
            "acceptedNames": object["spec"]["names"], "conditions": [{"type": "Established", "status": "True"}],
        });
        let json = serde_json::to_vec(&object).map_err(|error| invalid(error.to_string()))?;
        let mut definition = Definition::parse(&json.into()).map_err(|error| invalid(error.to_string()))?;
        definition.declaration = Declaration::Compiled;
        Ok(definition)
    }
}

impl<T: Hookable> Converters for NativeType<T> {
    fn converter(&self, _definition: &str, _conversion: &Conversion) -> Arc<dyn Converter> {
        match &self.converter {
            Some(converter) => converter.clone(),
            None => Arc::new(Unchanged),
        }
    }
}

/// For versions that differ in nothing but their name.
struct Unchanged;

impl Converter for Unchanged {
    fn convert<'a>(
        &'a self,
        mut objects: Vec<Value>,
        to: &'a bailiwick_machinery::GroupVersion,
    ) -> bailiwick_machinery::custom::Converted<'a> {
        objects.iter_mut().for_each(|object| object["apiVersion"] = to.to_string().into());
        Box::pin(async move { Ok(objects) })
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        absent => *absent = Value::Array(vec![item]),
    }
}

#[cfg(test)]
mod tests;
