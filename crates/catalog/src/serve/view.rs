//! An index as a graph: what lists and resolution are made of, without reading a manifest.

use std::io;

use prost::Message;

use super::index::Index;
use super::messages;
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
        let mut model = Model::default();
        for (name, package) in &self.graph.packages {
            let channels = package.channels.iter().map(|(name, channel)| {
                let entries = channel.entries.iter().map(|(name, entry)| {
                    let entry = Entry {
                        name: name.clone(),
                        replaces: entry.replaces.clone(),
                        skips: entry.skips.clone(),
                        skip_range: entry.skip_range.clone(),
                        bundle: Some(entry.bundle),
                        deprecation: entry.deprecation.clone(),
                    };
                    (name.clone(), entry)
                });
                let channel = Channel {
                    name: name.clone(),
                    entries: entries.collect(),
                    deprecation: channel.deprecation.clone(),
                };
                (name.clone(), channel)
            });
            let package = Package {
                name: name.clone(),
                default_channel: Some(package.default_channel.clone()),
                channels: channels.collect(),
                deprecation: package.deprecation.clone(),
                ..Package::default()
            };
            model.packages.insert(name.clone(), package);
        }
        for (at, bundle) in self.graph.bundles.iter().enumerate() {
            let image = match facts {
                Facts::Names => String::new(),
                Facts::Images => self.message(at)?.bundle_path,
            };
            let meta = self.graph.metas.get(bundle.meta);
            model.bundles.push(BundleFacts {
                name: meta.map(|meta| meta.name.clone()).unwrap_or_default(),
                package: meta.map(|meta| meta.package.clone()).unwrap_or_default(),
                image,
                version: Ok(VersionRelease::default()),
                has_objects: !bundle.has_image,
                display_name: bundle.display_name.clone(),
            });
        }
        Ok(model)
    }

    fn message(&self, bundle: usize) -> io::Result<messages::Bundle> {
        let span = self.graph.bundles.get(bundle).map(|bundle| bundle.light).unwrap_or_default();
        messages::Bundle::decode(self.read(span)?.as_slice()).map_err(io::Error::other)
    }

    /// What resolution needs of a bundle; `None` for one whose version cannot be read.
    pub(crate) fn bundle_content(&self, bundle: usize) -> io::Result<Option<BundleContent>> {
        let message = self.message(bundle)?;
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
