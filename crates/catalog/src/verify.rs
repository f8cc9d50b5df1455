//! Is a catalog what its images hold? Renders every bundle again, by the digest that its image has now, and compares. A
//! tag that has moved is told: the catalog may be right, and still not be what is installed.

use crate::bundle::Migration;
use crate::diff::bundle_changes;
use crate::fbc::{Bundle, Catalog};
use crate::property;
use crate::render::{Allowed, ImageSource, Pinned, Renderer, Unpacked};

/// What was found about one bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// From the catalog to the image.
    Different(Vec<String>),
    /// The image could not be had or rendered.
    Unknown(String),
}

/// One bundle, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub bundle: String,
    pub verdict: Verdict,
    /// The digest by which it was rendered again, where there is one.
    pub digest: Option<String>,
    /// That the image's tag is not, or may not be, what it was when the catalog was rendered.
    pub moved: Option<String>,
}

/// Verifies the bundles of a catalog, or of one package of it.
pub fn verify(catalog: &Catalog, package: Option<&str>, images: &mut dyn ImageSource) -> Vec<Finding> {
    let bundles = catalog.bundles.iter().filter(|it| package.is_none_or(|package| it.package == package));
    bundles.map(|bundle| look_at(bundle, images)).collect()
}

fn look_at(bundle: &Bundle, images: &mut dyn ImageSource) -> Finding {
    let unknown = |reason: String| Finding {
        bundle: bundle.name.clone(),
        verdict: Verdict::Unknown(reason),
        digest: None,
        moved: None,
    };
    if bundle.image.is_empty() {
        return unknown("it names no image".to_owned());
    }
    let pinned = match images.pin(&bundle.image) {
        Ok(pinned) => pinned,
        Err(error) => return unknown(error),
    };
    let reference = pinned.as_ref().map_or(&bundle.image, |pinned| &pinned.reference).clone();
    let verdict = compare(bundle, &mut ByDigest { images, reference });
    let moved = pinned.as_ref().and_then(|pinned| moved(pinned, &verdict));
    Finding { bundle: bundle.name.clone(), verdict, digest: pinned.map(|it| it.digest), moved }
}

fn compare(bundle: &Bundle, images: &mut dyn ImageSource) -> Verdict {
    // Rendered in the form in which the catalog has it.
    let migrated = !bundle.properties.iter().any(|it| it.kind == property::BUNDLE_OBJECT);
    let migration = if migrated { Migration::BundleObjectToCsvMetadata } else { Migration::None };
    let mut renderer =
        Renderer { images, allowed: Allowed::BundleImages, migration, image_template: None, warnings: Vec::new() };
    match renderer.render(std::slice::from_ref(&bundle.image)) {
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
    }
}

/// A catalog that names a digest says where the tag was; of a tag alone only the content tells.
fn moved(pinned: &Pinned, verdict: &Verdict) -> Option<String> {
    let (tag, now) = pinned.tag.as_ref()?;
    match pinned.is_by_digest {
        true => (*now != pinned.digest)
            .then(|| format!("tag {tag} has moved: the catalog says {}, and it is {now} now", pinned.digest)),
        false => matches!(verdict, Verdict::Different(_)).then(|| {
            format!(
                "tag {tag} is {now} now, which is not what was rendered: it has moved since, or the catalog was edited"
            )
        }),
    }
}

/// Whatever is asked for, this image is meant: the renderer knows it by the name that the catalog has.
struct ByDigest<'i> {
    images: &'i mut dyn ImageSource,
    reference: String,
}

impl ImageSource for ByDigest<'_> {
    fn unpack(&mut self, _: &str) -> Result<Unpacked, String> {
        self.images.unpack(&self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_moved_when_its_digest_or_its_content_is_another() {
        let pinned = |is_by_digest, digest: &str| Pinned {
            reference: "r@d".to_owned(),
            digest: digest.to_owned(),
            is_by_digest,
            tag: Some(("v1".to_owned(), "sha256:b".to_owned())),
        };
        assert_eq!(moved(&pinned(true, "sha256:b"), &Verdict::Same), None);
        assert!(moved(&pinned(true, "sha256:a"), &Verdict::Same).is_some_and(|it| it.contains("sha256:a")));
        assert_eq!(moved(&pinned(false, "sha256:b"), &Verdict::Same), None);
        let different = Verdict::Different(vec!["x".to_owned()]);
        assert!(moved(&pinned(false, "sha256:b"), &different).is_some_and(|it| it.contains("v1 is sha256:b now")));
    }
}
