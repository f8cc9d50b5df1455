//! Why a bundle was never a choice: in another channel, skipped, out of range, no upgrade.

use super::refusal::{Reason, Refusal};
use super::request::{Choice, Request, Want};
use super::snapshot::{Bundle, Snapshot};
use super::story::{list_of, nearest};

/// Tells why no want and no requirement leads to a bundle.
pub(super) fn left_out(request: &Request, name: &str) -> Refusal {
    let mut found: Vec<String> = Vec::new();
    let mut hints = Vec::new();
    let mut package = None;
    for source in &request.sources {
        let snapshot = source.snapshot.as_ref();
        for bundle in snapshot.bundles.iter().filter(|it| it.name == name) {
            package = Some(bundle.package.clone());
            let wants = request.wants.iter().filter(|want| want.package == bundle.package);
            found.extend(wants.map(|want| reason(request, snapshot, bundle, want)));
        }
    }
    if let (Some(package), true) = (&package, found.is_empty()) {
        found.push(format!("nobody asks for package {package}, and nothing that could be installed requires it"));
    }
    if package.is_none() {
        found.push(format!("no catalog has a bundle {name}"));
        let names = request.sources.iter().flat_map(|it| &it.snapshot.bundles).map(|it| it.name.as_str());
        hints.extend(nearest(name, names).map(|similar| format!("did you mean {similar}?")));
    }
    found.dedup();
    let reasons = found.into_iter().map(|plain| Reason { plain, olm: String::new() }).collect();
    Refusal { reasons, hints, wants: Vec::new() }
}

fn reason(request: &Request, snapshot: &Snapshot, bundle: &Bundle, want: &Want) -> String {
    let entries: Vec<_> = bundle.entries.iter().filter_map(|at| snapshot.entry(*at)).collect();
    let channels: Vec<String> = entries.iter().map(|it| snapshot.channel_of(it).1.name.clone()).collect();
    let asked: Vec<String> = match &want.choice {
        Choice::Subscription { channel, .. } => Some(channel.clone()).into_iter().filter(|it| !it.is_empty()).collect(),
        Choice::Extension { channels, .. } => channels.clone(),
    };
    if !asked.is_empty() && !channels.iter().any(|it| asked.contains(it)) {
        let (there, asked) = (list_of(&channels), list_of(&asked));
        return format!("it is in channel {there}, and {} asks for channel {asked}", want.name);
    }
    let in_range = match &want.choice {
        Choice::Subscription { versions, .. } => {
            versions.as_ref().is_none_or(|range| range.contains(&bundle.version.version))
        }
        Choice::Extension { versions, .. } => {
            versions.as_ref().is_none_or(|versions| versions.contains(&bundle.version.version))
        }
    };
    if !in_range {
        return format!("version {} is not in the range that {} asks for", bundle.version, want.name);
    }
    let installed = want.installed.as_ref().and_then(|name| request.installed.iter().find(|it| &it.name == name));
    if let Some(installed) = installed
        && !entries.iter().any(|entry| installed.replaced_by(entry))
    {
        return format!("it is no upgrade of {}, which is installed", installed.name);
    }
    if let Choice::Subscription { starting_csv, .. } = &want.choice
        && installed.is_none()
        && !starting_csv.is_empty()
    {
        return format!("{} begins with {starting_csv}", want.name);
    }
    let skipping = entries.iter().find_map(|entry| {
        let (_, channel) = snapshot.channel_of(entry);
        let others = channel.entries.iter().filter_map(|at| snapshot.entry(*at));
        let skipping = others.filter(|other| other.skips.contains(&bundle.name)).map(|it| snapshot.bundle_of(it));
        skipping.map(|it| it.name.as_str()).next()
    });
    match (skipping, &want.choice) {
        (Some(other), Choice::Subscription { .. }) => format!("{other} skips it, so it is not offered any more"),
        (_, Choice::Extension { .. }) => {
            format!("{} takes the newest bundle that fits, which is another one", want.name)
        }
        _ => format!("{} takes its bundles from another catalog", want.name),
    }
}
