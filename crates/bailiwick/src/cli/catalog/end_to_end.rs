//! The end-to-end layer of `test`: operators are installed for real, on control planes that live in this process for as
//! long as that takes, and upgraded along every edge of their channels with their sample objects in place.

mod plane;

use std::collections::BTreeSet;

use anyhow::Context;
use bailiwick_catalog::platform::{Check, Hop, Journey, Platform, Stages, Subject, Verdict, journeys};
use serde_json::Value;

use plane::{Hindrance, Home, Plane};

/// The catalog with the operators that are not at stake, and the one with the operator that is.
const PLATFORM: &str = "platform";
const STAGE: &str = "stage";

/// Runs the layer. An error says that there could be no control plane; what is wrong with operators is in the checks.
pub fn run(subject: &mut Subject, platform: &Platform) -> anyhow::Result<Vec<Check>> {
    let journeys = match journeys(subject) {
        Ok(journeys) => journeys,
        Err(fault) => return Ok(vec![Check::new(&platform.name, "install", Verdict::Failed(vec![fault]))]),
    };
    let stages = Stages::new(subject, &journeys);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let mut checks = install_all(&stages, &journeys).await?;
        for journey in journeys.iter().filter(|journey| !stages.faults.contains_key(&journey.package)) {
            checks.push(upgrade(&stages, journey).await?);
        }
        Ok(checks)
    })
}

/// Installs the operators one after another on one control plane, with their samples.
async fn install_all(stages: &Stages, journeys: &[Journey]) -> anyhow::Result<Vec<Check>> {
    let plane = Plane::start().await?;
    plane.offer(PLATFORM, &stages.whole()).await?;
    let mut checks = Vec::new();
    for journey in journeys {
        let package = &journey.package;
        if let Some(fault) = stages.faults.get(package) {
            checks.push(Check::new(package, "install", Verdict::Failed(vec![fault.clone()])));
            continue;
        }
        let home = home(stages, journey);
        let installed = match plane.subscribe(&home, journey, PLATFORM).await {
            Ok(()) => plane.until_installed(&home, package, &journey.newest).await,
            Err(error) => Err(format!("{error:#}").into()),
        };
        let verdict = match &installed {
            Ok(()) => Verdict::Passed,
            Err(Hindrance::Fault(fault)) => Verdict::Failed(vec![fault.clone()]),
            Err(Hindrance::NeedsCluster(reason)) => Verdict::Skipped(reason.clone()),
        };
        checks.push(Check::new(package, "install", verdict));
        if installed.is_ok() {
            // What cannot be read of them the layers before have told.
            let samples = stages.samples(&journey.newest).unwrap_or_default();
            let mut faults = Vec::new();
            for sample in &samples {
                faults.extend(plane.create(&home, sample).await.err());
            }
            checks.push(Check::new(package, "samples", Verdict::of(faults)));
        }
    }
    plane.stop().await;
    Ok(checks)
}

/// Tries every upgrade of an operator. Upgrades that follow each other share a control plane.
async fn upgrade(stages: &Stages, journey: &Journey) -> anyhow::Result<Check> {
    if journey.hops.is_empty() {
        let reason = "the channel has no upgrade to try".to_owned();
        return Ok(Check::new(&journey.package, "upgrades", Verdict::Skipped(reason)));
    }
    let mut untried: Vec<&Hop> = journey.hops.iter().collect();
    let mut faults = Vec::new();
    while let Some(first) = untried.first().copied() {
        let plane = Plane::start().await?;
        let travelled = travel(&plane, stages, journey, first, &mut untried).await;
        plane.stop().await;
        match travelled {
            Ok(()) => {}
            Err(Hindrance::Fault(fault)) => faults.push(fault),
            Err(Hindrance::NeedsCluster(reason)) => {
                return Ok(Check::new(&journey.package, "upgrades", Verdict::Skipped(reason)));
            }
        }
    }
    Ok(Check::new(&journey.package, "upgrades", Verdict::of(faults)))
}

/// Installs the version that an upgrade begins with and upgrades for as long as there is something to try. What was tried
/// is taken off the list, so that somebody can go on with the rest.
async fn travel(
    plane: &Plane,
    stages: &Stages,
    journey: &Journey,
    first: &Hop,
    untried: &mut Vec<&Hop>,
) -> Result<(), Hindrance> {
    let package = &journey.package;
    let plain = |error: anyhow::Error| format!("{error:#}");
    let home = home(stages, journey);
    let mut current = first.from.clone();
    let installed = async {
        plane.offer(PLATFORM, &stages.without(package)).await.map_err(plain)?;
        plane.offer(STAGE, &stages.only(package, &current)).await.map_err(plain)?;
        plane.subscribe(&home, journey, STAGE).await.map_err(plain)?;
        plane.until_installed(&home, package, &current).await
    };
    if let Err(hindrance) = installed.await {
        untried.retain(|hop| hop.from != current);
        return Err(
            hindrance.told(|fault| format!("{current} cannot be installed, so nothing is upgraded from it: {fault}"))
        );
    }
    // Those that the version itself refuses are no fault of the upgrade.
    let mut kept: Vec<Value> = Vec::new();
    for sample in stages.samples(&current).unwrap_or_default() {
        kept.extend(plane.create(&home, &sample).await);
    }
    while let Some(at) = untried.iter().position(|hop| hop.from == current) {
        let hop = untried.remove(at);
        let failed = |fault: String| format!("{} → {}: {fault}", hop.from, hop.to);
        plane.offer(STAGE, &stages.only(package, &hop.to)).await.map_err(plain).map_err(failed)?;
        plane.until_installed(&home, package, &hop.to).await.map_err(|hindrance| hindrance.told(failed))?;
        plane.until_gone(&home, &hop.from).await.map_err(failed)?;
        for object in &kept {
            plane.rewrite(object).await.map_err(failed)?;
        }
        current = hop.to.clone();
    }
    Ok(())
}

/// Where an operator is installed: for all namespaces if all its versions can, or else where its newest can.
fn home(stages: &Stages, journey: &Journey) -> Home {
    let hops = journey.hops.iter().flat_map(|hop| [&hop.from, &hop.to]);
    let versions: BTreeSet<&String> = hops.chain([&journey.newest]).collect();
    let supports = |bundle: &str, mode: &str| {
        let modes = stages.csv(bundle).and_then(|csv| csv["spec"]["installModes"].as_array());
        modes.into_iter().flatten().any(|it| it["type"] == mode && it["supported"] == true)
    };
    let all = |mode: &str| versions.iter().all(|bundle| supports(bundle, mode));
    let newest = |mode: &str| supports(&journey.newest, mode);
    type Choice = (&'static str, fn(&str) -> Home);
    let known: [Choice; 3] = [
        ("AllNamespaces", |_| Home::everywhere()),
        ("OwnNamespace", Home::own),
        ("SingleNamespace", Home::watching_another),
    ];
    let chosen = known.iter().find(|(mode, _)| all(mode)).or_else(|| known.iter().find(|(mode, _)| newest(mode)));
    chosen.map_or_else(Home::everywhere, |(_, home)| home(&journey.package))
}
