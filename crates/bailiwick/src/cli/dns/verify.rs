//! `bailiwick dns verify`.

use std::time::Duration;

use anyhow::Context;
use bailiwick_domains::name::DomainName;
use bailiwick_domains::report::verification;
use bailiwick_domains::verification::challenge::system_random;
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::{Challenge, Scope};

use super::Common;

/// How often a record is looked for while waiting: it is seen within this time of going live.
const POLL: Duration = Duration::from_secs(4);

#[derive(clap::Args)]
pub struct Args {
    /// The domain whose control is to be proven.
    domain: String,
    /// The token that was given before; without it a new one is made and what to do with it is told.
    #[arg(long)]
    token: Option<String>,
    /// The name in the record's name: `_<brand>-challenge`.
    #[arg(long, default_value = "bailiwick")]
    brand: String,
    /// Look again every few seconds until it is there, for at most this long.
    #[arg(long, default_value_t = 0)]
    wait_seconds: u64,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let toolbox = common.toolbox()?;
    let domain = DomainName::parse(&args.domain)?;
    let now = toolbox.clock().now();
    let challenge = Challenge::new(&domain, Scope::Domain, &args.brand, now, &mut system_random)?;
    match args.token {
        Some(token) => {
            let challenge = challenge.with_token(&token);
            let deadline = tokio::time::Instant::now() + Duration::from_secs(args.wait_seconds);
            let verdict = loop {
                let verdict = toolbox.verify(&challenge).await;
                if verdict.outcome != Outcome::Pending || tokio::time::Instant::now() + POLL > deadline {
                    break verdict;
                }
                tokio::time::sleep(POLL).await;
            };
            common.print(&verdict, |style| verification::verdict(&challenge, &verdict, style))
        }
        None => {
            let facts = toolbox.zone_of(&domain).await.map_err(anyhow::Error::msg).context("looking for the zone")?;
            common.print(&challenge, |style| {
                let told = verification::instructions(&challenge, &facts.zone, facts.provider.provider(), now, style);
                format!("{told}\nThen: bailiwick dns verify {domain} --token {}\n", challenge.token)
            })
        }
    }
}
