//! Image layouts: directories of blobs with an index, as OCI defines them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::build::Image;
use super::digest::Digest;
use super::manifest::{Descriptor, Manifest, OCI_INDEX, OCI_MANIFEST};
use super::registry::OciError;

const TAG_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// A layout on disk.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// A directory that holds one, or will.
    pub fn new(root: &Path) -> Self {
        Layout { root: root.to_path_buf() }
    }

    fn invalid(&self, message: impl Into<String>) -> OciError {
        OciError::Invalid { reference: self.root.display().to_string(), message: message.into() }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, OciError> {
        let path = self.root.join(path);
        fs::read(&path).map_err(|error| OciError::File { path, error })
    }

    fn index(&self) -> Result<Manifest, OciError> {
        let text = self.read("index.json")?;
        serde_json::from_slice(&text).map_err(|error| self.invalid(format!("index.json is not readable: {error}")))
    }

    /// A blob, checked.
    pub fn blob(&self, descriptor: &Descriptor) -> Result<(PathBuf, Vec<u8>), OciError> {
        let digest = Digest::parse(&descriptor.digest)
            .ok_or_else(|| self.invalid(format!("unsupported digest {:?}", descriptor.digest)))?;
        let path = format!("blobs/sha256/{}", digest.hex());
        let data = self.read(&path)?;
        let found = Digest::of(&data);
        if found != digest {
            return Err(OciError::WrongDigest {
                reference: self.root.display().to_string(),
                expected: digest.to_string(),
                found: found.to_string(),
            });
        }
        Ok((self.root.join(path), data))
    }

    /// The image with a tag, or the only one.
    pub fn image(&self, tag: Option<&str>) -> Result<Manifest, OciError> {
        let index = self.index()?;
        let tagged =
            |it: &&Descriptor| tag.is_none_or(|tag| it.annotations.get(TAG_ANNOTATION).is_some_and(|it| it == tag));
        let mut chosen = index.manifests.iter().find(tagged).cloned().ok_or_else(|| match tag {
            Some(tag) => self.invalid(format!("no image is tagged {tag:?}")),
            None => self.invalid("there is no image"),
        })?;
        for _ in 0..3 {
            let (_, data) = self.blob(&chosen)?;
            let manifest: Manifest = serde_json::from_slice(&data)
                .map_err(|error| self.invalid(format!("the manifest {} is not readable: {error}", chosen.digest)))?;
            match manifest.choose() {
                None => return Ok(manifest),
                Some(next) => chosen = next.clone(),
            }
        }
        Err(self.invalid("the index does not lead to an image"))
    }

    /// Adds an image under tags; others stay.
    pub fn write(&self, image: &Image, tags: &[String]) -> Result<(), OciError> {
        let blobs = self.root.join("blobs/sha256");
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error: io::Error| OciError::File { path, error }
        };
        fs::create_dir_all(&blobs).map_err(at(&blobs))?;
        for data in [&image.layer, &image.config, &image.manifest] {
            let path = blobs.join(Digest::of(data).hex());
            if !path.is_file() {
                write_whole(&path, data).map_err(at(&path))?;
            }
        }
        let mut index = if self.root.join("index.json").is_file() { self.index()? } else { Manifest::default() };
        index.schema_version = 2;
        index.media_type = OCI_INDEX.to_owned();
        let names: Vec<Option<&String>> = if tags.is_empty() { vec![None] } else { tags.iter().map(Some).collect() };
        for tag in names {
            index.manifests.retain(|it| tag.is_none() || it.annotations.get(TAG_ANNOTATION) != tag);
            index.manifests.push(Descriptor {
                media_type: OCI_MANIFEST.to_owned(),
                digest: image.digest().to_string(),
                size: image.manifest.len() as u64,
                annotations: tag.map(|tag| (TAG_ANNOTATION.to_owned(), tag.clone())).into_iter().collect(),
                platform: None,
            });
        }
        index.manifests.sort_by(|a, b| (&a.annotations, &a.digest).cmp(&(&b.annotations, &b.digest)));
        index.manifests.dedup();
        let layout = self.root.join("oci-layout");
        write_whole(&layout, b"{\"imageLayoutVersion\":\"1.0.0\"}").map_err(at(&layout))?;
        let path = self.root.join("index.json");
        let text = serde_json::to_vec(&index).map_err(|error| self.invalid(error.to_string()))?;
        write_whole(&path, &text).map_err(at(&path))
    }
}

/// Nothing is ever seen half-written.
fn write_whole(path: &Path, data: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("part");
    fs::write(&partial, data)?;
    fs::rename(partial, path)
}
