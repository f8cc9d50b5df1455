//! Mermaid text.

use std::collections::{BTreeMap, HashSet};

use crate::fbc::{Catalog, Channel, ChannelEntry, schema};
use crate::go::quote;
use crate::property::Properties;
use crate::version::{Range, Version};

/// What to draw.
#[derive(Clone, Debug, Default)]
pub struct GraphOptions {
    /// The oldest bundle to draw.
    pub minimum_edge: Option<String>,
    /// Only this package.
    pub package: Option<String>,
    pub skipped: SkippedEdges,
}

/// Whether upgrades that OLM v0 never takes are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkippedEdges {
    #[default]
    Plain,
    Marked,
}

/// Draws the channels of a catalog.
pub fn mermaid(catalog: &Catalog, options: &GraphOptions) -> Result<String, String> {
    let mut channels: Vec<&Channel> = catalog.channels.iter().collect();
    channels.sort_by(|a, b| a.name.cmp(&b.name));
    let versions = versions(catalog)?;
    let minimum = match &options.minimum_edge {
        None => Version::default(),
        Some(name) => {
            versions.get(name).cloned().ok_or_else(|| format!("unknown minimum edge name: {}", quote(name)))?
        }
    };
    let filter = Filter { options, versions: &versions, minimum, package: minimum_package(&channels, options) };
    let mut drawing = Drawing::new(catalog, options.skipped, &versions);
    for channel in channels {
        if let Some(channel) = filter.channel(channel) {
            drawing.channel(&channel);
        }
    }
    Ok(drawing.finish())
}

/// The version of each bundle, by name.
pub(super) fn versions(catalog: &Catalog) -> Result<BTreeMap<String, Version>, String> {
    let mut versions = BTreeMap::new();
    for bundle in &catalog.bundles {
        if versions.contains_key(&bundle.name) {
            continue;
        }
        let name = quote(&bundle.name);
        let properties = Properties::parse(&bundle.properties)
            .map_err(|error| format!("parse properties for bundle {name}: {error}"))?;
        let [package] = properties.packages.as_slice() else {
            return Err(format!("bundle {name} has multiple \"olm.package\" properties, expected exactly 1"));
        };
        let version = Version::parse(&package.version)
            .map_err(|error| format!("bundle {name} has invalid version {}: {error}", quote(&package.version)))?;
        versions.insert(bundle.name.clone(), version);
    }
    Ok(versions)
}

fn minimum_package(channels: &[&Channel], options: &GraphOptions) -> Option<String> {
    let minimum = options.minimum_edge.as_ref()?;
    let channel = channels.iter().find(|channel| channel.entries.iter().any(|entry| &entry.name == minimum))?;
    Some(channel.package.clone())
}

struct Filter<'a> {
    options: &'a GraphOptions,
    versions: &'a BTreeMap<String, Version>,
    minimum: Version,
    package: Option<String>,
}

impl Filter<'_> {
    fn channel(&self, channel: &Channel) -> Option<Channel> {
        let Some(minimum) = &self.options.minimum_edge else {
            let wanted = self.options.package.as_ref().is_none_or(|package| package == &channel.package);
            let drawn = wanted && (self.options.package.is_none() || !channel.entries.is_empty());
            return drawn.then(|| channel.clone());
        };
        let other = |wanted: &Option<String>| wanted.as_ref().is_some_and(|package| package != &channel.package);
        if other(&self.options.package) || other(&self.package) {
            return None;
        }
        let entries: Vec<ChannelEntry> = channel
            .entries
            .iter()
            .filter_map(|entry| {
                if &entry.name == minimum {
                    return Some(ChannelEntry { name: entry.name.clone(), ..ChannelEntry::default() });
                }
                self.entry(entry)
            })
            .collect();
        (!entries.is_empty()).then(|| Channel { entries, ..channel.clone() })
    }

    fn reaches(&self, name: &str) -> bool {
        self.versions.get(name).cloned().unwrap_or_default().compare(&self.minimum).is_ge()
    }

    fn entry(&self, entry: &ChannelEntry) -> Option<ChannelEntry> {
        let covers = Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(&self.minimum));
        let kept = ChannelEntry {
            name: entry.name.clone(),
            replaces: if self.reaches(&entry.replaces) { entry.replaces.clone() } else { String::new() },
            skips: entry.skips.iter().filter(|skip| self.reaches(skip)).cloned().collect(),
            skip_range: if covers { entry.skip_range.clone() } else { String::new() },
        };
        let is_root = |it: &ChannelEntry| it.replaces.is_empty() && it.skips.is_empty() && it.skip_range.is_empty();
        let drawn = !is_root(&kept) || (is_root(entry) && self.reaches(&entry.name));
        drawn.then_some(kept)
    }
}

struct Drawing<'a> {
    versions: &'a BTreeMap<String, Version>,
    skipped: SkippedEdges,
    deprecated_packages: HashSet<&'a str>,
    deprecated_channels: HashSet<&'a str>,
    deprecated_bundles: HashSet<&'a str>,
    packages: BTreeMap<String, String>,
    marked_package: String,
    marked_channels: Vec<String>,
    /// By the name of their class.
    marked_bundles: BTreeMap<&'static str, Vec<String>>,
    links: usize,
    skipped_links: Vec<String>,
}

impl<'a> Drawing<'a> {
    fn new(catalog: &'a Catalog, skipped: SkippedEdges, versions: &'a BTreeMap<String, Version>) -> Self {
        let (mut packages, mut channels, mut bundles) = (HashSet::new(), HashSet::new(), HashSet::new());
        for deprecation in &catalog.deprecations {
            for entry in &deprecation.entries {
                match entry.schema.as_str() {
                    schema::PACKAGE => packages.insert(deprecation.package.as_str()),
                    schema::CHANNEL => channels.insert(entry.name.as_str()),
                    schema::BUNDLE => bundles.insert(entry.name.as_str()),
                    _ => false,
                };
            }
        }
        Drawing {
            versions,
            skipped,
            deprecated_packages: packages,
            deprecated_channels: channels,
            deprecated_bundles: bundles,
            packages: BTreeMap::new(),
            marked_package: String::new(),
            marked_channels: Vec::new(),
            marked_bundles: BTreeMap::new(),
            links: 0,
            skipped_links: Vec::new(),
        }
    }

    fn version(&self, name: &str) -> Version {
        self.versions.get(name).cloned().unwrap_or_default()
    }

    fn channel(&mut self, channel: &Channel) {
        let id = format!("{}-{}", channel.package, channel.name);
        let name = quote(&channel.name);
        let mut out = format!("    %% channel {name}\n    subgraph {id}[{name}]\n");
        if self.deprecated_packages.contains(channel.package.as_str()) {
            self.marked_package.clone_from(&channel.package);
        }
        if self.deprecated_channels.contains(channel.name.as_str()) {
            self.marked_channels.push(id.clone());
        }
        let mut entries: Vec<&ChannelEntry> = channel.entries.iter().collect();
        entries.sort_by(|a, b| self.version(&b.name).compare(&self.version(&a.name)));
        let mut skipped = HashSet::new();
        for entry in entries {
            self.entry(&mut out, channel, entry, &id, &mut skipped);
        }
        out.push_str("    end\n");
        self.packages.entry(channel.package.clone()).or_default().push_str(&out);
    }

    fn entry<'e>(
        &mut self,
        out: &mut String,
        channel: &'e Channel,
        entry: &'e ChannelEntry,
        channel_id: &str,
        skipped: &mut HashSet<&'e str>,
    ) {
        let node = |name: &str| format!("{channel_id}-{name}[{}]", quote(name));
        let this = node(&entry.name);
        out.push_str(&format!("      {this}\n"));
        let deprecated = self.deprecated_bundles.contains(entry.name.as_str());
        let class = match (deprecated, skipped.contains(entry.name.as_str())) {
            (true, true) => Some("deprecatedskipped"),
            (true, false) => Some("deprecated"),
            (false, true) => Some("skipped"),
            (false, false) => None,
        };
        if let Some(class) = class {
            self.marked_bundles.entry(class).or_default().push(format!("{channel_id}-{}", entry.name));
        }
        for skip in &entry.skips {
            out.push_str(&format!("      {}-- skip --> {this}\n", node(skip)));
            if self.skipped == SkippedEdges::Marked && !skipped.insert(skip) {
                self.skipped_links.push(self.links.to_string());
            }
            self.links += 1;
        }
        let mark_existing = |drawing: &mut Self| {
            if drawing.skipped == SkippedEdges::Marked && skipped.contains(entry.name.as_str()) {
                drawing.skipped_links.push(drawing.links.to_string());
            }
            drawing.links += 1;
        };
        if !entry.skip_range.is_empty()
            && let Ok(range) = Range::parse(&entry.skip_range)
        {
            for other in &channel.entries {
                if !range.contains(&self.version(&other.name)) {
                    continue;
                }
                out.push_str(&format!(
                    "      {}-- \"skipRange({})\" --> {this}\n",
                    node(&other.name),
                    entry.skip_range
                ));
                mark_existing(self);
            }
        }
        if !entry.replaces.is_empty() {
            out.push_str(&format!("      {}-- replace --> {this}\n", node(&entry.replaces)));
            mark_existing(self);
        }
    }

    fn finish(self) -> String {
        let mut out = String::from(
            "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
             classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n",
        );
        for (package, text) in &self.packages {
            let package = quote(package);
            out.push_str(&format!("  %% package {package}\n  subgraph {package}\n{text}  end\n"));
        }
        if !self.marked_package.is_empty() {
            out.push_str(&format!("style {} fill:#989695\n", self.marked_package));
        }
        for channel in &self.marked_channels {
            out.push_str(&format!("style {channel} fill:#DCD0FF\n"));
        }
        for (class, mut ids) in self.marked_bundles {
            ids.sort();
            out.push_str(&format!("class {} {class}\n", ids.join(",")));
        }
        if !self.skipped_links.is_empty() {
            let links = self.skipped_links.join(",");
            out.push_str(&format!("linkStyle {links} stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;\n"));
        }
        out
    }
}
