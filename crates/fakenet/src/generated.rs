//! Zones made by chance, with everything that resolution has corners for: wildcards, empty non-terminals, aliases in and out
//! of the zone, DNAME, delegations. The same seed makes the same zones, and questions that hit them often.

use crate::zone::Operator::{OpA, OpB};
use crate::zone::{Ds, Signing, Zone};

/// The zones that [`random_question`] asks about.
pub const GENERATED_ZONES: &[&str] = &["gen-nsec.com", "gen-nsec3.net", "gen-plain.org", "child.gen-nsec.com"];

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
    vec![
        Zone::new("gen-nsec.com", &both, &[OpA, OpB])
            .signed(Signing::Nsec, Ds::Right)
            .records(&records(1, "gen-nsec.com")),
        Zone::new("gen-nsec3.net", &both, &[OpA, OpB])
            .signed(Signing::Nsec3, Ds::Right)
            .records(&records(2, "gen-nsec3.net")),
        Zone::new("gen-plain.org", &both, &[OpA, OpB]).records(&records(3, "gen-plain.org")),
        Zone::new("child.gen-nsec.com", &a, &[OpA])
            .signed(Signing::Nsec, Ds::Right)
            .records(&records(4, "child.gen-nsec.com")),
    ]
}

/// A zone's records. Owners are taken once for aliases and once for a DNAME, because those allow nothing beside or below.
fn records(seed: u64, origin: &str) -> String {
    let mut chance = Chance::new(seed);
    let mut aliases: Vec<String> = Vec::new();
    let mut text = String::from(
        "dn IN DNAME d2\nx.d2 IN A 198.51.100.7\n*.d2 IN TXT \"below d2\"\nout IN DNAME new.target.net.\n",
    );
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
    let below = match chance.next(10) {
        0 => String::new(),
        1 => format!("{}.dn", chance.pick(&["x", "y", "z.x"])),
        2 => format!("{}.out", chance.pick(&["a", "b", "nope"])),
        3 => format!("{}.{}", chance.pick(LABELS), chance.name()),
        4 => format!("nope{}", chance.next(100)),
        _ => chance.name(),
    };
    let name = if below.is_empty() { zone.to_owned() } else { format!("{below}.{zone}") };
    let rtype = chance.pick(TYPES);
    // Resolvers do not agree on a question for a DNAME below another DNAME, and nobody asks it.
    let is_below_dname = [".dn", ".out"].iter().any(|ending| below.ends_with(ending));
    (name, if rtype == "DNAME" && is_below_dname { "A" } else { rtype })
}
