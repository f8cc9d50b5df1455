//! The objects of a catalog, typed. Property values stay JSON text: they are long, and most are only passed on.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::meta::Meta;
use crate::go::{Field, Omit, Shape, Struct, check, to_json};

/// The schemas we know.
pub mod schema {
    pub const PACKAGE: &str = "olm.package";
    pub const CHANNEL: &str = "olm.channel";
    pub const BUNDLE: &str = "olm.bundle";
    pub const DEPRECATIONS: &str = "olm.deprecations";
}

/// All objects of a catalog, each kind in the order in which it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    pub packages: Vec<Package>,
    pub channels: Vec<Channel>,
    pub bundles: Vec<Bundle>,
    pub deprecations: Vec<Deprecation>,
    pub others: Vec<Meta>,
}

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Package(Package),
    Channel(Channel),
    Bundle(Bundle),
    Deprecation(Deprecation),
    Other(Meta),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub default_channel: String,
    pub icon: Option<Icon>,
    pub description: String,
    pub properties: Vec<Property>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Icon {
    /// `None` where a catalog does not have it, which is not the same as empty.
    pub data: Option<Vec<u8>>,
    pub media_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    pub package: String,
    pub entries: Vec<ChannelEntry>,
    pub properties: Vec<Property>,
}

/// A bundle in a channel, with the bundles it is an upgrade of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelEntry {
    pub name: String,
    pub replaces: String,
    pub skips: Vec<String>,
    pub skip_range: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    pub name: String,
    pub package: String,
    pub image: String,
    pub properties: Vec<Property>,
    pub related_images: Vec<RelatedImage>,
    /// The manifests as JSON, from the `olm.bundle.object` properties or the bundle's directory. Not written.
    pub objects: Vec<String>,
    /// The ClusterServiceVersion among them, or empty.
    pub csv_json: String,
}

/// A typed fact about a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Property {
    pub kind: String,
    /// JSON text.
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedImage {
    pub name: String,
    pub image: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecation {
    pub package: String,
    pub entries: Vec<DeprecationEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeprecationEntry {
    pub schema: String,
    pub name: String,
    pub message: String,
}

const fn text(name: &'static str) -> Field {
    Field { name, shape: Shape::TEXT, omit: Omit::Empty }
}

const fn list(name: &'static str, shape: &'static Shape) -> Field {
    Field { name, shape: Shape::List(shape), omit: Omit::Empty }
}

static PROPERTY: Struct = Struct {
    name: "property.Property",
    fields: &[text("type"), Field { name: "value", shape: Shape::Raw, omit: Omit::Empty }],
};
static PROPERTY_SHAPE: Shape = Shape::Struct(&PROPERTY);
static ICON: Struct = Struct {
    name: "declcfg.Icon",
    fields: &[Field { name: "base64data", shape: Shape::Bytes, omit: Omit::Never }, text("mediatype")],
};
static PACKAGE: Struct = Struct {
    name: "declcfg.Package",
    fields: &[
        text("schema"),
        text("name"),
        text("defaultChannel"),
        Field { name: "icon", shape: Shape::Struct(&ICON), omit: Omit::Empty },
        text("description"),
        list("properties", &PROPERTY_SHAPE),
    ],
};
static ENTRY: Struct = Struct {
    name: "declcfg.ChannelEntry",
    fields: &[
        text("name"),
        text("replaces"),
        Field { name: "skips", shape: Shape::List(&Shape::TEXT), omit: Omit::Empty },
        text("skipRange"),
    ],
};
static ENTRY_SHAPE: Shape = Shape::Struct(&ENTRY);
static CHANNEL: Struct = Struct {
    name: "declcfg.Channel",
    fields: &[
        text("schema"),
        text("name"),
        text("package"),
        list("entries", &ENTRY_SHAPE),
        list("properties", &PROPERTY_SHAPE),
    ],
};
static RELATED: Struct = Struct { name: "declcfg.RelatedImage", fields: &[text("name"), text("image")] };
static RELATED_SHAPE: Shape = Shape::Struct(&RELATED);
pub(crate) static BUNDLE: Struct = Struct {
    name: "declcfg.Bundle",
    fields: &[
        text("schema"),
        text("name"),
        text("package"),
        text("image"),
        list("properties", &PROPERTY_SHAPE),
        list("relatedImages", &RELATED_SHAPE),
    ],
};
static REFERENCE: Struct = Struct { name: "declcfg.PackageScopedReference", fields: &[text("schema"), text("name")] };
static DEPRECATION_ENTRY: Struct = Struct {
    name: "declcfg.DeprecationEntry",
    fields: &[Field { name: "reference", shape: Shape::Struct(&REFERENCE), omit: Omit::Never }, text("message")],
};
static DEPRECATION_ENTRY_SHAPE: Shape = Shape::Struct(&DEPRECATION_ENTRY);
static DEPRECATION: Struct = Struct {
    name: "declcfg.Deprecation",
    fields: &[text("schema"), text("package"), list("entries", &DEPRECATION_ENTRY_SHAPE)],
};

impl Object {
    /// Reads a document by its schema.
    pub fn new(meta: Meta) -> Result<Self, String> {
        let typed = |name: &str, shape: &'static Struct| {
            check(&meta.body, Shape::Struct(shape)).map_err(|error| format!("parse {name}: {error}"))
        };
        let fields = Fields::of(&meta.body);
        Ok(match meta.schema.as_str() {
            schema::PACKAGE => {
                typed("package", &PACKAGE)?;
                Object::Package(Package::read(&fields))
            }
            schema::CHANNEL => {
                typed("channel", &CHANNEL)?;
                Object::Channel(Channel::read(&fields))
            }
            schema::BUNDLE => {
                typed("bundle", &BUNDLE)?;
                Object::Bundle(Bundle::read(&fields)?)
            }
            schema::DEPRECATIONS => {
                typed("deprecation", &DEPRECATION)?;
                Object::Deprecation(Deprecation::read(&fields))
            }
            "" => return Err(format!("object '{}' is missing root schema field", meta.blob())),
            _ => Object::Other(meta),
        })
    }
}

impl Catalog {
    /// Adds an object behind its kind.
    pub fn push(&mut self, object: Object) {
        match object {
            Object::Package(package) => self.packages.push(package),
            Object::Channel(channel) => self.channels.push(channel),
            Object::Bundle(bundle) => self.bundles.push(bundle),
            Object::Deprecation(deprecation) => self.deprecations.push(deprecation),
            Object::Other(meta) => self.others.push(meta),
        }
    }

    /// Appends another catalog.
    pub fn merge(&mut self, other: Catalog) {
        self.packages.extend(other.packages);
        self.channels.extend(other.channels);
        self.bundles.extend(other.bundles);
        self.deprecations.extend(other.deprecations);
        self.others.extend(other.others);
    }
}

impl FromIterator<Object> for Catalog {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut catalog = Catalog::default();
        objects.into_iter().for_each(|object| catalog.push(object));
        catalog
    }
}

/// The fields of a value that was checked against its type, found in any case; of several the last wins, as in Go.
pub(crate) struct Fields<'v>(Option<&'v Map<String, Value>>);

impl<'v> Fields<'v> {
    pub(crate) fn of(value: &'v Value) -> Self {
        Fields(value.as_object())
    }

    pub(crate) fn get(&self, name: &str) -> &'v Value {
        static NULL: Value = Value::Null;
        let Some(fields) = self.0 else { return &NULL };
        // The keys are sorted, and so they are for upstream's decoder; a null sets nothing.
        let is_it = |(key, value): &(&String, &Value)| key.eq_ignore_ascii_case(name) && !value.is_null();
        fields.iter().rfind(is_it).map_or(&NULL, |(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn list(&self, name: &str) -> &'v [Value] {
        self.get(name).as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Package {
    fn read(fields: &Fields) -> Self {
        let icon = Fields::of(fields.get("icon"));
        Package {
            name: fields.text("name"),
            default_channel: fields.text("defaultChannel"),
            icon: icon.is_some().then(|| decode_icon(&icon)),
            description: fields.text("description"),
            properties: properties(fields),
        }
    }
}

pub(crate) fn decode_icon(icon: &Fields) -> Icon {
    let decode = |text: &str| {
        let text = text.replace(['\n', '\r'], "");
        base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()
    };
    Icon { data: icon.get("base64data").as_str().map(decode), media_type: icon.text("mediatype") }
}

impl Channel {
    fn read(fields: &Fields) -> Self {
        let entries = fields.list("entries").iter().map(|entry| {
            let entry = Fields::of(entry);
            ChannelEntry {
                name: entry.text("name"),
                replaces: entry.text("replaces"),
                skips: entry.list("skips").iter().map(|skip| skip.as_str().unwrap_or_default().to_owned()).collect(),
                skip_range: entry.text("skipRange"),
            }
        });
        Channel {
            name: fields.text("name"),
            package: fields.text("package"),
            entries: entries.collect(),
            properties: properties(fields),
        }
    }
}

impl Bundle {
    fn read(fields: &Fields) -> Result<Self, String> {
        let related_images = fields.list("relatedImages").iter().map(|image| {
            let image = Fields::of(image);
            RelatedImage { name: image.text("name"), image: image.text("image") }
        });
        let mut bundle = Bundle {
            name: fields.text("name"),
            package: fields.text("package"),
            image: fields.text("image"),
            properties: properties(fields),
            related_images: related_images.collect(),
            ..Bundle::default()
        };
        let objects = Objects::read(&bundle.package, &bundle.name, fields.list("properties"))?;
        (bundle.objects, bundle.csv_json) = (objects.all, objects.csv);
        Ok(bundle)
    }
}

/// The manifests that a bundle carries as properties, as JSON.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) all: Vec<String>,
    /// The ClusterServiceVersion among them, or empty.
    pub(crate) csv: String,
}

impl Objects {
    /// Unpacks them from the list of properties as it stands in a document.
    pub(crate) fn read(package: &str, name: &str, properties: &[Value]) -> Result<Self, String> {
        use crate::go::quote;
        use crate::property::{BUNDLE_OBJECT, bundle_object};
        let mut objects = Objects::default();
        for (i, property) in properties.iter().enumerate() {
            let property = Fields::of(property);
            if property.get("type") != BUNDLE_OBJECT {
                continue;
            }
            let refused = |what: &str, error: String| {
                let (package, name) = (quote(package), quote(name));
                format!("read bundle objects: package {package}, bundle {name}: {what}: {error}")
            };
            let data = bundle_object(property.present("value"))
                .map_err(|error| refused(&format!("parse property at index {i} as bundle object"), error))?;
            let json = crate::bundle::manifest_json(data)
                .map_err(|error| refused(&format!("convert bundle object property at index {i} to JSON"), error))?;
            if objects.csv.is_empty() && crate::bundle::is_csv(&json) {
                objects.csv.clone_from(&json);
            }
            objects.all.push(json);
        }
        Ok(objects)
    }
}

impl Deprecation {
    fn read(fields: &Fields) -> Self {
        let entries = fields.list("entries").iter().map(|entry| {
            let entry = Fields::of(entry);
            let reference = Fields::of(entry.get("reference"));
            DeprecationEntry {
                schema: reference.text("schema"),
                name: reference.text("name"),
                message: entry.text("message"),
            }
        });
        Deprecation { package: fields.text("package"), entries: entries.collect() }
    }
}

fn properties(fields: &Fields) -> Vec<Property> {
    let properties = fields.list("properties").iter().map(|property| {
        let property = Fields::of(property);
        // A value that is missing is not JSON at all, `null` is.
        Property { kind: property.text("type"), value: property.present("value").map(to_json).unwrap_or_default() }
    });
    properties.collect()
}

impl<'v> Fields<'v> {
    pub(crate) fn present(&self, name: &str) -> Option<&'v Value> {
        self.0?.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
