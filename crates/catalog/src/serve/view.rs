//! An index as a graph: what lists and resolution are made of, without reading a manifest.

use std::io;

use prost::Message;

use super::index::{Index, Span};
use super::{messages, record};
use crate::fbc::Property;
use crate::model::{BundleFacts, Channel, Entry, Model, Package};
use crate::property::PACKAGE;
use crate::resolve::BundleContent;
use crate::version::{Release, Version, VersionRelease};

/// Which facts about bundles a graph needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facts {
    /// Names and display names.
    Names,
    /// Images too, which have to be read from the file.
    Images,
}

impl Index {
    /// The graph of the catalog.
    pub fn model(&self, facts: Facts) -> io::Result<Model> {
        self.model_with(|bundle| match facts {
            Facts::Names => Ok(String::new()),
            Facts::Images => Ok(self.message(bundle)?.bundle_path),
        })
    }

    /// The graph of the catalog, and where to find out more about the bundles of the same numbers.
    pub(crate) fn model_and_contents(&self) -> io::Result<(Model, Contents<'_>)> {
        let mut places = Vec::with_capacity(self.bundle_count().min(1 << 20));
        let model = self.model_with(|bundle| {
            places.push(bundle.light.span());
            Ok(String::new())
        })?;
        Ok((model, Contents { index: self, places }))
    }

    fn model_with(&self, mut image: impl FnMut(&record::Bundle) -> io::Result<String>) -> io::Result<Model> {
        let mut model = Model::default();
        for record in self.records() {
            let record = record?;
            let first = model.bundles.len();
            for bundle in record.bundles {
                model.bundles.push(BundleFacts {
                    image: image(&bundle)?,
                    name: bundle.name,
                    package: record.name.clone(),
                    version: Ok(VersionRelease::default()),
                    has_objects: !bundle.has_image,
                    display_name: bundle.display_name,
                });
            }
            let channels = record.channels.into_iter().map(|channel| {
                let entries = channel.entries.into_iter().map(|entry| {
                    let model = Entry {
                        name: entry.name.clone(),
                        replaces: entry.replaces,
                        skips: entry.skips,
                        skip_range: entry.skip_range,
                        bundle: Some(first + entry.bundle as usize),
                        deprecation: entry.deprecation,
                    };
                    (entry.name, model)
                });
                let entries = entries.collect();
                (channel.name.clone(), Channel { name: channel.name, entries, deprecation: channel.deprecation })
            });
            let package = Package {
                name: record.name.clone(),
                default_channel: Some(record.default_channel),
                channels: channels.collect(),
                deprecation: record.deprecation,
                ..Package::default()
            };
            model.packages.insert(record.name, package);
        }
        Ok(model)
    }

    pub(super) fn message(&self, bundle: &record::Bundle) -> io::Result<messages::Bundle> {
        self.message_at(bundle.light.span())
    }

    fn message_at(&self, span: Span) -> io::Result<messages::Bundle> {
        messages::Bundle::decode(self.read(span)?.as_slice()).map_err(io::Error::other)
    }
}

/// What the bundles of a graph contain, by their numbers in it.
pub(crate) struct Contents<'i> {
    index: &'i Index,
    places: Vec<Span>,
}

impl Contents<'_> {
    /// What resolution needs of a bundle; `None` for one whose version cannot be read.
    pub(crate) fn of(&self, bundle: usize) -> io::Result<Option<BundleContent>> {
        let Some(place) = self.places.get(bundle) else { return Ok(None) };
        let message = self.index.message_at(*place)?;
        let properties: Vec<Property> =
            message.properties.into_iter().map(|it| Property { kind: it.r#type, value: it.value }).collect();
        let package = properties.iter().find(|it| it.kind == PACKAGE);
        let package = package.and_then(|it| serde_json::from_str::<serde_json::Value>(&it.value).ok());
        let release = package.as_ref().map(|it| crate::fbc::Fields::of(it).text("release")).unwrap_or_default();
        let version = Version::parse(&message.version).ok().zip(Release::parse(&release).ok());
        Ok(version.map(|(version, release)| BundleContent {
            version: VersionRelease { version, release },
            image: message.bundle_path,
            properties,
        }))
    }
}
