//! `bailiwick dns`: what the DNS says about a name, asked of the servers themselves. The work is in `bailiwick-domains`; here
//! are the flags.

mod agent;
mod compare;
mod fqdn;
mod history;
mod plan;
mod progress;
mod scan;
mod trace;
mod verify;
mod zone_check;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use bailiwick_domains::check::{self, Check};
use bailiwick_domains::engine::Engine;
use bailiwick_domains::name::asked_name;
use bailiwick_domains::probe::{self, NoRemotePlaces};
use bailiwick_domains::report::Style;
use bailiwick_domains::seams::{Net, ROOTS_ENV, Roots, SystemClock, VantagePoint};
use bailiwick_domains::toolbox::Toolbox;
use bailiwick_domains::wire::{Name, RecordType};

use self::progress::Progress;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every tool.
#[derive(clap::Args)]
pub(super) struct Common {
    /// How the result is printed.
    #[arg(short, long, global = true, value_enum, default_value = "text")]
    output: Output,
    /// When to colour.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    color: Color,
    /// Another internet: a JSON file with root hints, trust anchor, RDAP bootstrap and so on.
    #[arg(long, global = true, env = ROOTS_ENV, hide = true)]
    roots: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    #[value(alias = "table")]
    Text,
    Json,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Be a vantage point: take questions from a domains service elsewhere and answer them as seen from here.
    Agent(agent::Args),
    /// Put the authoritative servers beside well-known resolvers: same, stale, negative, filtered or bogus, and until when.
    Compare(compare::Compare),
    /// Show what the resolver of this machine has in its cache, beside the truth.
    Doctor(compare::Doctor),
    /// Show what a name means from many places, with every step of its aliases.
    Fqdn(fqdn::Args),
    /// Show what changed about a Domain of the domains service, or what was known of it at a time.
    History(history::Args),
    /// The exact records that make a name lead somewhere, as the provider wants them typed.
    Plan(plan::Args),
    /// Registration, name servers and SOA of a domain, in plain words.
    Scan(scan::Args),
    /// Follow a name from the root, asking every server of every zone, without any cache.
    Trace(trace::Args),
    /// Prove that you control a domain.
    Verify(verify::Args),
    /// Check a zone by Zonemaster's test cases.
    ZoneCheck(zone_check::Args),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting")?;
    let common = args.common;
    runtime.block_on(async move {
        let done = match args.command {
            Command::Agent(args) => agent::run(&common, args).await,
            Command::Compare(args) => compare::compare(&common, args).await,
            Command::Doctor(args) => compare::doctor(&common, args).await,
            Command::Fqdn(args) => fqdn::run(&common, args).await,
            Command::History(args) => history::run(&common, args).await,
            Command::Plan(args) => plan::run(&common, args).await,
            Command::Scan(args) => scan::run(&common, args).await,
            Command::Trace(args) => trace::run(&common, args).await,
            Command::Verify(args) => return verify::run(&common, args).await,
            Command::ZoneCheck(args) => zone_check::run(&common, args).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    })
}

impl Common {
    /// Where the DNS begins.
    pub(super) fn roots(&self) -> anyhow::Result<Arc<Roots>> {
        Ok(Arc::new(match &self.roots {
            Some(path) => Roots::from_file(path)?,
            None => Roots::internet(),
        }))
    }

    /// An engine that asks from the first place.
    pub(super) fn engine(&self) -> anyhow::Result<Engine> {
        let roots = self.roots()?;
        let from = roots.vantage_points().into_iter().next().unwrap_or_else(VantagePoint::here);
        Ok(Engine::at(from, roots))
    }

    /// The tools that also ask registries and web sites.
    pub(super) fn toolbox(&self) -> anyhow::Result<Toolbox> {
        Ok(Toolbox::new(&Net::default(), Arc::new(SystemClock), &self.roots()?)?)
    }

    /// One engine for each place to ask from.
    pub(super) fn places(&self) -> anyhow::Result<Vec<Engine>> {
        let roots = self.roots()?;
        Ok(roots.vantage_points().into_iter().map(|from| Engine::at(from, roots.clone())).collect())
    }

    /// Runs a tool here and prints what it found.
    pub(super) async fn check(&self, check: &Check) -> anyhow::Result<()> {
        let toolbox = self.toolbox()?;
        let run = check::run(check, &toolbox, &NoRemotePlaces);
        let report = self.progress().during(run, || doing(check, &toolbox)).await?;
        self.print(&report, |style| report.text(style))
    }

    /// Whether somebody who waits is shown what is done.
    pub(super) fn progress(&self) -> Progress {
        Progress::for_output(self.output == Output::Text)
    }

    /// How text is coloured.
    pub(super) fn style(&self) -> Style {
        match self.color {
            Color::Always => Style::Ansi,
            Color::Never => Style::Plain,
            Color::Auto if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() => Style::Ansi,
            Color::Auto => Style::Plain,
        }
    }

    /// Prints a report in the form that was asked for.
    pub(super) fn print(
        &self,
        report: &impl serde::Serialize,
        text: impl FnOnce(Style) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.output {
            Output::Text => text(self.style()),
            Output::Json => serde_json::to_string_pretty(report)? + "\n",
        };
        use std::io::Write;
        match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
            _ => Ok(()),
        }
    }
}

/// What a tool is doing, with the questions that it has asked so far.
pub(super) fn doing(check: &Check, toolbox: &Toolbox) -> String {
    let what = match check {
        Check::Scan { .. } => "asking registry and name servers about",
        Check::Verify { .. } => "looking for the proof of",
        Check::Plan { .. } => "looking at what is live at",
        Check::Fqdn { .. } => "asking from every place about",
        Check::Compare { .. } => "asking resolvers about",
        Check::ZoneCheck { .. } => "checking every server of",
        Check::History { .. } => "reading the history of",
        Check::Trace { .. } => "following",
    };
    let names = check.names().join(", ");
    let names = if names.is_empty() { "the services" } else { &names };
    format!("{what} {names}: {} questions asked", toolbox.surveyor().questions_asked())
}

/// A name as it is typed.
fn name(text: &str) -> Result<Name, String> {
    asked_name(text)
}

/// A type as it is typed: a mnemonic, or `TYPE` and a number.
fn rtype(text: &str) -> Result<RecordType, String> {
    probe::parse_type(text)
}
