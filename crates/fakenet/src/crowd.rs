//! Many domains at once, for measurements: thousands of zones below `com` on one hoster (nsd) with many addresses, some of them
//! signed, some with nameservers of their own, some with one that is silent or lame, as on the real internet.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::authoritative::{NsdZone, start_nsd, wait_for};
use crate::programs::{Programs, Running};
use crate::zone::Operator::OpA;
use crate::zone::Zone;

/// The hoster's nameservers, each with an address of both families.
const HOSTS: usize = 64;
/// One domain in so many has a nameserver that says nothing, or that does not serve it.
const SILENT_EVERY: usize = 50;
const LAME_EVERY: usize = 100;
/// One domain in so many has nameservers of its own name.
const VANITY_EVERY: usize = 10;
/// The whole `com` has its thirteen servers then, so that none of them is asked more than its share.
const TLD_LETTERS: std::ops::RangeInclusive<char> = 'c'..='m';

/// How many domains there are.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// All of them.
    pub domains: usize,
    /// The first of them are signed.
    pub signed: usize,
}

/// What a domain of the crowd is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Signed,
    Plain,
    Vanity,
    OneSilent,
    OneLame,
}

impl Crowd {
    /// The names.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        let crowd = *self;
        (0..crowd.domains).map(move |index| crowd.name(index))
    }

    fn name(&self, index: usize) -> String {
        let letter = if self.kind(index) == Kind::Signed { 's' } else { 'd' };
        format!("{letter}{index:06}.com")
    }

    fn kind(&self, index: usize) -> Kind {
        match index {
            _ if index < self.signed => Kind::Signed,
            _ if index.is_multiple_of(SILENT_EVERY) => Kind::OneSilent,
            _ if index % LAME_EVERY == 1 => Kind::OneLame,
            _ if index % VANITY_EVERY == 5 => Kind::Vanity,
            _ => Kind::Plain,
        }
    }

    /// All addresses of the hoster.
    pub(crate) fn addresses() -> Vec<String> {
        (0..HOSTS).flat_map(|host| [v4(host), v6(host)]).collect()
    }

    /// Signs what is to be signed, and adds the crowd to the zones above it.
    pub(crate) fn join(&self, programs: &Programs, directory: &Path, zones: &mut Vec<Zone>) -> Result<()> {
        let own = directory.join("crowd");
        fs::create_dir_all(&own)?;
        for host in 0..HOSTS {
            for kind in [Kind::Plain, Kind::Vanity, Kind::OneSilent, Kind::OneLame] {
                fs::write(own.join(file(kind, host)), text(kind, host))?;
            }
        }
        let signers = self.sign(programs, &own)?;
        let com = zones.iter_mut().find(|zone| zone.origin == "com").context("no com")?;
        com.ns.extend(TLD_LETTERS.map(|letter| format!("{letter}.gtld-servers.net")));
        for index in 0..self.domains {
            let name = self.name(index);
            for server in servers(self.kind(index), index % HOSTS) {
                let server = if server.ends_with('.') { server } else { format!("{server}.{name}.") };
                com.records.push_str(&format!("{name}. 172800 IN NS {server}\n"));
            }
            if self.kind(index) == Kind::Vanity {
                com.records.push_str(&format!("ns1.{name}. 172800 IN A {}\n", v4(index % HOSTS)));
                com.records.push_str(&format!("ns2.{name}. 172800 IN AAAA {}\n", v6(next(index % HOSTS))));
            }
        }
        com.records.push_str(&signers);
        let hosts: String = (0..HOSTS)
            .map(|host| format!("ns{host} 3600 IN A {}\nns{host} 3600 IN AAAA {}\n", v4(host), v6(host)))
            .collect();
        zones.push(Zone::new("crowd.net", &["ns1.op-a.net", "ns2.op-a.net"], &[OpA]).records(&hosts));
        Ok(())
    }

    /// Starts the hoster.
    pub(crate) fn start(&self, programs: &Programs, directory: &Path) -> Result<Running> {
        let own = directory.join("crowd");
        let zones: Vec<NsdZone> = (0..self.domains)
            .map(|index| {
                let origin = self.name(index);
                let file = match self.kind(index) {
                    Kind::Signed => own.join(format!("{origin}.signed")),
                    kind => own.join(file(kind, index % HOSTS)),
                };
                NsdZone { origin, file }
            })
            .collect();
        let addresses = Self::addresses();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        start_nsd(programs, directory, "nsd-crowd", &addresses, &zones)
    }

    /// Waits until the hoster has its last zone.
    pub(crate) fn wait(&self, deadline: Instant) -> Result<()> {
        match self.domains.checked_sub(1) {
            Some(last) => {
                wait_for(&v4(0), &self.name(last), deadline, |answer| answer.get(3).is_some_and(|code| code & 15 == 0))
            }
            None => Ok(()),
        }
    }

    /// Signs with one key for all, which saves most of the time; the DS records of all.
    fn sign(&self, programs: &Programs, own: &Path) -> Result<String> {
        if self.signed == 0 {
            return Ok(String::new());
        }
        let model = own.join("key");
        fs::create_dir_all(&model)?;
        let arguments = ["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "-K", &model.display().to_string(), "model.com"];
        let key = programs.output("usr/bin/dnssec-keygen", &arguments)?.trim().to_owned();
        let tag = key.rsplit('+').next().context("a key without a tag")?.to_owned();
        let public = fs::read_to_string(model.join(format!("{key}.key")))?;
        let private = fs::read_to_string(model.join(format!("{key}.private")))?;
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            let work: Vec<_> = (0..workers)
                .map(|worker| {
                    let (public, private, tag) = (&public, &private, &tag);
                    scope.spawn(move || {
                        let mine = (0..self.signed).filter(|index| index % workers == worker);
                        mine.map(|index| self.sign_one(programs, own, index, public, private, tag))
                            .collect::<Result<String>>()
                    })
                })
                .collect();
            let done =
                work.into_iter().map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("signing panicked")));
            done.collect::<Result<Vec<String>>>().map(|signers| signers.concat())
        })
    }

    fn sign_one(
        &self,
        programs: &Programs,
        own: &Path,
        index: usize,
        public: &str,
        private: &str,
        tag: &str,
    ) -> Result<String> {
        let name = self.name(index);
        let keys = own.join(format!("{name}.keys"));
        fs::create_dir_all(&keys)?;
        fs::write(keys.join(format!("K{name}.+013+{tag}.key")), public.replace("model.com", &name))?;
        fs::write(keys.join(format!("K{name}.+013+{tag}.private")), private)?;
        let (input, output) = (own.join(file(Kind::Plain, index % HOSTS)), own.join(format!("{name}.signed")));
        let (keys, input, output) =
            (keys.display().to_string(), input.display().to_string(), output.display().to_string());
        let arguments = ["-q", "-S", "-z", "-P", "-K", &keys, "-d", &keys, "-o", &name, "-f", &output, &input];
        programs.output("usr/bin/dnssec-signzone", &arguments).with_context(|| format!("signing {name}"))?;
        Ok(fs::read_to_string(Path::new(&keys).join(format!("dsset-{name}.")))?)
    }
}

fn next(host: usize) -> usize {
    (host + 1) % HOSTS
}

fn v4(host: usize) -> String {
    format!("44.1.{host}.53")
}

fn v6(host: usize) -> String {
    format!("2600:9000:5301::{:x}", host + 1)
}

/// A zone file fits every domain of the same kind on the same hosts: its names are relative.
fn file(kind: Kind, host: usize) -> String {
    let prefix = match kind {
        Kind::Signed | Kind::Plain => "plain",
        Kind::Vanity => "vanity",
        Kind::OneSilent => "silent",
        Kind::OneLame => "lame",
    };
    format!("{prefix}-{host}")
}

fn servers(kind: Kind, host: usize) -> [String; 2] {
    let hoster = |host: usize| format!("ns{host}.crowd.net.");
    match kind {
        Kind::Signed | Kind::Plain => [hoster(host), hoster(next(host))],
        Kind::Vanity => ["ns1".to_owned(), "ns2".to_owned()],
        Kind::OneSilent => [hoster(host), "silent.op-c.net.".to_owned()],
        Kind::OneLame => [hoster(host), "lame.op-c.net.".to_owned()],
    }
}

fn text(kind: Kind, host: usize) -> String {
    let mut text = String::from("$TTL 300\n@ 3600 IN SOA ns0.crowd.net. hostmaster 2026111601 7200 1800 1209600 900\n");
    for server in servers(kind, host) {
        text.push_str(&format!("@ 3600 IN NS {server}\n"));
    }
    if kind == Kind::Vanity {
        text.push_str(&format!("ns1 IN A {}\nns2 IN AAAA {}\n", v4(host), v6(next(host))));
    }
    text.push_str("@ IN A 151.101.1.10\nwww IN CNAME edge.target.net.\n@ IN MX 10 mail\nmail IN A 151.101.1.10\n");
    text
}
