//! The manifests of bundles, from wherever they are: the catalog itself, directories beside it, or images.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;

use crate::bundle::{Csv, read_directory};
use crate::fbc::Bundle;
use crate::property;
use crate::render::ImageSource;

/// Manifests that were read once, or why they could not be.
pub type Read = Result<Rc<Vec<Value>>, String>;

/// Finds manifests, and keeps those it found.
pub struct Manifests {
    images: Box<dyn ImageSource>,
    /// With `<package>/<version>` below it.
    directory: Option<PathBuf>,
    /// By name and image.
    known: HashMap<(String, String), Read>,
}

impl Manifests {
    /// Images are pulled from `images` unless the bundle is in `directory`.
    pub fn new(images: Box<dyn ImageSource>, directory: Option<&Path>) -> Self {
        Manifests { images, directory: directory.map(Path::to_path_buf), known: HashMap::new() }
    }

    /// The manifests of a bundle, its ClusterServiceVersion among them.
    pub fn of(&mut self, bundle: &Bundle) -> Read {
        let key = (bundle.name.clone(), bundle.image.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let read = self.read(bundle).map(Rc::new);
        self.known.insert(key, read.clone());
        read
    }

    fn read(&mut self, bundle: &Bundle) -> Result<Vec<Value>, String> {
        let carried: Vec<Value> =
            bundle.objects.iter().filter_map(|object| serde_json::from_str(object).ok()).collect();
        if carried.iter().any(|object| Csv::new(object).is_some()) {
            return Ok(carried);
        }
        if let Some(directory) = &self.directory {
            let version = property::version_release(bundle).map(|it| it.to_string()).unwrap_or_default();
            let path = directory.join(&bundle.package).join(version);
            if path.is_dir() {
                let content = read_directory(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                return Ok(content.objects);
            }
        }
        if bundle.image.is_empty() {
            return Err(format!("bundle {} has neither manifests nor an image", bundle.name));
        }
        let unpacked = self.images.unpack(&bundle.image)?;
        read_directory(unpacked.directory.path())
            .map(|it| it.objects)
            .map_err(|error| format!("{}: {error}", bundle.image))
    }
}
