//! Who meets a requirement, in OLM's order: what is installed, then the catalog of the bundle that requires it, then the
//! other catalogs by priority; in a catalog default channels first, then by package and channel, in a channel the head
//! first.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::request::Request;
use super::requirement::Requirement;
use super::snapshot::Snapshot;
use super::wanted::Candidate;

/// Finds providers, remembering what it found.
pub(super) struct Providers<'r> {
    request: &'r Request,
    /// By requirement and the catalog that is preferred.
    known: HashMap<(*const Requirement, Option<usize>), Rc<[Candidate]>>,
    /// In one catalog, by the words of the requirement: bundles of one package mostly require the same.
    in_source: HashMap<(String, usize), Rc<[Candidate]>>,
}

impl<'r> Providers<'r> {
    pub(super) fn new(request: &'r Request) -> Self {
        Providers { request, known: HashMap::new(), in_source: HashMap::new() }
    }

    /// Everything that meets a requirement of a bundle from the catalog `preferred`.
    pub(super) fn of(&mut self, requirement: &'r Requirement, preferred: Option<usize>) -> Rc<[Candidate]> {
        let key = (std::ptr::from_ref(requirement), preferred);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let installed = self.request.installed.iter().enumerate();
        let mut found: Vec<Candidate> =
            installed.filter(|(_, it)| requirement.is_met_by(*it)).map(|(at, _)| Candidate::Installed(at)).collect();
        let text = requirement.to_string();
        for source in self.order(preferred) {
            let request = self.request;
            let offered = self.in_source.entry((text.clone(), source)).or_insert_with(|| {
                let snapshot = request.sources.get(source).map(|source| source.snapshot.as_ref());
                snapshot.map(|snapshot| offered(snapshot, requirement, source)).unwrap_or_default().into()
            });
            found.extend(offered.iter());
        }
        let found: Rc<[Candidate]> = found.into();
        self.known.insert(key, found.clone());
        found
    }

    fn order(&self, preferred: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.request.sources.len()).collect();
        order.sort_by_key(|at| {
            let source = self.request.sources.get(*at);
            let key = source.map(|source| {
                let elsewhere = source.key.namespace != self.request.namespace;
                (std::cmp::Reverse(source.priority), elsewhere, source.key.name.clone())
            });
            (Some(*at) != preferred, key)
        });
        order
    }
}

fn offered(snapshot: &Snapshot, requirement: &Requirement, source: usize) -> Vec<Candidate> {
    let bundles = snapshot.matching(requirement);
    let matching: HashSet<usize> = bundles.iter().copied().collect();
    let entries = bundles.iter().filter_map(|at| snapshot.bundles.get(*at)).flat_map(|bundle| &bundle.entries);
    let mut channels: Vec<(bool, &str, &str, &[usize])> = Vec::new();
    let mut seen = HashSet::new();
    for entry in entries.filter_map(|at| snapshot.entry(*at)) {
        if !seen.insert((entry.package, entry.channel)) {
            continue;
        }
        let (package, channel) = snapshot.channel_of(entry);
        let chain = channel.chain.as_deref().unwrap_or_default();
        channels.push((channel.name != package.default_channel, &package.name, &channel.name, chain));
    }
    channels.sort_unstable();
    let chains = channels.into_iter().flat_map(|(.., chain)| chain.iter().copied());
    let fitting = chains.filter(|at| snapshot.entry(*at).is_some_and(|entry| matching.contains(&entry.bundle)));
    fitting.map(|entry| Candidate::Offered { source, entry }).collect()
}
