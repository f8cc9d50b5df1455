//! `bailiwick dns scan`.

use bailiwick_domains::check::Check;

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// A domain, or anything in it: a URL, a sub-domain, a name in any script.
    subject: String,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    common.check(&Check::Scan { name: args.subject }).await
}
