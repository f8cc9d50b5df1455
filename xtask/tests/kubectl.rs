//! The command-line suite as `cargo test` sees it: one test per kubectl version and script. Takes the usual filter.

use xtask::conformance::report_as_tests;
use xtask::kubectl::{self, Args};

fn main() -> anyhow::Result<()> {
    report_as_tests(|filter| kubectl::compare(&Args { filter, ..Args::default() }))
}
