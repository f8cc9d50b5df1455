//! The semver template: lists of bundle images by stability; channels and upgrades follow from the versions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{RenderBundle, Rendered};
use crate::bundle::Csv;
use crate::fbc::{Catalog, Channel, ChannelEntry, Fields, Package};
use crate::go::{Field, Omit, Shape, Struct, check_strict, quote, scalars_to_texts};
use crate::property::Properties;
use crate::version::Version;

const SCHEMA: &str = "olm.semver";

static BUNDLE: Struct = Struct { name: "semver.bundleEntry", fields: &[opt("image", Shape::TEXT)] };
static BUNDLE_SHAPE: Shape = Shape::Struct(&BUNDLE);
static BUNDLES: Struct =
    Struct { name: "semver.channelBundles", fields: &[opt("bundles", Shape::List(&BUNDLE_SHAPE))] };
static TEMPLATE: Struct = Struct {
    name: "semver.SemverTemplateData",
    fields: &[
        opt("schema", Shape::TEXT),
        opt("generateMajorChannels", Shape::Bool),
        opt("generateMinorChannels", Shape::Bool),
        opt("defaultChannelTypePreference", Shape::Text("semver.StreamType")),
        opt("candidate", Shape::Struct(&BUNDLES)),
        opt("fast", Shape::Struct(&BUNDLES)),
        opt("stable", Shape::Struct(&BUNDLES)),
    ],
};

const fn opt(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, omit: Omit::Empty }
}

/// How stable the bundles of a list are, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Archetype {
    Candidate,
    Fast,
    Stable,
}

impl Archetype {
    const ALL: [Archetype; 3] = [Archetype::Candidate, Archetype::Fast, Archetype::Stable];

    fn name(self) -> &'static str {
        match self {
            Archetype::Candidate => "candidate",
            Archetype::Fast => "fast",
            Archetype::Stable => "stable",
        }
    }
}

/// What a channel follows; minor ones are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

impl Stream {
    fn channel(self, archetype: Archetype, version: &Version) -> String {
        match self {
            Stream::Major => format!("{}-v{}", archetype.name(), version.major),
            Stream::Minor => format!("{}-v{}.{}", archetype.name(), version.major, version.minor),
        }
    }
}

struct Template {
    streams: Vec<Stream>,
    preference: Stream,
    preference_is_set: bool,
    images: BTreeMap<Archetype, Vec<String>>,
}

pub(super) fn render(text: &str, bundles: &mut RenderBundle) -> Result<Rendered, String> {
    let template = read(text).map_err(|error| format!("render: unable to read file: {error}"))?;
    let mut catalog = Catalog::default();
    // What an image is called after rendering: the same, unless the renderer names it.
    let mut rendered: BTreeMap<&str, String> = BTreeMap::new();
    for image in template.images.values().flatten() {
        if rendered.contains_key(image.as_str()) {
            continue;
        }
        let found = bundles(image)?;
        let [bundle] = found.bundles.as_slice() else {
            return Err(format!(
                "bundle reference {} resulted in {} bundles, expected 1",
                quote(image),
                found.bundles.len()
            ));
        };
        rendered.insert(image, bundle.image.clone());
        catalog.merge(found);
    }
    if catalog.bundles.is_empty() {
        return Err("render: no bundles specified or no bundles could be rendered".to_owned());
    }
    let mut package = Package::default();
    let mut versions = BTreeMap::new();
    for archetype in Archetype::ALL {
        let images = template.images.get(&archetype).map_or(&[][..], Vec::as_slice);
        let found = versions_of(images, &rendered, &catalog, &mut package)
            .and_then(|found| refuse_equal_versions(&found).map(|()| found))
            .map_err(|error| format!("render: unable to post-process bundle info: {error}"))?;
        versions.insert(archetype, found);
    }
    let graph = Graph::new(&template, &versions);
    package.default_channel = graph.default_channel.clone();
    let warnings = graph.warnings(&template, &package.default_channel);
    catalog.channels = graph.link(&package.name);
    describe(&mut package, &catalog);
    catalog.packages.push(package);
    Ok(Rendered { catalog, warnings })
}

fn read(text: &str) -> Result<Template, String> {
    let mut decoded =
        bailiwick_machinery::yaml::decode(text).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    if let Some(error) = decoded.strict_error() {
        return Err(format!("error converting YAML to JSON: {error}"));
    }
    scalars_to_texts(&mut decoded.value, Shape::Struct(&TEMPLATE));
    check_strict(&decoded.value, Shape::Struct(&TEMPLATE))
        .map_err(|error| format!("error unmarshaling JSON: while decoding JSON: {error}"))?;
    super::keep_last_of_case(&mut decoded.value);
    let fields = Fields::of(&decoded.value);
    if fields.text("schema") != SCHEMA {
        return Err(format!("readFile: input file has unknown schema, should be {}", quote(SCHEMA)));
    }
    let flag = |name| fields.get(name).as_bool().unwrap_or_default();
    let major = flag("generateMajorChannels");
    let minor = flag("generateMinorChannels") || !major;
    let mismatch = |kind: &str| {
        format!(
            "schema attribute mismatch: DefaultChannelTypePreference set to '{kind}' doesn't make sense if not \
             generating {kind}-version channels"
        )
    };
    let preference_text = fields.text("defaultChannelTypePreference");
    let preference = match preference_text.as_str() {
        "" if minor => Stream::Minor,
        "" => Stream::Major,
        "minor" if minor => Stream::Minor,
        "major" if major => Stream::Major,
        kind @ ("minor" | "major") => return Err(mismatch(kind)),
        other => {
            return Err(format!(
                "unknown DefaultChannelTypePreference: {}\nValid values are 'major' or 'minor'",
                quote(other)
            ));
        }
    };
    let mut images = BTreeMap::new();
    for archetype in Archetype::ALL {
        let list = Fields::of(fields.get(archetype.name())).list("bundles");
        images.insert(archetype, list.iter().map(|bundle| Fields::of(bundle).text("image")).collect());
    }
    let streams = [(major, Stream::Major), (minor, Stream::Minor)];
    Ok(Template {
        streams: streams.into_iter().filter(|(on, _)| *on).map(|(_, stream)| stream).collect(),
        preference,
        preference_is_set: !preference_text.is_empty(),
        images,
    })
}

type Versions = BTreeMap<String, Version>;

fn versions_of(
    images: &[String],
    rendered: &BTreeMap<&str, String>,
    catalog: &Catalog,
    package: &mut Package,
) -> Result<Versions, String> {
    let mut versions = Versions::new();
    for image in images {
        let name = rendered.get(image.as_str());
        let bundle = catalog.bundles.iter().find(|bundle| Some(&bundle.image) == name).ok_or_else(|| {
            format!("supplied bundle image name {} not found in rendered bundle images", quote(image))
        })?;
        let bundle_name = quote(&bundle.name);
        let properties = Properties::parse(&bundle.properties)
            .map_err(|error| format!("parse properties for bundle {bundle_name}: {error}"))?;
        let [found] = properties.packages.as_slice() else {
            return Err(format!("bundle {bundle_name} has multiple \"olm.package\" properties, expected exactly 1"));
        };
        let version = Version::parse(&found.version)
            .map_err(|error| format!("bundle {bundle_name} has invalid version {}: {error}", quote(&found.version)))?;
        if package.name.is_empty() {
            package.name.clone_from(&found.package_name);
        } else if package.name != found.package_name {
            return Err(format!(
                "bundle {} does not belong to this package: {}",
                quote(&found.package_name),
                quote(&package.name)
            ));
        }
        if versions.insert(bundle.name.clone(), version).is_some() {
            return Err(format!("duplicate bundle name {bundle_name}"));
        }
    }
    Ok(versions)
}

fn refuse_equal_versions(versions: &Versions) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for version in versions.values() {
        let plain = version.without_build();
        if !seen.insert(plain.clone()) {
            let error =
                format!("bundle version {} cannot be compared to {}", quote(&version.to_string()), quote(&plain));
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
    }
    let text = match errors.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(format!("encountered bundle versions which differ only by build metadata, which cannot be ordered: {text}"))
}

/// A bundle in a channel, before its upgrades are known.
struct Node {
    archetype: Archetype,
    stream: Stream,
    channel: String,
    name: String,
    version: Version,
}

struct Graph {
    /// In the order of entries of their channels.
    nodes: Vec<Node>,
    default_channel: String,
}

impl Graph {
    fn new(template: &Template, versions: &BTreeMap<Archetype, Versions>) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut best: (Archetype, Version, Option<Stream>) = (Archetype::Candidate, Version::default(), None);
        let mut default_channel = String::new();
        let mut channels = BTreeSet::new();
        for (&archetype, bundles) in versions {
            let mut bundles: Vec<(&String, &Version)> = bundles.iter().collect();
            bundles.sort_by(|(_, a), (_, b)| a.compare(b));
            for (name, version) in bundles {
                for &stream in &template.streams {
                    let channel = stream.channel(archetype, version);
                    // Compared only when a channel appears, so by its lowest version: upstream's behaviour, which users
                    // have in their catalogs.
                    if channels.insert(channel.clone())
                        && is_better((archetype, version, stream), &best, template.preference)
                    {
                        best = (archetype, version.clone(), Some(stream));
                        default_channel.clone_from(&channel);
                    }
                    nodes.push(Node { archetype, stream, channel, name: name.clone(), version: version.clone() });
                }
            }
        }
        Graph { nodes, default_channel }
    }

    fn warnings(&self, template: &Template, default_channel: &str) -> Vec<String> {
        let stream = self.nodes.iter().find(|node| node.channel == default_channel).map(|node| node.stream);
        match stream {
            Some(stream) if template.preference_is_set && stream != template.preference => {
                let wanted = if template.preference == Stream::Major { "major" } else { "minor" };
                vec![format!(
                    "the default channel is {default_channel} although defaultChannelTypePreference is {wanted}: \
                     channels are compared by their lowest versions, as opm does"
                )]
            }
            _ => Vec::new(),
        }
    }

    /// The highest patch of each minor replaces that of the minor before and skips all others of its major version.
    fn link(mut self, package: &str) -> Vec<Channel> {
        let mut channels: BTreeMap<String, Channel> = BTreeMap::new();
        let mut position: BTreeMap<(String, String), usize> = BTreeMap::new();
        for node in &self.nodes {
            let channel = channels.entry(node.channel.clone()).or_insert_with(|| Channel {
                name: node.channel.clone(),
                package: package.to_owned(),
                ..Channel::default()
            });
            position.insert((node.channel.clone(), node.name.clone()), channel.entries.len());
            channel.entries.push(ChannelEntry { name: node.name.clone(), ..ChannelEntry::default() });
        }
        self.nodes.sort_by(|a, b| {
            (a.archetype, a.stream).cmp(&(b.archetype, b.stream)).then_with(|| a.version.compare(&b.version))
        });
        let mut set_edges = |node: &Node, replaces: &str, skips: &BTreeSet<String>| {
            let at = position.get(&(node.channel.clone(), node.name.clone()));
            let entries = channels.get_mut(&node.channel).map(|channel| &mut channel.entries);
            if let (Some(&at), Some(entries)) = (at, entries)
                && let Some(entry) = entries.get_mut(at)
            {
                entry.replaces = replaces.to_owned();
                entry.skips = skips.iter().filter(|skip| *skip != replaces).cloned().collect();
            }
        };
        let mut highest_before = String::new();
        let mut skips = BTreeSet::new();
        let mut continues = false;
        for pair in self.nodes.windows(2) {
            let [before, node] = pair else { continue };
            let same_stream = (before.archetype, before.stream, before.version.major)
                == (node.archetype, node.stream, node.version.major);
            let same_minor = same_stream && before.version.minor == node.version.minor;
            if !same_minor {
                set_edges(before, &highest_before, &skips);
            }
            if same_stream {
                if !same_minor {
                    highest_before.clone_from(&before.name);
                }
                skips.insert(before.name.clone());
            } else {
                skips.clear();
                highest_before.clear();
            }
            continues = same_stream;
        }
        if let (true, Some(last)) = (continues, self.nodes.last()) {
            set_edges(last, &highest_before, &skips);
        }
        channels.into_values().collect()
    }
}

/// More stable, newer, of the preferred kind, minor: in this order.
fn is_better(
    candidate: (Archetype, &Version, Stream),
    best: &(Archetype, Version, Option<Stream>),
    preference: Stream,
) -> bool {
    let (archetype, version, stream) = candidate;
    if archetype != best.0 {
        return archetype > best.0;
    }
    match version.compare(&best.1) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal if Some(stream) == best.2 => false,
        Ordering::Equal if stream == preference => true,
        Ordering::Equal if Some(preference) == best.2 => false,
        Ordering::Equal => Some(stream) > best.2,
    }
}

/// Description and icon come from the newest bundle of the default channel.
fn describe(package: &mut Package, catalog: &Catalog) {
    let channel = catalog.channels.iter().find(|channel| channel.name == package.default_channel);
    let head = channel.and_then(|channel| channel.entries.last());
    let bundle = head.and_then(|head| catalog.bundles.iter().find(|bundle| bundle.name == head.name));
    let Some(Ok(object)) = bundle.map(|bundle| serde_json::from_str::<Value>(&bundle.csv_json)) else { return };
    if let Some(csv) = Csv::new(&object) {
        package.description = csv.description().unwrap_or_default().to_owned();
        package.icon = csv.first_icon();
    }
}
