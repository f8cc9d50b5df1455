//! A fake internet for tests and demonstrations: real nsd, knot, bind9 and unbound on real addresses inside an unprivileged
//! network namespace, with a signed root and top-level domains, registries, public resolvers and every fault that people
//! meet. Nothing can leak to the real network, and nothing has to be installed.
//!
//! The entry type is [`Bed`]; it must be brought up inside the namespace ([`namespace`]). This crate knows nothing of the code
//! under test: it writes a roots file, and that is all that it tells.

mod authoritative;
mod certificates;
mod faults;
mod generated;
pub mod namespace;
mod programs;
mod registry;
mod resolvers;
mod signing;
mod web;
mod world;
mod zone;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

pub use generated::{GENERATED_ZONES, random_question};
pub use programs::{Programs, missing};
pub use world::{RESOLVERS, Resolver, SECOND_OPINION, VANTAGE_POINTS};

/// How long the servers may take to start, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running fake internet; everything ends when it is dropped.
pub struct Bed {
    directory: tempfile::TempDir,
    authoritative: authoritative::Servers,
    _resolvers: Vec<programs::Running>,
    _faults: faults::Faults,
}

impl Bed {
    /// Brings everything up. Must be called inside the namespace.
    pub fn up() -> Result<Self> {
        let programs = Programs::find()?;
        let directory = tempfile::Builder::new().prefix("fakenet").tempdir().context("making a directory")?;
        let path = directory.path();
        namespace::configure(&world::all_addresses())?;
        let authority = certificates::Authority::new(path)?;
        let zones = world::zones();
        let signed = signing::write_and_sign(&programs, path, &zones)?;
        let authoritative = authoritative::Servers::start(&programs, path, &zones)?;
        let faults = faults::Faults::start()?;
        registry::start(&authority)?;
        web::start(&authority)?;
        authoritative.wait(START_TIMEOUT)?;
        let resolvers = resolvers::start(&programs, path, &authority, &signed)?;
        resolvers::wait(START_TIMEOUT)?;
        let bed = Self { directory, authoritative, _resolvers: resolvers, _faults: faults };
        bed.write_roots(&authority, &signed)?;
        Ok(bed)
    }

    /// The file that tells a program where this internet begins.
    pub fn roots_file(&self) -> PathBuf {
        self.directory.path().join("roots.json")
    }

    /// Where zones, configurations and logs are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Replaces one line of an unsigned zone by another and raises its serial, on all its servers, as an owner would.
    pub fn edit_zone(&self, zone: &str, old: &str, new: &str) -> Result<()> {
        self.authoritative.edit(self.directory.path(), zone, old, new)
    }

    /// `dig` with its libraries, as a second opinion.
    pub fn dig(&self, arguments: &[&str]) -> Result<String> {
        Programs::find()?.output("usr/bin/dig", arguments)
    }

    fn write_roots(&self, authority: &certificates::Authority, signed: &signing::Signed) -> Result<()> {
        let hints: Vec<_> = world::ROOT_SERVERS
            .iter()
            .map(|(name, addresses)| serde_json::json!({"name": format!("{name}."), "addresses": addresses}))
            .collect();
        let resolvers: Vec<_> = RESOLVERS
            .iter()
            .map(|resolver| {
                serde_json::json!({
                    "name": resolver.name, "address": resolver.address, "tlsName": resolver.tls_name,
                    "dohPath": "/dns-query", "filters": resolver.filters, "maxNegativeTtl": resolver.max_negative_ttl,
                })
            })
            .collect();
        let vantage_points: Vec<_> =
            VANTAGE_POINTS.iter().map(|(name, v4)| serde_json::json!({"name": name, "v4": v4})).collect();
        let roots = serde_json::json!({
            "hints": hints,
            "anchors": [signed.anchor()?],
            "rdapBootstrap": "https://data.iana.org/rdap/dns.json",
            "whois": "whois.iana.org",
            "caFile": authority.file(),
            "resolvers": resolvers,
            "vantagePoints": vantage_points,
            "systemResolvers": ["208.67.222.222"],
        });
        std::fs::write(self.roots_file(), serde_json::to_vec_pretty(&roots)?).context("writing the roots file")
    }
}
