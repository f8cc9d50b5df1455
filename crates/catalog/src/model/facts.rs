//! What of a catalog's objects the graph needs. Bundles are the bulk of a catalog; of each only its name, image and
//! version stay.

use crate::fbc::{
    BUNDLE, Bundle, Catalog, Channel, Deprecation, Fields, Meta, Object, Objects, Package, RelatedImage, schema,
};
use crate::go::{Shape, check, quote};
use crate::property::{Order, Properties};
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
        if meta.schema == schema::BUNDLE {
            return Fact::of_bundle(&meta, Order::Written);
        }
        Ok(match Object::new(meta)? {
            Object::Package(package) => Fact::Package(package),
            Object::Channel(channel) => Fact::Channel(channel),
            Object::Bundle(bundle) => Fact::Bundle(BundleFacts::new(&bundle)),
            Object::Deprecation(deprecation) => Fact::Deprecation(deprecation),
            Object::Other(_) => Fact::Other,
        })
    }

    /// Reads a bundle.
    pub(crate) fn of_bundle(meta: &Meta, order: Order) -> Result<Self, String> {
        BundleFacts::of_document(meta, &Properties::of_document(meta, order), order).map(Fact::Bundle)
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

impl BundleFacts {
    /// Of a bundle in memory.
    pub fn new(bundle: &Bundle) -> Self {
        let properties = Properties::parse(&bundle.properties);
        let images = bundle.related_images.iter().map(|RelatedImage { image, .. }| image.as_str());
        BundleFacts {
            name: bundle.name.clone(),
            package: bundle.package.clone(),
            image: bundle.image.clone(),
            version: check_bundle(&bundle.package, &bundle.name, &bundle.image, images, &properties),
            has_objects: !bundle.objects.is_empty(),
            display_name: display_name(&bundle.csv_json),
        }
    }

    /// Of a document, without making a bundle of it.
    pub(crate) fn of_document(
        meta: &Meta,
        properties: &Result<Properties, String>,
        order: Order,
    ) -> Result<Self, String> {
        check(&meta.body, Shape::Struct(&BUNDLE)).map_err(|error| format!("parse bundle: {error}"))?;
        let fields = Fields::of(&meta.body);
        let objects = Objects::read(&meta.package, &meta.name, fields.list("properties"))?;
        let image = fields.text("image");
        let related = fields.list("relatedImages").iter();
        let mut related: Vec<&str> =
            related.map(|related| Fields::of(related).get("image").as_str().unwrap_or_default()).collect();
        if order == Order::Rendered {
            related.sort_unstable();
        }
        Ok(BundleFacts {
            name: meta.name.clone(),
            package: meta.package.clone(),
            version: check_bundle(&meta.package, &meta.name, &image, related.into_iter(), properties),
            image,
            has_objects: !objects.all.is_empty(),
            display_name: display_name(&objects.csv),
        })
    }
}

/// What a ClusterServiceVersion is called, without building all of it.
fn display_name(csv: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Shown {
        spec: Spec,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        display_name: String,
    }
    serde_json::from_str::<Shown>(csv).map(|csv| csv.spec.display_name).unwrap_or_default()
}

fn check_bundle<'a>(
    package: &str,
    name: &str,
    image: &str,
    related: impl Iterator<Item = &'a str>,
    properties: &Result<Properties, String>,
) -> Result<VersionRelease, String> {
    let properties =
        properties.as_ref().map_err(|error| format!("parse properties for bundle {}: {error}", quote(name)))?;
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
