//! Resolution as OLM's users know it, on small catalogs, and against trying everything on random ones.

mod against_brute_force;
mod extensions;
mod refusals;
mod subscriptions;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::fbc::{Property, load_text};

/// A bundle of a test catalog.
#[derive(Clone, Default)]
pub(super) struct Made {
    package: String,
    version: String,
    channels: Vec<Edge>,
    properties: Vec<(String, Value)>,
}

#[derive(Clone, Default)]
struct Edge {
    channel: String,
    replaces: String,
    skips: Vec<String>,
    skip_range: String,
}

/// `bundle("foo", "1.0.0")` is called `foo.v1.0.0`.
pub(super) fn bundle(package: &str, version: &str) -> Made {
    Made { package: package.to_owned(), version: version.to_owned(), ..Made::default() }
}

impl Made {
    fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    pub(super) fn channel(mut self, channel: &str, replaces: &str) -> Self {
        self.channels.push(Edge { channel: channel.to_owned(), replaces: replaces.to_owned(), ..Edge::default() });
        self
    }

    fn skips(mut self, skips: &[&str]) -> Self {
        self.channels.last_mut().unwrap().skips = skips.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    fn skip_range(mut self, range: &str) -> Self {
        self.channels.last_mut().unwrap().skip_range = range.to_owned();
        self
    }

    pub(super) fn property(mut self, kind: &str, value: Value) -> Self {
        self.properties.push((kind.to_owned(), value));
        self
    }

    pub(super) fn provides(self, kind: &str) -> Self {
        self.property("olm.gvk", json!({"group": "g", "version": "v1", "kind": kind}))
    }

    pub(super) fn needs_api(self, kind: &str) -> Self {
        self.property("olm.gvk.required", json!({"group": "g", "version": "v1", "kind": kind}))
    }

    pub(super) fn needs(self, package: &str, range: &str) -> Self {
        self.property("olm.package.required", json!({"packageName": package, "versionRange": range}))
    }

    fn all_properties(&self) -> Vec<(String, Value)> {
        let package = json!({"packageName": self.package, "version": self.version});
        std::iter::once(("olm.package".to_owned(), package)).chain(self.properties.iter().cloned()).collect()
    }

    pub(super) fn installed(&self) -> Installed {
        let properties =
            self.all_properties().into_iter().map(|(kind, value)| Property { kind, value: value.to_string() });
        Installed::new(&self.name(), None, properties.collect()).unwrap()
    }
}

/// A catalog of bundles; those without a channel are in `stable`. The default channel of a package is its first.
pub(super) fn catalog(bundles: &[Made]) -> Arc<Snapshot> {
    let mut channels: Vec<(String, String, Vec<Value>)> = Vec::new();
    let mut text = String::new();
    for bundle in bundles {
        let edges = match bundle.channels.as_slice() {
            [] => vec![Edge { channel: "stable".to_owned(), ..Edge::default() }],
            edges => edges.to_vec(),
        };
        for edge in edges {
            let entry = json!({"name": bundle.name(), "replaces": edge.replaces, "skips": edge.skips, "skipRange": edge.skip_range});
            match channels.iter_mut().find(|(package, name, _)| *package == bundle.package && *name == edge.channel) {
                Some((.., entries)) => entries.push(entry),
                None => channels.push((bundle.package.clone(), edge.channel, vec![entry])),
            }
        }
        let properties: Vec<Value> =
            bundle.all_properties().into_iter().map(|(kind, value)| json!({"type": kind, "value": value})).collect();
        let document = json!({
            "schema": "olm.bundle", "package": bundle.package, "name": bundle.name(),
            "image": format!("quay.io/test/{}:v{}", bundle.package, bundle.version), "properties": properties,
        });
        text.push_str(&format!("{document}\n"));
    }
    let mut packages: Vec<&str> = Vec::new();
    for (package, name, entries) in &channels {
        if !packages.contains(&package.as_str()) {
            packages.push(package);
            text.push_str(&format!("{}\n", json!({"schema": "olm.package", "name": package, "defaultChannel": name})));
        }
        let document = json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries});
        text.push_str(&format!("{document}\n"));
    }
    Arc::new(Snapshot::of_catalog(&load_text(&text).unwrap()).unwrap())
}

pub(super) fn source(name: &str, priority: i32, snapshot: &Arc<Snapshot>) -> Source {
    Source { key: SourceKey::new("olm", name), priority, snapshot: snapshot.clone() }
}

/// A subscription to a package of the catalog `main`, named after it.
pub(super) fn subscription(package: &str) -> Want {
    let choice = Choice::Subscription {
        source: SourceKey::new("olm", "main"),
        channel: String::new(),
        starting_csv: String::new(),
        versions: None,
    };
    Want { name: package.to_owned(), package: package.to_owned(), installed: None, choice }
}

impl Want {
    fn in_channel(mut self, name: &str) -> Self {
        if let Choice::Subscription { channel, .. } = &mut self.choice {
            *channel = name.to_owned();
        }
        self
    }

    fn starting_with(mut self, name: &str) -> Self {
        if let Choice::Subscription { starting_csv, .. } = &mut self.choice {
            *starting_csv = name.to_owned();
        }
        self
    }

    fn having(mut self, installed: &str) -> Self {
        self.installed = Some(installed.to_owned());
        self
    }
}

/// A request with one catalog, `main`.
pub(super) fn request(bundles: &[Made], wants: Vec<Want>) -> Request {
    Request {
        namespace: "ns".to_owned(),
        sources: vec![source("main", 0, &catalog(bundles))],
        wants,
        ..Request::default()
    }
}

fn names(resolution: &Resolution) -> Vec<&str> {
    resolution.steps.iter().map(|step| step.bundle.as_str()).collect()
}

fn resolved(request: &Request) -> Vec<String> {
    match resolve(request) {
        Ok(resolution) => names(&resolution).into_iter().map(str::to_owned).collect(),
        Err(refusal) => panic!("refused:\n{refusal}"),
    }
}
