//! The flags of `bailiwick serve` for domains as objects.

use std::sync::Arc;

use anyhow::Context;
use bailiwick::{Builder, Service};
use bailiwick_domains::seams::{Roots, SystemClock};
use bailiwick_domains_controller::Options;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Domains")]
pub struct Flags {
    /// The name in the records that prove ownership: `_<brand>-challenge.<domain>`.
    #[arg(long, default_value = "bailiwick")]
    domains_brand: String,
    /// Domains of one namespace that are watched over.
    #[arg(long, default_value_t = 1_000)]
    domains_per_namespace: usize,
}

impl Flags {
    /// Adds Domain objects and what watches over them.
    pub fn add(&self, builder: Builder) -> anyhow::Result<Builder> {
        let roots = Roots::from_environment().context("domains")?;
        let options = Options {
            brand: self.domains_brand.clone(),
            domains_per_namespace_max: self.domains_per_namespace,
            ..Options::new(Arc::new(SystemClock), Arc::new(roots))
        };
        Ok(builder.service(Service::new("domains", |context| async move {
            let mut shutdown = context.shutdown;
            let told_to_end = async move { shutdown.wait().await };
            Ok(bailiwick_domains_controller::run(context.client, options, told_to_end).await?)
        })))
    }
}
