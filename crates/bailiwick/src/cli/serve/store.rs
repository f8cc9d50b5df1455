//! The flags of `bailiwick serve` that say where objects are kept.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bailiwick::StoreOptions;
use bailiwick_store::{embedded, etcd};

use crate::cli::duration;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Store")]
pub struct Flags {
    /// Keep objects in this etcd cluster instead of the data directory (comma-separated URLs).
    #[arg(long, value_delimiter = ',')]
    etcd_servers: Vec<String>,
    /// Put before every key in etcd.
    #[arg(long, default_value = "/bailiwick/")]
    etcd_prefix: String,
    /// PEM bundle of the authorities that vouch for etcd.
    #[arg(long)]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate to show to etcd.
    #[arg(long, requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate to show to etcd.
    #[arg(long, requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// How often one of the servers has etcd forget history: between one and two of these is kept for watches to resume
    /// from. 0 leaves it to others.
    #[arg(long, default_value = "5m0s", value_parser = duration::parse)]
    etcd_compaction_interval: Duration,
}

impl Flags {
    pub fn options(&self) -> anyhow::Result<StoreOptions> {
        if self.etcd_servers.is_empty() {
            return Ok(StoreOptions::Embedded(embedded::Options::default()));
        }
        let read = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| std::fs::read(path).with_context(|| format!("{}", path.display()))).transpose()
        };
        let mut options = etcd::Options::new(self.etcd_servers.iter().cloned());
        options.prefix = self.etcd_prefix.clone();
        options.compaction = match self.etcd_compaction_interval {
            Duration::ZERO => etcd::Compaction::Off,
            interval => etcd::Compaction::Every(interval),
        };
        if self.etcd_cafile.is_some() || self.etcd_certfile.is_some() {
            options.tls = Some(etcd::Tls {
                ca: read(&self.etcd_cafile)?,
                identity: read(&self.etcd_certfile)?
                    .zip(read(&self.etcd_keyfile)?)
                    .map(|(certificate, key)| etcd::Identity { certificate, key }),
            });
        }
        Ok(StoreOptions::Etcd(options))
    }
}
