//! The command line: parses, sets up logs, runs one subcommand.

mod auth;
mod catalog;
mod controllers;
mod crd;
mod duration;
mod encryption;
mod serve;
mod snapshot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A Kubernetes-style control plane without containers, in one binary.
#[derive(Parser)]
#[command(name = "bailiwick", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How logs are written to standard error.
    #[arg(long, global = true, value_enum, default_value = "text")]
    logging_format: LoggingFormat,
    /// What is logged, such as `info` or `bailiwick_server=debug`; the environment variable BAILIWICK_LOG does the same.
    #[arg(long, global = true, env = "BAILIWICK_LOG", default_value = "info")]
    log: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LoggingFormat {
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
    #[command(subcommand)]
    Catalog(catalog::Command),
    /// Tools for CustomResourceDefinitions.
    #[command(subcommand)]
    Crd(crd::Command),
    /// Rotate the keys that secrets are encrypted with, and re-encrypt.
    #[command(subcommand)]
    Encryption(encryption::Command),
    /// Save, restore and inspect backups of the embedded store.
    #[command(subcommand)]
    Snapshot(snapshot::Command),
}

/// Runs the command line and returns the exit code.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_new(&cli.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match cli.logging_format {
        LoggingFormat::Text => logs.init(),
        LoggingFormat::Json => logs.json().init(),
    }
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Auth(command) => auth::run(command),
        Command::Controllers(args) => controllers::run(args),
        Command::Catalog(command) => catalog::run(command),
        Command::Crd(command) => crd::run(command),
        Command::Encryption(command) => encryption::run(command),
        Command::Snapshot(command) => snapshot::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
