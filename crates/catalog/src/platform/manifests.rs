//! The manifests of bundles, from wherever they are: the catalog itself, directories beside it, or images.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;

use crate::bundle::{BundleContent, Csv, Migration, migrate, read_directory, render};
use crate::fbc::{Bundle, Catalog};
use crate::property;
use crate::render::{Allowed, ImageSource, Renderer};

/// Manifests that were read once, or why they could not be.
pub type Read = Result<Rc<Vec<Value>>, String>;

/// Finds manifests, and keeps those it found.
pub struct Manifests {
    images: Box<dyn ImageSource>,
    /// With `<package>/<version>` below it.
    directory: Option<PathBuf>,
    /// By name and image.
    known: HashMap<(String, String), Read>,
    /// What is wrong with the files of bundles although they could be read, by name and image.
    faults: HashMap<(String, String), Vec<String>>,
}

impl Manifests {
    /// Images are pulled from `images` unless the bundle is in `directory`.
    pub fn new(images: Box<dyn ImageSource>, directory: Option<&Path>) -> Self {
        Manifests { images, directory: directory.map(Path::to_path_buf), known: HashMap::new(), faults: HashMap::new() }
    }

    /// The manifests of a bundle, its ClusterServiceVersion among them.
    pub fn of(&mut self, bundle: &Bundle) -> Read {
        let key = (bundle.name.clone(), bundle.image.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let mut faults = Vec::new();
        let read = self.read(bundle, &mut faults).map(Rc::new);
        self.faults.insert(key.clone(), faults);
        self.known.insert(key, read.clone());
        read
    }

    /// What is wrong with the files of a bundle that was read.
    pub(super) fn faults_of(&self, bundle: &Bundle) -> &[String] {
        self.faults.get(&(bundle.name.clone(), bundle.image.clone())).map_or(&[], Vec::as_slice)
    }

    fn read(&mut self, bundle: &Bundle, faults: &mut Vec<String>) -> Result<Vec<Value>, String> {
        let mut carried: Vec<Value> = Vec::new();
        let mut broken = Vec::new();
        for (at, object) in bundle.objects.iter().enumerate() {
            match serde_json::from_str(object) {
                Ok(object) => carried.push(object),
                Err(error) => broken.push(format!("{}: its olm.bundle.object {at} is no JSON: {error}", bundle.name)),
            }
        }
        if carried.iter().any(|object| Csv::new(object).is_some()) {
            faults.append(&mut broken);
            return Ok(carried);
        }
        let content = self.content(bundle)?;
        faults.extend(content.faults.iter().map(|fault| format!("{}: {fault}", bundle.name)));
        Ok(content.objects)
    }

    /// The files of a bundle.
    fn content(&mut self, bundle: &Bundle) -> Result<BundleContent, String> {
        if let Some(path) = self.beside(bundle) {
            return read_directory(&path).map_err(|error| format!("{}: {error}", path.display()));
        }
        if bundle.image.is_empty() {
            return Err(format!("bundle {} has neither manifests nor an image", bundle.name));
        }
        let unpacked = self.images.unpack(&bundle.image)?;
        read_directory(unpacked.directory.path()).map_err(|error| format!("{}: {error}", bundle.image))
    }

    /// The directory of a bundle, if there are directories and one of them is it.
    fn beside(&self, bundle: &Bundle) -> Option<PathBuf> {
        let version = property::version_release(bundle).map(|it| it.to_string()).unwrap_or_default();
        let path = self.directory.as_ref()?.join(&bundle.package).join(version);
        path.is_dir().then_some(path)
    }

    /// Renders a bundle image again, from the directory of the bundle that the catalog has for it if there is one.
    pub(super) fn render(
        &mut self,
        image: &str,
        known: Option<&Bundle>,
        migration: Migration,
    ) -> Result<Catalog, String> {
        if let Some(path) = known.and_then(|bundle| self.beside(bundle)) {
            let content = read_directory(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let rendered = render(&content, image).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut catalog = Catalog { bundles: vec![rendered], ..Catalog::default() };
            migrate(&mut catalog, migration)?;
            return Ok(catalog);
        }
        let mut renderer = Renderer {
            images: self.images.as_mut(),
            allowed: Allowed::BundleImages,
            migration,
            image_template: None,
            warnings: Vec::new(),
        };
        renderer.render(&[image.to_owned()])
    }
}
