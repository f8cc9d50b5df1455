//! Renders references into one catalog: bundle directories, catalog directories and, through a puller, images.

use std::io::Read as _;
use std::path::Path;

use crate::bundle::{self, Migration, migrate};
use crate::fbc::{self, Catalog};
use crate::go::quote;
use crate::property;

/// Gets the content of an image into a directory.
pub trait ImageSource {
    /// Pulls and unpacks an image. The directory lives as long as what is returned.
    fn unpack(&mut self, reference: &str) -> Result<Unpacked, String>;

    /// Which digest an image has now; `None` for what is not in a registry.
    fn pin(&mut self, _reference: &str) -> Result<Option<Pinned>, String> {
        Ok(None)
    }
}

/// An image by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The name with the digest and without a tag.
    pub reference: String,
    pub digest: String,
    /// Whether the digest was named, and not found out.
    pub is_by_digest: bool,
    /// The tag that was named, or `latest` where nothing was, and the digest it stands for now.
    pub tag: Option<(String, String)>,
}

/// An image on disk.
pub struct Unpacked {
    /// Removed when this is dropped.
    pub directory: tempfile::TempDir,
    pub labels: std::collections::BTreeMap<String, String>,
}

/// For commands that take no images.
pub struct NoImages;

impl ImageSource for NoImages {
    fn unpack(&mut self, reference: &str) -> Result<Unpacked, String> {
        Err(format!("failed to pull image {}: no such file or directory", quote(reference)))
    }
}

/// Where an image says its catalog is.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// Where an image says its database is; OLM dropped this format.
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
/// Which package a bundle image says it belongs to.
pub const PACKAGE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";
const DATABASE_MESSAGE: &str = "sqlite catalogs are no longer supported by OLM: migrate with an opm before 1.74 \
    (`opm migrate`) and use the file-based catalog";

/// What may be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    Everything,
    /// Catalogs, as directories and images.
    Catalogs,
    BundleImages,
}

/// How a refusal ends where only catalogs are wanted and the image is a bundle.
pub const BUNDLE_IMAGE_REFUSED: &str = "cannot render bundle image: not allowed";

/// By how the file begins.
fn is_database(path: &Path) -> bool {
    const BEGINNING: &[u8] = b"SQLite format 3\0";
    let mut beginning = [0; BEGINNING.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == BEGINNING
}

/// How to render.
pub struct Renderer<'s> {
    pub images: &'s mut dyn ImageSource,
    pub allowed: Allowed,
    pub migration: Migration,
    /// Names the image of a bundle directory: `{{.Package}}`, `{{.Name}}` and `{{.Version}}` are replaced.
    pub image_template: Option<String>,
    /// What was found out about bundles that opm does not tell.
    pub warnings: Vec<String>,
}

impl Renderer<'_> {
    /// Renders references, in order, into one catalog.
    pub fn render(&mut self, references: &[String]) -> Result<Catalog, String> {
        let mut out = Catalog::default();
        for reference in references {
            let mut catalog = self
                .render_one(reference)
                .map_err(|error| format!("render reference {}: {error}", quote(reference)))?;
            for bundle in &mut catalog.bundles {
                move_heavy_properties(bundle);
                bundle.related_images.sort_by(|a, b| a.image.cmp(&b.image));
            }
            migrate(&mut catalog, self.migration).map_err(|error| format!("migrate: {error}"))?;
            out.merge(catalog);
        }
        Ok(out)
    }

    fn render_one(&mut self, reference: &str) -> Result<Catalog, String> {
        let path = Path::new(reference);
        if path.is_dir() {
            if path.join("manifests").is_dir() && path.join("metadata").is_dir() {
                if self.allowed != Allowed::Everything {
                    return Err(format!("cannot render bundle directory {}: not allowed", quote(reference)));
                }
                return self.render_bundle(path, "");
            }
            if self.allowed == Allowed::BundleImages {
                return Err("cannot render declarative config directory: not allowed".to_owned());
            }
            return fbc::load(path).map_err(|error| error.located());
        }
        if path.is_file() {
            if is_database(path) {
                return Err(DATABASE_MESSAGE.to_owned());
            }
            return Err(format!("ref {} has unsupported file type: unknown", quote(reference)));
        }
        let unpacked = self.images.unpack(reference)?;
        let labels = &unpacked.labels;
        if labels.contains_key(DATABASE_LABEL) {
            return Err(DATABASE_MESSAGE.to_owned());
        }
        if let Some(configs) = labels.get(CONFIGS_LABEL) {
            if self.allowed == Allowed::BundleImages {
                return Err("cannot render declarative config image: not allowed".to_owned());
            }
            let root = inside(unpacked.directory.path(), configs)?;
            return fbc::load(&root).map_err(|error| error.located());
        }
        if labels.contains_key(PACKAGE_LABEL) {
            if self.allowed == Allowed::Catalogs {
                return Err(BUNDLE_IMAGE_REFUSED.to_owned());
            }
            return self.render_bundle(unpacked.directory.path(), reference);
        }
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("  {key}={value}")).collect();
        if labels.is_empty() {
            return Err(format!(
                "render {}: image type could not be determined: image has no labels",
                quote(reference)
            ));
        }
        let labels = labels.join("\n");
        Err(format!("render {}: image type could not be determined, found labels\n{labels}", quote(reference)))
    }

    fn render_bundle(&mut self, root: &Path, image: &str) -> Result<Catalog, String> {
        let content = bundle::read_directory(root).map_err(|error| error.to_string())?;
        let place = if image.is_empty() { root.display().to_string() } else { image.to_owned() };
        self.warnings.extend(content.faults.iter().map(|fault| format!("{place}: {fault}")));
        let mut image = image.to_owned();
        if let (Some(template), true) = (&self.image_template, image.is_empty()) {
            let version = content.csv().map_or(Ok(String::new()), |csv| csv.version())?;
            image = fill(template, &content.package, &content.name, &version)
                .map_err(|error| format!("failed templating image reference from bundle: {error}"))?;
        }
        Ok(Catalog { bundles: vec![bundle::render(&content, &image)?], ..Catalog::default() })
    }
}

/// A path that a label names, which may not leave the image.
pub fn inside(root: &Path, path: &str) -> Result<std::path::PathBuf, String> {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let mut out = root.to_path_buf();
    for part in parts {
        if part == ".." {
            return Err(format!("the path {} of the image's label leaves the image", quote(path)));
        }
        out.push(part);
    }
    Ok(out)
}

fn move_heavy_properties(bundle: &mut fbc::Bundle) {
    let is_heavy =
        |it: &fbc::Property| matches!(it.kind.as_str(), property::BUNDLE_OBJECT | property::CSV_METADATA_TYPE);
    let (heavy, mut light): (Vec<_>, Vec<_>) = std::mem::take(&mut bundle.properties).into_iter().partition(is_heavy);
    light.extend(heavy);
    bundle.properties = light;
}

fn fill(template: &str, package: &str, name: &str, version: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (variable, after) = after.split_once("}}").ok_or("unclosed action")?;
        out.push_str(before);
        out.push_str(match variable.trim() {
            ".Package" => package,
            ".Name" => name,
            ".Version" => version,
            other => return Err(format!("{} is none of .Package, .Name and .Version", quote(other))),
        });
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
