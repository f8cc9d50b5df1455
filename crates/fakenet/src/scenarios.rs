//! Runs scenarios on the fake internet: enters the namespace, brings a world up once and runs every scenario in it. For tests
//! without the usual harness; takes the usual filter and `--list`.

use std::os::unix::process::CommandExt;
use std::pin::Pin;

use anyhow::{Context, Result};

use crate::namespace;

/// How a scenario ends.
pub type Ending<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A named scenario in a world of type `W`.
pub struct Scenario<W> {
    /// What it specifies.
    pub name: &'static str,
    /// Runs it; a panic or an error is a failure.
    pub run: for<'a> fn(&'a W) -> Ending<'a>,
}

/// A scenario from an async function that takes the world by reference.
#[macro_export]
macro_rules! scenario {
    ($function:ident) => {
        $crate::scenarios::Scenario { name: stringify!($function), run: |world| Box::pin($function(world)) }
    };
}

/// Runs those that the arguments ask for, in the world that `up` makes, and ends the process.
pub fn run<W>(scenarios: Vec<Scenario<W>>, up: impl AsyncFnOnce() -> Result<W>) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        scenarios.iter().for_each(|scenario| println!("{}: test", scenario.name));
        return Ok(());
    }
    if !namespace::is_inside() {
        if let Some(reason) = crate::missing() {
            bailiwick_skip::skip(format_args!("no fake internet: {reason}"));
            return Ok(());
        }
        // Only returns when it fails.
        let error = namespace::command(std::env::current_exe()?).args(&arguments).exec();
        return Err(error).context("running unshare");
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let chosen: Vec<&Scenario<W>> = scenarios.iter().filter(|scenario| scenario.name.contains(&filter)).collect();
    println!("\nrunning {} tests", chosen.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let world = runtime.block_on(up())?;
    let mut failed = 0;
    for scenario in &chosen {
        let run = || runtime.block_on((scenario.run)(&world));
        let verdict = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => "ok",
            Ok(Err(error)) => {
                println!("{}: {error:#}", scenario.name);
                "FAILED"
            }
            Err(_) => "FAILED",
        };
        failed += usize::from(verdict != "ok");
        println!("test {} ... {verdict}", scenario.name);
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let (passed, filtered) = (chosen.len() - failed, scenarios.len() - chosen.len());
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered} filtered out\n"
    );
    drop(world);
    std::process::exit(i32::from(failed > 0));
}
