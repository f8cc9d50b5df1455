//! The suite of real CustomResourceDefinitions as `cargo test` sees it: one test per definition. Takes the usual filter.

use xtask::conformance::report_as_tests;
use xtask::real_crds::{self, Args};

fn main() -> anyhow::Result<()> {
    report_as_tests(|filter| real_crds::compare(&Args { filter, ..Args::default() }))
}
