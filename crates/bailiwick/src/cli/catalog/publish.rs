//! `build` and `build-bundle`: images, into layouts and registries.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::model::validate as validate_directory;
use bailiwick_catalog::oci::{BuildOptions, Image, Layout, build_catalog, build_directory};
use bailiwick_catalog::reference::ImageReference;

use super::images::ImageArgs;

#[derive(clap::Args)]
pub(super) struct Target {
    /// Image names to build, such as `quay.io/me/catalog:main`; may be given several times.
    #[arg(long, short)]
    tag: Vec<String>,
    /// Write an OCI layout into this directory.
    #[arg(long, value_name = "DIR")]
    layout: Option<PathBuf>,
    /// Push to the registries of the image names.
    #[arg(long)]
    push: bool,
    /// More labels, as `key=value`.
    #[arg(long, short = 'l', value_delimiter = ',')]
    extra_labels: Vec<String>,
    #[command(flatten)]
    images: ImageArgs,
}

#[derive(clap::Args)]
pub struct Build {
    /// The catalog directory.
    directory: PathBuf,
    /// A released version, `vX.Y.Z`: each repository named by --tag gets this tag and `latest`.
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
pub struct BuildBundle {
    /// The bundle directory, with `manifests` and `metadata`.
    directory: PathBuf,
    #[command(flatten)]
    target: Target,
}

impl Target {
    pub(super) fn labels(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let pairs = self.extra_labels.iter().map(|label| {
            let (key, value) = label.split_once('=').ok_or_else(|| anyhow!("invalid label {label:?}"))?;
            Ok((key.to_owned(), value.to_owned()))
        });
        pairs.collect()
    }

    /// Writes and pushes an image, then says what it is called.
    pub(super) fn publish(&self, image: &Image, release: Option<&str>) -> anyhow::Result<()> {
        let mut named: Vec<(ImageReference, Vec<String>)> = Vec::new();
        for name in &self.tag {
            let reference = ImageReference::parse(name).map_err(|error| anyhow!("{name}: {error}"))?;
            let tags = match (release, &reference.tag) {
                (Some(release), None) => vec![release.to_owned(), "latest".to_owned()],
                (Some(release), Some(tag)) => bail!(
                    "--tag {name} says {tag:?} and --release says {release:?}: name only the repository, which gets \
                     {release} and latest"
                ),
                (_, Some(tag)) => vec![tag.clone()],
                (None, None) => vec!["latest".to_owned()],
            };
            named.push((reference, tags));
        }
        if self.layout.is_none() && !self.push {
            bail!("nothing to do: say where the image goes, --layout <dir> or --push");
        }
        if self.push && named.is_empty() {
            bail!("nothing to push: name the image with --tag");
        }
        if let Some(directory) = &self.layout {
            let tags: Vec<String> = named.iter().flat_map(|(_, tags)| tags.clone()).collect();
            Layout::new(directory).write(image, &tags)?;
        }
        if self.push {
            let images = self.images.images()?;
            for (reference, tags) in &named {
                images.push(image, reference, tags)?;
            }
        }
        println!("{}", image.digest());
        Ok(())
    }
}

pub fn build(args: Build) -> anyhow::Result<()> {
    if let Some(release) = &args.release {
        let version = release.strip_prefix('v').unwrap_or_default();
        bailiwick_catalog::version::Version::parse(version)
            .map_err(|error| anyhow!("--release {release}: not vX.Y.Z: {error}"))?;
    }
    // An image that OLM would refuse helps nobody.
    validate_directory(&args.directory)
        .map_err(|error| anyhow!("{} is no valid catalog: {}", args.directory.display(), error.located()))?;
    let options = BuildOptions { labels: args.target.labels()? };
    let image = build_catalog(&args.directory, &options).with_context(|| args.directory.display().to_string())?;
    args.target.publish(&image, args.release.as_deref())
}

pub fn build_bundle(args: BuildBundle) -> anyhow::Result<()> {
    let content = bailiwick_catalog::bundle::read_directory(&args.directory)
        .with_context(|| args.directory.display().to_string())?;
    super::bundle::warn_of(&args.directory.display().to_string(), &content.faults);
    let path = args.directory.join("metadata/annotations.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let annotations = bailiwick_machinery::yaml::decode(&text).with_context(|| path.display().to_string())?;
    let mut labels = args.target.labels()?;
    for (key, value) in annotations.value.get("annotations").and_then(|it| it.as_object()).into_iter().flatten() {
        if let Some(value) = value.as_str() {
            labels.insert(key.clone(), value.to_owned());
        }
    }
    let image = build_directory(&args.directory, &BuildOptions { labels })?;
    args.target.publish(&image, None)
}
