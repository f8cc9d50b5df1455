//! Is a catalog what its images hold? Renders every bundle again, by its image, and compares.

use crate::bundle::Migration;
use crate::diff::bundle_changes;
use crate::fbc::Catalog;
use crate::property;
use crate::render::{Allowed, ImageSource, Renderer};

/// What was found about one bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// From the catalog to the image.
    Different(Vec<String>),
    /// The image could not be had or rendered.
    Unknown(String),
}

/// Verifies the bundles of a catalog, or of one package of it.
pub fn verify(catalog: &Catalog, package: Option<&str>, images: &mut dyn ImageSource) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    for bundle in catalog.bundles.iter().filter(|it| package.is_none_or(|package| it.package == package)) {
        if bundle.image.is_empty() {
            verdicts.push((bundle.name.clone(), Verdict::Unknown("it names no image".to_owned())));
            continue;
        }
        // Rendered in the form in which the catalog has it.
        let migrated = !bundle.properties.iter().any(|it| it.kind == property::BUNDLE_OBJECT);
        let migration = if migrated { Migration::BundleObjectToCsvMetadata } else { Migration::None };
        let mut renderer = Renderer {
            images: &mut *images,
            allowed: Allowed::BundleImages,
            migration,
            image_template: None,
            warnings: Vec::new(),
        };
        let verdict = match renderer.render(std::slice::from_ref(&bundle.image)) {
            Err(error) => Verdict::Unknown(error),
            Ok(rendered) => match rendered.bundles.as_slice() {
                [found] => {
                    let mut changes = bundle_changes(bundle, found);
                    if bundle.name != found.name {
                        changes.push(format!("name {} -> {}", bundle.name, found.name));
                    }
                    if changes.is_empty() { Verdict::Same } else { Verdict::Different(changes) }
                }
                many => Verdict::Unknown(format!("the image holds {} bundles", many.len())),
            },
        };
        verdicts.push((bundle.name.clone(), verdict));
    }
    verdicts
}
