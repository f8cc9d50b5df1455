//! What each method of `api.Registry` answers. Maps are sorted here where upstream's order is random.

use bytes::Bytes;
use prost::Message;

use super::csv_stub;
use super::index::{Bundle, Channel, Entry, Index, Package};
use super::messages;
use crate::go::quote;

/// Refusals are texts; upstream gives all of them the code UNKNOWN.
type Answer<T> = Result<T, String>;

/// An entry in its channel.
#[derive(Clone, Copy)]
struct Place<'i> {
    package: &'i str,
    channel: &'i str,
    name: &'i str,
    entry: &'i Entry,
}

impl Index {
    fn package(&self, name: &str) -> Answer<&Package> {
        self.graph.packages.get(name).ok_or_else(|| format!("package {} not found", quote(name)))
    }

    fn channel(&self, package: &str, channel: &str) -> Answer<&Channel> {
        let found = self.package(package)?.channels.get(channel);
        found.ok_or_else(|| format!("package {}, channel {} not found", quote(package), quote(channel)))
    }

    fn places(&self) -> impl Iterator<Item = (Place<'_>, &Channel)> {
        self.graph.packages.iter().flat_map(|(package, content)| {
            content.channels.iter().flat_map(move |(channel, content)| {
                content.entries.iter().map(move |(name, entry)| (Place { package, channel, name, entry }, content))
            })
        })
    }

    pub(super) fn list_packages(&self) -> Vec<messages::PackageName> {
        self.graph.packages.keys().map(|name| messages::PackageName { name: name.clone() }).collect()
    }

    pub(super) fn get_package(&self, name: &str) -> Answer<messages::Package> {
        let package = self.package(name)?;
        let channels = package.channels.iter().map(|(name, channel)| messages::Channel {
            name: name.clone(),
            csv_name: channel.head.clone(),
            deprecation: deprecation(&channel.deprecation),
        });
        Ok(messages::Package {
            name: name.to_owned(),
            channels: channels.collect(),
            default_channel_name: package.default_channel.clone(),
            deprecation: deprecation(&package.deprecation),
        })
    }

    pub(super) fn get_bundle(&self, package: &str, channel: &str, name: &str) -> Answer<Bytes> {
        let content = self.channel(package, channel)?;
        let (name, entry) = content.entries.get_key_value(name).ok_or_else(|| {
            format!("package {}, channel {}, bundle {} not found", quote(package), quote(channel), quote(name))
        })?;
        self.whole(Place { package, channel, name, entry })
    }

    pub(super) fn get_bundle_for_channel(&self, package: &str, channel: &str) -> Answer<Bytes> {
        let head = self.channel(package, channel)?.head.clone();
        self.get_bundle(package, channel, &head)
    }

    pub(super) fn entries_that_replace(&self, name: &str) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        for (place, _) in self.places() {
            if place.entry.replaces == name {
                found.push(place.message(&place.entry.replaces));
            }
            let skips = place.entry.skips.iter().filter(|skip| *skip == name && **skip != place.entry.replaces);
            found.extend(skips.map(|_| place.message(&place.entry.replaces)));
        }
        if found.is_empty() { Err(format!("no channel entries found that replace {name}")) } else { Ok(found) }
    }

    pub(super) fn bundle_that_replaces(&self, name: &str, package: &str, channel: &str) -> Answer<Bytes> {
        if !self.graph.packages.contains_key(package) {
            return Err(format!("package {package} not found"));
        }
        let content = self.channel(package, channel)?;
        let found = content
            .entries
            .iter()
            .find(|(_, entry)| entry.replaces == name || entry.skips.iter().any(|skip| skip == name));
        match found {
            Some((name, entry)) => self.whole(Place { package, channel, name, entry }),
            None => Err(format!("no entry found for package {}, channel {}", quote(package), quote(channel))),
        }
    }

    fn provides(&self, entry: &Entry, api: (&str, &str, &str)) -> bool {
        let bundle = self.graph.bundles.get(entry.bundle);
        bundle.is_some_and(|it| it.provides.iter().any(|(g, v, k)| (g.as_str(), v.as_str(), k.as_str()) == api))
    }

    pub(super) fn entries_that_provide(&self, api: (&str, &str, &str)) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        for (place, _) in self.places().filter(|(place, _)| self.provides(place.entry, api)) {
            found.push(place.message(&place.entry.replaces));
            let skips = place.entry.skips.iter().filter(|skip| **skip != place.entry.replaces);
            found.extend(skips.map(|skip| place.message(skip)));
        }
        if found.is_empty() { Err(nobody_provides(api)) } else { Ok(found) }
    }

    pub(super) fn latest_that_provide(&self, api: (&str, &str, &str)) -> Answer<Vec<messages::ChannelEntry>> {
        let mut found = Vec::new();
        let heads = self.places().filter(|(place, channel)| channel.head == place.name);
        for (place, channel) in heads.filter(|(place, _)| self.provides(place.entry, api)) {
            found.push(place.message(&place.entry.replaces));
            let skips = place.entry.skips.iter();
            let skips = skips.filter(|skip| **skip != place.entry.replaces && channel.entries.contains_key(*skip));
            found.extend(skips.map(|skip| place.message(skip)));
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

    /// How many messages `list_bundle` has.
    pub(super) fn all_places(&self) -> Vec<(String, String, String)> {
        let owned =
            |(place, _): (Place, &Channel)| (place.package.to_owned(), place.channel.to_owned(), place.name.to_owned());
        self.places().map(owned).collect()
    }

    /// One message of `ListBundles`: manifests only when there is no image to take them from.
    pub(super) fn list_bundle(&self, package: &str, channel: &str, name: &str) -> Answer<Bytes> {
        let (name, entry) = self
            .channel(package, channel)?
            .entries
            .get_key_value(name)
            .ok_or_else(|| format!("bundle {} is gone", quote(name)))?;
        let bundle = self.bundle(entry)?;
        let place = Place { package, channel, name, entry };
        let mut message = self.read(bundle.light).map_err(|error| error.to_string())?;
        let rest =
            messages::Bundle { replaces: entry.replaces.clone(), skips: entry.skips.clone(), ..self.in_channel(place) };
        message.extend(rest.encode_to_vec());
        if !bundle.has_image {
            message.extend(self.manifests(place)?.encode_to_vec());
        }
        Ok(message.into())
    }

    fn bundle(&self, entry: &Entry) -> Answer<&Bundle> {
        self.graph.bundles.get(entry.bundle).ok_or_else(|| "the bundle is not in the index".to_owned())
    }

    /// A bundle with its manifests. Parts of a protobuf message can be put one after the other.
    fn whole(&self, place: Place) -> Answer<Bytes> {
        let bundle = self.bundle(place.entry)?;
        let mut message = self.read(bundle.light).map_err(|error| error.to_string())?;
        message.extend(self.in_channel(place).encode_to_vec());
        message.extend(self.manifests(place)?.encode_to_vec());
        Ok(message.into())
    }

    fn in_channel(&self, place: Place) -> messages::Bundle {
        messages::Bundle {
            channel_name: place.channel.to_owned(),
            skip_range: place.entry.skip_range.clone(),
            deprecation: deprecation(&place.entry.deprecation),
            ..messages::Bundle::default()
        }
    }

    fn manifests(&self, place: Place) -> Answer<messages::Bundle> {
        let bundle = self.bundle(place.entry)?;
        let package = self.package(place.package)?;
        let read = |meta: usize| self.read_text(meta).map_err(|error| error.to_string());
        let (csv_json, object) = csv_stub::manifests(&read(bundle.meta)?, &read(package.meta)?)?;
        Ok(messages::Bundle { csv_json, object, ..messages::Bundle::default() })
    }

    /// Documents of a schema that OLM does not know, of one package or of none.
    pub(super) fn custom(&self, schema: &str, package: &str) -> Vec<usize> {
        let metas = self.graph.metas.iter().enumerate();
        metas.filter(|(_, it)| it.schema == schema && it.package == package).map(|(at, _)| at).collect()
    }
}

impl Place<'_> {
    fn message(&self, replaces: &str) -> messages::ChannelEntry {
        messages::ChannelEntry {
            package_name: self.package.to_owned(),
            channel_name: self.channel.to_owned(),
            bundle_name: self.name.to_owned(),
            replaces: replaces.to_owned(),
        }
    }
}

fn deprecation(message: &Option<String>) -> Option<messages::Deprecation> {
    message.as_ref().map(|message| messages::Deprecation { message: message.clone() })
}

fn nobody_provides(api: (&str, &str, &str)) -> String {
    let (group, version, kind) = (quote(api.0), quote(api.1), quote(api.2));
    format!("no channel entries found that provide group:{group} version:{version} kind:{kind}")
}
