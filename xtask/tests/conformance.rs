//! The differential suite as `cargo test` sees it: our server against kube-apiserver's recorded answers, one test per
//! case. Takes the usual test-name filter.

use xtask::conformance::{self, Args};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("conformance: test");
        return Ok(());
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let outcomes = conformance::compare(&Args { filter, ..Args::default() })?;
    println!("\nrunning {} tests", outcomes.len());
    for outcome in &outcomes {
        let verdict = if outcome.problems.is_empty() { "ok" } else { "FAILED" };
        println!("test {} ... {verdict}", outcome.name);
    }
    let failed = conformance::report(&outcomes);
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n",
        outcomes.len() - failed
    );
    std::process::exit(i32::from(failed > 0));
}
