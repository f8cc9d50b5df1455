//! Whether an extension that is installed is still what it was installed as, and should be: what was applied is noted in
//! its status, and what is changed, replaced in its catalog or gone from the target is applied again.

use bailiwick_catalog::resolve::{Because, Step};
use bailiwick_catalog::serve::messages;
use kube::ResourceExt;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Extension, is_selected, target_of};
use crate::catalogs::Catalog;
use crate::context::Context;
use crate::error::Error;
use crate::object::{list, text, texts};
use crate::resolving::source_key;

/// The installed bundle as its catalogs have it now, which is what would be applied again.
pub(super) struct InCatalog {
    pub step: Step,
    /// Another one for another content.
    fingerprint: String,
}

/// Finds the installed bundle in the catalogs, in a channel that the extension names if there is one.
pub(super) fn find(context: &Context, extension: &Extension) -> Option<InCatalog> {
    let name = extension.installed_name()?;
    let package = extension.catalog("packageName");
    let preferred = texts(&extension.object.data, "/spec/source/catalog/channels");
    let selector = extension.selector().ok()?;
    let mut found: Vec<(bool, InCatalog)> = Vec::new();
    let catalogs = context.catalogs.cluster().into_iter();
    for catalog in catalogs.filter(|it| selector.as_ref().is_none_or(|selector| is_selected(selector, it))) {
        let channels = catalog.index.describe_package(package).map(|it| it.channels).unwrap_or_default();
        for channel in channels {
            let Ok(bundle) = catalog.index.describe_bundle(package, &channel.name, name) else { continue };
            found.push((!preferred.contains(&channel.name), in_catalog(extension, &catalog, &channel.name, bundle)));
        }
    }
    // What is applied already comes first, so that catalogs that hold the same bundle in two ways do not take turns.
    let applied = text(&extension.status, "/install/fingerprint");
    found.sort_by_key(|(is_other, it)| (it.fingerprint != applied, *is_other));
    found.into_iter().next().map(|(_, it)| it)
}

fn in_catalog(extension: &Extension, catalog: &Catalog, channel: &str, bundle: messages::Bundle) -> InCatalog {
    let fingerprint = fingerprint(&bundle);
    let step = Step {
        bundle: bundle.csv_name,
        package: bundle.package_name,
        version: Default::default(),
        channel: channel.to_owned(),
        source: source_key(&catalog.key),
        image: bundle.bundle_path,
        replaces: None,
        because: Because::Wanted(extension.object.name_any()),
        passed_over: Vec::new(),
    };
    InCatalog { step, fingerprint }
}

/// The fingerprint of the bundle of a step.
pub(super) fn fingerprint_of(context: &Context, step: &Step) -> String {
    let catalog = context.catalogs.get(&crate::resolving::catalog_key(&step.source));
    let bundle = catalog.and_then(|it| it.index.describe_bundle(&step.package, &step.channel, &step.bundle).ok());
    bundle.as_ref().map(fingerprint).unwrap_or_default()
}

fn fingerprint(bundle: &messages::Bundle) -> String {
    let mut digest = Sha256::new();
    for part in std::iter::once(&bundle.bundle_path).chain(&bundle.object) {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What is noted of an object that was applied.
pub(super) fn noted(object: &Value, namespace: &str) -> Value {
    let namespace = match text(object, "/metadata/namespace") {
        "" => namespace,
        own => own,
    };
    json!({
        "apiVersion": text(object, "/apiVersion"), "kind": text(object, "/kind"),
        "name": text(object, "/metadata/name"), "namespace": namespace,
    })
}

/// Whether nothing has to be applied again.
pub(super) async fn is_as_installed(
    context: &Context,
    extension: &Extension,
    found: &InCatalog,
) -> Result<bool, Error> {
    let installed = extension.conditions.iter().find(|it| it["type"] == "Installed");
    let generation = installed.and_then(|it| it["observedGeneration"].as_i64());
    if generation != extension.object.metadata.generation
        || text(&extension.status, "/install/fingerprint") != found.fingerprint
        || extension.status.pointer("/install/objects").is_none()
    {
        return Ok(false);
    }
    let Ok(target) = target_of(context, &extension.object).await? else { return Ok(false) };
    for noted in list(&extension.status, "/install/objects") {
        let object = json!({
            "apiVersion": noted["apiVersion"], "kind": noted["kind"],
            "metadata": {"name": noted["name"], "namespace": noted["namespace"]},
        });
        if target.present(&object, "").await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
