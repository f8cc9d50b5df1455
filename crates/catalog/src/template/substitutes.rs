//! The substitutes template: a catalog, and images that take the place of bundles in it.

use std::collections::{HashMap, HashSet};

use super::{RenderBundle, SUBSTITUTES, TemplateKind, entries};
use crate::fbc::{Bundle, Catalog, Channel, ChannelEntry, Fields};
use crate::go::quote;
use crate::model::validate_catalog;
use crate::property::version_release;

struct Substitution {
    /// The image.
    name: String,
    /// The bundle whose place it takes.
    base: String,
}

pub(super) fn render(text: &str, bundles: &mut RenderBundle) -> Result<Catalog, String> {
    let (template, catalog) = entries(text, TemplateKind::Substitutes, &SUBSTITUTES)
        .map_err(|error| format!("unable to parse template: {error}"))?;
    let mut catalog = catalog.map_err(|error| format!("unable to create declarative config from entries: {error}"))?;
    validate_catalog(&catalog).map_err(|error| format!("entries are not valid FBC: {error}"))?;
    let mut bases = HashSet::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for item in Fields::of(&template).list("substitutions") {
        let fields = Fields::of(item);
        let substitution = Substitution { name: fields.text("name"), base: fields.text("base") };
        let (name, base) = (quote(&substitution.name), quote(&substitution.base));
        if !bases.insert(substitution.base.clone()) {
            return Err(format!("cannot reuse the same substitution base {base}"));
        }
        if let Some(other) = names.insert(substitution.name.clone(), substitution.base.clone()) {
            let other = quote(&other);
            return Err(format!("cannot reuse the same substitution {name} for different bases ({other} and {base})"));
        }
        apply(&mut catalog, &substitution, bundles)
            .map_err(|error| format!("error processing substitution {base} -> {name}: {error}"))?;
    }
    Ok(catalog)
}

fn apply(catalog: &mut Catalog, substitution: &Substitution, bundles: &mut RenderBundle) -> Result<(), String> {
    let substitute = newer_bundle(catalog, substitution, bundles)?;
    for channel in &mut catalog.channels {
        put_in_place(channel, &substitution.base, &substitute.name);
    }
    catalog.bundles.push(substitute);
    validate_catalog(catalog).map(|_| ()).map_err(|error| format!("resulting config is not valid FBC: {error}"))
}

/// Renders the substitute, which must be newer than its base.
fn newer_bundle(catalog: &Catalog, substitution: &Substitution, bundles: &mut RenderBundle) -> Result<Bundle, String> {
    if substitution.name.is_empty() {
        return Err("substitution name cannot be empty".to_owned());
    }
    if substitution.base.is_empty() {
        return Err("substitution base cannot be empty".to_owned());
    }
    if substitution.name == substitution.base {
        return Err("substitution name and base cannot be the same".to_owned());
    }
    let (name, base_name) = (quote(&substitution.name), quote(&substitution.base));
    let rendered = bundles(&substitution.name)
        .map_err(|error| format!("failed to render bundle image reference {name}: {error}"))?;
    let Some(substitute) = rendered.bundles.into_iter().next() else {
        return Err(format!("rendered bundle image reference {name} contains no bundles"));
    };
    let version = version_release(&substitute)
        .map_err(|error| format!("failed to get VersionRelease for substitute bundle {name}: {error}"))?;
    let base = catalog.bundles.iter().find(|bundle| bundle.name == substitution.base);
    let base = base.ok_or_else(|| format!("base bundle {base_name} does not exist in catalog"))?;
    let base_version = version_release(base)
        .map_err(|error| format!("failed to get VersionRelease for base bundle {base_name}: {error}"))?;
    if base_version.compare(&version).is_ge() {
        return Err(format!("base bundle {base_name} is not less than substitute bundle {name}"));
    }
    Ok(substitute)
}

fn put_in_place(channel: &mut Channel, base: &str, substitute: &str) {
    let mut added = Vec::new();
    for entry in channel.entries.iter_mut().filter(|entry| entry.name == base) {
        let mut skips = std::mem::take(&mut entry.skips);
        skips.push(base.to_owned());
        added.push(ChannelEntry {
            name: substitute.to_owned(),
            replaces: std::mem::take(&mut entry.replaces),
            skips,
            skip_range: std::mem::take(&mut entry.skip_range),
        });
    }
    for entry in &mut channel.entries {
        if entry.replaces == base {
            entry.replaces = substitute.to_owned();
            entry.skips.push(base.to_owned());
        } else if entry.skips.iter().any(|skip| skip == base) {
            entry.skips.push(substitute.to_owned());
            entry.skips.retain(|skip| skip != base);
        }
    }
    added.reverse();
    channel.entries.extend(added);
}
