//! `validate`, `list`, `diff` and `generate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::dockerfile::{DEFAULT_IMAGE, dockerfile};
use bailiwick_catalog::model::{Model, validate as validate_directory, validate_catalog};
use bailiwick_catalog::render::BUNDLE_IMAGE_REFUSED;
use bailiwick_catalog::serve::{Facts, WhenStale, index_path, open_reference};
use bailiwick_catalog::{diff as catalog_diff, list as tables};
use serde_json::json;

use super::images::ImageArgs;
use super::print;
use super::render::load_catalog;

#[derive(Clone, Copy, clap::ValueEnum)]
enum VerdictOutput {
    Json,
    Yaml,
}

#[derive(clap::Args)]
pub struct Validate {
    /// A catalog directory.
    directory: PathBuf,
    /// Print the verdict as a document.
    #[arg(long, short, value_enum)]
    output: Option<VerdictOutput>,
}

pub fn validate(args: &Validate) -> anyhow::Result<()> {
    if !args.directory.is_dir() {
        std::fs::metadata(&args.directory).with_context(|| args.directory.display().to_string())?;
        bail!("{:?} is not a directory", args.directory.display().to_string());
    }
    let result = validate_directory(&args.directory);
    let Some(output) = args.output else {
        return result.map(|_| ()).map_err(|error| anyhow!(error.located()));
    };
    let document = match &result {
        Ok(_) => json!({"passed": true}),
        Err(error) => json!({"passed": false, "error": {"message": error.to_string()}}),
    };
    print(&match output {
        VerdictOutput::Json => format!("{}\n", serde_json::to_string_pretty(&document)?),
        VerdictOutput::Yaml => format!("{}\n", bailiwick_machinery::yaml::encode(&document)),
    })?;
    if result.is_err() {
        std::process::exit(1);
    }
    Ok(())
}

#[derive(clap::Subcommand)]
pub enum List {
    /// Packages with their default channels.
    Packages(CatalogArgs),
    /// Channels with their heads.
    Channels(ListArgs),
    /// Bundles, once for each channel.
    Bundles(ListArgs),
}

#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Only this package.
    package: Option<String>,
}

#[derive(clap::Args)]
pub struct CatalogArgs {
    /// A catalog directory or image.
    reference: String,
    /// Use the index that `serve` keeps here; made if it is not there, and then lists are instant.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    images: ImageArgs,
}

fn model(args: &CatalogArgs, facts: Facts) -> anyhow::Result<Model> {
    let path = Path::new(&args.reference);
    if let Some(cache) = &args.cache_dir {
        let mut images = args.images.images()?;
        let file = index_path(cache, &args.reference);
        let index = open_reference(&args.reference, &file, WhenStale::Rebuild, &mut images)?;
        return index.model(facts).with_context(|| file.display().to_string());
    }
    if path.is_dir() {
        if path.join("manifests").is_dir() && path.join("metadata").is_dir() {
            bail!("cannot list non-index {:?}", args.reference);
        }
        return tables::load(path).map_err(|error| anyhow!(error.located()));
    }
    let catalog = load_catalog(&args.reference, &args.images).map_err(|error| {
        match error.to_string().ends_with(BUNDLE_IMAGE_REFUSED) {
            true => anyhow!("cannot list non-index {:?}", args.reference),
            false => error,
        }
    })?;
    validate_catalog(&catalog).map_err(|error| anyhow!(error))
}

pub fn list(command: List) -> anyhow::Result<()> {
    let text = match command {
        List::Packages(args) => tables::packages(&model(&args, Facts::Names)?),
        List::Channels(args) => tables::channels(&model(&args.catalog, Facts::Names)?, args.package.as_deref())
            .map_err(|error| anyhow!(error))?,
        List::Bundles(args) => tables::bundles(&model(&args.catalog, Facts::Images)?, args.package.as_deref())
            .map_err(|error| anyhow!(error))?,
    };
    print(&text)
}

#[derive(clap::Args)]
pub struct Diff {
    /// A catalog directory or image.
    old: String,
    /// A catalog directory or image.
    new: String,
    /// Exit with 1 when there are differences.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn diff(args: Diff) -> anyhow::Result<()> {
    let old = load_catalog(&args.old, &args.images)?;
    let new = load_catalog(&args.new, &args.images)?;
    let changes = catalog_diff::diff(&old, &new);
    print(&catalog_diff::describe(&changes))?;
    if args.exit_code && !changes.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}

#[derive(clap::Subcommand)]
pub enum Generate {
    /// Write `<directory>.Dockerfile` beside a catalog directory.
    Dockerfile(Dockerfile),
}

#[derive(clap::Args)]
pub struct Dockerfile {
    /// The catalog directory.
    directory: PathBuf,
    /// The image to put the catalog on; `scratch` for none.
    #[arg(long, short = 'i', alias = "binary-image", default_value = DEFAULT_IMAGE)]
    base_image: String,
    /// The image that fills the cache.
    #[arg(long, short, default_value = DEFAULT_IMAGE)]
    builder_image: String,
    /// More labels, as `key=value`.
    #[arg(long, short = 'l', value_delimiter = ',')]
    extra_labels: Vec<String>,
}

pub fn generate_dockerfile(args: &Dockerfile) -> anyhow::Result<()> {
    if args.builder_image == "scratch" {
        bail!("invalid builder image: \"scratch\"");
    }
    let mut labels = BTreeMap::new();
    for label in &args.extra_labels {
        let (key, value) = label.split_once('=').ok_or_else(|| anyhow!("invalid label {label:?}"))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    let directory: PathBuf = args.directory.components().collect();
    let name =
        directory.file_name().and_then(|name| name.to_str()).ok_or_else(|| anyhow!("index directory is unset"))?;
    if !directory.is_dir() {
        bail!("provided root path {:?} is not a directory", directory.display().to_string());
    }
    let path = directory.with_file_name(format!("{name}.Dockerfile"));
    let text = dockerfile(name, &args.builder_image, &args.base_image, &labels);
    let mut file =
        std::fs::File::create_new(&path).with_context(|| format!("path {:?}", path.display().to_string()))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).with_context(|| path.display().to_string())
}
