//! `test`: a platform, layer by layer.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::platform::{Layer, Manifests, Platform, Report, Subject, test as run_layers};

use super::end_to_end;
use super::images::ImageArgs;
use super::opm::read_text;
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
    /// Which layers to run; all if none is named. e2e installs and upgrades the operators on control planes that are
    /// started for that in this process.
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
    let text = read_text(&args.platform.display().to_string())?;
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
    // With what the catalog says about its operators.
    let platform = subject.platform.clone();
    let is_wanted = |layer: &Layer| args.layer.is_empty() || args.layer.iter().any(|it| Layer::from(*it) == *layer);
    let layers: Vec<Layer> = Layer::ALL.into_iter().filter(is_wanted).collect();
    let mut report = run_layers(&mut subject, &layers);
    if layers.contains(&Layer::EndToEnd) {
        let checks = end_to_end::run(&mut subject, &platform)?;
        report.add(&platform, Layer::EndToEnd, checks);
    }
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
