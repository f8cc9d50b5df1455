//! The command line: parses, sets up logs, runs one subcommand.

mod auth;
mod catalog;
mod completions;
mod config_file;
mod controllers;
mod crd;
mod dns;
mod doctor;
mod duration;
mod encryption;
mod kube_apiserver;
mod kubeconfig;
mod olm;
mod outside;
mod project;
mod serve;
mod snapshot;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A Kubernetes-style control plane without containers, in one binary.
#[derive(Parser)]
#[command(name = "bailiwick", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How logs are written to standard error.
    #[arg(long, global = true, value_enum, default_value = "text", alias = "logging-format")]
    log_format: LogFormat,
    /// What is logged, such as `info` or `bailiwick_server=debug`; the environment variable BAILIWICK_LOG does the same.
    #[arg(long, global = true, env = "BAILIWICK_LOG", default_value = "info", alias = "log")]
    log_level: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Run the API server.
    Serve(Box<serve::Args>),
    /// Tools for authorization.
    #[command(subcommand)]
    Auth(auth::Command),
    /// Run the generic controllers against a server.
    Controllers(controllers::Args),
    /// Operator catalogs: make, check, build, publish and serve them.
    #[command(subcommand, args = catalog::persistent_flags())]
    Catalog(catalog::Command),
    /// Write a shell's completions, or the manual page, to standard output.
    Completions(completions::Args),
    /// Tools for CustomResourceDefinitions.
    #[command(subcommand)]
    Crd(crd::Command),
    /// What the DNS says about a name, asked of the servers themselves.
    Dns(dns::Args),
    /// Look for what keeps a server from running well.
    Doctor(doctor::Args),
    /// Rotate the keys that secrets are encrypted with, and re-encrypt.
    #[command(subcommand)]
    Encryption(encryption::Command),
    /// Install operators from catalogs on a server, as a program of its own.
    Olm(olm::Args),
    /// Projects: control planes of their own on one server.
    #[command(subcommand)]
    Project(project::Command),
    /// Save, restore and inspect backups of the embedded store.
    #[command(subcommand)]
    Snapshot(snapshot::Command),
}

/// Runs the command line and returns the exit code.
pub fn run() -> ExitCode {
    let arguments: Result<Vec<String>, OsString> = std::env::args_os().map(OsString::into_string).collect();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        // With other characters in their place it would name another file.
        Err(argument) => {
            eprintln!("error: the argument {argument:?} is not UTF-8");
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.split_first() {
        Some((program, rest)) if kube_apiserver::is_called(Path::new(program)) => run_as_kube_apiserver(rest),
        _ => config_file::expand(arguments).and_then(|arguments| execute(Cli::parse_from(arguments), &[])),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", in_full(&error));
            ExitCode::FAILURE
        }
    }
}

fn run_as_kube_apiserver(arguments: &[String]) -> anyhow::Result<ExitCode> {
    match kube_apiserver::translate(arguments.iter().cloned()) {
        Ok(kube_apiserver::Asked::Print(text)) => {
            print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Ok(kube_apiserver::Asked::Serve(ours)) => {
            let arguments = ["bailiwick", "serve"].map(str::to_owned).into_iter().chain(ours.arguments);
            execute(Cli::parse_from(arguments), &ours.notes)
        }
        Err(error) => {
            // With the capital that upstream's has.
            eprintln!("Error: {}", in_full(&error));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Runs one subcommand; `notes` are logged once there are logs.
fn execute(cli: Cli, notes: &[String]) -> anyhow::Result<ExitCode> {
    let mut filter = EnvFilter::try_new(&cli.log_level).unwrap_or_else(|_| EnvFilter::new("info"));
    if let (Command::Doctor(_), Ok(quiet)) = (&cli.command, "kube_client=off".parse()) {
        // A server that does not answer is a finding.
        filter = filter.add_directive(quiet);
    }
    let is_test = matches!(&cli.command, Command::Catalog(catalog::Command::Test(_)));
    if is_test && cli.log_level == "info" {
        // Control planes come and go there, and what they have to say is in the report.
        filter = EnvFilter::new("error");
    }
    let colours = std::io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    notes.iter().for_each(|note| tracing::debug!("{note}"));
    let done = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Auth(command) => auth::run(command),
        Command::Controllers(args) => controllers::run(args),
        Command::Catalog(command) => catalog::run(command),
        Command::Completions(args) => completions::run(args),
        Command::Crd(command) => crd::run(command),
        Command::Dns(args) => return dns::run(args),
        Command::Doctor(args) => return doctor::run(args),
        Command::Encryption(command) => encryption::run(command),
        Command::Olm(args) => olm::run(args),
        Command::Project(command) => project::run(command),
        Command::Snapshot(command) => snapshot::run(command),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// An error with its causes, but for those that it has named already.
fn in_full(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
