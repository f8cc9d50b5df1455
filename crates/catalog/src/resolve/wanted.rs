//! Which bundles meet a want by themselves, from the most to the least preferred, and why there are none.

use super::installed::Installed;
use super::request::{Choice, Request, Source, SourceKey, Upgrades, Want};
use super::snapshot::{Bundle, Channel, Package, Snapshot};
use super::story::{list_of, nearest};
use crate::go::quote;
use crate::version::{Constraint, Range};

/// A bundle that may be in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Candidate {
    /// Of `Request::installed`.
    Installed(usize),
    Offered {
        /// Of `Request::sources`.
        source: usize,
        /// Of the snapshot.
        entry: usize,
    },
}

/// What a want comes to.
pub(super) struct Wanted {
    pub(super) candidates: Vec<Candidate>,
    /// The installed bundle that they take the place of.
    pub(super) current: Option<usize>,
    /// Why there are no candidates, if there are none.
    pub(super) nothing: Option<Nothing>,
}

/// Why nothing meets a want.
#[derive(Clone, Debug)]
pub(super) struct Nothing {
    /// OLM's words.
    pub(super) olm: String,
    /// Ours.
    pub(super) plain: String,
    /// What would help.
    pub(super) hint: String,
}

/// Looks up what a want can be met with.
pub(super) fn wanted(request: &Request, want: &Want) -> Wanted {
    let installed = want.installed.as_deref();
    let current = installed.and_then(|name| request.installed.iter().position(|it| it.name == name));
    let operator = current.and_then(|at| request.installed.get(at));
    let found = match &want.choice {
        Choice::Subscription { source, channel, starting_csv, versions } => {
            let asked = Subscription { want, source, channel, starting_csv, versions: versions.as_ref() };
            asked.candidates(request, operator)
        }
        Choice::Extension { sources, channels, versions, upgrades } => {
            let asked = Extension { want, sources: sources.as_deref(), channels, versions: versions.as_ref() };
            asked.candidate(request, operator.filter(|_| *upgrades == Upgrades::CatalogProvided), current)
        }
    };
    match found {
        Ok(mut candidates) => {
            if let Some(current) = current
                && matches!(want.choice, Choice::Subscription { .. })
            {
                candidates.push(Candidate::Installed(current));
            }
            Wanted { candidates, current, nothing: None }
        }
        Err(nothing) => Wanted { candidates: Vec::new(), current, nothing: Some(nothing) },
    }
}

struct Subscription<'w> {
    want: &'w Want,
    source: &'w SourceKey,
    channel: &'w str,
    starting_csv: &'w str,
    versions: Option<&'w Range>,
}

impl Subscription<'_> {
    fn candidates(&self, request: &Request, operator: Option<&Installed>) -> Result<Vec<Candidate>, Nothing> {
        let (number, source) = self.source(request)?;
        let snapshot = source.snapshot.as_ref();
        let package = self.package(request, snapshot)?;
        let mut channels = self.channels(package)?;
        // The default channel first, then by name.
        channels.sort_by_key(|channel| (channel.name != package.default_channel, channel.name.clone()));
        let mut offered: Vec<usize> = Vec::new();
        if operator.is_none() && !self.starting_csv.is_empty() {
            let entries = channels.iter().flat_map(|channel| &channel.entries).copied();
            let named = |at: &usize| {
                snapshot.entry(*at).is_some_and(|entry| snapshot.bundle_of(entry).name == self.starting_csv)
            };
            offered.extend(entries.filter(named));
            if offered.is_empty() {
                return Err(self.no_starting_csv(snapshot, package, &channels));
            }
        } else {
            for channel in &channels {
                match &channel.chain {
                    Ok(chain) => offered.extend(chain),
                    Err(reason) => return Err(self.broken(reason)),
                }
            }
        }
        let fits = |at: &usize| {
            let Some(entry) = snapshot.entry(*at) else { return false };
            let version = &snapshot.bundle_of(entry).version.version;
            operator.is_none_or(|operator| operator.replaced_by(entry))
                && self.versions.is_none_or(|range| range.contains(version))
        };
        let fitting: Vec<usize> = offered.iter().copied().filter(fits).collect();
        if fitting.is_empty() && operator.is_none() {
            return Err(self.none_fits(snapshot, &offered));
        }
        Ok(fitting.into_iter().map(|entry| Candidate::Offered { source: number, entry }).collect())
    }

    fn source<'r>(&self, request: &'r Request) -> Result<(usize, &'r Source), Nothing> {
        let found = request.sources.iter().enumerate().find(|(_, source)| &source.key == self.source);
        found.filter(|(_, source)| source.snapshot.bundle_count() > 0).ok_or_else(|| {
            let keys: Vec<String> = request.sources.iter().map(|source| source.key.to_string()).collect();
            Nothing {
                olm: format!(
                    "no operators found from catalog {} in namespace {} referenced by subscription {}",
                    self.source.name, self.source.namespace, self.want.name
                ),
                plain: match found {
                    Some(_) => format!("the catalog {} has no operators", self.source),
                    None => format!("there is no catalog {} that is ready", self.source),
                },
                hint: format!(
                    "check the CatalogSource {} and its state, or name another catalog (there: {})",
                    self.source,
                    list_of(&keys)
                ),
            }
        })
    }

    fn package<'s>(&self, request: &Request, snapshot: &'s Snapshot) -> Result<&'s Package, Nothing> {
        let name = &self.want.package;
        snapshot.package(name).ok_or_else(|| {
            let elsewhere: Vec<String> = request
                .sources
                .iter()
                .filter(|source| source.snapshot.package(name).is_some())
                .map(|source| source.key.to_string())
                .collect();
            let hint = match (elsewhere.as_slice(), nearest(name, snapshot.packages())) {
                ([], Some(similar)) => format!("did you mean {similar}?"),
                ([], None) => format!("add a catalog that has {name}"),
                (others, _) => format!("{} has it: set the subscription's source", list_of(others)),
            };
            Nothing {
                olm: format!(
                    "no operators found in package {name} in the catalog referenced by subscription {}",
                    self.want.name
                ),
                plain: format!("the catalog {} has no package {name}", self.source),
                hint,
            }
        })
    }

    fn channels<'s>(&self, package: &'s Package) -> Result<Vec<&'s Channel>, Nothing> {
        let fits = |channel: &&Channel| self.channel.is_empty() || channel.name == self.channel;
        let channels: Vec<&Channel> = package.channels.iter().filter(fits).collect();
        if !channels.is_empty() {
            return Ok(channels);
        }
        let names: Vec<String> = package.channels.iter().map(|channel| channel.name.clone()).collect();
        Err(Nothing {
            olm: format!(
                "no operators found in channel {} of package {} in the catalog referenced by subscription {}",
                self.channel, package.name, self.want.name
            ),
            plain: format!("package {} has no channel {}", package.name, self.channel),
            hint: format!("use one of its channels: {} (default {})", list_of(&names), package.default_channel),
        })
    }

    fn no_starting_csv(&self, snapshot: &Snapshot, package: &Package, channels: &[&Channel]) -> Nothing {
        let names: Vec<String> = channels
            .iter()
            .flat_map(|it| &it.entries)
            .filter_map(|at| snapshot.entry(*at))
            .map(|entry| snapshot.bundle_of(entry).name.clone())
            .collect();
        let place = if self.channel.is_empty() { String::new() } else { format!(" channel {} of", self.channel) };
        let elsewhere = package.channels.iter().find(|channel| {
            let mut entries = channel.entries.iter().filter_map(|at| snapshot.entry(*at));
            entries.any(|entry| snapshot.bundle_of(entry).name == self.starting_csv)
        });
        Nothing {
            olm: format!(
                "no operators found with name {} in channel {} of package {} in the catalog referenced by subscription {}",
                self.starting_csv, self.channel, package.name, self.want.name
            ),
            plain: format!("startingCSV {} is not in{place} package {}", self.starting_csv, package.name),
            hint: match elsewhere {
                Some(channel) => format!("it is in channel {}", channel.name),
                None => format!("use one of {}, or leave startingCSV out to get the newest", list_of(&names)),
            },
        }
    }

    fn broken(&self, reason: &str) -> Nothing {
        Nothing {
            olm: reason.to_owned(),
            plain: reason.to_owned(),
            hint: "this is a fault of the catalog: `bailiwick catalog validate` shows it to its maintainer".to_owned(),
        }
    }

    fn none_fits(&self, snapshot: &Snapshot, offered: &[usize]) -> Nothing {
        let mut bundles: Vec<String> = Vec::new();
        for entry in offered.iter().filter_map(|at| snapshot.entry(*at)) {
            // A bundle is on offer once for each of its channels.
            let version = snapshot.bundle_of(entry).version.to_string();
            if !bundles.contains(&version) {
                bundles.push(version);
            }
        }
        let channel = if self.channel.is_empty() { String::new() } else { format!(" in channel {}", self.channel) };
        Nothing {
            olm: format!("no operators found matching the criteria of subscription {}", self.want.name),
            plain: format!(
                "no version of package {}{channel} is in the range that {} asks for",
                self.want.package, self.want.name
            ),
            hint: format!("versions on offer: {}", list_of(&bundles)),
        }
    }
}

struct Extension<'w> {
    want: &'w Want,
    sources: Option<&'w [SourceKey]>,
    channels: &'w [String],
    versions: Option<&'w Constraint>,
}

impl Extension<'_> {
    /// The one bundle that an extension stands for. There is no second choice: which bundle it is should not depend on
    /// what else is wanted.
    fn candidate(
        &self,
        request: &Request,
        upgraded: Option<&Installed>,
        current: Option<usize>,
    ) -> Result<Vec<Candidate>, Nothing> {
        let mut best: Vec<(usize, &Source, &Bundle)> = Vec::new();
        let mut seen = false;
        for (number, source) in request.sources.iter().enumerate() {
            if self.sources.is_some_and(|allowed| !allowed.contains(&source.key)) {
                continue;
            }
            let snapshot = source.snapshot.as_ref();
            let Some(package) = snapshot.package(&self.want.package) else { continue };
            seen = true;
            let bundles = package.bundles.iter().filter_map(|at| snapshot.bundles.get(*at));
            let fitting = bundles.filter(|bundle| self.fits(snapshot, bundle, upgraded));
            let found = fitting
                .max_by(|a, b| b.is_deprecated.cmp(&a.is_deprecated).then_with(|| a.version.compare(&b.version)));
            if let Some(bundle) = found {
                best.push((number, source, bundle));
            }
        }
        if best.iter().any(|(.., bundle)| !bundle.is_deprecated) {
            best.retain(|(.., bundle)| !bundle.is_deprecated);
        }
        let highest = best.iter().map(|(_, source, _)| source.priority).max();
        best.retain(|(_, source, _)| Some(source.priority) == highest);
        let installed = current.and_then(|at| request.installed.get(at));
        match best.as_slice() {
            [(number, _, bundle)] => {
                if let (Some(current), Some(installed)) = (current, installed)
                    && installed.name == bundle.name
                {
                    return Ok(vec![Candidate::Installed(current)]);
                }
                let in_channel = |at: &&usize| self.is_in_channel(&request.sources, *number, **at);
                let entry = bundle.entries.iter().find(in_channel).or(bundle.entries.first());
                Ok(entry.map(|entry| Candidate::Offered { source: *number, entry: *entry }).into_iter().collect())
            }
            [] => Err(self.nothing(request, upgraded, installed, seen)),
            several => {
                let mut names: Vec<String> = several.iter().map(|(_, source, _)| source.key.name.clone()).collect();
                names.sort();
                let again = format!("in multiple catalogs with the same priority [{}]", names.join(" "));
                Err(Nothing {
                    olm: format!("{} {again}", self.sought("found bundles for package", installed)),
                    plain: format!("{} offer package {} with the same priority", list_of(&names), self.want.package),
                    hint: "give one of the catalogs a higher spec.priority, or choose one with \
                           spec.source.catalog.selector"
                        .to_owned(),
                })
            }
        }
    }

    fn is_in_channel(&self, sources: &[Source], source: usize, entry: usize) -> bool {
        let snapshot = sources.get(source).map(|source| source.snapshot.as_ref());
        let found = snapshot.and_then(|snapshot| Some(snapshot.channel_of(snapshot.entry(entry)?)));
        found.is_some_and(|(package, channel)| {
            if self.channels.is_empty() {
                channel.name == package.default_channel
            } else {
                self.channels.contains(&channel.name)
            }
        })
    }

    fn fits(&self, snapshot: &Snapshot, bundle: &Bundle, upgraded: Option<&Installed>) -> bool {
        let mut entries = bundle.entries.iter().filter_map(|at| snapshot.entry(*at));
        let in_channel = self.channels.is_empty()
            || entries.clone().any(|it| self.channels.contains(&snapshot.channel_of(it).1.name));
        let in_range = self.versions.is_none_or(|versions| versions.contains(&bundle.version.version));
        let follows = upgraded.is_none_or(|installed| {
            let stays = installed.version.as_ref().is_some_and(|it| it == &bundle.version.version)
                && installed.name == bundle.name;
            stays || entries.any(|entry| installed.replaced_by(entry))
        });
        in_channel && in_range && follows
    }

    /// The beginning of upstream's sentence.
    fn sought(&self, verb: &str, installed: Option<&Installed>) -> String {
        let mut text = String::new();
        if let Some(version) = installed.and_then(|it| it.version.as_ref()) {
            text.push_str(&format!(
                "error upgrading from currently installed version {}: ",
                quote(&version.to_string())
            ));
        }
        text.push_str(&format!("{verb} {}", quote(&self.want.package)));
        if let Some(versions) = self.versions {
            text.push_str(&format!(" matching version {}", quote(versions.text())));
        }
        if !self.channels.is_empty() {
            text.push_str(&format!(" in channels [{}]", self.channels.join(" ")));
        }
        text
    }

    fn nothing(
        &self,
        request: &Request,
        upgraded: Option<&Installed>,
        installed: Option<&Installed>,
        seen: bool,
    ) -> Nothing {
        let olm = self.sought("no bundles found for package", installed);
        let name = &self.want.package;
        if !seen {
            let packages = request.sources.iter().flat_map(|source| source.snapshot.packages());
            let hint = match nearest(name, packages) {
                Some(similar) => format!("did you mean {similar}?"),
                None => format!("add a ClusterCatalog that has {name}, or check the selector"),
            };
            return Nothing { olm, plain: format!("no catalog that the extension may use has package {name}"), hint };
        }
        // Would it be found without the rule about upgrades?
        let allowed = |source: &&Source| self.sources.is_none_or(|allowed| allowed.contains(&source.key));
        let mut versions: Vec<String> = Vec::new();
        for source in request.sources.iter().filter(allowed) {
            let snapshot = source.snapshot.as_ref();
            let bundles = snapshot.package(name).into_iter().flat_map(|it| &it.bundles);
            let bundles = bundles.filter_map(|at| snapshot.bundles.get(*at));
            let wanted = bundles.filter(|bundle| upgraded.is_none() || self.fits(snapshot, bundle, None));
            versions.extend(wanted.map(|bundle| bundle.version.to_string()));
        }
        match upgraded {
            Some(installed) if !versions.is_empty() => Nothing {
                olm,
                plain: format!("no bundle of package {name} that fits is an upgrade of {}", installed.name),
                hint: format!(
                    "these fit but the catalog has no upgrade edge to them: {}; go through an intermediate version, or \
                     set upgradeConstraintPolicy: SelfCertified once you have checked the upgrade",
                    list_of(&versions)
                ),
            },
            _ => Nothing {
                olm,
                plain: format!("no bundle of package {name} fits the channels and versions that are asked for"),
                hint: format!("versions on offer: {}", list_of(&versions)),
            },
        }
    }
}
