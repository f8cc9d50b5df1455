//! `init`, `add` and `update`: the workflow of a repository of catalogs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use bailiwick_catalog::ci::{CiOptions, write_github};
use bailiwick_catalog::oci::Images;
use bailiwick_catalog::workspace::{Freshness, Outcome, Stability, Stamp, Workspace};

use super::images::ImageArgs;
use super::opm::{PackageBlob, print_package};
use super::render::CatalogOutput;

/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// When `--watch` tries again what failed although nothing changed here: an image may have been pushed.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub struct Init {
    /// The operator, as its package is called.
    #[arg(required_unless_present = "ci")]
    operator: Option<String>,
    /// Who approves changes; may be given several times.
    #[arg(long)]
    owner: Vec<String>,
    /// The repository of catalogs [default: .]. As in opm, a file after `-d` is the description of the package.
    #[arg(long, short)]
    directory: Option<PathBuf>,
    /// Print an olm.package object with this default channel, as opm does.
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    default_channel: Option<String>,
    /// Print an olm.package object with the text of this file.
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// Print an olm.package object with this icon.
    #[arg(long, short = 'i', value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Print an olm.package object in this form.
    #[arg(long, short, value_enum)]
    output: Option<CatalogOutput>,
    /// Write the workflow that tests the platform and publishes its images, into the current directory.
    #[arg(long, value_enum, requires_all = ["image", "install"])]
    ci: Option<CiSystem>,
    /// With --ci: the repository of the catalog images, such as `quay.io/me/platformx`.
    #[arg(long, value_name = "REPOSITORY")]
    image: Option<String>,
    /// With --ci: the Platform document.
    #[arg(long, value_name = "FILE", default_value = "platform.yaml")]
    platform: String,
    /// With --ci: the command that installs this program, such as `cargo install --locked --git URL bailiwick`.
    #[arg(long, value_name = "COMMAND")]
    install: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CiSystem {
    Github,
}

impl Init {
    /// What `opm init` was asked for, if it was: any of its flags, or `-d` with a file.
    fn package_blob(&self) -> Option<PackageBlob<'_>> {
        let is_opm = self.default_channel.is_some()
            || self.description.is_some()
            || self.icon.is_some()
            || self.output.is_some()
            || self.directory.as_ref().is_some_and(|path| path.is_file());
        let package = self.operator.as_deref().filter(|_| is_opm && self.ci.is_none() && self.owner.is_empty())?;
        Some(PackageBlob {
            package,
            default_channel: self.default_channel.as_deref().unwrap_or_default(),
            description: self.description.as_deref().or(self.directory.as_deref()),
            icon: self.icon.as_deref(),
            output: self.output.unwrap_or(CatalogOutput::Json),
        })
    }
}

pub fn init(args: &Init) -> anyhow::Result<()> {
    if let Some(blob) = args.package_blob() {
        return print_package(&blob);
    }
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    if let Some(operator) = &args.operator {
        let folder = Workspace::new(&directory).init(operator, &args.owner)?;
        // As it can be typed where this was.
        let place = args.directory.as_ref().map(|it| format!(" -d {}", it.display())).unwrap_or_default();
        let next = format!("bailiwick catalog add {operator} <image>{place}");
        println!("{} is ready: add a bundle with `{next}`", folder.display());
    }
    if let (Some(CiSystem::Github), Some(image), Some(install)) = (args.ci, &args.image, &args.install) {
        let options = CiOptions {
            image: image.clone(),
            directory: directory.display().to_string(),
            platform: args.platform.clone(),
            install: install.clone(),
        };
        let path = write_github(Path::new("."), &options)?;
        println!("{} tests {} and publishes {image}", path.display(), args.platform);
    }
    Ok(())
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Channel {
    Candidate,
    Fast,
    Stable,
}

#[derive(clap::Args)]
pub struct Add {
    /// The operator.
    operator: String,
    /// Bundle images.
    #[arg(required = true)]
    image: Vec<String>,
    /// How stable they are.
    #[arg(long, value_enum, default_value = "stable")]
    channel: Channel,
    /// The repository of catalogs.
    #[arg(long, short, default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn add(args: Add) -> anyhow::Result<()> {
    let stability = match args.channel {
        Channel::Candidate => Stability::Candidate,
        Channel::Fast => Stability::Fast,
        Channel::Stable => Stability::Stable,
    };
    let mut images = args.images.images()?;
    let warnings = Workspace::new(&args.directory).add(&args.operator, stability, &args.image, &mut images)?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    println!("{} is rendered", args.directory.join(&args.operator).join("catalog.yaml").display());
    Ok(())
}

#[derive(clap::Args)]
pub struct Update {
    /// The operators; all if none is named.
    operators: Vec<String>,
    /// Render even what did not change: tags may point to new images.
    #[arg(long)]
    force: bool,
    /// Go on and render again whenever a template changes.
    #[arg(long)]
    watch: bool,
    /// The repository of catalogs.
    #[arg(long, short, default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn update(args: Update) -> anyhow::Result<()> {
    let workspace = Workspace::new(&args.directory);
    if !args.directory.is_dir() {
        bail!("there is no directory {}: --directory names the repository of catalogs", args.directory.display());
    }
    let mut images = args.images.images()?;
    let mut round =
        Round { freshness: if args.force { Freshness::Always } else { Freshness::WhenChanged }, ..Round::default() };
    loop {
        let operators = if args.operators.is_empty() { workspace.operators()? } else { args.operators.clone() };
        if operators.is_empty() && !args.watch {
            bail!(
                "there is no operator in {}: start one with `bailiwick catalog init <operator>`",
                args.directory.display()
            );
        }
        let (rendered, current, failed) = round.update(&workspace, &operators, &mut images);
        if round.is_first {
            println!("{rendered} rendered, {current} current, {failed} failed");
        }
        if !args.watch {
            if failed > 0 {
                bail!("{failed} of {} catalogs could not be rendered", operators.len());
            }
            return Ok(());
        }
        if std::mem::take(&mut round.is_first) {
            println!("watching {}", args.directory.display());
        }
        round.freshness = Freshness::WhenChanged;
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// What is known of the operators from round to round: those whose files did not change are not read again.
struct Round {
    freshness: Freshness,
    is_first: bool,
    known: BTreeMap<String, (Stamp, Outcome, Instant)>,
}

impl Default for Round {
    fn default() -> Self {
        Round { freshness: Freshness::WhenChanged, is_first: true, known: BTreeMap::new() }
    }
}

impl Round {
    /// How many were rendered, were current and failed.
    fn update(&mut self, workspace: &Workspace, operators: &[String], images: &mut Images) -> (usize, usize, usize) {
        let (mut rendered, mut current, mut failed) = (0, 0, 0);
        for operator in operators {
            let known = self.known.get(operator);
            if let Some((stamp, outcome, at)) = known
                && stamp == &workspace.stamp(operator)
                && (!matches!(outcome, Outcome::Failed(_)) || at.elapsed() < RETRY_INTERVAL)
            {
                continue;
            }
            let outcome = workspace.update(operator, self.freshness, images);
            match &outcome {
                Outcome::Rendered(warnings) => {
                    rendered += 1;
                    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                    println!("rendered {operator}");
                }
                Outcome::Current => current += 1,
                Outcome::Failed(reason) => {
                    failed += 1;
                    // While watching, the same failure is said once.
                    if known.is_none_or(|(_, before, _)| before != &outcome) {
                        eprintln!("failed {operator}: {reason}");
                    }
                }
            }
            self.known.insert(operator.clone(), (workspace.stamp(operator), outcome, Instant::now()));
        }
        (rendered, current, failed)
    }
}
