//! Zones made by chance, with everything that resolution has corners for: wildcards, empty non-terminals, aliases in and out
//! of the zone, DNAME, delegations. The same seed makes the same zones, and questions that hit them often.

use crate::zone::Operator::{self, OpA, OpB};
use crate::zone::{Ds, Signing, Zone};

/// The zones that [`random_question`] asks about.
pub const GENERATED_ZONES: &[&str] = &[
    "gen-nsec.com",
    "gen-nsec3.net",
    "gen-plain.org",
    "gen-optout.io",
    "child.gen-nsec.com",
    "unsigned.gen-optout.io",
    "secure.gen-optout.io",
    "island.gen-plain.org",
];

/// Sets the seed of zones and questions.
const SEED_ENV: &str = "BAILIWICK_DNS_SEED";
/// Aliases in a row that lead from one zone into the next.
const CHAIN: usize = 6;

/// The seed of zones and questions: 1, unless the environment says otherwise.
pub fn generated_seed() -> u64 {
    std::env::var(SEED_ENV).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

const LABELS: &[&str] = &["a", "b", "c", "d", "www", "mail", "x1", "_tcp", "deep", "far"];
const TYPES: &[&str] = &["A", "AAAA", "TXT", "MX", "CNAME", "NS", "SOA", "SRV", "CAA", "DS", "DNAME", "TYPE65280"];

/// Small, fast and the same everywhere (xorshift64*).
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(value).unwrap_or(0) % below.max(1)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.next(from.len())).copied().unwrap_or_default()
    }

    /// A name of one to three labels below the zone.
    fn name(&mut self) -> String {
        let labels: Vec<&str> = (0..=self.next(3)).map(|_| self.pick(LABELS)).collect();
        labels.join(".")
    }
}

pub(crate) fn zones() -> Vec<Zone> {
    let both = ["ns1.op-a.net", "ns2.op-b.org"];
    let a = ["ns1.op-a.net", "ns2.op-a.net"];
    let b = ["ns1.op-b.org", "ns2.op-b.org"];
    let made = |index: u64, origin: &str, ns: &[&str], on: &[Operator]| {
        Zone::new(origin, ns, on).records(&records(generated_seed().wrapping_mul(100).wrapping_add(index), origin))
    };
    vec![
        made(1, "gen-nsec.com", &both, &[OpA, OpB]).signed(Signing::Nsec, Ds::Right),
        made(2, "gen-nsec3.net", &both, &[OpA, OpB]).signed(Signing::Nsec3, Ds::Right),
        made(3, "gen-plain.org", &both, &[OpA, OpB]),
        made(4, "child.gen-nsec.com", &a, &[OpA]).signed(Signing::Nsec, Ds::Right),
        made(5, "gen-optout.io", &b, &[OpB]).signed(Signing::OptOut, Ds::Right),
        made(6, "unsigned.gen-optout.io", &a, &[OpA]),
        made(7, "secure.gen-optout.io", &a, &[OpA]).signed(Signing::Nsec3, Ds::Right),
        // Signed, but nobody above can vouch for it.
        made(8, "island.gen-plain.org", &b, &[OpB]).signed(Signing::Nsec, Ds::Right),
    ]
}

/// The zone that a chain of aliases leads on to.
fn next_zone(origin: &str) -> &'static str {
    let at = GENERATED_ZONES.iter().position(|zone| *zone == origin).unwrap_or(0);
    GENERATED_ZONES.get((at + 1) % GENERATED_ZONES.len()).copied().unwrap_or_default()
}

/// A zone's records. Owners are taken once for aliases and once for a DNAME, because those allow nothing beside or below.
fn records(seed: u64, origin: &str) -> String {
    let mut chance = Chance::new(seed);
    let mut aliases: Vec<String> = Vec::new();
    let mut text = String::from(
        "dn IN DNAME d2\nx.d2 IN A 198.51.100.7\n*.d2 IN TXT \"below d2\"\nout IN DNAME new.target.net.\n",
    );
    for link in 0..CHAIN {
        text.push_str(&format!("chain{link} IN CNAME chain{}\n", link + 1));
    }
    text.push_str(&format!("chain{CHAIN} IN CNAME {}.{}.\n", chance.pick(LABELS), next_zone(origin)));
    let mut plain: Vec<(String, String)> = Vec::new();
    for _ in 0..60 {
        let mut owner = chance.name();
        if chance.next(6) == 0 {
            owner = format!("*.{owner}");
        }
        // `child` is a delegation in one of the zones.
        if chance.next(4) == 0 && !plain.iter().any(|(other, _)| *other == owner) && !aliases.contains(&owner) {
            let target = match chance.next(4) {
                0 => "www.good.com.".to_owned(),
                1 => "nowhere.target.net.".to_owned(),
                2 => format!("x.dn.{origin}."),
                _ => chance.name(),
            };
            text.push_str(&format!("{owner} {} IN CNAME {target}\n", 60 + chance.next(600)));
            aliases.push(owner);
        } else if !aliases.contains(&owner) {
            let data = data(&mut chance);
            if !plain.contains(&(owner.clone(), data.clone())) {
                text.push_str(&format!("{owner} 300 IN {data}\n"));
                plain.push((owner, data));
            }
        }
    }
    text
}

fn data(chance: &mut Chance) -> String {
    match chance.next(7) {
        0 | 1 => format!("A 198.51.100.{}", 1 + chance.next(250)),
        2 => format!("AAAA 2001:db8::{:x}", 1 + chance.next(65_000)),
        3 => format!("TXT \"t{}\" \"second; string\"", chance.next(1000)),
        4 => format!("MX {} {}", chance.next(50), chance.name()),
        5 => format!("SRV 0 {} 443 {}", chance.next(9), chance.name()),
        _ => format!("CAA 0 issue \"ca{}.example\"", chance.next(9)),
    }
}

/// The `index`th random question: a name and a type's mnemonic.
pub fn random_question(seed: u64, index: u64) -> (String, &'static str) {
    let mut chance = Chance::new(seed.wrapping_mul(1_000_003).wrapping_add(index));
    chance.next(2);
    let zone = chance.pick(GENERATED_ZONES);
    let below = match chance.next(12) {
        0 => String::new(),
        1 => format!("{}.dn", chance.pick(&["x", "y", "z.x"])),
        2 => format!("{}.out", chance.pick(&["a", "b", "nope"])),
        3 => format!("{}.{}", chance.pick(LABELS), chance.name()),
        4 => format!("nope{}", chance.next(100)),
        10 => format!("chain{}", chance.next(CHAIN + 2)),
        11 => format!("{}.{}", chance.pick(LABELS), chance.pick(&["unsigned", "secure", "island", "child"])),
        _ => chance.name(),
    };
    let name = if below.is_empty() { zone.to_owned() } else { format!("{below}.{zone}") };
    let rtype = chance.pick(TYPES);
    // Resolvers do not agree on a question for a DNAME below another DNAME, and nobody asks it.
    let is_below_dname = [".dn", ".out"].iter().any(|ending| below.ends_with(ending));
    (name, if rtype == "DNAME" && is_below_dname { "A" } else { rtype })
}
