//! Operators that are there already.

use serde_json::Value;

use super::requirement::{Requirement, Subject};
use super::snapshot::provided;
use crate::fbc::{Fields, Property};
use crate::property::{self, Gvk, PackageProperty};
use crate::version::Version;

/// Where OLM notes the properties of the bundle that a ClusterServiceVersion came from.
const PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";

/// An installed operator. One that no want names stays as it is.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Of the bundle, which is that of its ClusterServiceVersion.
    pub name: String,
    pub(super) package: Option<String>,
    pub(super) version: Option<Version>,
    pub(super) properties: Vec<Property>,
    pub(super) provides: Vec<Gvk>,
    pub(super) requirements: Vec<Requirement>,
}

impl Installed {
    /// Of the properties of its bundle. Its version is that of `olm.package` if none is given.
    pub fn new(name: &str, version: Option<Version>, properties: Vec<Property>) -> Result<Self, String> {
        let requirements = Requirement::all(&properties).map_err(|error| format!("{name}: {error}"))?;
        let package = properties.iter().find(|it| it.kind == property::PACKAGE);
        let package = package.and_then(|it| serde_json::from_str::<Value>(&it.value).ok());
        let of_package = |key: &str| package.as_ref().map(|it| Fields::of(it).text(key));
        let version = version.or_else(|| Version::parse(&of_package("version")?).ok());
        Ok(Installed {
            name: name.to_owned(),
            package: of_package("packageName"),
            version,
            provides: provided(&properties),
            requirements,
            properties,
        })
    }

    /// Of a ClusterServiceVersion: the properties that OLM noted at it, or what it owns and requires. `package` is that
    /// of the Subscription whose bundle it is.
    pub fn of_csv(csv: &Value, package: Option<&str>) -> Result<Self, String> {
        let text = |pointer: &str| csv.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        let version_text = text("/spec/version");
        let version = Version::parse(version_text).ok();
        let annotations = csv.pointer("/metadata/annotations");
        let noted = annotations.and_then(|it| it.get(PROPERTIES_ANNOTATION)).and_then(Value::as_str);
        let properties = match noted {
            Some(noted) => read_properties(noted)
                .map_err(|error| format!("failed to retrieve properties of csv \"{name}\": {error}"))?,
            None => {
                let mut properties = declared_apis(csv, "owned", property::GVK)?;
                properties.extend(declared_apis(csv, "required", property::GVK_REQUIRED)?);
                if let Some(package) = package {
                    let package = PackageProperty {
                        package_name: package.to_owned(),
                        version: version_text.to_owned(),
                        release: String::new(),
                    };
                    properties.push(Property { kind: property::PACKAGE.to_owned(), value: package.to_json() });
                }
                properties
            }
        };
        Self::new(name, version, properties)
    }

    /// The package that it is of, if that is known.
    pub fn package(&self) -> Option<&str> {
        self.package.as_deref()
    }

    pub(super) fn replaced_by(&self, entry: &super::snapshot::Entry) -> bool {
        entry.succeeds(&self.name, self.version.as_ref())
    }
}

fn read_properties(text: &str) -> Result<Vec<Property>, String> {
    let noted: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = Fields::of(&noted).list("properties").iter().map(|it| {
        let fields = Fields::of(it);
        Property { kind: fields.text("type"), value: crate::go::to_json(fields.get("value")) }
    });
    Ok(list.collect())
}

fn declared_apis(csv: &Value, list: &str, kind: &str) -> Result<Vec<Property>, String> {
    let mut found = Vec::new();
    let of = |part: &str| csv.pointer(&format!("/spec/{part}/{list}")).and_then(Value::as_array).into_iter().flatten();
    for definition in of("customresourcedefinitions") {
        let fields = Fields::of(definition);
        let name = fields.text("name");
        let (_, group) = name.split_once('.').ok_or_else(|| format!("error parsing crd name: {name}"))?;
        found.push(Gvk { group: group.to_owned(), kind: fields.text("kind"), version: fields.text("version") });
    }
    for definition in of("apiservicedefinitions") {
        let fields = Fields::of(definition);
        found.push(Gvk { group: fields.text("group"), kind: fields.text("kind"), version: fields.text("version") });
    }
    Ok(found.iter().map(|gvk| Property { kind: kind.to_owned(), value: gvk.to_json() }).collect())
}

impl Subject for Installed {
    fn package(&self) -> Option<&str> {
        self.package.as_deref()
    }

    fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn provides(&self) -> &[Gvk] {
        &self.provides
    }

    fn properties(&self) -> &[Property] {
        &self.properties
    }
}
