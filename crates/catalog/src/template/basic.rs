//! The basic template: any objects; a bundle is only its image.

use super::{BASIC, RenderBundle, TemplateKind, entries};
use crate::fbc::{Bundle, Catalog};

pub(super) fn render(text: &str, bundles: &mut RenderBundle) -> Result<Catalog, String> {
    let (_, catalog) = entries(text, TemplateKind::Basic, &BASIC)?;
    let mut catalog = catalog?;
    let mut rendered = Vec::new();
    for bundle in &catalog.bundles {
        if !is_only_an_image(bundle) {
            return Err("unexpected fields present in basic template bundle".to_owned());
        }
        rendered.extend(bundles(&bundle.image)?.bundles);
    }
    catalog.bundles = rendered;
    Ok(catalog)
}

fn is_only_an_image(bundle: &Bundle) -> bool {
    !bundle.image.is_empty()
        && bundle.package.is_empty()
        && bundle.properties.is_empty()
        && bundle.related_images.is_empty()
}
