//! InstallPlans: what is installed together, carried out once it may be. When a part of a plan is refused everything goes
//! back to what it was, and the plan says why; the same plan is not tried again until somebody removes it. What fails
//! because somebody does not answer or is busy goes back too, and is tried again.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_catalog::resolve::{Because, SourceKey, Step};
use bailiwick_controllers::work_queue::Outcome;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::before::{Begun, Holder, Keeping, PLAN_ANNOTATION};
use crate::bundles::Manifests;
use crate::context::Context;
use crate::crds::dynamic;
use crate::error::{Error, is_already_there, is_passing, plain};
use crate::installing::{Installer, NotApplied, OWNED_KINDS, add_labels, add_owner, label_value, sweep};
use crate::kinds::{CRD, CSV, INSTALL_PLAN, SUBSCRIPTION};
use crate::object::{annotation, is_deleting, list, now, status, text, texts, write_status};
use crate::operator_group::Group;
use crate::permissions::{self, Watched};
use crate::target::{TARGET_ANNOTATION, Target};
use crate::{crd_safety, operator_group, resolving};

/// Objects that OLM lets bundles have besides definitions and their ClusterServiceVersion.
const BUNDLE_KINDS: [&str; 20] = [
    "Secret",
    "ConfigMap",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "PrometheusRule",
    "ServiceMonitor",
    "PodMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "NetworkPolicy",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
];

/// Manifests by bundle.
pub(crate) type Unpacked = BTreeMap<String, Manifests>;

/// A plan to be.
pub(crate) struct NewPlan<'p> {
    pub approval: &'static str,
    pub generation: i64,
    pub owners: &'p [&'p DynamicObject],
    pub steps: &'p [Step],
    pub unpacked: &'p Unpacked,
}

/// Why bundles could not be read, by bundle.
pub(crate) type Unreadable = BTreeMap<String, String>;

/// Reads the bundles of steps, all that can be read.
pub(crate) async fn unpack(context: &Context, steps: &[Step]) -> (Unpacked, Unreadable) {
    let (mut out, mut faults) = (Unpacked::new(), Unreadable::new());
    for step in steps {
        let manifests = match context.catalogs.get(&resolving::catalog_key(&step.source)) {
            None => Err(Error::Other(format!("catalog {} is gone", step.source))),
            Some(catalog) => context.bundles.manifests(&catalog, &step.package, &step.channel, &step.bundle).await,
        };
        match manifests {
            Ok(manifests) => drop(out.insert(step.bundle.clone(), manifests)),
            Err(error) => drop(faults.insert(step.bundle.clone(), error.to_string())),
        }
    }
    (out, faults)
}

/// Writes a new plan.
pub(crate) async fn create(context: &Context, namespace: &str, new: NewPlan<'_>) -> Result<DynamicObject, Error> {
    let api = INSTALL_PLAN.within(&context.client, namespace);
    let names: Vec<&str> = new.steps.iter().map(|step| step.bundle.as_str()).collect();
    let owners: Vec<Value> = new.owners.iter().map(|owner| SUBSCRIPTION.owner(owner)).collect();
    let labels: BTreeMap<String, &str> =
        new.steps.iter().map(|step| (component_label(&step.package, namespace), "")).collect();
    let object = dynamic(json!({
        "apiVersion": INSTALL_PLAN.api_version(), "kind": INSTALL_PLAN.kind,
        "metadata": {
            "generateName": "install-", "namespace": namespace, "ownerReferences": owners, "labels": labels,
        },
        "spec": {
            "approval": new.approval, "approved": new.approval != "Manual", "clusterServiceVersionNames": names,
            "generation": new.generation,
        },
    }))?;
    let mut made = api.create(&PostParams::default(), &object).await?;
    let mut sources: Vec<&str> = new.steps.iter().map(|step| step.source.name.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let lookups: Vec<Value> = new.steps.iter().map(lookup).collect();
    let plan: Vec<Value> = new.steps.iter().flat_map(|step| planned(step, new.unpacked)).collect();
    let phase = if new.approval == "Manual" { "RequiresApproval" } else { "Installing" };
    let time = now();
    let status = json!({
        "phase": phase, "catalogSources": sources, "bundleLookups": lookups, "plan": plan, "startTime": time,
        "conditions": [{"type": "Resolved", "status": "True", "lastUpdateTime": time, "lastTransitionTime": time}],
    });
    write_status(&api, &mut made, status).await?;
    Ok(made)
}

/// The label of everything that belongs to a package in a namespace.
pub(crate) fn component_label(package: &str, namespace: &str) -> String {
    format!("operators.coreos.com/{}", label_value(&format!("{package}.{namespace}")))
}

/// What a plan must know to be carried out later.
fn lookup(step: &Step) -> Value {
    let required_by = match &step.because {
        Because::Wanted(_) => Value::Null,
        Because::Required { by, .. } => by.as_str().into(),
    };
    json!({
        "identifier": step.bundle, "path": step.image, "replaces": step.replaces.clone().unwrap_or_default(),
        "package": step.package, "channel": step.channel, "requiredBy": required_by,
        "catalogSourceRef": {
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": step.source.name,
            "namespace": step.source.namespace,
        },
    })
}

fn planned(step: &Step, unpacked: &Unpacked) -> Vec<Value> {
    let Some(manifests) = unpacked.get(&step.bundle) else { return Vec::new() };
    let objects = std::iter::once(&manifests.csv).chain(&manifests.others);
    let entry = |object: &Value| {
        let api_version = text(object, "/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        json!({
            "resolving": step.bundle, "status": "Unknown",
            "resource": {
                "group": group, "version": version, "kind": text(object, "/kind"),
                "name": text(object, "/metadata/name"), "sourceName": step.source.name,
                "sourceNamespace": step.source.namespace,
            },
        })
    };
    objects.map(entry).collect()
}

/// Whether nothing else may be planned before this plan is done.
pub(crate) fn is_under_way(plan: &DynamicObject) -> bool {
    let approved = plan.data.pointer("/spec/approved") == Some(&Value::Bool(true));
    match text(&plan.data, "/status/phase") {
        "Complete" | "Failed" => false,
        "RequiresApproval" => approved,
        _ => true,
    }
}

fn is_of(plan: &DynamicObject, steps: &[Step]) -> bool {
    let names: Vec<&str> = steps.iter().map(|step| step.bundle.as_str()).collect();
    texts(&plan.data, "/spec/clusterServiceVersionNames") == names
}

/// The bundles that plans failed because of.
pub(crate) fn failed_bundles(plans: &[DynamicObject]) -> BTreeSet<String> {
    let failed = plans.iter().filter(|plan| text(&plan.data, "/status/phase") == "Failed");
    let lookups = failed.flat_map(|plan| list(&plan.data, "/status/bundleLookups"));
    lookups.filter(|it| it["failed"] == true).map(|it| text(it, "/identifier").to_owned()).collect()
}

/// Whether this plan is there already and waits for somebody.
pub(crate) fn is_waiting_for(plan: &DynamicObject, steps: &[Step]) -> bool {
    text(&plan.data, "/status/phase") == "RequiresApproval" && is_of(plan, steps)
}

/// What a plan says about itself.
pub(crate) fn message(plan: &DynamicObject) -> String {
    let conditions = list(&plan.data, "/status/conditions");
    let installed = conditions.iter().find(|condition| condition["type"] == "Installed");
    installed.map(|condition| text(condition, "/message").to_owned()).unwrap_or_default()
}

/// Carries out what may be carried out.
pub(crate) async fn carry_out_all(
    context: &Context,
    namespace: &str,
    group: &Group,
    plans: Vec<DynamicObject>,
) -> Result<Outcome, Error> {
    let api = INSTALL_PLAN.within(&context.client, namespace);
    let mut outcome = Outcome::Done;
    for mut plan in plans.into_iter().filter(|plan| is_under_way(plan) && !is_deleting(plan)) {
        // A plan without a status was not written by us, or we ended in between.
        let mut wanted = status(&plan).clone();
        if list(&wanted, "/bundleLookups").is_empty() {
            if text(&plan.data, "/spec/approval") == "Manual" || !wanted.is_object() {
                wanted = json!({"phase": "Planning", "catalogSources": []});
            }
            finish(&mut wanted, "Failed", "False", "the plan does not say what it is made of; remove it");
            write_status(&api, &mut plan, wanted).await?;
            continue;
        }
        if let Some(fault) = group.fault() {
            wanted["phase"] = "Installing".into();
            set_installed(&mut wanted, "False", "InstallCheckFailed", &fault);
            wanted["message"] = fault.into();
            write_status(&api, &mut plan, wanted).await?;
            continue;
        }
        let Group::One(group, watched) = group else { continue };
        let uid = plan.uid().unwrap_or_default();
        if let Some((left, _)) = context.rest_of(&uid) {
            outcome = Outcome::After(left);
            continue;
        }
        wanted["phase"] = "Installing".into();
        let before = wanted.clone();
        match carry_out(context, namespace, group, watched.as_ref(), &plan, &mut wanted).await? {
            Ok(()) => {
                finish(&mut wanted, "Complete", "True", "");
                context.events.normal(&INSTALL_PLAN, &plan, "InstallSucceeded", "everything is applied").await;
            }
            Err(Refused::Now(message)) => {
                // Nothing of it was done.
                wanted = before;
                set_installed(&mut wanted, "False", "InstallCheckFailed", &message);
                wanted["message"] = message.into();
                outcome = Outcome::Backoff;
            }
            Err(Refused::PutBack(message)) => {
                wanted = before;
                set_installed(&mut wanted, "False", "InstallCheckFailed", &message);
                context.lay_to_rest(uid, &message);
                wanted["message"] = message.into();
                outcome = Outcome::Backoff;
            }
            Err(Refused::ForGood(message)) => {
                finish(&mut wanted, "Failed", "False", &message);
                context.events.warning(&INSTALL_PLAN, &plan, "InstallComponentFailed", &message).await;
            }
        }
        write_status(&api, &mut plan, wanted).await?;
    }
    Ok(outcome)
}

fn set_installed(wanted: &mut Value, status: &str, reason: &str, message: &str) {
    let conditions = list(wanted, "/conditions").to_vec();
    let known = conditions.iter().find(|condition| condition["type"] == "Installed").cloned();
    let mut conditions: Vec<Value> = conditions.into_iter().filter(|it| it["type"] != "Installed").collect();
    let same = known.as_ref().is_some_and(|known| known["status"] == status && known["message"] == message);
    conditions.push(match known {
        Some(known) if same => known,
        _ => json!({
            "type": "Installed", "status": status, "reason": reason, "message": message, "lastUpdateTime": now(),
            "lastTransitionTime": now(),
        }),
    });
    wanted["conditions"] = conditions.into();
}

fn finish(wanted: &mut Value, phase: &str, installed: &str, message: &str) {
    wanted["phase"] = phase.into();
    let reason = if installed == "True" { "" } else { "InstallComponentFailed" };
    set_installed(wanted, installed, reason, message);
    match message.is_empty() {
        true => drop(wanted.as_object_mut().map(|fields| fields.remove("message"))),
        false => wanted["message"] = message.into(),
    }
}

/// Why a plan was not carried out.
enum Refused {
    /// It may work later.
    Now(String),
    /// The same, and what was done is undone.
    PutBack(String),
    /// It will not; what was done is undone.
    ForGood(String),
}

async fn carry_out(
    context: &Context,
    namespace: &str,
    group: &DynamicObject,
    watched: Option<&Watched>,
    plan: &DynamicObject,
    wanted: &mut Value,
) -> Result<Result<(), Refused>, Error> {
    let Some(watched) = watched else {
        return Ok(Err(Refused::Now("the OperatorGroup selects no namespace".to_owned())));
    };
    let account = Some(text(&group.data, "/spec/serviceAccountName")).filter(|name| !name.is_empty());
    let target = match context.targets.of(group, namespace, account).await? {
        Ok(target) => target,
        Err(message) => return Ok(Err(Refused::Now(message))),
    };
    let steps: Vec<Step> = list(wanted, "/bundleLookups").iter().map(step_of).collect();
    let (unpacked, unreadable) = unpack(context, &steps).await;
    if let Some((bundle, message)) = unreadable.into_iter().next() {
        return Ok(Err(Refused::Now(format!("bundle {bundle}: {message}"))));
    }
    for (bundle, manifests) in &unpacked {
        match unsafe_definition(&target, manifests).await {
            Ok(None) => {}
            Ok(Some(message)) => {
                mark_failed(wanted, bundle);
                return Ok(Err(Refused::ForGood(message)));
            }
            Err(Error::Request(error)) if is_passing(&error) => {
                return Ok(Err(Refused::Now(format!("bundle {bundle}: {}", plain(&error)))));
            }
            Err(error) => return Err(error),
        }
    }
    let mut installer = Installer::new(&target, namespace);
    let mut work =
        Work { context, namespace, group, watched, target: &target, plan, made: Vec::new(), begun: Vec::new() };
    let mut failure = None;
    for step in &steps {
        let Some(manifests) = unpacked.get(&step.bundle) else { continue };
        if let Err(fault) = work.install(&mut installer, step, manifests, wanted).await {
            failure = Some((&step.bundle, fault));
            break;
        }
    }
    let Some((bundle, fault)) = failure else {
        for step in steps.iter().filter(|step| matches!(step.because, Because::Required { .. })) {
            work.subscribe(step).await?;
        }
        // What an upgrade found is needed until the new version is up.
        for step in steps.iter().filter(|step| !may_go_back(step, group)) {
            Keeping::of_version(context, namespace, &step.bundle).forget().await?;
        }
        return Ok(Ok(()));
    };
    let message = format!("bundle {bundle}: {fault}; {}", undone(&work.undo(installer).await?));
    for step in &steps {
        Keeping::of_version(context, namespace, &step.bundle).forget().await?;
        note_undone(wanted, &step.bundle);
    }
    Ok(Err(match fault {
        NotApplied::ForNow(_) => Refused::PutBack(message),
        NotApplied::Refused(_) => {
            mark_failed(wanted, bundle);
            Refused::ForGood(message)
        }
    }))
}

/// What messages say of what was put back, and of what was not.
pub(crate) fn undone(faults: &[String]) -> String {
    match faults.is_empty() {
        true => "everything was put back".to_owned(),
        false => format!("not everything could be put back: {}", faults.join("; ")),
    }
}

/// Says of a plan that was carried out that a version of it failed after all.
pub(crate) async fn fail(
    context: &Context,
    plan: &DynamicObject,
    (bundle, together): (&str, &[String]),
    message: &str,
) -> Result<(), Error> {
    let mut plan = plan.clone();
    let mut wanted = status(&plan).clone();
    mark_failed(&mut wanted, bundle);
    together.iter().for_each(|bundle| note_undone(&mut wanted, bundle));
    finish(&mut wanted, "Failed", "False", message);
    if status(&plan) != &wanted {
        context.events.warning(&INSTALL_PLAN, &plan, "InstallComponentFailed", message).await;
    }
    let api = INSTALL_PLAN.within(&context.client, &plan.namespace().unwrap_or_default());
    write_status(&api, &mut plan, wanted).await
}

/// Plans of a namespace are counted.
pub(crate) fn generation(plan: &DynamicObject) -> i64 {
    plan.data.pointer("/spec/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// The bundle of a package that a plan installs because somebody wants it.
pub(crate) fn bundle_of(plan: &DynamicObject, package: &str) -> Option<String> {
    let mut lookups = list(&plan.data, "/status/bundleLookups").iter();
    let wanted = lookups.find(|it| text(it, "/package") == package && text(it, "/requiredBy").is_empty())?;
    Some(text(wanted, "/identifier").to_owned())
}

/// Whether a plan installs a bundle.
pub(crate) fn is_about(plan: &DynamicObject, bundle: &str) -> bool {
    list(&plan.data, "/status/bundleLookups").iter().any(|lookup| text(lookup, "/identifier") == bundle)
}

/// Notes of the objects of a bundle that they are gone again.
fn note_undone(wanted: &mut Value, bundle: &str) {
    for entry in wanted.get_mut("plan").and_then(Value::as_array_mut).into_iter().flatten() {
        if text(entry, "/resolving") == bundle && entry["status"] == "Created" {
            entry["status"] = "NotPresent".into();
        }
    }
}

/// Notes the bundle that a plan failed because of.
fn mark_failed(wanted: &mut Value, bundle: &str) {
    for lookup in wanted.get_mut("bundleLookups").and_then(Value::as_array_mut).into_iter().flatten() {
        if text(lookup, "/identifier") == bundle {
            lookup["failed"] = true.into();
        }
    }
}

fn step_of(lookup: &Value) -> Step {
    let replaces = Some(text(lookup, "/replaces").to_owned()).filter(|name| !name.is_empty());
    let because = match text(lookup, "/requiredBy") {
        "" => Because::Wanted(String::new()),
        by => Because::Required { by: by.to_owned(), requirement: String::new() },
    };
    Step {
        bundle: text(lookup, "/identifier").to_owned(),
        package: text(lookup, "/package").to_owned(),
        version: Default::default(),
        channel: text(lookup, "/channel").to_owned(),
        source: SourceKey::new(text(lookup, "/catalogSourceRef/namespace"), text(lookup, "/catalogSourceRef/name")),
        image: text(lookup, "/path").to_owned(),
        replaces,
        because,
        passed_over: Vec::new(),
    }
}

/// Why a definition of a bundle must not be applied; `None` when all may.
pub(crate) async fn unsafe_definition(target: &Target, manifests: &Manifests) -> Result<Option<String>, Error> {
    let api = CRD.all(&target.own);
    for new in manifests.definitions() {
        let Some(old) = api.get_opt(text(new, "/metadata/name")).await? else { continue };
        let old = serde_json::to_value(&old).unwrap_or_default();
        if let Err(message) = crd_safety::check_versions(&old, new) {
            return Ok(Some(message));
        }
        for version in list(&old, "/spec/versions").iter().filter(|version| version["served"] == true) {
            let objects = objects_of(target, &old, text(version, "/name")).await?;
            if let Err(message) = crd_safety::check_objects(new, text(version, "/name"), &objects) {
                return Ok(Some(message));
            }
        }
    }
    Ok(None)
}

/// The objects of a definition, in one of its versions.
pub(crate) async fn objects_of(target: &Target, definition: &Value, version: &str) -> Result<Vec<Value>, Error> {
    /// Objects that are asked for at once.
    const PAGE: u32 = 500;
    let resource = kube::api::ApiResource {
        group: text(definition, "/spec/group").to_owned(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", text(definition, "/spec/group")),
        kind: text(definition, "/spec/names/kind").to_owned(),
        plural: text(definition, "/spec/names/plural").to_owned(),
    };
    let api: kube::Api<DynamicObject> = kube::Api::all_with(target.own.clone(), &resource);
    let mut found = Vec::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await?;
        found.extend(page.items.iter().filter_map(|object| serde_json::to_value(object).ok()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// Whether the version that a step brings is to go back to the one it replaces when it fails.
fn may_go_back(step: &Step, group: &DynamicObject) -> bool {
    step.replaces.is_some() && !operator_group::fails_forward(group)
}

struct Work<'w> {
    context: &'w Context,
    namespace: &'w str,
    group: &'w DynamicObject,
    watched: &'w Watched,
    target: &'w Target,
    plan: &'w DynamicObject,
    /// The ClusterServiceVersions of this plan, whoever wrote them.
    made: Vec<DynamicObject>,
    /// Bundles that a process which ended in the middle has begun with.
    begun: Vec<String>,
}

impl Work<'_> {
    async fn install(
        &mut self,
        installer: &mut Installer<'_>,
        step: &Step,
        manifests: &Manifests,
        wanted: &mut Value,
    ) -> Result<(), NotApplied> {
        let parts = self.parts(manifests);
        let all: Vec<Value> = manifests.definitions().cloned().chain(parts.iter().cloned()).collect();
        let holder = Holder { uid: self.plan.uid().unwrap_or_default(), owner: INSTALL_PLAN.owner(self.plan) };
        let kept = Keeping::of_version(self.context, self.namespace, &step.bundle);
        let kept = kept.remember(&holder, self.target, &all).await;
        if kept.map_err(|error| NotApplied::new("what is there now", &error))? == Begun::Earlier {
            self.begun.push(step.bundle.clone());
        }
        if self.target.secret.is_some() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
            installer.apply(&namespace).await?;
        }
        for definition in manifests.definitions() {
            let mut definition = definition.clone();
            let label = component_label(&step.package, self.namespace);
            add_labels(&mut definition, [(label.as_str(), String::new()), ("olm.managed", "true".to_owned())]);
            let applied = installer.apply(&definition).await?;
            note(wanted, step, &definition, applied.as_str());
        }
        let written = self.write_csv(step, manifests).await;
        let (csv, is_new) = written.map_err(|error| NotApplied::new("ClusterServiceVersion", &error))?;
        let name = csv.name_any();
        note(wanted, step, &manifests.csv, if is_new { "Created" } else { "Present" });
        let owner = CSV.owner(&csv);
        if is_new || annotation(&csv, PLAN_ANNOTATION) == self.plan.uid().as_deref() {
            self.made.push(csv);
        }
        for mut object in parts {
            let kind = text(&object, "/kind").to_owned();
            if !BUNDLE_KINDS.contains(&kind.as_str()) {
                let name = text(&object, "/metadata/name");
                return Err(NotApplied::Refused(format!("{kind} {name}: bundles may not have this kind")));
            }
            self.own(&mut object, &name, &owner);
            let applied = installer.apply(&object).await?;
            note(wanted, step, &object, applied.as_str());
        }
        Ok(())
    }

    /// Puts back what was done, here and by a process that ended in the middle, and says what stays as it is.
    async fn undo(&mut self, installer: Installer<'_>) -> Result<Vec<String>, Error> {
        let csvs = CSV.within(&self.context.client, self.namespace);
        let let_go = json!({"metadata": {"finalizers": null}});
        for csv in self.made.drain(..) {
            let name = csv.name_any();
            let _ = csvs.patch(&name, &Default::default(), &kube::api::Patch::Merge(&let_go)).await;
            let _ = csvs.delete(&name, &Default::default()).await;
        }
        let mut faults = installer.roll_back().await;
        for bundle in self.begun.iter().rev() {
            faults.extend(Keeping::of_version(self.context, self.namespace, bundle).put_back(self.target).await?);
            let labels = crate::csv::owned_by(bundle, self.namespace);
            sweep(self.target, &OWNED_KINDS, &labels, &|_, _, _| false).await?;
        }
        Ok(faults)
    }

    /// The objects of a bundle besides its definitions and its ClusterServiceVersion.
    fn parts(&self, manifests: &Manifests) -> Vec<Value> {
        let mut parts = permissions::objects(&manifests.csv, self.namespace, self.watched);
        parts.extend(manifests.others.iter().filter(|object| !crate::bundles::is_definition(object)).cloned());
        parts
    }

    /// Marks an object as one of a ClusterServiceVersion's.
    fn own(&self, object: &mut Value, csv: &str, owner: &Value) {
        own(object, csv, self.namespace, owner, self.target);
    }

    /// Writes the ClusterServiceVersion, unless it is there; also says whether it is new.
    async fn write_csv(&self, step: &Step, manifests: &Manifests) -> Result<(DynamicObject, bool), Error> {
        let mut csv = manifests.csv.clone();
        csv["metadata"]["namespace"] = self.namespace.into();
        csv["metadata"]["finalizers"] = json!([crate::csv::FINALIZER]);
        let annotations = [
            ("olm.operatorGroup", self.group.name_any()),
            ("olm.operatorNamespace", self.namespace.to_owned()),
            ("olm.targetNamespaces", self.watched.annotation()),
        ];
        for (key, value) in annotations {
            csv["metadata"]["annotations"][key] = value.into();
        }
        csv["metadata"]["annotations"][PLAN_ANNOTATION] = self.plan.uid().unwrap_or_default().into();
        if let Some(secret) = &self.target.secret {
            csv["metadata"]["annotations"][TARGET_ANNOTATION] = secret.as_str().into();
        }
        // What says that a version has failed is not the bundle's to say.
        if let Some(annotations) = csv["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|key, _| !crate::csv::ROLLBACK_ANNOTATIONS.contains(&key.as_str()));
        }
        let label = component_label(&step.package, self.namespace);
        add_labels(&mut csv, [(label.as_str(), String::new())]);
        if let Some(replaces) = &step.replaces {
            csv["spec"]["replaces"] = replaces.as_str().into();
        }
        if let Some(fields) = csv.as_object_mut() {
            fields.remove("status");
        }
        let api = CSV.within(&self.context.client, self.namespace);
        match api.create(&PostParams::default(), &dynamic(csv)?).await {
            Err(error) if is_already_there(&error) => Ok((api.get(&step.bundle).await?, false)),
            other => Ok((other?, true)),
        }
    }

    /// What a dependency is kept up to date by, as OLM does it.
    async fn subscribe(&self, step: &Step) -> Result<(), Error> {
        let api = SUBSCRIPTION.within(&self.context.client, self.namespace);
        let name = [&step.package, &step.channel, &step.source.name, &step.source.namespace];
        let name = name.map(String::as_str).join("-").to_lowercase().replace(['_', '+'], "-");
        let existing = api.list(&Default::default()).await?.items;
        let known = existing.into_iter().find(|sub| text(&sub.data, "/spec/name") == step.package);
        // Ours is without a status when whoever made it ended in between.
        let is_unfinished =
            |sub: &DynamicObject| sub.name_any() == name && text(&sub.data, "/status/currentCSV").is_empty();
        let mut made = match known {
            Some(sub) if is_unfinished(&sub) => sub,
            Some(_) => return Ok(()),
            None => match self.create_subscription(step, &name).await? {
                Some(sub) => sub,
                None => return Ok(()),
            },
        };
        let reference = json!({
            "apiVersion": INSTALL_PLAN.api_version(), "kind": INSTALL_PLAN.kind, "name": self.plan.name_any(),
            "namespace": self.namespace, "uid": self.plan.uid().unwrap_or_default(),
        });
        let status = json!({
            "currentCSV": step.bundle, "installedCSV": step.bundle, "state": "AtLatestKnown", "lastUpdated": now(),
            "installPlanRef": reference,
        });
        write_status(&api, &mut made, status).await
    }

    /// `None` if somebody else was faster.
    async fn create_subscription(&self, step: &Step, name: &str) -> Result<Option<DynamicObject>, Error> {
        let object = dynamic(json!({
            "apiVersion": SUBSCRIPTION.api_version(), "kind": SUBSCRIPTION.kind,
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {component_label(&step.package, self.namespace): ""},
            },
            "spec": {
                "name": step.package, "channel": step.channel, "source": step.source.name,
                "sourceNamespace": step.source.namespace, "startingCSV": step.bundle,
                "installPlanApproval": text(&self.plan.data, "/spec/approval"),
            },
        }))?;
        match SUBSCRIPTION.within(&self.context.client, self.namespace).create(&PostParams::default(), &object).await {
            Err(error) if is_already_there(&error) => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}

/// Marks an object as one of a ClusterServiceVersion's.
pub(crate) fn own(object: &mut Value, csv: &str, namespace: &str, owner: &Value, target: &Target) {
    add_labels(
        object,
        [
            ("olm.managed", "true".to_owned()),
            ("olm.owner", label_value(csv)),
            ("olm.owner.kind", CSV.kind.to_owned()),
            ("olm.owner.namespace", namespace.to_owned()),
        ],
    );
    let own_namespace = match text(object, "/metadata/namespace") {
        "" => {
            let kind = text(object, "/kind");
            !matches!(kind, "PriorityClass" | "APIService") && !kind.starts_with("Cluster")
        }
        place => place == namespace,
    };
    if own_namespace && target.secret.is_none() && !text(object, "/kind").ends_with("WebhookConfiguration") {
        add_owner(object, owner.clone());
    }
}

/// Notes what became of an object of a plan.
fn note(wanted: &mut Value, step: &Step, object: &Value, became: &str) {
    let (kind, name) = (text(object, "/kind").to_owned(), text(object, "/metadata/name").to_owned());
    let Some(entries) = wanted.get_mut("plan").and_then(Value::as_array_mut) else { return };
    let found = entries.iter_mut().find(|entry| {
        text(entry, "/resolving") == step.bundle
            && text(entry, "/resource/kind") == kind
            && text(entry, "/resource/name") == name
    });
    match found {
        Some(entry) => entry["status"] = became.into(),
        None => {
            let api_version = text(object, "/apiVersion");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            entries.push(json!({
                "resolving": step.bundle, "status": became,
                "resource": {
                    "group": group, "version": version, "kind": kind, "name": name,
                    "sourceName": step.source.name, "sourceNamespace": step.source.namespace,
                },
            }));
        }
    }
}
