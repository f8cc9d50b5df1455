//! `alpha bundle`: opm's commands around one bundle, without Docker.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::bundle::{BundleLabels, Fault, media_type, read_directory, relative};
use bailiwick_catalog::oci::{BuildOptions, build_directory};
use bailiwick_catalog::render::ImageSource;

use super::images::ImageArgs;
use super::publish::Target;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write annotations.yaml beside a directory of manifests, and a Dockerfile here.
    Generate(Generate),
    /// The same, and build the image, into a layout or a registry.
    Build(Build),
    /// Write the content of a bundle image into a directory.
    Unpack(Unpack),
    /// Check the format and content of a bundle image.
    Validate(Validate),
    /// Not here: it writes a ConfigMap for OLM's own unpack job.
    #[command(disable_help_flag = true)]
    Extract {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _arguments: Vec<String>,
    },
}

#[derive(clap::Args)]
pub struct Generate {
    /// The directory of the manifests of one version.
    #[arg(long, short)]
    directory: PathBuf,
    /// The package of the bundle.
    #[arg(long, short)]
    package: Option<String>,
    /// Its channels, with commas between them.
    #[arg(long, short)]
    channels: Option<String>,
    /// Its default channel.
    #[arg(long = "default", short = 'e', default_value = "")]
    default_channel: String,
    /// Copy the manifests here, beside their metadata.
    #[arg(long, short = 'u')]
    output_dir: Option<PathBuf>,
    /// The image that the Dockerfile begins with.
    #[arg(long, default_value = "scratch")]
    base_image: String,
}

#[derive(clap::Args)]
pub struct Build {
    #[command(flatten)]
    generate: Generate,
    /// Write annotations.yaml even if there is one.
    #[arg(long, short)]
    overwrite: bool,
    /// Not needed: the image is built here. `docker`, `podman`, `buildah` and `none` are accepted.
    #[arg(long, short = 'b', default_value = "none", value_parser = ["none", "docker", "podman", "buildah"], hide = true)]
    image_builder: String,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args)]
pub struct Unpack {
    /// The bundle image.
    image: String,
    /// Where its content goes.
    #[arg(long, short, default_value = "./")]
    out: PathBuf,
    /// Do not check the content.
    #[arg(long, short = 'v')]
    skip_validation: bool,
    /// Accepted for opm's sake.
    #[arg(long, short, hide = true)]
    debug: bool,
    #[command(flatten)]
    images: ImageArgs,
}

#[derive(clap::Args)]
pub struct Validate {
    /// The bundle image.
    #[arg(long, short)]
    tag: String,
    /// Not needed: the image is pulled here.
    #[arg(long, short = 'b', default_value = "none", hide = true)]
    image_builder: String,
    /// operatorhub and bundle-objects: these validators are not here.
    #[arg(long, short)]
    optional_validators: Option<String>,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Generate(args) => generate(&args, Existing::Replaced).map(|_| ()),
        Command::Build(args) => build(&args),
        Command::Unpack(args) => unpack(&args),
        Command::Validate(args) => validate(&args),
        Command::Extract { .. } => bail!(
            "`extract` fills a ConfigMap for the unpack job of OLM, which this OLM does not have: it pulls bundles itself. \
             `alpha bundle unpack` writes the files of a bundle"
        ),
    }
}

/// What becomes of an annotations.yaml and a Dockerfile that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Replaced,
    /// It must say the same.
    Kept,
}

/// The directories that make up a bundle.
struct Generated {
    labels: BundleLabels,
    manifests: PathBuf,
    metadata: PathBuf,
}

fn generate(args: &Generate, existing: Existing) -> anyhow::Result<Generated> {
    let directory = normal(&std::path::absolute(&args.directory)?);
    std::fs::metadata(&directory).with_context(|| args.directory.display().to_string())?;
    let media_type = media_type(&directory).map_err(|error| anyhow!(error))?;
    let (Some(package), Some(channels)) = (&args.package, &args.channels) else {
        bail!("please manually input channels and packageName: --channels and --package are needed")
    };
    let labels = BundleLabels {
        media_type,
        package: package.clone(),
        channels: channels.clone(),
        default_channel: args.default_channel.clone(),
    };
    let (manifests, metadata) = match &args.output_dir {
        Some(output) => {
            let output = normal(&std::path::absolute(output)?);
            copy(&directory, &output.join("manifests"), existing)?;
            (output.join("manifests"), output.join("metadata"))
        }
        None => {
            let parent = directory.parent().unwrap_or(&directory).to_path_buf();
            (directory, parent.join("metadata"))
        }
    };
    let annotations = metadata.join("annotations.yaml");
    match std::fs::read_to_string(&annotations) {
        Ok(text) if existing == Existing::Kept => {
            let findings = labels.missing_in(&text).map_err(|error| anyhow!("{}: {error}", annotations.display()))?;
            if !findings.is_empty() {
                bail!("{}: {} (--overwrite writes it anew)", annotations.display(), findings.join(", "));
            }
        }
        _ => write(&annotations, &labels.annotations())?,
    }
    let working = std::env::current_dir()?;
    let dockerfile = working.join("bundle.Dockerfile");
    if existing == Existing::Replaced || !dockerfile.exists() {
        let (manifests, metadata) = (relative(&working, &manifests), relative(&working, &metadata));
        write(&dockerfile, &labels.dockerfile(&args.base_image, &manifests, &metadata))?;
    }
    Ok(Generated { labels, manifests, metadata })
}

/// A path without `.` and a slash at its end.
fn normal(path: &Path) -> PathBuf {
    path.components().collect()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    eprintln!("writing {}", path.display());
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn copy(from: &Path, to: &Path, existing: Existing) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        // Links are not followed: they could lead out of an image.
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, existing)?;
        } else if entry.file_type()?.is_file() && (existing == Existing::Replaced || !target.exists()) {
            std::fs::copy(entry.path(), &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

fn build(args: &Build) -> anyhow::Result<()> {
    if args.generate.base_image != "scratch" {
        bail!(
            "bundles are built on nothing (scratch): for --base-image {} use `generate` and a tool that runs Dockerfiles",
            args.generate.base_image
        );
    }
    let existing = if args.overwrite { Existing::Replaced } else { Existing::Kept };
    let generated = generate(&args.generate, existing)?;
    let root = tempfile::tempdir()?;
    copy(&generated.manifests, &root.path().join("manifests"), Existing::Replaced)?;
    copy(&generated.metadata, &root.path().join("metadata"), Existing::Replaced)?;
    let content = read_directory(root.path())?;
    warn_of(&args.generate.directory.display().to_string(), &content.faults);
    let mut labels = args.target.labels()?;
    labels.extend(generated.labels.labels());
    args.target.publish(&build_directory(root.path(), &BuildOptions { labels })?, None)
}

pub(super) fn warn_of(place: &str, faults: &[Fault]) {
    for fault in faults {
        eprintln!("warning: {place}: {fault}");
    }
}

/// Pulls a bundle image and reads it; what opm passes over is refused.
fn checked(image: &str, root: &Path) -> anyhow::Result<()> {
    let content = read_directory(root).with_context(|| format!("bundle content validation failed: {image}"))?;
    let faults: Vec<String> = content.faults.iter().map(Fault::to_string).collect();
    if !faults.is_empty() {
        bail!("bundle content validation failed: {image}: {}", faults.join("\n  "));
    }
    bailiwick_catalog::bundle::render(&content, image)
        .map(|_| ())
        .map_err(|error| anyhow!("bundle content validation failed: {image}: {error}"))
}

fn unpack(args: &Unpack) -> anyhow::Result<()> {
    if args.out.exists() && !args.out.is_dir() {
        bail!("out {} is not a directory", args.out.display());
    }
    let unpacked = args.images.images()?.unpack(&args.image).map_err(|error| anyhow!(error))?;
    if !args.skip_validation {
        checked(&args.image, unpacked.directory.path())?;
    }
    copy(unpacked.directory.path(), &args.out, Existing::Replaced)
}

fn validate(args: &Validate) -> anyhow::Result<()> {
    if let Some(names) = &args.optional_validators {
        bail!("the validators {names} are those of operator-sdk: run `operator-sdk bundle validate` for them");
    }
    let unpacked = args.images.images()?.unpack(&args.tag).map_err(|error| anyhow!(error))?;
    checked(&args.tag, unpacked.directory.path())?;
    eprintln!("All validation tests have been completed successfully");
    Ok(())
}
