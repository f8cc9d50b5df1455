//! A fake internet for tests and demonstrations: real nsd, knot, bind9 and unbound on real addresses inside an unprivileged
//! network namespace, with a signed root and top-level domains, registries, public resolvers and every fault that people
//! meet. Nothing can leak to the real network, and nothing has to be installed.
//!
//! The entry type is [`Bed`]; it must be brought up inside the namespace ([`namespace`]). This crate knows nothing of the code
//! under test: it writes a roots file, and that is all that it tells.

mod authoritative;
mod certificates;
mod crowd;
mod faults;
mod generated;
mod hostile;
mod ill;
mod message;
pub mod namespace;
mod programs;
mod registry;
mod resolvers;
pub mod scenarios;
mod signing;
mod web;
mod whoami;
mod world;
mod zone;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

pub use crowd::Crowd;
pub use generated::{GENERATED_ZONES, generated_seed, random_question};
pub use programs::{Programs, missing};
pub use world::{PROOF_EXCEPT_IN_FRANKFURT, RESOLVERS, Resolver, SECOND_OPINION, VANTAGE_POINTS};

/// How long the servers may take to start, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to load tens of thousands of zones.
const CROWD_TIMEOUT: Duration = Duration::from_secs(180);

/// A running fake internet; everything ends when it is dropped.
pub struct Bed {
    directory: tempfile::TempDir,
    authoritative: authoritative::Servers,
    _resolvers: Vec<programs::Running>,
    _hoster: Option<programs::Running>,
    _faults: faults::Faults,
    hostile: hostile::Hostile,
    registry: registry::Registry,
    sites: web::Sites,
}

impl Bed {
    /// Brings everything up. Must be called inside the namespace.
    pub fn up() -> Result<Self> {
        Self::bring_up(None)
    }

    /// The same with many more domains.
    pub fn with_crowd(crowd: Crowd) -> Result<Self> {
        Self::bring_up(Some(crowd))
    }

    fn bring_up(crowd: Option<Crowd>) -> Result<Self> {
        let programs = Programs::find()?;
        let directory = tempfile::Builder::new().prefix("fakenet").tempdir().context("making a directory")?;
        let path = directory.path();
        let mut addresses = world::all_addresses();
        if crowd.is_some() {
            addresses.extend(Crowd::addresses().iter().filter_map(|text| text.parse::<IpAddr>().ok()));
        }
        namespace::configure(&addresses)?;
        let authority = certificates::Authority::new(path)?;
        let mut zones = world::zones();
        if let Some(crowd) = &crowd {
            crowd.join(&programs, path, &mut zones)?;
        }
        let signed = signing::write_and_sign(&programs, path, &zones)?;
        let authoritative = authoritative::Servers::start(&programs, path, &zones)?;
        let hoster = crowd.map(|crowd| crowd.start(&programs, path)).transpose()?;
        let faults = faults::Faults::start()?;
        let hostile = hostile::Hostile::start()?;
        whoami::start()?;
        let registry = registry::start(&authority)?;
        let sites = web::start(&authority)?;
        authoritative.wait(START_TIMEOUT)?;
        if let Some(crowd) = &crowd {
            crowd.wait(Instant::now() + CROWD_TIMEOUT)?;
        }
        let resolvers = resolvers::start(&programs, path, &authority, &signed)?;
        resolvers::wait(START_TIMEOUT)?;
        let bed = Self {
            directory,
            authoritative,
            _resolvers: resolvers,
            _hoster: hoster,
            _faults: faults,
            hostile,
            registry,
            sites,
        };
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

    /// What the registry of a top-level domain answers for a domain by RDAP from now on; `fixtures/README.md` tells the form.
    pub fn set_registration(&self, tld: &str, domain: &str, answer: String) {
        self.registry.set(tld, domain, answer);
    }

    /// What the registry answered for a domain when the bed came up.
    pub fn registration(&self, tld: &str, domain: &str) -> Option<String> {
        registry::fixture(&["rdap", tld, &format!("{domain}.json")])
    }

    /// Puts a file on a customer's site.
    pub fn put_on_site(&self, host: &str, path: &str, body: &str) {
        self.sites.put(host, path, body);
    }

    /// Has a site show such files to everybody but the place with this address; to everybody again without one.
    pub fn hide_files_on_site(&self, host: &str, from: Option<std::net::IpAddr>) {
        self.sites.hide(host, from);
    }

    /// Questions that reached the server of `victim.com`, which attackers name as theirs.
    pub fn victim_questions(&self) -> u64 {
        self.hostile.victim_questions()
    }

    /// Adds a line to geo.com as one of its views has it: `fra`, or `rest` for everybody else.
    pub fn add_to_view(&self, view: &str, line: &str) -> Result<()> {
        self.authoritative.add_to_view(self.directory.path(), view, line)
    }

    /// `dig` with its libraries, as a second opinion.
    pub fn dig(&self, arguments: &[&str]) -> Result<String> {
        Programs::find()?.output("usr/bin/dig", arguments)
    }

    /// `dig +trace`, which asks from the root down by itself. It finds the addresses of servers through the machine's resolver,
    /// so it gets one of ours.
    pub fn dig_trace(&self, name: &str, rtype: &str) -> Result<String> {
        let configuration = self.directory.path().join("resolv.conf");
        std::fs::write(&configuration, format!("nameserver {}\n", RESOLVERS[0].address))?;
        let command = Programs::find()?.command("usr/bin/dig");
        let libraries = command.get_envs().find(|(key, _)| *key == "LD_LIBRARY_PATH").and_then(|(_, value)| value);
        let server = format!("@{}", RESOLVERS[0].address);
        let output = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
            .arg(&configuration)
            .args(["env", &format!("LD_LIBRARY_PATH={}", libraries.unwrap_or_default().to_string_lossy())])
            .arg(command.get_program())
            .args([&server, "+trace", "+nodnssec", "+tries=2", "+time=2", name, rtype])
            .output()
            .context("running dig +trace")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(output.status.success(), "dig +trace: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
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
            "whoami": {"name": whoami::ZONE, "oneTime": true},
        });
        std::fs::write(self.roots_file(), serde_json::to_vec_pretty(&roots)?).context("writing the roots file")
    }
}
