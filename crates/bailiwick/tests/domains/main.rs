//! Domains as objects, on the fake internet: a control plane in this process with the domains service, agents as programs of
//! their own, and what users read in their objects. Skipped by name where the name servers or namespaces are missing.

mod agents;
mod checks;
mod claims;
mod gateways;
mod history;
mod load;
mod outage;
mod projects;
mod proofs;
mod registration;
mod telling;
mod watch;
mod world;

use bailiwick_fakenet::scenarios::{self, Scenario};
use world::World;

fn main() -> anyhow::Result<()> {
    let mut all: Vec<Scenario<World>> = Vec::new();
    all.extend(checks::scenarios());
    all.extend(gateways::scenarios());
    all.extend(agents::scenarios());
    all.extend(claims::scenarios());
    all.extend(watch::scenarios());
    all.extend(history::scenarios());
    all.extend(projects::scenarios());
    all.extend(proofs::scenarios());
    all.extend(telling::scenarios());
    all.extend(load::scenarios());
    all.extend(outage::scenarios());
    // Last: it moves the clock by a month.
    all.extend(registration::scenarios());
    scenarios::run(all, World::up)
}
