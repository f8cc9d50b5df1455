//! What each method of `api.Registry` answers. Maps are sorted here where upstream's order is random.

use bytes::Bytes;
use prost::Message;

use super::csv_stub;
use super::index::Index;
use super::messages;
use super::record::{Bundle, Package, Position};
use crate::go::quote;

/// Refusals are texts; upstream gives all of them the code UNKNOWN.
type Answer<T> = Result<T, String>;

fn unreadable(error: std::io::Error) -> String {
    error.to_string()
}

impl Index {
    fn package(&self, name: &str) -> Answer<Package> {
        self.record(name).map_err(unreadable)?.ok_or_else(|| format!("package {} not found", quote(name)))
    }

    /// How many packages it knows.
    pub(super) fn package_count(&self) -> usize {
        self.directory.len()
    }

    pub(super) fn list_packages(&self) -> Vec<messages::PackageName> {
        self.packages().map(|(name, _)| messages::PackageName { name: name.to_owned() }).collect()
    }

    pub(super) fn get_package(&self, name: &str) -> Answer<messages::Package> {
        let package = self.package(name)?;
        let channels = package.channels.into_iter().map(|channel| messages::Channel {
            name: channel.name,
            csv_name: channel.head,
            deprecation: deprecation(channel.deprecation),
        });
        Ok(messages::Package {
            channels: channels.collect(),
            name: package.name,
            default_channel_name: package.default_channel,
            deprecation: deprecation(package.deprecation),
        })
    }

    pub(super) fn get_bundle(&self, package: &str, channel: &str, name: &str) -> Answer<Bytes> {
        let package = self.package(package)?;
        let position = package.position(channel, name)?;
        self.whole(position)
    }

    pub(super) fn get_bundle_for_channel(&self, package: &str, channel: &str) -> Answer<Bytes> {
        let package = self.package(package)?;
        let position = package.position(channel, package.known_channel(channel)?.head.as_str())?;
        self.whole(position)
    }

    pub(super) fn entries_that_replace(&self, name: &str) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        for package in self.records() {
            let package = package.map_err(unreadable)?;
            for position in package.positions() {
                let entry = position.entry;
                if entry.replaces == name {
                    found.push(position.message(&entry.replaces));
                }
                let skips = entry.skips.iter().filter(|skip| *skip == name && **skip != entry.replaces);
                found.extend(skips.map(|_| position.message(&entry.replaces)));
            }
        }
        if found.is_empty() { Err(format!("no channel entries found that replace {name}")) } else { Ok(found) }
    }

    pub(super) fn bundle_that_replaces(&self, name: &str, package: &str, channel: &str) -> Answer<Bytes> {
        let Some(record) = self.record(package).map_err(unreadable)? else {
            return Err(format!("package {package} not found"));
        };
        let entries = &record.known_channel(channel)?.entries;
        let found = entries.iter().find(|it| it.replaces == name || it.skips.iter().any(|skip| skip == name));
        match found {
            Some(entry) => self.whole(record.position(channel, &entry.name)?),
            None => Err(format!("no entry found for package {}, channel {}", quote(package), quote(channel))),
        }
    }

    pub(super) fn entries_that_provide(&self, api: (&str, &str, &str)) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        for package in self.records() {
            let package = package.map_err(unreadable)?;
            for position in package.positions().filter(|it| it.provides(api)) {
                let entry = position.entry;
                found.push(position.message(&entry.replaces));
                let skips = entry.skips.iter().filter(|skip| **skip != entry.replaces);
                found.extend(skips.map(|skip| position.message(skip)));
            }
        }
        if found.is_empty() { Err(nobody_provides(api)) } else { Ok(found) }
    }

    pub(super) fn latest_that_provide(&self, api: (&str, &str, &str)) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        for package in self.records() {
            let package = package.map_err(unreadable)?;
            let heads = package.positions().filter(|it| it.channel.head == it.entry.name);
            for position in heads.filter(|it| it.provides(api)) {
                let (channel, entry) = (position.channel, position.entry);
                found.push(position.message(&entry.replaces));
                let skips = entry.skips.iter();
                let skips = skips.filter(|skip| **skip != entry.replaces && channel.entry(skip).is_some());
                found.extend(skips.map(|skip| position.message(skip)));
            }
        }
        if found.is_empty() { Err(nobody_provides(api)) } else { Ok(found) }
    }

    pub(super) fn default_that_provides(&self, api: (&str, &str, &str)) -> Answer<Bytes> {
        for entry in self.latest_that_provide(api)? {
            let package = self.package(&entry.package_name)?;
            if package.default_channel == entry.channel_name {
                return self.get_bundle(&entry.package_name, &entry.channel_name, &entry.bundle_name);
            }
        }
        let (group, version, kind) = (quote(api.0), quote(api.1), quote(api.2));
        Err(format!("no entry found that provides group:{group} version:{version} kind:{kind}"))
    }

    /// The messages of `ListBundles` for a package, by its number. Manifests only when there is no image to take them from.
    pub(super) fn list_bundles(&self, package: usize) -> Vec<Answer<Bytes>> {
        let Some((.., record)) = self.directory.get(package) else { return Vec::new() };
        match self.read_record(record) {
            Ok(package) => package.positions().map(|position| self.listed(position)).collect(),
            Err(error) => vec![Err(unreadable(error))],
        }
    }

    fn listed(&self, position: Position) -> Answer<Bytes> {
        let bundle = position.known_bundle()?;
        let mut message = self.read(bundle.light.span()).map_err(unreadable)?;
        let (replaces, skips) = (position.entry.replaces.clone(), position.entry.skips.clone());
        message.extend(messages::Bundle { replaces, skips, ..position.in_channel() }.encode_to_vec());
        if !bundle.has_image {
            message.extend(self.manifests(position)?.encode_to_vec());
        }
        Ok(message.into())
    }

    /// A bundle with its manifests. Parts of a protobuf message can be put one after the other.
    fn whole(&self, position: Position) -> Answer<Bytes> {
        let mut message = self.read(position.known_bundle()?.light.span()).map_err(unreadable)?;
        message.extend(position.in_channel().encode_to_vec());
        message.extend(self.manifests(position)?.encode_to_vec());
        Ok(message.into())
    }

    fn manifests(&self, position: Position) -> Answer<messages::Bundle> {
        let bundle = self.read_text(position.known_bundle()?.meta.span()).map_err(unreadable)?;
        let package = self.read_text(position.package.meta.span()).map_err(unreadable)?;
        let (csv_json, object) = csv_stub::manifests(&bundle, &package)?;
        Ok(messages::Bundle { csv_json, object, ..messages::Bundle::default() })
    }
}

impl Package {
    fn known_channel(&self, name: &str) -> Answer<&super::record::Channel> {
        let refusal = || format!("package {}, channel {} not found", quote(&self.name), quote(name));
        self.channel(name).ok_or_else(refusal)
    }

    fn position(&self, channel: &str, name: &str) -> Answer<Position<'_>> {
        let content = self.known_channel(channel)?;
        let entry = content.entry(name).ok_or_else(|| {
            let (package, channel, name) = (quote(&self.name), quote(channel), quote(name));
            format!("package {package}, channel {channel}, bundle {name} not found")
        })?;
        Ok(Position { package: self, channel: content, entry })
    }
}

impl<'r> Position<'r> {
    fn known_bundle(&self) -> Answer<&'r Bundle> {
        self.bundle().ok_or_else(|| "the bundle is not in the index".to_owned())
    }

    fn provides(&self, (group, version, kind): (&str, &str, &str)) -> bool {
        let provided = self.bundle().map(|it| it.provides.as_slice()).unwrap_or_default();
        provided.iter().any(|it| it.group == group && it.version == version && it.kind == kind)
    }

    fn in_channel(&self) -> messages::Bundle {
        messages::Bundle {
            channel_name: self.channel.name.clone(),
            skip_range: self.entry.skip_range.clone(),
            deprecation: deprecation(self.entry.deprecation.clone()),
            ..messages::Bundle::default()
        }
    }

    fn message(&self, replaces: &str) -> messages::ChannelEntry {
        messages::ChannelEntry {
            package_name: self.package.name.clone(),
            channel_name: self.channel.name.clone(),
            bundle_name: self.entry.name.clone(),
            replaces: replaces.to_owned(),
        }
    }
}

fn deprecation(message: Option<String>) -> Option<messages::Deprecation> {
    message.map(|message| messages::Deprecation { message })
}

fn nobody_provides(api: (&str, &str, &str)) -> String {
    let (group, version, kind) = (quote(api.0), quote(api.1), quote(api.2));
    format!("no channel entries found that provide group:{group} version:{version} kind:{kind}")
}
