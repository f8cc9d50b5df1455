//! The authoritative servers: one process for each operator, as nsd serves all its zones on all its addresses.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::programs::{Programs, Running};
use crate::signing::zone_file;
use crate::world;
use crate::zone::{Operator, Zone};

/// Between two looks whether a server is up.
const POLL: Duration = Duration::from_millis(20);

/// The running servers.
pub(crate) struct Servers {
    nsd: Vec<(Operator, Running)>,
    knot: Running,
    named: Running,
    _others: Vec<Running>,
}

/// The hosts whose addresses an operator's server listens on.
fn hosts(operator: Operator) -> Vec<&'static str> {
    match operator {
        Operator::Root => world::ROOT_SERVERS.iter().map(|(name, _)| *name).collect(),
        Operator::Tld => world::hosts_below(".gtld-servers.net").collect(),
        Operator::OpA => {
            vec!["ns1.op-a.net", "ns2.op-a.net", "ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"]
        }
        Operator::OpB => vec!["ns1.op-b.org", "ns2.op-b.org"],
        Operator::Geo => vec!["ns1.geo-dns.net"],
        Operator::Stale => vec!["stale.op-c.net"],
    }
}

fn addresses(operator: Operator) -> Vec<&'static str> {
    hosts(operator).into_iter().flat_map(|host| world::addresses_of(host).iter().copied()).collect()
}

impl Servers {
    pub(crate) fn start(programs: &Programs, directory: &Path, zones: &[Zone]) -> Result<Self> {
        let mut nsd = Vec::new();
        for operator in [Operator::Root, Operator::Tld, Operator::OpA, Operator::Stale] {
            let zones: Vec<NsdZone> = zones
                .iter()
                .filter(|zone| zone.on.contains(&operator))
                .map(|zone| NsdZone::of(directory, zone))
                .collect();
            let name = format!("nsd-{operator:?}").to_lowercase();
            nsd.push((operator, start_nsd(programs, directory, &name, &addresses(operator), &zones)?));
        }
        let only = |origin: &str| -> Vec<NsdZone> {
            zones.iter().filter(|zone| zone.origin == origin).map(|zone| NsdZone::of(directory, zone)).collect()
        };
        let (root, stray) = (only("."), only("root-servers.net"));
        let others = vec![
            start_nsd(programs, directory, "nsd-upward", world::addresses_of("upward.op-c.net"), &root)?,
            start_nsd(programs, directory, "nsd-lame", world::addresses_of("lame.op-c.net"), &stray)?,
        ];
        let knot = start_knot(programs, directory, zones)?;
        let named = start_named(programs, directory, zones)?;
        Ok(Self { nsd, knot, named, _others: others })
    }

    /// Waits until every server answers.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<()> {
        let wanted = [
            (Operator::Root, "."),
            (Operator::Tld, "com"),
            (Operator::OpA, "good.com"),
            (Operator::OpB, "target.net"),
            (Operator::Geo, "geo.com"),
            (Operator::Stale, "stale.com"),
        ];
        let deadline = Instant::now() + timeout;
        for (operator, zone) in wanted {
            for address in addresses(operator) {
                wait_for(address, zone, deadline, |_| true)?;
            }
        }
        for host in ["upward.op-c.net", "lame.op-c.net"] {
            for address in world::addresses_of(host) {
                wait_for(address, "root-servers.net", deadline, |_| true)?;
            }
        }
        Ok(())
    }

    /// Adds a line to what one view of geo.com has, under the same serial: the views are no versions of each other.
    pub(crate) fn add_to_view(&self, directory: &Path, view: &str, line: &str) -> Result<()> {
        let file = match view {
            "fra" => directory.join("named").join("geo.com.fra"),
            _ => {
                let zones = world::zones();
                zone_file(directory, zones.iter().find(|spec| spec.origin == "geo.com").context("no geo.com")?)
            }
        };
        fs::write(&file, format!("{}\n{line}\n", fs::read_to_string(&file)?.trim_end()))?;
        self.named.reload()
    }

    /// Changes a line of a zone on all its servers and waits until they have it.
    pub(crate) fn edit(&self, directory: &Path, zone: &str, old: &str, new: &str) -> Result<()> {
        let zones = world::zones();
        let spec = zones.iter().find(|spec| spec.origin == zone && !spec.is_stale()).context("no such zone")?;
        let file = zone_file(directory, spec);
        let text = fs::read_to_string(&file)?;
        ensure!(text.contains(old), "{zone} has no line {old:?}");
        let soa = text.lines().find(|line| line.contains(" SOA ")).context("a zone without SOA")?;
        let serial: u32 = soa.split_whitespace().nth(6).context("a SOA without serial")?.parse()?;
        let newer = soa.replacen(&serial.to_string(), &(serial + 1).to_string(), 1);
        fs::write(&file, text.replacen(soa, &newer, 1).replacen(old, new, 1))?;
        let deadline = Instant::now() + crate::START_TIMEOUT;
        for operator in &spec.on {
            match self.nsd.iter().find(|(known, _)| known == operator) {
                Some((_, server)) => server.reload()?,
                None if *operator == Operator::OpB => self.knot.reload()?,
                None => bail!("{operator:?} cannot reload"),
            }
            for address in addresses(*operator) {
                let has_serial = |answer: &[u8]| answer.windows(4).any(|window| window == (serial + 1).to_be_bytes());
                wait_for(address, zone, deadline, has_serial)?;
            }
        }
        Ok(())
    }
}

/// A zone of nsd: its name and its file.
pub(crate) struct NsdZone {
    pub(crate) origin: String,
    pub(crate) file: PathBuf,
}

impl NsdZone {
    fn of(directory: &Path, zone: &Zone) -> Self {
        Self { origin: zone.origin.clone(), file: zone_file(directory, zone) }
    }
}

pub(crate) fn start_nsd(
    programs: &Programs,
    directory: &Path,
    name: &str,
    addresses: &[&str],
    zones: &[NsdZone],
) -> Result<Running> {
    let own = directory.join(name);
    fs::create_dir_all(&own)?;
    let dir = own.display();
    // The neglected one tells its version and gives its zones to everybody.
    let neglected = name == "nsd-stale";
    let (hides, gives) = match neglected {
        true => ("no", "  provide-xfr: 0.0.0.0/0 NOKEY\n"),
        false => ("yes", ""),
    };
    // Rate limiting would answer a test's burst with silence.
    let mut config = format!(
        "server:\n  username: \"\"\n  chroot: \"\"\n  database: \"\"\n  pidfile: \"\"\n  zonesdir: \"{dir}\"\n  \
         xfrdfile: \"{dir}/xfrd.state\"\n  zonelistfile: \"{dir}/zone.list\"\n  xfrdir: \"{dir}\"\n  server-count: 1\n  \
         rrl-ratelimit: 0\n  nsid: \"ascii_{name}\"\n  hide-version: {hides}\n"
    );
    for address in addresses {
        config.push_str(&format!("  ip-address: {address}\n"));
    }
    config.push_str("remote-control:\n  control-enable: no\n");
    for zone in zones {
        config.push_str(&format!("zone:\n  name: \"{}\"\n  zonefile: \"{}\"\n", zone.origin, zone.file.display()));
        config.push_str(gives);
    }
    let file = own.join("nsd.conf");
    fs::write(&file, config)?;
    programs.start(directory, name, "usr/sbin/nsd", &["-d", "-c", &file.display().to_string()])
}

fn start_knot(programs: &Programs, directory: &Path, zones: &[Zone]) -> Result<Running> {
    let own = directory.join("knot");
    fs::create_dir_all(&own)?;
    let dir = own.display();
    let listen: Vec<String> = addresses(Operator::OpB).iter().map(|address| format!("{address}@53")).collect();
    let mut config = format!(
        "server:\n  rundir: \"{dir}\"\n  listen: [ {} ]\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n  \
         nsid: \"knot\"\n  version: \"\"\n\
         log:\n  - target: stderr\n    any: info\ndatabase:\n  storage: \"{dir}\"\n\
         template:\n  - id: default\n    storage: \"{dir}\"\n    zonefile-sync: -1\n    journal-content: none\n    zonefile-load: whole\nzone:\n",
        listen.join(", ")
    );
    for zone in zones.iter().filter(|zone| zone.on.contains(&Operator::OpB)) {
        config.push_str(&format!(
            "  - domain: \"{}\"\n    file: \"{}\"\n",
            zone.origin,
            zone_file(directory, zone).display()
        ));
    }
    let file = own.join("knot.conf");
    fs::write(&file, config)?;
    programs.start(directory, "knot", "usr/sbin/knotd", &["-c", &file.display().to_string()])
}

/// Frankfurt still gets the old addresses of geo.com, and not the proof of ownership.
fn start_named(programs: &Programs, directory: &Path, zones: &[Zone]) -> Result<Running> {
    let own = directory.join("named");
    fs::create_dir_all(&own)?;
    let zone = zones.iter().find(|zone| zone.origin == "geo.com").context("no geo.com")?;
    let new = zone_file(directory, zone);
    let old = own.join("geo.com.fra");
    let text = fs::read_to_string(&new)?.replace("203.0.113.2", "203.0.113.1");
    let without_proof = text.lines().filter(|line| !line.starts_with("_bailiwick-challenge"));
    fs::write(&old, without_proof.map(|line| format!("{line}\n")).collect::<String>())?;
    let config = format!(
        "options {{ directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/session.key\"; listen-on {{ {address}; }}; \
         listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; version none; notify no; server-id \"geo\"; }};\n\
         controls {{ }};\n\
         view \"fra\" {{ match-clients {{ 100.64.1.0/24; }}; zone \"geo.com\" {{ type primary; file \"{old}\"; }}; }};\n\
         view \"rest\" {{ match-clients {{ any; }}; zone \"geo.com\" {{ type primary; file \"{new}\"; }}; }};\n",
        dir = own.display(),
        address = addresses(Operator::Geo).join("; "),
        old = old.display(),
        new = new.display(),
    );
    let file = own.join("named.conf");
    fs::write(&file, config)?;
    programs.start(directory, "named", "usr/sbin/named", &["-g", "-n", "1", "-c", &file.display().to_string()])
}

/// Waits until the server at `address` answers a question about the SOA of `zone` to our liking.
pub(crate) fn wait_for(address: &str, zone: &str, deadline: Instant, likes: impl Fn(&[u8]) -> bool) -> Result<()> {
    let server = SocketAddr::new(address.parse::<IpAddr>()?, 53);
    loop {
        if soa(server, zone).is_ok_and(|answer| likes(&answer)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the server at {address} does not answer for {zone}");
        std::thread::sleep(POLL);
    }
}

fn soa(server: SocketAddr, zone: &str) -> Result<Vec<u8>> {
    let mut packet = vec![0x4b, 0x42, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in zone.split('.').filter(|label| !label.is_empty()) {
        packet.push(u8::try_from(label.len())?);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(&[0, 0, 6, 0, 1]);
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(300)))?;
    socket.send(&packet)?;
    let mut buffer = vec![0; 4096];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}
