//! What a platform's users go through: installing the operators, and every upgrade that the catalog offers them.

use super::subject::Subject;
use crate::model::Entry;
use crate::version::{Range, Version};

/// One upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub from: String,
    pub to: String,
}

/// An operator with its upgrades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    pub package: String,
    pub channel: String,
    /// The bundle that a new subscription gets.
    pub newest: String,
    /// From the oldest on.
    pub hops: Vec<Hop>,
}

/// Whether an entry is an upgrade of a bundle.
pub(super) fn succeeds(entry: &Entry, name: &str, version: Option<&Version>) -> bool {
    let in_range = || {
        let range = Range::parse(&entry.skip_range).ok();
        range.zip(version).is_some_and(|(range, version)| range.contains(version))
    };
    entry.replaces == name || entry.skips.iter().any(|skip| skip == name) || in_range()
}

/// The journeys of a platform's operators, in the order of the document.
pub fn journeys(subject: &Subject) -> Result<Vec<Journey>, String> {
    let mut out = Vec::new();
    for operator in &subject.platform.operators {
        let channel = subject.channel(operator)?;
        let bundles = subject.bundles(operator)?;
        let mut hops = Vec::new();
        for (at, from) in bundles.iter().enumerate() {
            let version = crate::property::version_release(from)?.version;
            for to in bundles.iter().skip(at + 1) {
                let entry = channel.entries.get(&to.name);
                if entry.is_some_and(|entry| succeeds(entry, &from.name, Some(&version))) {
                    hops.push(Hop { from: from.name.clone(), to: to.name.clone() });
                }
            }
        }
        let newest = bundles.last().map(|it| it.name.clone()).unwrap_or_default();
        out.push(Journey { package: operator.package.clone(), channel: channel.name.clone(), newest, hops });
    }
    Ok(out)
}
