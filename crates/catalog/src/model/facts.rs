//! What of a catalog's objects the graph needs. Bundles are the bulk of a catalog; of each only its name, image and
//! version stay.

use crate::fbc::{BUNDLE, Bundle, Catalog, Channel, Deprecation, Fields, Meta, Object, Package, RelatedImage, schema};
use crate::go::{Shape, check, quote};
use crate::property::{self, Properties};
use crate::reference::ImageReference;
use crate::version::{Release, Version, VersionRelease};

/// What one object says.
#[derive(Clone, Debug)]
pub enum Fact {
    Package(Package),
    Channel(Channel),
    Bundle(BundleFacts),
    Deprecation(Deprecation),
    Other,
}

/// What a bundle says.
#[derive(Clone, Debug)]
pub struct BundleFacts {
    pub name: String,
    pub package: String,
    pub image: String,
    /// What is wrong with the bundle by itself, or its version.
    pub version: Result<VersionRelease, String>,
    /// Whether it carries its manifests, and so needs no image.
    pub has_objects: bool,
    /// What its ClusterServiceVersion is called, if the bundle carries it.
    pub display_name: String,
}

impl Fact {
    /// Reads a document.
    pub fn new(meta: Meta) -> Result<Self, String> {
        if meta.schema == schema::BUNDLE && !has_objects(&meta) {
            check(&meta.body, Shape::Struct(&BUNDLE)).map_err(|error| format!("parse bundle: {error}"))?;
            return Ok(Fact::Bundle(BundleFacts::of_body(&meta)));
        }
        Ok(match Object::new(meta)? {
            Object::Package(package) => Fact::Package(package),
            Object::Channel(channel) => Fact::Channel(channel),
            Object::Bundle(bundle) => Fact::Bundle(BundleFacts::new(&bundle)),
            Object::Deprecation(deprecation) => Fact::Deprecation(deprecation),
            Object::Other(_) => Fact::Other,
        })
    }

    /// All facts of a catalog.
    pub fn of_catalog(catalog: &Catalog) -> Vec<Self> {
        let packages = catalog.packages.iter().cloned().map(Fact::Package);
        let channels = catalog.channels.iter().cloned().map(Fact::Channel);
        let bundles = catalog.bundles.iter().map(|bundle| Fact::Bundle(BundleFacts::new(bundle)));
        let deprecations = catalog.deprecations.iter().cloned().map(Fact::Deprecation);
        packages.chain(channels).chain(bundles).chain(deprecations).collect()
    }
}

fn has_objects(meta: &Meta) -> bool {
    let mut kinds = Fields::of(&meta.body).list("properties").iter().map(|it| Fields::of(it).get("type"));
    kinds.any(|kind| kind == property::BUNDLE_OBJECT)
}

impl BundleFacts {
    /// Of a bundle in memory.
    pub fn new(bundle: &Bundle) -> Self {
        let properties = Properties::parse(&bundle.properties);
        let images = bundle.related_images.iter().map(|RelatedImage { image, .. }| image.as_str());
        let version = check_bundle(&bundle.package, &bundle.name, &bundle.image, images, properties);
        let display_name = serde_json::from_str::<serde_json::Value>(&bundle.csv_json).unwrap_or_default();
        let display_name = display_name.pointer("/spec/displayName").and_then(|it| it.as_str()).unwrap_or_default();
        BundleFacts {
            name: bundle.name.clone(),
            package: bundle.package.clone(),
            image: bundle.image.clone(),
            version,
            has_objects: !bundle.objects.is_empty(),
            display_name: display_name.to_owned(),
        }
    }

    fn of_body(meta: &Meta) -> Self {
        let fields = Fields::of(&meta.body);
        let image = fields.text("image");
        let related = fields.list("relatedImages").iter();
        let related = related.map(|related| Fields::of(related).get("image").as_str().unwrap_or_default());
        let properties = Properties::parse_list(fields.list("properties"));
        let version = check_bundle(&meta.package, &meta.name, &image, related, properties);
        BundleFacts {
            name: meta.name.clone(),
            package: meta.package.clone(),
            image,
            version,
            has_objects: false,
            display_name: String::new(),
        }
    }
}

fn check_bundle<'a>(
    package: &str,
    name: &str,
    image: &str,
    related: impl Iterator<Item = &'a str>,
    properties: Result<Properties, String>,
) -> Result<VersionRelease, String> {
    let properties = properties.map_err(|error| format!("parse properties for bundle {}: {error}", quote(name)))?;
    let [found] = properties.packages.as_slice() else {
        let count = properties.packages.len();
        return Err(format!(
            "package {} bundle {} must have exactly 1 \"olm.package\" property, found {count}",
            quote(package),
            quote(name)
        ));
    };
    if found.package_name != package {
        return Err(format!(
            "package {} does not match \"olm.package\" property {}",
            quote(package),
            quote(&found.package_name)
        ));
    }
    let check_image = |image: &str, place: &dyn Fn() -> String| match ImageReference::parse(image) {
        Err(error) if !image.is_empty() => Err(format!(
            "package {} bundle {} {}: invalid image pull spec {}: {error}",
            quote(package),
            quote(name),
            place(),
            quote(image)
        )),
        _ => Ok(()),
    };
    check_image(image, &|| "image".to_owned())?;
    for (i, image) in related.enumerate() {
        check_image(image, &|| format!("relatedImages[{i}].image"))?;
    }
    let version = Version::parse(&found.version)
        .map_err(|error| format!("error parsing bundle {} version {}: {error}", quote(name), quote(&found.version)))?;
    let release = Release::parse(&found.release).map_err(|error| {
        format!("error parsing bundle {} release version {}: {error}", quote(name), quote(&found.release))
    })?;
    Ok(VersionRelease { version, release })
}
