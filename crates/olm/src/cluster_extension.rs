//! ClusterExtensions, OLM v1's installed operators: resolved over all ClusterCatalogs, applied as a whole, owned as a
//! whole, and applied again when something of it changes or goes missing. Removing one removes everything it brought,
//! definitions included. Dependencies, which OLM v1 refuses, become ClusterExtensions of their own.

mod upkeep;

use std::time::Duration;

use bailiwick_catalog::fbc::Property;
use bailiwick_catalog::resolve::{Because, Choice, Installed, Request, Step, Upgrades, Want};
use bailiwick_catalog::version::{Constraint, Version};
use bailiwick_controllers::work_queue::Outcome;
use bailiwick_machinery::selector::LabelSelector;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::before::{Begun, Holder, Keeping};
use crate::bundles::{Manifests, is_definition};
use crate::catalogs::Catalog;
use crate::context::{Context, Key};
use crate::crds::dynamic;
use crate::error::{Error, is_already_there, is_not_found};
use crate::installing::{Applied, Installer, NotApplied, OWNED_KINDS, add_labels, add_owner, label_value, sweep};
use crate::kinds::{CLUSTER_EXTENSION, CRD};
use crate::object::{Condition, is_deleting, list, set_condition, status, text, texts, write_status};
use crate::operator_service::{self, OperatorServices};
use crate::permissions::{self, Watched};
use crate::resolving::{self, Answer, source, source_key};
use crate::target::Target;
use crate::{api_services, crd_safety, install_plan, operator_group, webhooks};

/// Keeps an extension until what it installed is gone.
const FINALIZER: &str = "bailiwick.dev/extension-cleanup";
/// On an extension that was made for another: which.
const REQUIRED_BY: &str = "bailiwick.dev/required-by";
/// How often it is looked at whether everything of an extension is still there: nobody tells us.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(60);
const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";

/// An extension while it is looked at.
struct Extension {
    object: DynamicObject,
    status: Value,
    conditions: Vec<Value>,
}

impl Extension {
    fn set(&mut self, kind: &'static str, status: &'static str, reason: &str, message: impl Into<String>) {
        let condition = Condition::new(kind, status, reason, message);
        set_condition(&mut self.conditions, &condition, self.object.metadata.generation);
    }

    fn installed_name(&self) -> Option<&str> {
        Some(text(&self.status, "/install/bundle/name")).filter(|name| !name.is_empty())
    }

    fn catalog(&self, field: &str) -> &str {
        text(&self.object.data, &format!("/spec/source/catalog/{field}"))
    }

    /// What chooses its catalogs; `None` if all may be drawn from.
    fn selector(&self) -> Result<Option<LabelSelector>, String> {
        let selector = LabelSelector::from_object(self.object.data.pointer("/spec/source/catalog/selector"));
        selector.map_err(|error| format!("spec.source.catalog.selector: {error}"))
    }
}

fn is_selected(selector: &LabelSelector, catalog: &Catalog) -> bool {
    selector.matches(|key| catalog.labels.get(key).map(String::as_str))
}

/// Looks at a ClusterExtension.
pub(crate) async fn reconcile(context: &Context, name: &str) -> Result<Outcome, Error> {
    let api = CLUSTER_EXTENSION.all(&context.client);
    let Some(object) = api.get_opt(name).await? else {
        context.forget(&Key::ClusterExtension(name.to_owned()));
        return Ok(Outcome::Done);
    };
    if is_deleting(&object) {
        return uninstall(context, object).await;
    }
    context.note(&Key::ClusterExtension(name.to_owned()));
    let object = match object.finalizers().iter().any(|it| it == FINALIZER) {
        true => object,
        false => {
            let mut kept = object.finalizers().to_vec();
            kept.push(FINALIZER.to_owned());
            let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.resource_version()}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?
        }
    };
    let mut status = status(&object).clone();
    if !status.is_object() {
        status = json!({});
    }
    let conditions = list(&status, "/conditions").to_vec();
    let mut extension = Extension { object, status, conditions };
    let before = extension.conditions.clone();
    let result = bring_about(context, &mut extension).await?;
    let outcome = match result {
        Ok(outcome) => {
            extension.set("Progressing", "True", "Succeeded", "Desired state reached");
            outcome
        }
        Err(Held::Waits(message)) => {
            extension.set("Progressing", "True", "Retrying", message);
            Outcome::Backoff
        }
        Err(Held::Rests(message, left)) => {
            extension.set("Progressing", "True", "Retrying", message);
            Outcome::After(left)
        }
        Err(Held::Refused(message)) => {
            extension.set("Progressing", "True", "Retrying", message.as_str());
            if !before.iter().any(|it| it["type"] == "Progressing" && it["message"] == message.as_str()) {
                context.events.warning(&CLUSTER_EXTENSION, &extension.object, "ResolutionFailed", &message).await;
            }
            // A catalog or the extension must change, and that leads here again.
            Outcome::Done
        }
    };
    if extension.installed_name().is_none() {
        extension.set("Installed", "False", "Failed", "No bundle installed");
    }
    extension.status["conditions"] = extension.conditions.clone().into();
    write_status(&api, &mut extension.object, extension.status).await?;
    Ok(outcome)
}

/// Why an extension is not as it should be.
enum Held {
    /// It may be later.
    Waits(String),
    /// It was tried just now, and put back.
    Rests(String, Duration),
    /// Something must change first.
    Refused(String),
}

async fn bring_about(context: &Context, extension: &mut Extension) -> Result<Result<Outcome, Held>, Error> {
    let name = extension.object.name_any();
    let others = CLUSTER_EXTENSION.all(&context.client).list(&Default::default()).await?.items;
    let request = match request(context, extension, &others) {
        Ok(request) => request,
        Err(message) => return Ok(Err(Held::Refused(message))),
    };
    if request.sources.is_empty() {
        let message = format!("no catalog can be drawn from for package {:?}", extension.catalog("packageName"));
        return Ok(Err(Held::Refused(message)));
    }
    let movable = movable(extension, &others);
    let moving = (!movable.is_empty())
        .then(|| Request { wants: request.wants.iter().cloned().chain(movable).collect(), ..request.clone() });
    let mut answer = resolving::ask(request).await?;
    // What was brought for it stays as it is, unless that keeps it from its own upgrade.
    if let Some(moving) = moving {
        let moved = resolving::ask(moving).await?;
        let is_better = match (answer.refused.contains_key(&name), moved.refused.contains_key(&name)) {
            (_, true) => false,
            (true, false) => true,
            (false, false) => wanted(&answer, &name) != wanted(&moved, &name),
        };
        if is_better {
            answer = moved;
        }
    }
    if let Some(message) = answer.refused.remove(&name) {
        return Ok(Err(Held::Refused(message)));
    }
    let steps = answer.resolution.steps;
    let (own, required): (Vec<Step>, Vec<Step>) =
        steps.into_iter().partition(|step| step.because == Because::Wanted(name.clone()));
    for step in &required {
        require(context, extension, step).await?;
    }
    if let Some(step) = required.first() {
        let message = format!("waits for {} of package {}, which it requires", step.bundle, step.package);
        return Ok(Err(Held::Waits(message)));
    }
    let step = match own.into_iter().next() {
        Some(step) => step,
        // It stays the bundle that it is.
        None => {
            let Some(found) = upkeep::find(context, extension) else { return Ok(Ok(Outcome::Done)) };
            note_deprecations(context, extension, &found.step);
            if upkeep::is_as_installed(context, extension, &found).await? {
                return Ok(Ok(Outcome::After(UPKEEP_INTERVAL)));
            }
            found.step
        }
    };
    let attempt = attempt(context, extension, &step);
    if let Some((left, message)) = context.rest_of(&attempt) {
        return Ok(Err(Held::Rests(message, left)));
    }
    let installed = install(context, extension, &step).await?;
    Ok(installed.map(|()| Outcome::After(UPKEEP_INTERVAL)))
}

/// What is tried: the same bundle for another spec, or with another content, is something else.
fn attempt(context: &Context, extension: &Extension, step: &Step) -> String {
    let (uid, generation) = (extension.object.uid().unwrap_or_default(), extension.object.metadata.generation);
    format!("{uid} {generation:?} {} {}", step.bundle, upkeep::fingerprint_of(context, step))
}

fn request(context: &Context, extension: &Extension, others: &[DynamicObject]) -> Result<Request, String> {
    let versions = match extension.catalog("version") {
        "" => None,
        text => {
            Some(Constraint::parse(text).map_err(|error| format!("spec.source.catalog.version {text:?}: {error}"))?)
        }
    };
    let catalogs = context.catalogs.cluster();
    let allowed = extension.selector()?.map(|selector| {
        let chosen = catalogs.iter().filter(|it| is_selected(&selector, it));
        chosen.map(|catalog| source_key(&catalog.key)).collect::<Vec<_>>()
    });
    let upgrades = match extension.catalog("upgradeConstraintPolicy") {
        "SelfCertified" => Upgrades::SelfCertified,
        _ => Upgrades::CatalogProvided,
    };
    let want = Want {
        name: extension.object.name_any(),
        package: extension.catalog("packageName").to_owned(),
        installed: extension.installed_name().map(str::to_owned),
        choice: Choice::Extension {
            sources: allowed,
            channels: texts(&extension.object.data, "/spec/source/catalog/channels"),
            versions,
            upgrades,
        },
    };
    Ok(Request {
        sources: catalogs.iter().map(|catalog| source(catalog)).collect(),
        installed: others.iter().filter_map(installed).collect(),
        wants: vec![want],
        ..Request::default()
    })
}

/// The bundle that an answer has for an extension; `None` when it stays as it is.
fn wanted<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut steps = answer.resolution.steps.iter();
    steps.find(|step| matches!(&step.because, Because::Wanted(by) if by == name)).map(|step| step.bundle.as_str())
}

/// The extensions that were made for this one. Their versions are ours to choose, along the edges of their catalogs.
fn movable(extension: &Extension, others: &[DynamicObject]) -> Vec<Want> {
    let name = extension.object.name_any();
    let made = others.iter().filter(|it| is_made_for(it, &name) && !is_deleting(it));
    let wants = made.map(|it| Want {
        name: it.name_any(),
        package: text(&it.data, "/spec/source/catalog/packageName").to_owned(),
        installed: Some(text(&it.data, "/status/install/bundle/name").to_owned()).filter(|name| !name.is_empty()),
        choice: Choice::Extension {
            sources: None,
            channels: Vec::new(),
            versions: None,
            upgrades: Upgrades::CatalogProvided,
        },
    });
    wants.collect()
}

fn is_made_for(dependency: &DynamicObject, name: &str) -> bool {
    crate::object::annotation(dependency, REQUIRED_BY) == Some(name)
}

/// What an extension has installed.
fn installed(extension: &DynamicObject) -> Option<Installed> {
    let name = Some(text(&extension.data, "/status/install/bundle/name")).filter(|name| !name.is_empty())?;
    let version = Version::parse(text(&extension.data, "/status/install/bundle/version")).ok();
    let properties = list(&extension.data, "/status/install/properties").iter();
    let properties =
        properties.map(|it| Property { kind: text(it, "/type").to_owned(), value: it["value"].to_string() });
    Installed::new(name, version, properties.collect()).ok()
}

/// Makes an extension for what another requires, or moves the one that was made for it. One that somebody else made for
/// the package is theirs.
async fn require(context: &Context, extension: &Extension, step: &Step) -> Result<(), Error> {
    let api = CLUSTER_EXTENSION.all(&context.client);
    let existing = api.list(&Default::default()).await?.items;
    let version = step.version.version.to_string();
    let of_package = |it: &&DynamicObject| text(&it.data, "/spec/source/catalog/packageName") == step.package;
    if let Some(there) = existing.iter().find(of_package) {
        let is_there = text(&there.data, "/spec/source/catalog/version") == version;
        if !is_there && is_made_for(there, &extension.object.name_any()) {
            let catalog = json!({"version": version, "channels": [step.channel]});
            let patch = json!({"spec": {"source": {"catalog": catalog}}});
            api.patch(&there.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        return Ok(());
    }
    let mut object = json!({
        "apiVersion": CLUSTER_EXTENSION.api_version(), "kind": CLUSTER_EXTENSION.kind,
        "metadata": {"name": step.package, "annotations": {REQUIRED_BY: extension.object.name_any()}},
        "spec": {
            "namespace": text(&extension.object.data, "/spec/namespace"),
            "source": {"sourceType": "Catalog", "catalog": {
                "packageName": step.package, "channels": [step.channel], "version": version,
            }},
        },
    });
    let account = &extension.object.data["spec"]["serviceAccount"];
    if !account.is_null() {
        object["spec"]["serviceAccount"] = account.clone();
    }
    if let Some(secret) = crate::object::annotation(&extension.object, crate::target::TARGET_ANNOTATION) {
        object["metadata"]["annotations"][crate::target::TARGET_ANNOTATION] = secret.into();
    }
    match api.create(&PostParams::default(), &dynamic(object)?).await {
        Err(error) if !is_already_there(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn target_of(context: &Context, object: &DynamicObject) -> Result<Result<Target, String>, Error> {
    let namespace = text(&object.data, "/spec/namespace");
    let account = Some(text(&object.data, "/spec/serviceAccount/name")).filter(|name| !name.is_empty());
    context.targets.of(object, namespace, account).await
}

async fn install(context: &Context, extension: &mut Extension, step: &Step) -> Result<Result<(), Held>, Error> {
    let name = extension.object.name_any();
    let namespace = text(&extension.object.data, "/spec/namespace").to_owned();
    let target = match target_of(context, &extension.object).await? {
        Ok(target) => target,
        Err(message) => return Ok(Err(Held::Waits(message))),
    };
    let (unpacked, unreadable) = install_plan::unpack(context, std::slice::from_ref(step)).await;
    if let Some((bundle, message)) = unreadable.into_iter().next() {
        return Ok(Err(Held::Waits(format!("bundle {bundle}: {message}"))));
    }
    let manifests = unpacked.into_values().next();
    let Some(manifests) = manifests else { return Ok(Err(Held::Waits("the bundle is empty".to_owned()))) };
    let watched = match watched(&extension.object, &manifests, &namespace) {
        Ok(watched) => watched,
        Err(message) => return Ok(Err(Held::Refused(message))),
    };
    if let Some(message) = unsafe_change(&target, &extension.object, &manifests).await? {
        return Ok(Err(Held::Refused(message)));
    }
    let mut objects: Vec<Value> = manifests.definitions().cloned().collect();
    objects.extend(permissions::objects(&manifests.csv, &namespace, &watched));
    objects.extend(manifests.others.iter().filter(|object| !is_definition(object)).cloned());
    let runs = target.serves("apps", "v1", "Deployment").await?;
    if runs {
        let holder = dynamic(json!({"metadata": {"name": name}}))?;
        objects.extend(crate::csv::deployments(&manifests.csv, &namespace, &holder, &watched));
    }
    let mut described = manifests.csv.clone();
    described["metadata"]["annotations"]["olm.targetNamespaces"] = watched.annotation().into();
    let described = dynamic(described)?;
    let mut services = OperatorServices::new(&target, &described, &namespace, (OWNER_NAME, label_value(&name))).await?;
    let served = match webhooks::objects(&mut services).await? {
        Ok(hooks) => api_services::objects(&mut services).await?.map(|apis| hooks.into_iter().chain(apis)),
        Err(message) => Err(message),
    };
    let served = match served {
        Ok(served) => served,
        Err(message) => return Ok(Err(Held::Refused(format!("bundle {}: {message}", step.bundle)))),
    };
    let conversions = webhooks::conversions(&mut services).await?;
    objects.extend(services.into_objects());
    objects.extend(served);
    let owner = CLUSTER_EXTENSION.owner(&extension.object);
    let mut installer = Installer::new(&target, &namespace);
    let holder = Holder { uid: extension.object.uid().unwrap_or_default(), owner: owner.clone() };
    let keeping = Keeping::of_extension(context, &name, &namespace);
    let begun = keeping.remember(&holder, &target, &objects).await?;
    let mut kept: Vec<Value> = Vec::new();
    for mut object in objects {
        add_labels(&mut object, [(OWNER_KIND, CLUSTER_EXTENSION.kind.to_owned()), (OWNER_NAME, label_value(&name))]);
        if target.secret.is_none() {
            add_owner(&mut object, owner.clone());
        }
        let applied = match owned_by_another(&target, &object, &namespace, &name).await? {
            Some(message) => Err(NotApplied::Refused(message)),
            None => installer.apply(&object).await,
        };
        if let Err(message) = &applied {
            let mut stays = installer.roll_back().await;
            if begun == Begun::Earlier {
                // What is there besides was brought by a process that ended in the middle. Definitions may have objects.
                stays.extend(keeping.put_back(&target).await?);
                let before = list(&extension.status, "/install/objects");
                let is_kept = |kind: &str, place: Option<&str>, name: &str| {
                    kind == CRD.kind || is_among(before, kind, place, name)
                };
                sweep(&target, &OWNED_KINDS, &selector(&name), &is_kept).await?;
            }
            keeping.forget().await?;
            let undone = install_plan::undone(&stays);
            let message = format!("bundle {}: {message}; {undone}", step.bundle);
            context.lay_to_rest(attempt(context, extension, step), &message);
            return Ok(Err(Held::Waits(message)));
        }
        if matches!(applied, Ok(Applied::Created | Applied::Present)) {
            kept.push(upkeep::noted(&object, &namespace));
        }
    }
    webhooks::convert(&target, &conversions).await?;
    let is_kept = |kind: &str, place: Option<&str>, name: &str| is_among(&kept, kind, place, name);
    sweep(&target, &OWNED_KINDS, &selector(&name), &is_kept).await?;
    keeping.forget().await?;
    note_installed(extension, step, &manifests, upkeep::fingerprint_of(context, step), kept);
    note_deprecations(context, extension, step);
    let deployments = texts_of_deployments(&manifests.csv);
    let image = if step.image.is_empty() { &step.bundle } else { &step.image };
    extension.set("Installed", "True", "Succeeded", format!("Installed bundle {image} successfully"));
    match runs || deployments.is_empty() {
        true => extension.conditions.retain(|it| it["type"] != "Available"),
        false => {
            let message = format!(
                "the deployments ({}) are not installed: {} serves no apps/v1 Deployments, so nothing runs the operator{}",
                deployments.join(", "),
                target.name(),
                operator_service::note(&described)
            );
            extension.set("Available", "False", crate::csv::NOT_SERVED, message);
        }
    }
    let note = format!("installed {}", step.bundle);
    context.events.normal(&CLUSTER_EXTENSION, &extension.object, "Installed", &note).await;
    Ok(Ok(()))
}

/// Whether something is one of the objects that were noted.
fn is_among(noted: &[Value], kind: &str, place: Option<&str>, name: &str) -> bool {
    let is = |it: &Value| it["kind"] == kind && it["name"] == name && place.is_none_or(|at| it["namespace"] == at);
    noted.iter().any(is)
}

fn texts_of_deployments(csv: &Value) -> Vec<String> {
    list(csv, "/spec/install/spec/deployments").iter().map(|it| text(it, "/name").to_owned()).collect()
}

fn note_installed(
    extension: &mut Extension,
    step: &Step,
    manifests: &Manifests,
    fingerprint: String,
    objects: Vec<Value>,
) {
    let noted = manifests.csv.pointer("/metadata/annotations/operatorframework.io~1properties");
    let noted: Value = noted.and_then(Value::as_str).and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let version = text(&manifests.csv, "/spec/version");
    extension.status["install"] = json!({
        "bundle": {"name": step.bundle, "version": version}, "properties": noted["properties"],
        "fingerprint": fingerprint, "objects": objects,
    });
}

/// Says what of an extension its catalog calls deprecated.
fn note_deprecations(context: &Context, extension: &mut Extension, step: &Step) {
    let catalog = context.catalogs.get(&resolving::catalog_key(&step.source));
    let package = catalog.as_ref().and_then(|catalog| catalog.index.describe_package(&step.package));
    let versions = catalog.as_ref().map(|it| it.index.channel_versions(&step.package, &step.channel));
    let bundle = versions.into_iter().flatten().find(|it| it.name == step.bundle).and_then(|it| it.deprecation);
    let channel = package.as_ref().and_then(|it| it.channels.iter().find(|channel| channel.name == step.channel));
    let channel = channel.and_then(|channel| channel.deprecation.as_ref()).map(|it| it.message.clone());
    let package = package.as_ref().and_then(|package| package.deprecation.as_ref()).map(|it| it.message.clone());
    let all: Vec<String> = [&package, &channel, &bundle].into_iter().flatten().cloned().collect();
    let all = (!all.is_empty()).then(|| all.join("; "));
    for (kind, message) in [
        ("Deprecated", all),
        ("PackageDeprecated", package),
        ("ChannelDeprecated", channel),
        ("BundleDeprecated", bundle),
    ] {
        match message {
            Some(message) => extension.set(kind, "True", "Deprecated", message),
            None => extension.set(kind, "False", "NotDeprecated", "not deprecated"),
        }
    }
}

fn watched(object: &DynamicObject, manifests: &Manifests, namespace: &str) -> Result<Watched, String> {
    let named = text(&object.data, "/spec/config/inline/watchNamespace");
    if !named.is_empty() {
        let watched = Watched::Namespaces(vec![named.to_owned()]);
        return operator_group::supports(&manifests.csv, namespace, &watched).map(|()| watched);
    }
    let own = Watched::Namespaces(vec![namespace.to_owned()]);
    match operator_group::supports(&manifests.csv, namespace, &Watched::All) {
        Ok(()) => Ok(Watched::All),
        Err(message) => match operator_group::supports(&manifests.csv, namespace, &own) {
            Ok(()) => Ok(own),
            Err(_) => Err(format!("{message}; name a namespace with spec.config.inline.watchNamespace")),
        },
    }
}

/// Why the definitions of a bundle must not be applied.
async fn unsafe_change(
    target: &Target,
    object: &DynamicObject,
    manifests: &Manifests,
) -> Result<Option<String>, Error> {
    if text(&object.data, "/spec/install/preflight/crdUpgradeSafety/enforcement") == "None" {
        return Ok(None);
    }
    if let Some(message) = install_plan::unsafe_definition(target, manifests).await? {
        return Ok(Some(message));
    }
    for new in manifests.definitions() {
        let Some(old) = CRD.all(&target.own).get_opt(text(new, "/metadata/name")).await? else { continue };
        let old = serde_json::to_value(&old).unwrap_or_default();
        let changes = crd_safety::breaking_changes(&old, new);
        if !changes.is_empty() {
            let name = text(new, "/metadata/name");
            return Ok(Some(format!(
                "CustomResourceDefinition {name} failed upgrade safety validation: {}",
                changes.join("; ")
            )));
        }
    }
    Ok(None)
}

async fn owned_by_another(
    target: &Target,
    object: &Value,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, Error> {
    let Some(present) = target.present(object, namespace).await? else { return Ok(None) };
    let owner = present.labels().get(OWNER_NAME).filter(|owner| **owner != label_value(name));
    Ok(owner.map(|owner| {
        format!("{} {} belongs to ClusterExtension {owner}", text(object, "/kind"), text(object, "/metadata/name"))
    }))
}

fn selector(name: &str) -> String {
    format!("{OWNER_KIND}={},{OWNER_NAME}={}", CLUSTER_EXTENSION.kind, label_value(name))
}

async fn uninstall(context: &Context, object: DynamicObject) -> Result<Outcome, Error> {
    let name = object.name_any();
    if !object.finalizers().iter().any(|it| it == FINALIZER) {
        return Ok(Outcome::Done);
    }
    // In our own name: the service account may be gone already.
    let namespace = text(&object.data, "/spec/namespace");
    match context.targets.of(&object, namespace, None).await? {
        Ok(target) => sweep(&target, &OWNED_KINDS, &selector(&name), &|_, _, _| false).await?,
        Err(message) => context.events.warning(&CLUSTER_EXTENSION, &object, "CleanupFailed", &message).await,
    }
    let kept: Vec<&String> = object.finalizers().iter().filter(|it| *it != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.resource_version()}});
    match CLUSTER_EXTENSION.all(&context.client).patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(Outcome::Done),
    }
}
