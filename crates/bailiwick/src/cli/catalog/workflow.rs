//! `init`, `add` and `update`: the workflow of a repository of catalogs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use bailiwick_catalog::ci::{CiOptions, write_github};
use bailiwick_catalog::workspace::{Freshness, Outcome, Stability, Workspace};

use super::images::ImageArgs;

/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Init {
    /// The operator, as its package is called.
    #[arg(required_unless_present = "ci")]
    operator: Option<String>,
    /// Who approves changes; may be given several times.
    #[arg(long)]
    owner: Vec<String>,
    /// The repository of catalogs.
    #[arg(long, short, default_value = ".")]
    directory: PathBuf,
    /// Write the workflow that tests the platform and publishes its images, into the current directory.
    #[arg(long, value_enum, requires = "image")]
    ci: Option<CiSystem>,
    /// With --ci: the repository of the catalog images, such as `quay.io/me/platformx`.
    #[arg(long, value_name = "REPOSITORY")]
    image: Option<String>,
    /// With --ci: the Platform document.
    #[arg(long, value_name = "FILE", default_value = "platform.yaml")]
    platform: String,
    /// With --ci: the command that installs this program.
    #[arg(long, value_name = "COMMAND", default_value = "cargo install --locked bailiwick")]
    install: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CiSystem {
    Github,
}

pub fn init(args: &Init) -> anyhow::Result<()> {
    if let Some(operator) = &args.operator {
        let folder = Workspace::new(&args.directory).init(operator, &args.owner)?;
        println!("{} is ready: add a bundle with `bailiwick catalog add {operator} <image>`", folder.display());
    }
    if let (Some(CiSystem::Github), Some(image)) = (args.ci, &args.image) {
        let options = CiOptions {
            image: image.clone(),
            directory: args.directory.display().to_string(),
            platform: args.platform.clone(),
            install: args.install.clone(),
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
    Workspace::new(&args.directory).add(&args.operator, stability, &args.image, &mut images)?;
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
    let mut images = args.images.images()?;
    let mut freshness = if args.force { Freshness::Always } else { Freshness::WhenChanged };
    let mut reported = std::collections::BTreeMap::new();
    loop {
        let operators = if args.operators.is_empty() { workspace.operators()? } else { args.operators.clone() };
        let (mut rendered, mut current, mut failed) = (0, 0, 0);
        for operator in &operators {
            let outcome = workspace.update(operator, freshness, &mut images);
            match &outcome {
                Outcome::Rendered => {
                    rendered += 1;
                    println!("rendered {operator}");
                }
                Outcome::Current => current += 1,
                Outcome::Failed(reason) => {
                    failed += 1;
                    // While watching, the same failure is said once.
                    if reported.get(operator) != Some(&outcome) {
                        eprintln!("failed {operator}: {reason}");
                    }
                }
            }
            reported.insert(operator.clone(), outcome);
        }
        if !args.watch {
            println!("{rendered} rendered, {current} current, {failed} failed");
            if failed > 0 {
                bail!("{failed} of {} catalogs could not be rendered", operators.len());
            }
            return Ok(());
        }
        freshness = Freshness::WhenChanged;
        std::thread::sleep(WATCH_INTERVAL);
    }
}
