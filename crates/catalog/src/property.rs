//! Properties of bundles: the types that OLM knows, checked as opm checks them, and what of them a catalog needs to
//! know about a bundle.

use base64::Engine as _;
use serde_json::Value;

use crate::bundle::csv_shape::CSV_METADATA;
use crate::fbc::{Bundle, Fields, Meta, Property};
use crate::go::{Field, Omit, Shape, Struct, append_string, check};
use crate::version::{Release, Version, VersionRelease};

pub const PACKAGE: &str = "olm.package";
pub const PACKAGE_REQUIRED: &str = "olm.package.required";
pub const GVK: &str = "olm.gvk";
pub const GVK_REQUIRED: &str = "olm.gvk.required";
pub const BUNDLE_OBJECT: &str = "olm.bundle.object";
pub const CSV_METADATA_TYPE: &str = "olm.csv.metadata";
pub const CONSTRAINT: &str = "olm.constraint";
const CHANNEL: &str = "olm.channel";

const fn text(name: &'static str) -> Field {
    Field { name, shape: Shape::TEXT, omit: Omit::Never }
}

static PACKAGE_STRUCT: Struct =
    Struct { name: "property.Package", fields: &[text("packageName"), text("version"), text("release")] };
static PACKAGE_REQUIRED_STRUCT: Struct =
    Struct { name: "property.PackageRequired", fields: &[text("packageName"), text("versionRange")] };
static GVK_STRUCT: Struct = Struct { name: "property.GVK", fields: &[text("group"), text("kind"), text("version")] };
static GVK_REQUIRED_STRUCT: Struct =
    Struct { name: "property.GVKRequired", fields: &[text("group"), text("kind"), text("version")] };
static BUNDLE_OBJECT_STRUCT: Struct =
    Struct { name: "property.BundleObject", fields: &[Field { name: "data", shape: Shape::Bytes, omit: Omit::Never }] };
static CHANNEL_STRUCT: Struct = Struct {
    name: "property.Channel",
    fields: &[text("channelName"), Field { name: "priority", shape: Shape::Int("int"), omit: Omit::Never }],
};

/// Manifests, and what is as long as them: properties that the registry's answers leave out.
pub(crate) fn is_heavy(kind: &str) -> bool {
    matches!(kind, BUNDLE_OBJECT | CSV_METADATA_TYPE)
}

/// An API by group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    pub group: String,
    pub kind: String,
    pub version: String,
}

/// The `olm.package` property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageProperty {
    pub package_name: String,
    pub version: String,
    pub release: String,
}

/// Errors number properties and images; rendering puts the long properties last and sorts images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Written,
    Rendered,
}

/// The properties of one bundle, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    pub packages: Vec<PackageProperty>,
    /// Names and ranges.
    pub packages_required: Vec<(String, String)>,
    pub gvks: Vec<Gvk>,
    pub gvks_required: Vec<Gvk>,
    /// How many `olm.csv.metadata` there are.
    pub csv_metadata: usize,
}

impl Properties {
    /// Reads them; the first that does not fit its type is the error.
    pub fn parse(properties: &[Property]) -> Result<Self, String> {
        let mut out = Properties::default();
        for (i, property) in properties.iter().enumerate() {
            let value = if is_typed(&property.kind) { parse_value(&property.value) } else { Ok(Value::Null) };
            let added =
                value.and_then(|value| out.add(&property.kind, Some(&value).filter(|_| !property.value.is_empty())));
            added.map_err(|error| in_property(i, &property.kind, &error))?;
        }
        Ok(out)
    }

    /// The same, of a bundle as it stands in a catalog.
    pub(crate) fn of_document(bundle: &Meta, order: Order) -> Result<Self, String> {
        let mut out = Properties::default();
        let mut listed: Vec<&Value> = Fields::of(&bundle.body).list("properties").iter().collect();
        if order == Order::Rendered {
            listed.sort_by_key(|it| Fields::of(it).get("type").as_str().is_some_and(is_heavy));
        }
        for (i, property) in listed.into_iter().enumerate() {
            let fields = Fields::of(property);
            let kind = fields.get("type").as_str().unwrap_or_default();
            out.add(kind, fields.present("value")).map_err(|error| in_property(i, kind, &error))?;
        }
        Ok(out)
    }

    fn add(&mut self, kind: &str, value: Option<&Value>) -> Result<(), String> {
        let value = value.ok_or("unexpected end of JSON input")?;
        let shape = match kind {
            PACKAGE => &PACKAGE_STRUCT,
            PACKAGE_REQUIRED => &PACKAGE_REQUIRED_STRUCT,
            GVK => &GVK_STRUCT,
            GVK_REQUIRED => &GVK_REQUIRED_STRUCT,
            BUNDLE_OBJECT => &BUNDLE_OBJECT_STRUCT,
            CSV_METADATA_TYPE => &CSV_METADATA,
            CHANNEL => &CHANNEL_STRUCT,
            _ => return Ok(()),
        };
        check(value, Shape::Struct(shape))?;
        let fields = Fields::of(value);
        let gvk = || Gvk { group: fields.text("group"), kind: fields.text("kind"), version: fields.text("version") };
        match kind {
            PACKAGE => self.packages.push(PackageProperty {
                package_name: fields.text("packageName"),
                version: fields.text("version"),
                release: fields.text("release"),
            }),
            PACKAGE_REQUIRED => self.packages_required.push((fields.text("packageName"), fields.text("versionRange"))),
            GVK => self.gvks.push(gvk()),
            GVK_REQUIRED => self.gvks_required.push(gvk()),
            CSV_METADATA_TYPE => self.csv_metadata += 1,
            _ => {}
        }
        Ok(())
    }
}

fn is_typed(kind: &str) -> bool {
    matches!(kind, PACKAGE | PACKAGE_REQUIRED | GVK | GVK_REQUIRED | BUNDLE_OBJECT | CSV_METADATA_TYPE | CHANNEL)
}

fn in_property(at: usize, kind: &str, error: &str) -> String {
    format!("parse property[{at}] of type {}: {error}", crate::go::quote(kind))
}

fn parse_value(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Err("unexpected end of JSON input".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The manifest in an `olm.bundle.object` property.
pub(crate) fn bundle_object(value: Option<&Value>) -> Result<Vec<u8>, String> {
    let value = value.ok_or("unexpected end of JSON input")?;
    check(value, Shape::Struct(&BUNDLE_OBJECT_STRUCT))?;
    let text = Fields::of(value).get("data").as_str().unwrap_or_default();
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| error.to_string());
    if text.contains(['\n', '\r']) { decode(&text.replace(['\n', '\r'], "")) } else { decode(text) }
}

/// Version and release of a bundle, from its `olm.package` property. Bundles that substitute others in the old way have
/// their release in the build metadata.
pub fn version_release(bundle: &Bundle) -> Result<VersionRelease, String> {
    use crate::go::quote;
    let name = quote(&bundle.name);
    let mut found = None;
    for property in bundle.properties.iter().filter(|property| property.kind == PACKAGE) {
        if found.is_some() {
            return Err("must be exactly one property of type \"olm.package\"".to_owned());
        }
        let value = parse_value(&property.value)
            .and_then(|value| check(&value, Shape::Struct(&PACKAGE_STRUCT)).map(|()| value))
            .map_err(|error| format!("unable to unmarshal \"olm.package\" property for bundle {name}: {error}"))?;
        let fields = Fields::of(&value);
        let (version, release) = (fields.text("version"), fields.text("release"));
        found = Some(VersionRelease {
            version: Version::parse(&version).map_err(|error| {
                let version = quote(&version);
                format!("invalid semver version {version} in \"olm.package\" property for bundle {name}: {error}")
            })?,
            release: Release::parse(&release).map_err(|error| {
                let release = quote(&release);
                format!("invalid release {release} in \"olm.package\" property for bundle {name}: {error}")
            })?,
        });
    }
    let mut found = found.ok_or_else(|| format!("no \"olm.package\" property found for bundle {name}"))?;
    if found.release.is_empty() && !found.version.build.is_empty() && crate::bundle::substitutes_another(bundle) {
        found.release = Release::parse(&found.version.build.join("."))
            .map_err(|error| format!("unable to convert build metadata to release for bundle {name}: {error}"))?;
        found.version.build.clear();
    }
    Ok(found)
}

impl Gvk {
    /// As a property value.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        append_fields(&mut out, &[("group", &self.group), ("kind", &self.kind), ("version", &self.version)]);
        out
    }
}

impl PackageProperty {
    /// As a property value.
    pub fn to_json(&self) -> String {
        let mut fields = vec![("packageName", self.package_name.as_str()), ("version", &self.version)];
        if !self.release.is_empty() {
            fields.push(("release", &self.release));
        }
        let mut out = String::new();
        append_fields(&mut out, &fields);
        out
    }
}

/// The value of an `olm.package.required` property.
pub(crate) fn package_required_json(name: &str, range: &str) -> String {
    let mut out = String::new();
    append_fields(&mut out, &[("packageName", name), ("versionRange", range)]);
    out
}

fn append_fields(out: &mut String, fields: &[(&str, &str)]) {
    out.push('{');
    for (i, (key, value)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        append_string(out, key);
        out.push(':');
        append_string(out, value);
    }
    out.push('}');
}
