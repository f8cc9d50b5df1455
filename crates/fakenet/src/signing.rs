//! Zone files on disk, signed with BIND's own tools from the leaves to the root, so that our validator is judged by
//! signatures that it did not make.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::programs::Programs;
use crate::world;
use crate::zone::{Ds, Signing, Zone};

/// A DS record that belongs to no key.
const WRONG_DS: &str = "4711 13 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF";

/// What signing left behind.
pub(crate) struct Signed {
    root_ds: String,
}

impl Signed {
    /// The trust anchor as a zone file's line.
    pub(crate) fn root_ds(&self) -> &str {
        &self.root_ds
    }

    /// The trust anchor for a roots file.
    pub(crate) fn anchor(&self) -> Result<serde_json::Value> {
        let mut fields = self.root_ds.split_whitespace().skip_while(|field| *field != "DS").skip(1);
        let mut next = || fields.next().context("the DS of the root is not complete");
        let (key_tag, algorithm, digest_type) =
            (next()?.parse::<u16>()?, next()?.parse::<u8>()?, next()?.parse::<u8>()?);
        let digest: String = fields.collect();
        Ok(serde_json::json!({
            "keyTag": key_tag, "algorithm": algorithm, "digestType": digest_type, "digest": digest,
        }))
    }
}

/// The file that a server of the zone loads.
pub(crate) fn zone_file(directory: &Path, zone: &Zone) -> PathBuf {
    let name = if zone.signing == Signing::None { zone.file() } else { format!("{}.signed", zone.file()) };
    directory.join("zones").join(name)
}

/// Writes all zones, those with more labels first, because parents need the DS of their children.
pub(crate) fn write_and_sign(programs: &Programs, directory: &Path, zones: &[Zone]) -> Result<Signed> {
    for sub in ["zones", "keys", "ds"] {
        fs::create_dir_all(directory.join(sub))?;
    }
    let depth = |zone: &Zone| if zone.origin == "." { 0 } else { zone.origin.split('.').count() };
    let deepest = zones.iter().map(depth).max().unwrap_or(0);
    for level in (0..=deepest).rev() {
        let batch: Vec<&Zone> = zones.iter().filter(|zone| depth(zone) == level).collect();
        std::thread::scope(|scope| {
            let work: Vec<_> =
                batch.iter().map(|zone| scope.spawn(|| write_one(programs, directory, zone, zones))).collect();
            work.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("signing panicked")))
        })?;
    }
    let root_ds = fs::read_to_string(directory.join("ds/dsset-.")).context("the DS of the root")?;
    Ok(Signed { root_ds: root_ds.trim().to_owned() })
}

fn write_one(programs: &Programs, directory: &Path, zone: &Zone, zones: &[Zone]) -> Result<()> {
    let file = directory.join("zones").join(zone.file());
    fs::write(&file, zone.text(&delegations(directory, zone, zones)?))?;
    if zone.signing == Signing::None {
        return Ok(());
    }
    let keys = directory.join("keys").display().to_string();
    let origin = zone.absolute();
    let key: &[&str] = match zone.signing {
        Signing::With { key, .. } => key,
        _ => &["-a", "ECDSAP256SHA256", "-f", "KSK"],
    };
    let mut generate = vec!["-q", "-K", &keys];
    generate.extend(key);
    generate.push(&origin);
    programs.output("usr/bin/dnssec-keygen", &generate)?;
    let output = zone_file(directory, zone).display().to_string();
    let (input, ds) = (file.display().to_string(), directory.join("ds").display().to_string());
    let mut arguments = vec!["-q", "-S", "-z", "-P", "-K", &keys, "-d", &ds, "-o", &origin, "-f", &output];
    // Long enough for scenarios that move the clock by months.
    if zone.signing != Signing::Expired {
        arguments.extend(["-e", "now+90d"]);
    }
    match zone.signing {
        Signing::Nsec3 => arguments.extend(["-3", "-", "-H", "0"]),
        Signing::OptOut => arguments.extend(["-3", "-", "-H", "0", "-A"]),
        Signing::Expired => arguments.extend(["-s", "now-60d", "-e", "now-30d"]),
        Signing::With { options, .. } => arguments.extend(options),
        Signing::None | Signing::Nsec => {}
    }
    arguments.push(&input);
    programs.output("usr/bin/dnssec-signzone", &arguments).with_context(|| format!("signing {}", zone.origin))?;
    Ok(())
}

/// What a zone says about the zones right below it.
fn delegations(directory: &Path, zone: &Zone, zones: &[Zone]) -> Result<String> {
    let mut text = String::new();
    let mut glued: Vec<String> = Vec::new();
    for child in zones.iter().filter(|child| zone.is_above(child) && !child.is_stale()) {
        let between = zones.iter().any(|other| zone.is_above(other) && other.is_above(child));
        if between {
            continue;
        }
        for ns in child.delegated_to.as_ref().unwrap_or(&child.ns) {
            text.push_str(&format!("{} 172800 IN NS {ns}.\n", child.absolute()));
            if (zone.origin == "." || ns.ends_with(&format!(".{}", zone.origin))) && !glued.contains(ns) {
                glued.push(ns.clone());
                text.push_str(&glue(child, ns));
            }
        }
        let ds = match child.ds {
            Ds::Absent => continue,
            Ds::Wrong => format!("{} IN DS {WRONG_DS}\n", child.absolute()),
            Ds::Lines(lines) => lines.lines().map(|line| format!("{} IN DS {line}\n", child.absolute())).collect(),
            Ds::Right if child.signing == Signing::None => continue,
            Ds::Right => fs::read_to_string(directory.join("ds").join(format!("dsset-{}", child.absolute())))
                .with_context(|| format!("the DS of {}", child.origin))?,
        };
        text.push_str(&ds);
    }
    Ok(text)
}

fn glue(child: &Zone, ns: &str) -> String {
    let given = child.glue.iter().filter(|(host, _)| host == ns).map(|(_, address)| address.to_string());
    let mut addresses: Vec<String> = given.collect();
    if addresses.is_empty() {
        addresses = world::addresses_of(ns).iter().map(|address| (*address).to_owned()).collect();
    }
    let line = |address: &String| {
        let rtype = if address.contains(':') { "AAAA" } else { "A" };
        format!("{ns}. 172800 IN {rtype} {address}\n")
    };
    addresses.iter().map(line).collect()
}
