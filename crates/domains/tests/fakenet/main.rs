//! Scenarios on the fake internet: what a user is told when a server is lame, silent, stale or wrong. Takes the usual filter;
//! skipped by name where the name servers or namespaces are missing.

mod bed;
mod compare;
mod differential;
mod fqdn;
mod hostile;
mod names;
mod plan;
mod scan;
mod tools;
mod trace;
mod verify;
mod zone_check;

use bed::{Scenario, World};

fn main() -> anyhow::Result<()> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    scenarios.extend(trace::scenarios());
    scenarios.extend(compare::scenarios());
    scenarios.extend(fqdn::scenarios());
    scenarios.extend(zone_check::scenarios());
    scenarios.extend(scan::scenarios());
    scenarios.extend(verify::scenarios());
    scenarios.extend(plan::scenarios());
    scenarios.extend(names::scenarios());
    scenarios.extend(hostile::scenarios());
    scenarios.extend(differential::scenarios());
    bailiwick_fakenet::scenarios::run(scenarios, async || World::up())
}
