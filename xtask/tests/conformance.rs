//! The differential suite as `cargo test` sees it: our server against kube-apiserver's recorded answers, one test per
//! case. Takes the usual filter.

use xtask::conformance::{self, Args, report_as_tests};

fn main() -> anyhow::Result<()> {
    report_as_tests(|filter| conformance::compare(&Args { filter, ..Args::default() }))
}
