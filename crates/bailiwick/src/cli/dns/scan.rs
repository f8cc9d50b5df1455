//! `bailiwick dns scan`.

use bailiwick_domains::name::Subject;
use bailiwick_domains::report::scan;

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// A domain, or anything in it: a URL, a sub-domain, a name in any script.
    subject: String,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let found = common.toolbox()?.scan(Subject::parse(&args.subject)?).await;
    common.print(&found, |style| scan::text(&found, style))
}
