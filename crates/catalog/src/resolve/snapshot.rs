//! A catalog as resolution sees it: bundles with what they provide and require, channels with their order, and where to
//! find the bundles of a package and the providers of an API. Made once for a catalog and shared by all resolutions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::OnceLock;

use super::installed::Installed;
use super::requirement::{Requirement, Subject};
use crate::fbc::{self, LoadError, Property};
use crate::model::{self, Fact, Model};
use crate::property::{self, Gvk};
use crate::serve::Index;
use crate::version::{Range, Version, VersionRelease};

/// Bundles with this property are never installed.
const DEPRECATED: &str = "olm.deprecated";

/// What is in a catalog.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(super) packages: Vec<Package>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) entries: Vec<Entry>,
    by_package: HashMap<String, usize>,
    by_api: HashMap<Gvk, Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) default_channel: String,
    /// By name.
    pub(super) channels: Vec<Channel>,
    /// Numbers of bundles.
    pub(super) bundles: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) name: String,
    /// Numbers of entries, by name.
    pub(super) entries: Vec<usize>,
    /// The entries that are offered, head first along `replaces`, without those that another one skips.
    pub(super) chain: Result<Vec<usize>, String>,
}

/// A bundle in a channel.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) bundle: usize,
    pub(super) package: usize,
    pub(super) channel: usize,
    pub(super) replaces: String,
    pub(super) skips: Vec<String>,
    pub(super) skip_range: Option<Range>,
}

#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) name: String,
    pub(super) package: String,
    pub(super) version: VersionRelease,
    pub(super) image: String,
    pub(super) properties: Vec<Property>,
    pub(super) provides: Vec<Gvk>,
    pub(super) entries: Vec<usize>,
    /// Whether an `olm.deprecations` names it.
    pub(super) is_deprecated: bool,
    /// Whether nothing may install it.
    pub(super) is_prohibited: bool,
    requirements: OnceLock<Result<Vec<Requirement>, String>>,
}

/// What a bundle says, as far as resolution asks.
pub(crate) struct BundleContent {
    pub(crate) version: VersionRelease,
    pub(crate) image: String,
    /// Without manifests and `olm.csv.metadata`.
    pub(crate) properties: Vec<Property>,
}

impl Snapshot {
    /// Of a valid catalog.
    pub fn of_catalog(catalog: &fbc::Catalog) -> Result<Self, String> {
        let model = model::validate_catalog(catalog)?;
        // The model numbers bundles in the order of the catalog.
        Ok(Self::new(&model, |at| {
            let bundle = catalog.bundles.get(at)?;
            let light = bundle.properties.iter().filter(|it| !property::is_heavy(&it.kind)).cloned().collect();
            content(&model, at, &bundle.image, light)
        }))
    }

    /// Of a catalog directory, without holding its manifests.
    pub fn of_directory(root: &Path) -> Result<Self, LoadError> {
        let pieces = fbc::for_each_meta(root, |meta| {
            let properties = (meta.schema == fbc::schema::BUNDLE).then(|| light_properties(&meta.body));
            Ok((Fact::new(meta)?, properties))
        })?;
        let mut contents = Vec::new();
        let mut facts = Vec::with_capacity(pieces.len());
        for (fact, properties) in pieces {
            contents.extend(properties.map(Some));
            facts.push(fact);
        }
        let model = model::build(facts).map_err(|message| LoadError { message, location: None })?;
        Ok(Self::new(&model, |at| {
            let properties = contents.get_mut(at)?.take()?;
            let image = &model.bundles.get(at)?.image;
            content(&model, at, image, properties)
        }))
    }

    /// Of an index, without reading manifests.
    pub fn of_index(index: &Index) -> std::io::Result<Self> {
        let mut failed = None;
        let (model, contents) = index.model_and_contents()?;
        let snapshot = Self::new(&model, |at| match contents.of(at) {
            Ok(content) => content,
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        failed.map_or(Ok(snapshot), Err)
    }

    fn new(model: &Model, mut content: impl FnMut(usize) -> Option<BundleContent>) -> Self {
        let mut out = Snapshot::default();
        // Of bundles in the model, our numbers.
        let mut known: HashMap<usize, usize> = HashMap::new();
        for package in model.packages.values() {
            let number = out.packages.len();
            let mut channels = Vec::new();
            let mut bundles = Vec::new();
            for channel in package.channels.values() {
                let mut entries = Vec::new();
                for entry in channel.entries.values() {
                    let Some(at) = entry.bundle else { continue };
                    let bundle = match known.get(&at) {
                        Some(bundle) => *bundle,
                        None => {
                            let Some(content) = content(at) else { continue };
                            let bundle = out.add_bundle(&entry.name, &package.name, content);
                            known.insert(at, bundle);
                            bundles.push(bundle);
                            bundle
                        }
                    };
                    if let Some(bundle) = out.bundles.get_mut(bundle) {
                        bundle.entries.push(out.entries.len());
                        bundle.is_deprecated |= entry.deprecation.is_some();
                    }
                    entries.push(out.entries.len());
                    out.entries.push(Entry {
                        bundle,
                        package: number,
                        channel: channels.len(),
                        replaces: entry.replaces.clone(),
                        skips: entry.skips.clone(),
                        skip_range: Range::parse(&entry.skip_range).ok(),
                    });
                }
                let chain = out.chain(&entries, &package.name, &channel.name);
                channels.push(Channel { name: channel.name.clone(), entries, chain });
            }
            out.by_package.insert(package.name.clone(), number);
            let default_channel = package.default_channel.clone().unwrap_or_default();
            out.packages.push(Package { name: package.name.clone(), default_channel, channels, bundles });
        }
        out
    }

    fn add_bundle(&mut self, name: &str, package: &str, content: BundleContent) -> usize {
        let number = self.bundles.len();
        let provides = provided(&content.properties);
        for gvk in &provides {
            self.by_api.entry(gvk.clone()).or_default().push(number);
        }
        self.bundles.push(Bundle {
            name: name.to_owned(),
            package: package.to_owned(),
            version: content.version,
            image: content.image,
            is_prohibited: content.properties.iter().any(|it| it.kind == DEPRECATED),
            provides,
            properties: content.properties,
            entries: Vec::new(),
            is_deprecated: false,
            requirements: OnceLock::new(),
        });
        number
    }

    /// Orders the entries of a channel from its head along `replaces`; skipped ones are passed over but not offered.
    pub(super) fn chain(&self, entries: &[usize], package: &str, channel: &str) -> Result<Vec<usize>, String> {
        use crate::go::quote;
        let name = |at: usize| self.entry(at).map_or("", |entry| self.bundle_of(entry).name.as_str());
        let by_name: HashMap<&str, usize> = entries.iter().map(|at| (name(*at), *at)).collect();
        let mut older: HashMap<&str, bool> = HashMap::new();
        for entry in entries.iter().filter_map(|at| self.entry(*at)) {
            older.entry(entry.replaces.as_str()).or_default();
            entry.skips.iter().for_each(|skip| *older.entry(skip).or_default() = true);
        }
        let heads: Vec<usize> = entries.iter().copied().filter(|at| !older.contains_key(name(*at))).collect();
        let in_channel = || format!("channel {} of package {}", quote(channel), quote(package));
        let [head] = heads.as_slice() else {
            if entries.is_empty() {
                return Ok(Vec::new());
            }
            if heads.is_empty() {
                return Err(format!(
                    "no channel heads (entries not replaced by another entry) found in {}",
                    in_channel()
                ));
            }
            let names: Vec<&str> = heads.iter().map(|at| name(*at)).collect();
            return Err(format!(
                "a unique replacement chain within a channel is required to determine the relative order between \
                 channel entries, but {} replacement chains were found in {}: {}",
                heads.len(),
                in_channel(),
                names.join(", ")
            ));
        };
        let mut chain = Vec::new();
        let mut at = Some(*head);
        let mut steps = 0;
        while let Some(current) = at {
            steps += 1;
            if steps > entries.len() {
                return Err(format!(
                    "a cycle exists in the chain of replacement beginning with {} in {}",
                    quote(name(*head)),
                    in_channel()
                ));
            }
            if !older.get(name(current)).copied().unwrap_or_default() {
                chain.push(current);
            }
            at = self.entry(current).and_then(|entry| by_name.get(entry.replaces.as_str())).copied();
        }
        Ok(chain)
    }

    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    pub(super) fn bundle_of(&self, entry: &Entry) -> &Bundle {
        self.bundles.get(entry.bundle).expect("invariant: entries point to bundles of their snapshot")
    }

    pub(super) fn channel_of(&self, entry: &Entry) -> (&Package, &Channel) {
        let package = self.packages.get(entry.package);
        let channel = package.and_then(|package| package.channels.get(entry.channel));
        package.zip(channel).expect("invariant: entries point to channels of their snapshot")
    }

    pub(super) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.get(*self.by_package.get(name)?)
    }

    /// The bundles that meet a requirement.
    pub(super) fn matching(&self, requirement: &Requirement) -> Vec<usize> {
        let is_met = |at: &usize| self.bundles.get(*at).is_some_and(|bundle| requirement.is_met_by(bundle));
        match self.narrowed(requirement) {
            Some(few) => few.iter().copied().filter(is_met).collect(),
            None => (0..self.bundles.len()).filter(is_met).collect(),
        }
    }

    /// The only bundles that can meet a requirement, where an index tells.
    fn narrowed(&self, requirement: &Requirement) -> Option<&[usize]> {
        match requirement {
            Requirement::Api(gvk) => Some(self.by_api.get(gvk).map_or(&[], Vec::as_slice)),
            Requirement::Package { name, .. } => {
                Some(self.package(name).map_or(&[], |package| package.bundles.as_slice()))
            }
            Requirement::All(all) => all.iter().filter_map(|it| self.narrowed(it)).min_by_key(|few| few.len()),
            Requirement::Explained(_, inner) => self.narrowed(inner),
            _ => None,
        }
    }

    /// Names of packages.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().map(|package| package.name.as_str())
    }

    /// A bundle of this name as if it were installed.
    pub fn installed(&self, name: &str) -> Option<Result<Installed, String>> {
        let bundle = self.bundles.iter().find(|it| it.name == name)?;
        Some(Installed::new(name, Some(bundle.version.version.clone()), bundle.properties.clone()))
    }

    /// Whether it has a package.
    pub fn has_package(&self, name: &str) -> bool {
        self.by_package.contains_key(name)
    }

    /// How many bundles there are.
    pub fn bundle_count(&self) -> usize {
        self.bundles.len()
    }

    /// The APIs that any bundle provides, with the packages that do.
    pub fn provided_apis(&self) -> BTreeMap<&Gvk, std::collections::BTreeSet<&str>> {
        let mut out: BTreeMap<&Gvk, std::collections::BTreeSet<&str>> = BTreeMap::new();
        for bundle in &self.bundles {
            for gvk in &bundle.provides {
                out.entry(gvk).or_default().insert(&bundle.package);
            }
        }
        out
    }
}

impl Bundle {
    pub(super) fn requirements(&self) -> Result<&[Requirement], String> {
        let read = self.requirements.get_or_init(|| Requirement::all(&self.properties));
        read.as_deref().map_err(Clone::clone)
    }
}

impl Subject for Bundle {
    fn package(&self) -> Option<&str> {
        Some(&self.package)
    }

    fn version(&self) -> Option<&Version> {
        Some(&self.version.version)
    }

    fn provides(&self) -> &[Gvk] {
        &self.provides
    }

    fn properties(&self) -> &[Property] {
        &self.properties
    }
}

impl Entry {
    /// Whether it is an upgrade of an installed bundle.
    pub(super) fn succeeds(&self, name: &str, version: Option<&Version>) -> bool {
        self.replaces == name
            || self.skips.iter().any(|skip| skip == name)
            || self.skip_range.as_ref().zip(version).is_some_and(|(range, version)| range.contains(version))
    }
}

pub(super) fn provided(properties: &[Property]) -> Vec<Gvk> {
    let parsed = |it: &Property| serde_json::from_str::<serde_json::Value>(&it.value).ok();
    let mut found: Vec<Gvk> = properties
        .iter()
        .filter(|it| it.kind == property::GVK)
        .filter_map(|it| {
            let value = parsed(it)?;
            let fields = fbc::Fields::of(&value);
            Some(Gvk { group: fields.text("group"), kind: fields.text("kind"), version: fields.text("version") })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn light_properties(body: &serde_json::Value) -> Vec<Property> {
    let properties = fbc::Fields::of(body).list("properties").iter().map(fbc::Fields::of);
    let light = properties.filter(|it| !property::is_heavy(&it.text("type")));
    light.map(|it| Property { kind: it.text("type"), value: crate::go::to_json(it.get("value")) }).collect()
}

fn content(model: &Model, at: usize, image: &str, properties: Vec<Property>) -> Option<BundleContent> {
    let version = model.bundles.get(at)?.version.clone().ok()?;
    Some(BundleContent { version, image: image.to_owned(), properties })
}
