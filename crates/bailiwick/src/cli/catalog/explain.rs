//! `resolve` and `explain`: what would be installed, and why this and not that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::platform::Platform;
use bailiwick_catalog::resolve::{
    Because, Choice, Request, Resolution, Snapshot, Source, SourceKey, Upgrades, Want, describe, resolve, why_not,
};
use bailiwick_catalog::serve::{WhenStale, index_path, open_reference};
use bailiwick_catalog::version::{Constraint, Range};
use serde_json::json;

use super::explain_live::{self, Server, Subject};
use super::images::ImageArgs;
use super::print;
use super::render::load_catalog;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Semantics {
    /// Subscriptions: the head of a channel, or the next step along its edges.
    V0,
    /// ClusterExtensions: the newest version that fits.
    V1,
}

#[derive(clap::Args)]
pub struct Question {
    /// Catalog directories and images; earlier ones have priority.
    #[arg(required = true)]
    catalogs: Vec<String>,
    /// An operator to install, as `package[:channel][@range]`; may be given several times.
    #[arg(long, short, value_name = "WANT")]
    want: Vec<String>,
    /// The operators of this platform are wanted.
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// A bundle that is installed already; may be given several times.
    #[arg(long, value_name = "BUNDLE")]
    installed: Vec<String>,
    /// Whose rules to follow.
    #[arg(long, value_enum, default_value = "v0")]
    olm: Semantics,
    /// Use the indexes that `serve` keeps here; those that are not there are made.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    images: ImageArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StepsOutput {
    Table,
    Json,
}

#[derive(clap::Args)]
pub struct Resolve {
    #[command(flatten)]
    question: Question,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "table")]
    output: StepsOutput,
    /// Say how long it took.
    #[arg(long, hide = true)]
    timing: bool,
}

#[derive(clap::Args)]
pub struct Explain {
    #[command(flatten)]
    question: Question,
    /// Why this bundle is not installed; may be given several times.
    #[arg(long, value_name = "BUNDLE")]
    why_not: Vec<String>,
    #[command(flatten)]
    server: Server,
}

fn snapshot(reference: &str, cache: Option<&Path>, images: &ImageArgs) -> anyhow::Result<Snapshot> {
    if let Some(cache) = cache {
        let file = index_path(cache, reference);
        let index = open_reference(reference, &file, WhenStale::Rebuild, &mut images.images()?)?;
        return Snapshot::of_index(&index).with_context(|| file.display().to_string());
    }
    let path = Path::new(reference);
    if path.is_dir() {
        return Snapshot::of_directory(path).map_err(|error| match &error.location {
            Some(_) => anyhow!(error.located()),
            None => anyhow!("{reference}: {error}"),
        });
    }
    Snapshot::of_catalog(&load_catalog(reference, images)?).map_err(|error| anyhow!("{reference}: {error}"))
}

impl Question {
    fn request(&self) -> anyhow::Result<Request> {
        let mut request = Request::default();
        for (number, reference) in self.catalogs.iter().enumerate() {
            let snapshot = Arc::new(snapshot(reference, self.cache_dir.as_deref(), &self.images)?);
            let priority = -i32::try_from(number)?;
            request.sources.push(Source { key: SourceKey::new("", reference), priority, snapshot });
        }
        for text in &self.want {
            let want = self.parse_want(text, &request.sources)?;
            request.wants.push(want);
        }
        if let Some(path) = &self.platform {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let platform = Platform::parse(&text).with_context(|| path.display().to_string())?;
            for operator in platform.operators {
                let (package, channel) = (operator.package, operator.channel.unwrap_or_default());
                let want = self.new_want(&package, &channel, &operator.versions_text, &request.sources)?;
                request.wants.push(want);
            }
        }
        if request.wants.is_empty() {
            bail!("nothing is wanted: say --want <package> or --platform <file>");
        }
        for name in &self.installed {
            let found = request.sources.iter().find_map(|source| source.snapshot.installed(name));
            let found = found.ok_or_else(|| anyhow!("--installed {name}: no catalog has a bundle of this name"))?;
            let operator = found.map_err(|error| anyhow!(error))?;
            let wants = request.wants.iter_mut().filter(|want| Some(want.package.as_str()) == operator.package());
            wants.for_each(|want| want.installed = Some(name.clone()));
            request.installed.push(operator);
        }
        Ok(request)
    }

    /// `package[:channel][@range]`.
    fn parse_want(&self, text: &str, sources: &[Source]) -> anyhow::Result<Want> {
        let (name, range) = text.split_once('@').unwrap_or((text, ""));
        let (package, channel) = name.split_once(':').unwrap_or((name, ""));
        if package.is_empty() {
            bail!("--want {text:?}: not of the form package[:channel][@range]");
        }
        self.new_want(package, channel, range, sources).with_context(|| format!("--want {text:?}"))
    }

    fn new_want(&self, package: &str, channel: &str, range: &str, sources: &[Source]) -> anyhow::Result<Want> {
        let choice = match self.olm {
            Semantics::V0 => {
                let having = sources.iter().find(|source| source.snapshot.has_package(package));
                let versions = if range.is_empty() {
                    None
                } else {
                    Some(Range::parse(range).map_err(|error| anyhow!("{range:?} is no range: {error}"))?)
                };
                Choice::Subscription {
                    source: having.or(sources.first()).map(|it| it.key.clone()).unwrap_or_default(),
                    channel: channel.to_owned(),
                    starting_csv: String::new(),
                    versions,
                }
            }
            Semantics::V1 => Choice::Extension {
                sources: None,
                channels: Some(channel.to_owned()).into_iter().filter(|it| !it.is_empty()).collect(),
                versions: if range.is_empty() {
                    None
                } else {
                    Some(Constraint::parse(range).map_err(|error| anyhow!(error))?)
                },
                upgrades: Upgrades::CatalogProvided,
            },
        };
        Ok(Want { name: package.to_owned(), package: package.to_owned(), installed: None, choice })
    }
}

fn answer(request: &Request) -> anyhow::Result<Resolution> {
    resolve(request).map_err(|refusal| anyhow!("this cannot be installed\n{}", refusal.to_string().trim_end()))
}

pub fn run_resolve(args: &Resolve) -> anyhow::Result<()> {
    let started = Instant::now();
    let request = args.question.request()?;
    let (loaded, wants) = (started.elapsed(), request.wants.len());
    let started = Instant::now();
    let resolution = answer(&request)?;
    if args.timing {
        let (taken, steps) = (started.elapsed(), resolution.steps.len());
        eprintln!("{wants} wants, {steps} steps in {taken:.1?}; the catalogs were loaded in {loaded:.1?}");
    }
    let because = |because: &Because| match because {
        Because::Wanted(want) => format!("wanted as {want}"),
        Because::Required { by, requirement } => format!("{by} requires {requirement}"),
    };
    match args.output {
        StepsOutput::Table => {
            let head = ["PACKAGE", "BUNDLE", "VERSION", "CHANNEL", "CATALOG", "REPLACES", "BECAUSE"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(resolution.steps.iter().map(|step| {
                vec![
                    step.package.clone(),
                    step.bundle.clone(),
                    step.version.to_string(),
                    step.channel.clone(),
                    step.source.to_string(),
                    step.replaces.clone().unwrap_or_default(),
                    because(&step.because),
                ]
            }));
            print(&bailiwick_catalog::go::columns(&rows))
        }
        StepsOutput::Json => {
            let steps: Vec<_> = resolution
                .steps
                .iter()
                .map(|step| {
                    json!({
                        "package": step.package, "bundle": step.bundle, "version": step.version.to_string(),
                        "channel": step.channel, "catalog": step.source.to_string(), "image": step.image,
                        "replaces": step.replaces, "because": because(&step.because), "passedOver": step.passed_over,
                    })
                })
                .collect();
            print(&format!("{}\n", serde_json::to_string_pretty(&json!({ "steps": steps }))?))
        }
    }
}

pub fn run_explain(args: &Explain) -> anyhow::Result<()> {
    if let [only] = args.question.catalogs.as_slice()
        && let Some(subject) = Subject::parse(only)
    {
        return explain_live::run(&subject, &args.server);
    }
    let request = args.question.request()?;
    if args.why_not.is_empty() {
        return print(&describe(&answer(&request)?));
    }
    let resolution = resolve(&request).ok();
    for bundle in &args.why_not {
        let chosen = resolution.as_ref().and_then(|it| it.steps.iter().find(|step| &step.bundle == bundle));
        let text = match (chosen, why_not(&request, bundle)) {
            (Some(_), _) => format!("{bundle} is installed\n"),
            (None, Some(refusal)) => format!("{bundle} is not installed\n{refusal}"),
            (None, None) => {
                let package = bundle.split(".v").next().unwrap_or(bundle);
                let steps = resolution.iter().flat_map(|it| &it.steps);
                let instead = steps.filter(|step| step.package == package).map(|step| step.bundle.as_str()).next();
                match instead {
                    Some(instead) => format!("{bundle} could be installed, but {instead} is preferred\n"),
                    None => format!("{bundle} could be installed, but nothing needs it\n"),
                }
            }
        };
        print(&text)?;
    }
    Ok(())
}
