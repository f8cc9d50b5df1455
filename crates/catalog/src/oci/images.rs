//! Unpacks images from registries and layouts.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::blobs::BlobCache;
use super::build::Image;
use super::layout::Layout;
use super::manifest::{Descriptor, ImageConfig, Manifest};
use super::registry::{OciError, Registry};
use super::unpack::unpack_layer;
use crate::go::quote;
use crate::reference::ImageReference;
use crate::render::{CONFIGS_LABEL, ImageSource, PACKAGE_LABEL, Pinned, Unpacked};

/// A configuration larger than this is none.
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `docker://…` or just a name.
    Registry(ImageReference),
    /// `oci:<directory>[:<tag>]`.
    Layout(PathBuf, Option<String>),
}

impl Transport {
    /// Reads a reference.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("oci:") {
            return Ok(match rest.rsplit_once(':') {
                Some((directory, tag)) if !tag.contains('/') => {
                    Transport::Layout(PathBuf::from(directory), Some(tag.to_owned()))
                }
                _ => Transport::Layout(PathBuf::from(rest), None),
            });
        }
        ImageReference::parse(text.strip_prefix("docker://").unwrap_or(text)).map(Transport::Registry)
    }
}

/// Images from everywhere, through one cache.
pub struct Images {
    registry: Registry,
    cache: BlobCache,
}

impl Images {
    pub fn new(registry: Registry, cache: BlobCache) -> Self {
        Images { registry, cache }
    }

    /// The digest that a name stands for now.
    pub fn resolve(&self, reference: &ImageReference) -> Result<String, OciError> {
        self.registry.manifest(reference, reference.target()).map(|(digest, _)| digest.to_string())
    }

    /// Puts an image under each of its tags.
    pub fn push(&self, image: &Image, repository: &ImageReference, tags: &[String]) -> Result<(), OciError> {
        self.registry.push_blob(repository, &image.layer)?;
        self.registry.push_blob(repository, &image.config)?;
        for tag in tags {
            self.registry.push_manifest(repository, tag, image.media_type(), &image.manifest)?;
        }
        Ok(())
    }

    /// What tells the content of an image: the digest of its configuration, which names its layers.
    pub fn identity(&self, reference: &str) -> Result<String, String> {
        let named = |error: &dyn std::fmt::Display| failed("pull", reference, error);
        let transport = Transport::parse(reference).map_err(|error| named(&error))?;
        let manifest = self.manifest(&transport).map_err(|error| named(&error))?;
        manifest.config.map(|config| config.digest).ok_or_else(|| named(&"the manifest has no configuration"))
    }

    fn manifest(&self, transport: &Transport) -> Result<Manifest, OciError> {
        match transport {
            Transport::Registry(reference) => Ok(self.registry.image_manifest(reference)?.1),
            Transport::Layout(root, tag) => Layout::new(root).image(tag.as_deref()),
        }
    }

    fn parts(&self, transport: &Transport) -> Result<(Manifest, ImageConfig, Vec<PathBuf>), OciError> {
        let invalid = |message: String| OciError::Invalid { reference: format!("{transport:?}"), message };
        let manifest = self.manifest(transport)?;
        let blob = |descriptor: &Descriptor| match transport {
            Transport::Registry(reference) => self.registry.blob(reference, descriptor, &self.cache),
            Transport::Layout(root, _) => Layout::new(root).blob(descriptor).map(|(path, _)| path),
        };
        let config = manifest.config.as_ref().ok_or_else(|| invalid("the manifest has no configuration".to_owned()))?;
        if config.size > MAX_CONFIG_BYTES {
            return Err(invalid(format!("the configuration has {} bytes", config.size)));
        }
        let path = blob(config)?;
        let text = std::fs::read(&path).map_err(|error| OciError::File { path, error })?;
        let config = serde_json::from_slice(&text)
            .map_err(|error| invalid(format!("the configuration {} is not readable: {error}", config.digest)))?;
        let layers = manifest.layers.iter().map(blob).collect::<Result<_, _>>()?;
        Ok((manifest, config, layers))
    }
}

/// A refusal that says what else may have been meant: directories are named where images are.
fn failed(verb: &str, reference: &str, error: &dyn std::fmt::Display) -> String {
    let first = reference.split('/').next().unwrap_or_default();
    let names_registry = reference.starts_with("oci:") || first == "localhost" || first.contains(['.', ':']);
    let is_path = reference.starts_with(['.', '/', '~']) || reference.ends_with('/');
    let hint =
        if verb == "pull" && (is_path || !names_registry) { " (and there is no directory of this name)" } else { "" };
    format!("failed to {verb} image {}: {error}{hint}", quote(reference))
}

impl ImageSource for Images {
    fn pin(&mut self, reference: &str) -> Result<Option<Pinned>, String> {
        let named = |error: &dyn std::fmt::Display| failed("pull", reference, error);
        let transport = Transport::parse(reference).map_err(|error| named(&error))?;
        let Transport::Registry(image) = transport else { return Ok(None) };
        let tagged = ImageReference { digest: None, ..image.clone() };
        let tag = match (&image.digest, &image.tag) {
            (Some(_), None) => None,
            // A tag that is gone does not matter beside a digest.
            (Some(_), Some(tag)) => self.resolve(&tagged).ok().map(|now| (tag.clone(), now)),
            (None, _) => {
                let now = self.resolve(&tagged).map_err(|error| named(&error))?;
                Some((tagged.target().to_owned(), now))
            }
        };
        let digest = image.digest.clone().or_else(|| tag.as_ref().map(|(_, now)| now.clone())).unwrap_or_default();
        let pinned = ImageReference { tag: None, digest: Some(digest.clone()), ..image.clone() };
        Ok(Some(Pinned { reference: pinned.to_string(), digest, is_by_digest: image.digest.is_some(), tag }))
    }

    fn unpack(&mut self, reference: &str) -> Result<Unpacked, String> {
        let named = |verb: &str, error: &dyn std::fmt::Display| failed(verb, reference, error);
        let transport = Transport::parse(reference).map_err(|error| named("pull", &error))?;
        let (manifest, config, layers) = self.parts(&transport).map_err(|error| named("pull", &error))?;
        let labels = config.config.labels;
        let directory = tempfile::Builder::new()
            .prefix("bailiwick-image-")
            .tempdir()
            .map_err(|error| format!("create tempdir: {error}"))?;
        let configs = labels.get(CONFIGS_LABEL).map(|path| path.trim_matches('/').to_owned());
        let is_bundle = labels.contains_key(PACKAGE_LABEL);
        let wanted = |path: &Path| match &configs {
            Some(configs) => path.starts_with(configs),
            None => is_bundle && (path.starts_with("manifests") || path.starts_with("metadata")),
        };
        for (path, descriptor) in layers.iter().zip(&manifest.layers) {
            let file = File::open(path).map_err(|error| named("unpack", &error))?;
            unpack_layer(file, descriptor.size, directory.path(), &wanted)
                .map_err(|error| named("unpack", &format!("layer {}: {error}", descriptor.digest)))?;
        }
        Ok(Unpacked { directory, labels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_told_apart() {
        assert_eq!(
            Transport::parse("oci:/tmp/x:v1"),
            Ok(Transport::Layout(PathBuf::from("/tmp/x"), Some("v1".to_owned())))
        );
        assert_eq!(Transport::parse("oci:dir"), Ok(Transport::Layout(PathBuf::from("dir"), None)));
        assert!(matches!(Transport::parse("docker://quay.io/a/b:c"), Ok(Transport::Registry(_))));
    }
}
