//! `bailiwick dns zone-check`.

use bailiwick_domains::check::Check;
use bailiwick_domains::verdict::Severity;

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The zone to check.
    zone: String,
    /// The least severity that is printed.
    #[arg(long, value_enum, default_value = "notice")]
    level: Level,
    /// Check as if the parent delegated to this server instead. May be repeated.
    #[arg(long = "ns", value_name = "NAME[/ADDRESS]")]
    servers: Vec<String>,
    /// With --ns: a DS record that the parent would have. May be repeated.
    #[arg(long = "ds", value_name = "TAG,ALGORITHM,TYPE,DIGEST", requires = "servers")]
    signers: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Level {
    Info,
    Notice,
    Warning,
    Error,
    Critical,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let level = match args.level {
        Level::Info => Severity::Info,
        Level::Notice => Severity::Notice,
        Level::Warning => Severity::Warning,
        Level::Error => Severity::Error,
        Level::Critical => Severity::Critical,
    };
    let Args { zone: name, servers, signers, .. } = args;
    common.check(&Check::ZoneCheck { name, level, servers, signers }).await
}
