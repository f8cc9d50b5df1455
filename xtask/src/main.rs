//! The command line of `cargo xtask`. Each subcommand lives in a module of the library.

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{bench, beside_opm, chaos, conformance, dependencies, fakenet, kubectl, real_crds, setup, test_run};

/// Commands for people who work on Bailiwick.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the programs that the tests use (kubectl of three minors, etcd) into the tools directory.
    Setup(setup::Args),
    /// Run every check: formatting, clippy, dependency policy, all tests. Ends with one line of totals.
    Test(test_run::Args),
    /// Compare our answers with kube-apiserver's, request by request.
    Conformance(conformance::Args),
    /// Check licences, bans and sources of all dependencies, and RustSec's advisories about them.
    Dependencies(dependencies::Args),
    /// Measure us beside kube-apiserver + etcd with the load generator, and print the ratios.
    Bench(bench::Args),
    /// Give thousands of mutated catalogs and templates to us and to the real opm, and count who agrees.
    BesideOpm(beside_opm::Args),
    /// Kill, stop and pause three servers and three etcd members under load, and check that every promise holds.
    Chaos(chaos::Args),
    /// Run a command on a fake internet: `cargo xtask fakenet -- bailiwick dns trace good.com`.
    Fakenet(fakenet::Args),
    /// Run scripts of real kubectl commands, in three minors, and compare with what they print against kube-apiserver.
    Kubectl(kubectl::Args),
    /// Apply real CustomResourceDefinitions of other projects and their samples, and compare with kube-apiserver's answers.
    RealCrds(real_crds::Args),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Test(args) => test_run::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Dependencies(args) => dependencies::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BesideOpm(args) => beside_opm::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::Fakenet(args) => fakenet::run(&args),
        Command::Kubectl(args) => kubectl::run(&args),
        Command::RealCrds(args) => real_crds::run(&args),
    }
}
