//! A repository of catalogs: one folder for each operator with OWNERS, the template `veneer.yaml` and the rendered
//! `catalog.yaml`. Updating is incremental: a template is rendered again only when it changed since.

use std::io;
use std::path::{Path, PathBuf};

use crate::bundle::Migration;
use crate::fbc::{Output, write_catalog};
use crate::model::validate_catalog;
use crate::oci::Digest;
use crate::render::{Allowed, ImageSource, Renderer};
use crate::template::{TemplateKind, render_template};

const TEMPLATE: &str = "veneer.yaml";
const CATALOG: &str = "catalog.yaml";
const OWNERS: &str = "OWNERS";
/// Remembers which template a catalog was rendered from.
const STATE: &str = ".bailiwick-catalog";
const IGNORE: &str = ".indexignore";
/// A line that takes directories in again would take in everything in them: that is how opm reads these files.
const IGNORED: &str = "# Everything but the rendered catalogs\n*\n!catalog.yaml\n";

/// What went wrong in a repository.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Refused(String),
}

/// A repository of operators.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

/// What became of an operator's catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With what is to be known about its bundles.
    Rendered(Vec<String>),
    /// Neither template nor catalog changed since it was rendered.
    Current,
    Failed(String),
}

/// Lists of a semver template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Candidate,
    Fast,
    Stable,
}

impl Stability {
    fn key(self) -> &'static str {
        match self {
            Stability::Candidate => "Candidate",
            Stability::Fast => "Fast",
            Stability::Stable => "Stable",
        }
    }
}

impl Workspace {
    pub fn new(root: &Path) -> Self {
        Workspace { root: root.to_path_buf() }
    }

    fn folder(&self, operator: &str) -> Result<PathBuf, WorkspaceError> {
        let fits =
            !operator.is_empty() && operator.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !fits {
            return Err(WorkspaceError::Refused(format!(
                "{operator:?} is no name of an operator: lower-case letters, digits and dashes, as the package is called"
            )));
        }
        Ok(self.root.join(operator))
    }

    /// Starts the folder of an operator; what is there stays.
    pub fn init(&self, operator: &str, owners: &[String]) -> Result<PathBuf, WorkspaceError> {
        let folder = self.folder(operator)?;
        if folder.join(TEMPLATE).exists() {
            return Err(WorkspaceError::Refused(format!(
                "{} exists already: add bundles with `bailiwick catalog add {operator} <image>`",
                folder.join(TEMPLATE).display()
            )));
        }
        std::fs::create_dir_all(&folder).map_err(at(&folder))?;
        let approvers: String = owners.iter().map(|owner| format!("- {owner}\n")).collect();
        let approvers = if approvers.is_empty() { "[]\n".to_owned() } else { format!("\n{approvers}") };
        let separator = if approvers.starts_with('\n') { "" } else { " " };
        write_new(&folder.join(OWNERS), &format!("approvers:{separator}{approvers}"))?;
        write_new(
            &folder.join(TEMPLATE),
            "Schema: olm.semver\nGenerateMajorChannels: true\nGenerateMinorChannels: true\n",
        )?;
        write_new(&self.root.join(IGNORE), IGNORED)?;
        Ok(folder)
    }

    /// Adds images to a list of a semver template and renders it; nothing is written when that fails. Returns what is
    /// to be known about the bundles.
    pub fn add(
        &self,
        operator: &str,
        stability: Stability,
        added: &[String],
        images: &mut dyn ImageSource,
    ) -> Result<Vec<String>, WorkspaceError> {
        let folder = self.folder(operator)?;
        let path = folder.join(TEMPLATE);
        let text = read_template(&path, operator)?;
        let located = |error: String| WorkspaceError::Refused(format!("{error}\n  in {}", path.display()));
        let changed = with_images(&text, stability, added).map_err(located)?;
        let (catalog, warnings) = render(&changed, images).map_err(located)?;
        write_whole(&path, &changed)?;
        write_whole(&folder.join(CATALOG), &catalog)?;
        self.remember(&folder, &changed, &catalog)?;
        Ok(warnings)
    }

    /// The operators of the repository, by name.
    pub fn operators(&self) -> Result<Vec<String>, WorkspaceError> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(at(&self.root))? {
            let entry = entry.map_err(at(&self.root))?;
            if entry.path().join(TEMPLATE).is_file() {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        found.sort();
        Ok(found)
    }

    /// Renders one operator's catalog if its template changed, or `always`.
    pub fn update(&self, operator: &str, freshness: Freshness, images: &mut dyn ImageSource) -> Outcome {
        let result = self.folder(operator).and_then(|folder| {
            let path = folder.join(TEMPLATE);
            let template = read_template(&path, operator)?;
            if freshness == Freshness::WhenChanged && self.is_current(&folder, &template) {
                return Ok(Outcome::Current);
            }
            let (catalog, warnings) = render(&template, images).map_err(|error| {
                let hint = if names_no_image(&template) {
                    format!("\n  add a bundle with `bailiwick catalog add {operator} <image>`")
                } else {
                    String::new()
                };
                WorkspaceError::Refused(format!("{error}\n  in {}{hint}", path.display()))
            })?;
            write_whole(&folder.join(CATALOG), &catalog)?;
            self.remember(&folder, &template, &catalog)?;
            Ok(Outcome::Rendered(warnings))
        });
        result.unwrap_or_else(|error| Outcome::Failed(error.to_string()))
    }

    /// When the files of an operator changed last: what has the same stamp need not be looked at again.
    pub fn stamp(&self, operator: &str) -> Stamp {
        let folder = self.root.join(operator);
        let changed = |name: &str| {
            let meta = std::fs::metadata(folder.join(name)).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        };
        Stamp([TEMPLATE, CATALOG, STATE].map(changed))
    }

    fn is_current(&self, folder: &Path, template: &str) -> bool {
        let catalog = std::fs::read_to_string(folder.join(CATALOG)).unwrap_or_default();
        std::fs::read_to_string(folder.join(STATE)).is_ok_and(|state| state == digests(template, &catalog))
    }

    fn remember(&self, folder: &Path, template: &str, catalog: &str) -> Result<(), WorkspaceError> {
        write_whole(&folder.join(STATE), &digests(template, catalog))
    }
}

/// Times and sizes of an operator's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp([Option<(std::time::SystemTime, u64)>; 3]);

fn read_template(path: &Path, operator: &str) -> Result<String, WorkspaceError> {
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => WorkspaceError::Refused(format!(
            "there is no {}: start with `bailiwick catalog init {operator}`",
            path.display()
        )),
        _ => WorkspaceError::File { path: path.to_path_buf(), error },
    })?;
    let located = |message: String| WorkspaceError::Refused(format!("{message}\n  in {}", path.display()));
    let text = crate::template::text_of(bytes).map_err(located)?;
    // opm takes one of them; here it is certainly a mistake.
    match crate::template::tolerated(&text) {
        Some(fault) => Err(located(fault)),
        None => Ok(text),
    }
}

/// As a template is that was just started.
fn names_no_image(template: &str) -> bool {
    !template.to_ascii_lowercase().contains("image:")
}

/// When to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    WhenChanged,
    Always,
}

fn digests(template: &str, catalog: &str) -> String {
    format!("template {}\ncatalog {}\n", Digest::of(template.as_bytes()), Digest::of(catalog.as_bytes()))
}

fn at(path: &Path) -> impl Fn(io::Error) -> WorkspaceError + use<> {
    let path = path.to_path_buf();
    move |error| WorkspaceError::File { path: path.clone(), error }
}

fn write_new(path: &Path, text: &str) -> Result<(), WorkspaceError> {
    if path.exists() { Ok(()) } else { write_whole(path, text) }
}

fn write_whole(path: &Path, text: &str) -> Result<(), WorkspaceError> {
    let partial = path.with_extension("part");
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&partial);
        at(path)(error)
    })
}

/// The catalog, and what is to be known about its bundles.
fn render(template: &str, images: &mut dyn ImageSource) -> Result<(String, Vec<String>), String> {
    let kind = TemplateKind::detect(template)?;
    let mut warnings = Vec::new();
    let mut bundles = |image: &str| {
        let migration = Migration::BundleObjectToCsvMetadata;
        let mut renderer = Renderer {
            images: &mut *images,
            allowed: Allowed::BundleImages,
            migration,
            image_template: None,
            warnings: Vec::new(),
        };
        let rendered = renderer.render(&[image.to_owned()]);
        warnings.append(&mut renderer.warnings);
        rendered
    };
    let rendered = render_template(kind, template, &mut bundles)?;
    validate_catalog(&rendered.catalog)?;
    Ok((write_catalog(&rendered.catalog, Output::Yaml), warnings))
}

/// Adds images at the end of a list, leaving the rest of the text alone, comments included.
fn with_images(text: &str, stability: Stability, added: &[String]) -> Result<String, String> {
    let decoded = bailiwick_machinery::yaml::decode(text).map_err(|error| error.to_string())?;
    let fields = crate::fbc::Fields::of(&decoded.value);
    if fields.text("schema") != "olm.semver" {
        return Err("only semver templates can be added to; edit the others by hand".to_owned());
    }
    let list = crate::fbc::Fields::of(fields.get(stability.key())).list("bundles");
    let known: Vec<String> = list.iter().map(|it| crate::fbc::Fields::of(it).text("image")).collect();
    if let Some(twice) = added.iter().find(|image| known.contains(image)) {
        return Err(format!("{twice} is in the {} list already", stability.key()));
    }
    if let Some((_, twice)) = added.iter().enumerate().find(|(at, image)| added.iter().take(*at).any(|it| it == *image))
    {
        return Err(format!("{twice} is named twice"));
    }
    // It becomes a line of YAML.
    if let Some(odd) = added.iter().find(|image| image.is_empty() || image.contains(|c: char| c.is_whitespace())) {
        return Err(format!("{odd:?} is no name of an image"));
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let key = |line: &str| line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_top = |line: &str| line.starts_with(|c: char| c.is_alphabetic());
    let start = lines.iter().position(|line| is_top(line) && key(line) == stability.key().to_ascii_lowercase());
    let Some(start) = start else {
        lines.push(format!("{}:", stability.key()));
        lines.push("  Bundles:".to_owned());
        lines.extend(added.iter().map(|image| format!("  - Image: {image}")));
        return Ok(lines.join("\n") + "\n");
    };
    let end = lines.iter().skip(start + 1).position(|line| is_top(line)).map_or(lines.len(), |at| start + 1 + at);
    let last = lines.get(start..end).unwrap_or_default().iter().rposition(|line| line.trim_start().starts_with('-'));
    let Some(last) = last.map(|at| start + at) else {
        return Err(format!("the {} list is not written line by line; add the image by hand", stability.key()));
    };
    let model = lines.get(last).cloned().unwrap_or_default();
    let indent: String = model.chars().take_while(|c| *c == ' ').collect();
    let word = if model.contains("Image") { "Image" } else { "image" };
    let new: Vec<String> = added.iter().map(|image| format!("{indent}- {word}: {image}")).collect();
    lines.splice(last + 1..last + 1, new);
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_added_where_a_person_would() {
        let text =
            "Schema: olm.semver\nStable:\n  Bundles:\n  # first\n  - Image: a:v1\nFast:\n  Bundles:\n  - Image: b\n";
        let added = with_images(text, Stability::Stable, &["a:v2".to_owned()]).unwrap();
        assert_eq!(added, text.replace("a:v1\n", "a:v1\n  - Image: a:v2\n"));
        let new = with_images("schema: olm.semver\n", Stability::Candidate, &["c".to_owned()]).unwrap();
        assert_eq!(new, "schema: olm.semver\nCandidate:\n  Bundles:\n  - Image: c\n");
        assert!(with_images(text, Stability::Fast, &["b".to_owned()]).unwrap_err().contains("already"));
    }

    #[test]
    fn starting_twice_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(dir.path());
        workspace.init("foo", &["alice".to_owned()]).unwrap();
        assert!(workspace.init("foo", &[]).unwrap_err().to_string().contains("catalog add foo"));
        assert!(workspace.init("../x", &[]).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("foo/OWNERS")).unwrap(), "approvers:\n- alice\n");
        assert_eq!(workspace.operators().unwrap(), ["foo"]);
    }
}
