//! What a program that has an index asks of it, in the same messages that clients of the gRPC API are answered with.

use prost::Message;

use super::index::Index;
use super::messages;

/// An entry of a channel, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelVersion {
    /// The bundle's name.
    pub name: String,
    pub version: String,
    pub deprecation: Option<String>,
}

impl Index {
    /// A package with its channels; `None` when there is none of the name.
    pub fn describe_package(&self, name: &str) -> Option<messages::Package> {
        self.get_package(name).ok()
    }

    /// A bundle as `GetBundle` has it, with `replaces` and `skips` as `ListBundles` has them.
    pub fn describe_bundle(&self, package: &str, channel: &str, name: &str) -> Result<messages::Bundle, String> {
        let whole = self.get_bundle(package, channel, name)?;
        let mut bundle = messages::Bundle::decode(whole).map_err(|error| error.to_string())?;
        let record = self.record(package).map_err(|error| error.to_string())?;
        if let Some(entry) = record.as_ref().and_then(|it| it.channel(channel)?.entry(name)) {
            bundle.replaces = entry.replaces.clone();
            bundle.skips = entry.skips.clone();
        }
        Ok(bundle)
    }

    /// The entries of a channel, newest version first.
    pub fn channel_versions(&self, package: &str, channel: &str) -> Vec<ChannelVersion> {
        let Ok(Some(record)) = self.record(package) else { return Vec::new() };
        let mut found: Vec<ChannelVersion> = record
            .positions()
            .filter(|it| it.channel.name == channel)
            .map(|it| ChannelVersion {
                name: it.entry.name.clone(),
                version: it.bundle().and_then(|bundle| self.message(bundle).ok()).unwrap_or_default().version,
                deprecation: it.entry.deprecation.clone(),
            })
            .collect();
        let parsed = |it: &ChannelVersion| crate::version::Version::parse(&it.version).ok();
        found.sort_by(|a, b| match (parsed(a), parsed(b)) {
            (Some(a), Some(b)) => b.compare(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        found
    }
}
