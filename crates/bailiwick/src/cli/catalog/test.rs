//! `test`: a platform, layer by layer.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::platform::{Layer, Manifests, Platform, Report, Subject, test as run_layers};

use super::images::ImageArgs;
use super::print;
use super::render::load_catalog;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LayerName {
    Sanity,
    Integration,
    Interoperability,
    E2e,
}

impl From<LayerName> for Layer {
    fn from(name: LayerName) -> Self {
        match name {
            LayerName::Sanity => Layer::Sanity,
            LayerName::Integration => Layer::Integration,
            LayerName::Interoperability => Layer::Interoperability,
            LayerName::E2e => Layer::EndToEnd,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ReportOutput {
    Table,
    Junit,
    Markdown,
}

#[derive(clap::Args)]
pub struct Test {
    /// The Platform document.
    platform: PathBuf,
    /// The catalog to test: a directory or an image.
    catalog: String,
    /// The catalog that users have now: a directory or an image. Without it nothing is said about upgrades.
    #[arg(long, value_name = "CATALOG")]
    previous: Option<String>,
    /// Take bundles from `<DIR>/<package>/<version>` instead of pulling their images.
    #[arg(long, value_name = "DIR")]
    bundles: Option<PathBuf>,
    /// Which layers to run; those that need no control plane if none is named.
    #[arg(long, value_enum)]
    layer: Vec<LayerName>,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "table")]
    output: ReportOutput,
    /// Write a JUnit report here too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a Markdown report here too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn run(args: &Test) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.platform).with_context(|| args.platform.display().to_string())?;
    let platform = Platform::parse(&text).with_context(|| args.platform.display().to_string())?;
    if let Some(directory) = args.bundles.as_ref().filter(|it| !it.is_dir()) {
        bail!("--bundles {}: there is no such directory", directory.display());
    }
    let catalog = load_catalog(&args.catalog, &args.images)?;
    let previous = args.previous.as_deref().map(|reference| load_catalog(reference, &args.images)).transpose()?;
    let directory = Some(Path::new(&args.catalog)).filter(|path| path.is_dir()).map(Path::to_path_buf);
    let manifests = Manifests::new(Box::new(args.images.images()?), args.bundles.as_deref());
    let mut subject =
        Subject::new(platform, catalog, previous, directory, manifests).map_err(|error| anyhow!(error))?;
    let layers: Vec<Layer> = if args.layer.is_empty() {
        vec![Layer::Sanity, Layer::Integration, Layer::Interoperability]
    } else {
        Layer::ALL.into_iter().filter(|layer| args.layer.iter().any(|it| Layer::from(*it) == *layer)).collect()
    };
    if layers.contains(&Layer::EndToEnd) {
        bail!("the e2e layer is not there yet: it needs operators to be installed on a control plane");
    }
    let report = run_layers(&mut subject, &layers);
    publish(args, &report)
}

fn publish(args: &Test, report: &Report) -> anyhow::Result<()> {
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => std::fs::write(path, text()).with_context(|| path.display().to_string()),
        None => Ok(()),
    };
    write(&args.junit, &|| report.junit())?;
    write(&args.markdown, &|| report.markdown())?;
    print(&match args.output {
        ReportOutput::Table => report.table(),
        ReportOutput::Junit => report.junit(),
        ReportOutput::Markdown => report.markdown(),
    })?;
    if !report.passed() {
        bail!("{}", report.summary());
    }
    Ok(())
}
