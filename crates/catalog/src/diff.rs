//! What changed from one catalog to another, in words that a reviewer can use.

use std::collections::{BTreeMap, BTreeSet};

use crate::fbc::{Bundle, Catalog, Channel, ChannelEntry, DeprecationEntry, Package};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub package: String,
    pub kind: Kind,
    /// What it is about, and how.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Added,
    Removed,
    Changed,
}

impl Kind {
    fn sign(self) -> char {
        match self {
            Kind::Added => '+',
            Kind::Removed => '-',
            Kind::Changed => '~',
        }
    }
}

/// All differences, by package.
pub fn diff(old: &Catalog, new: &Catalog) -> Vec<Change> {
    let mut out = Changes::default();
    let by_name = |catalog: &Catalog| -> BTreeMap<String, Package> {
        catalog.packages.iter().map(|it| (it.name.clone(), it.clone())).collect()
    };
    out.compare(
        &by_name(old),
        &by_name(new),
        |name| (name.clone(), "package".to_owned()),
        |a, b| {
            let mut changes = Vec::new();
            if a.default_channel != b.default_channel {
                changes.push(format!("default channel {} -> {}", a.default_channel, b.default_channel));
            }
            note(&mut changes, a.description != b.description, "description");
            note(&mut changes, a.icon != b.icon, "icon");
            note(&mut changes, a.properties != b.properties, "properties");
            changes
        },
    );
    let channels = |catalog: &Catalog| -> BTreeMap<(String, String), Channel> {
        catalog.channels.iter().map(|it| ((it.package.clone(), it.name.clone()), it.clone())).collect()
    };
    out.compare(
        &channels(old),
        &channels(new),
        |(package, name)| (package.clone(), format!("channel {name}")),
        channel_changes,
    );
    let bundles = |catalog: &Catalog| -> BTreeMap<(String, String), Bundle> {
        catalog.bundles.iter().map(|it| ((it.package.clone(), it.name.clone()), it.clone())).collect()
    };
    out.compare(
        &bundles(old),
        &bundles(new),
        |(package, name)| (package.clone(), format!("bundle {name}")),
        bundle_changes,
    );
    let deprecations = |catalog: &Catalog| -> BTreeMap<(String, String, String), DeprecationEntry> {
        let entries =
            catalog.deprecations.iter().flat_map(|it| it.entries.iter().map(|entry| (it.package.clone(), entry)));
        entries.map(|(package, it)| ((package, it.schema.clone(), it.name.clone()), it.clone())).collect()
    };
    let title = |(package, schema, name): &(String, String, String)| {
        (package.clone(), format!("deprecation of {} {name}", schema.trim_start_matches("olm.")).trim_end().to_owned())
    };
    out.compare(&deprecations(old), &deprecations(new), title, |a, b| {
        if a.message == b.message { Vec::new() } else { vec![format!("message {:?} -> {:?}", a.message, b.message)] }
    });
    let others = |catalog: &Catalog| -> BTreeMap<(String, String, String), String> {
        let metas = catalog.others.iter();
        metas.map(|it| ((it.package.clone(), it.schema.clone(), it.name.clone()), it.blob())).collect()
    };
    let title = |(package, schema, name): &(String, String, String)| (package.clone(), format!("{schema} {name}"));
    out.compare(&others(old), &others(new), title, |a, b| if a == b { Vec::new() } else { vec!["content".to_owned()] });
    out.0.sort();
    out.0
}

fn note(changes: &mut Vec<String>, changed: bool, what: &str) {
    if changed {
        changes.push(what.to_owned());
    }
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn compare<K: Ord, V>(
        &mut self,
        old: &BTreeMap<K, V>,
        new: &BTreeMap<K, V>,
        title: impl Fn(&K) -> (String, String),
        changes: impl Fn(&V, &V) -> Vec<String>,
    ) {
        let mut push = |key: &K, kind, detail: Option<String>| {
            let (package, title) = title(key);
            let text = detail.map_or(title.clone(), |detail| format!("{title}: {detail}"));
            self.0.push(Change { package, kind, text });
        };
        let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
        for key in keys {
            match (old.get(key), new.get(key)) {
                (None, Some(_)) => push(key, Kind::Added, None),
                (Some(_), None) => push(key, Kind::Removed, None),
                (Some(a), Some(b)) => changes(a, b).into_iter().for_each(|it| push(key, Kind::Changed, Some(it))),
                (None, None) => {}
            }
        }
    }
}

fn channel_changes(old: &Channel, new: &Channel) -> Vec<String> {
    let entries = |channel: &Channel| -> BTreeMap<String, ChannelEntry> {
        channel.entries.iter().map(|it| (it.name.clone(), it.clone())).collect()
    };
    let (old_entries, new_entries) = (entries(old), entries(new));
    let mut changes = Vec::new();
    for (name, entry) in &new_entries {
        match old_entries.get(name) {
            None => changes.push(format!("+{name}{}", upgrades(entry))),
            Some(before) if before != entry => {
                changes.push(format!("{name}:{} -> {}", upgrades(before), upgrades(entry).trim_start()));
            }
            Some(_) => {}
        }
    }
    changes.extend(old_entries.keys().filter(|name| !new_entries.contains_key(*name)).map(|name| format!("-{name}")));
    note(&mut changes, old.properties != new.properties, "properties");
    changes
}

fn upgrades(entry: &ChannelEntry) -> String {
    let mut text = String::new();
    if !entry.replaces.is_empty() {
        text.push_str(&format!(" replaces {}", entry.replaces));
    }
    if !entry.skips.is_empty() {
        text.push_str(&format!(" skips {}", entry.skips.join(",")));
    }
    if !entry.skip_range.is_empty() {
        text.push_str(&format!(" skipRange {:?}", entry.skip_range));
    }
    if text.is_empty() { " replaces nothing".to_owned() } else { text }
}

/// What differs between two bundles of one name.
pub(crate) fn bundle_changes(old: &Bundle, new: &Bundle) -> Vec<String> {
    let mut changes = Vec::new();
    if old.image != new.image {
        changes.push(format!("image {} -> {}", old.image, new.image));
    }
    let properties = |bundle: &Bundle| -> BTreeSet<(String, String)> {
        bundle.properties.iter().map(|it| (it.kind.clone(), sorted(&it.value))).collect()
    };
    let (before, after) = (properties(old), properties(new));
    let brief = |(kind, value): &(String, String)| {
        if value.len() > 160 { kind.clone() } else { format!("{kind} {value}") }
    };
    changes.extend(after.difference(&before).map(|it| format!("+property {}", brief(it))));
    changes.extend(before.difference(&after).map(|it| format!("-property {}", brief(it))));
    let images = |bundle: &Bundle| -> BTreeSet<(String, String)> {
        bundle.related_images.iter().map(|it| (it.image.clone(), it.name.clone())).collect()
    };
    let (before, after) = (images(old), images(new));
    changes.extend(after.difference(&before).map(|(image, _)| format!("+related image {image}")));
    changes.extend(before.difference(&after).map(|(image, _)| format!("-related image {image}")));
    changes
}

/// The order of keys is no difference.
fn sorted(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value| crate::go::to_json(&value))
}

/// The differences as text, package by package.
pub fn describe(changes: &[Change]) -> String {
    let mut out = String::new();
    let mut current = None;
    for change in changes {
        if current != Some(&change.package) {
            current = Some(&change.package);
            let name = if change.package.is_empty() { "(no package)" } else { &change.package };
            out.push_str(&format!("{name}\n"));
        }
        out.push_str(&format!("  {} {}\n", change.kind.sign(), change.text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::load_text;

    #[test]
    fn changes_are_told_by_package() {
        let old = load_text("---\nschema: olm.package\nname: foo\ndefaultChannel: a\n---\nschema: olm.channel\npackage: foo\nname: a\nentries: [{name: foo.v1}]\n").unwrap();
        let new = load_text("---\nschema: olm.package\nname: foo\ndefaultChannel: b\n---\nschema: olm.channel\npackage: foo\nname: a\nentries: [{name: foo.v1}, {name: foo.v2, replaces: foo.v1}]\n").unwrap();
        assert_eq!(
            describe(&diff(&old, &new)),
            "foo\n  ~ channel a: +foo.v2 replaces foo.v1\n  ~ package: default channel a -> b\n"
        );
        assert_eq!(diff(&old, &old), []);
    }
}
