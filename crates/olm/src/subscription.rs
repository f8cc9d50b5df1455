//! Subscriptions: what their catalogs offer is resolved for the whole namespace at once, and what is to be installed
//! becomes an InstallPlan. Their statuses follow the plan and the ClusterServiceVersion it installs.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_catalog::resolve::{Because, Choice, Installed, Request, SourceKey, Step, Want};
use bailiwick_controllers::work_queue::Outcome;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::catalogs::CatalogKey;
use crate::context::Context;
use crate::copied_csv::is_copied;
use crate::csv::{is_rolled_back, is_settled, rolled_back_to};
use crate::error::Error;
use crate::install_plan::{self, Unpacked, Unreadable};
use crate::kinds::{CATALOG_SOURCE, CSV, INSTALL_PLAN, SUBSCRIPTION};
use crate::object::{Condition, is_deleting, list, now, remove_condition, set_condition, status, text, write_status};
use crate::operator_group::Group;
use crate::resolving::{self, Answer, source};

/// The condition of a Subscription whose bundle cannot be read.
const UNPACK_FAILED: &str = "BundleUnpackFailed";

/// A Subscription while it is looked at.
struct Sub {
    object: DynamicObject,
    status: Value,
    conditions: Vec<Value>,
}

impl Sub {
    fn new(object: DynamicObject) -> Self {
        let mut status = status(&object).clone();
        if !status.is_object() {
            status = json!({});
        }
        let conditions = list(&status, "/conditions").to_vec();
        Self { object, status, conditions }
    }

    fn name(&self) -> String {
        self.object.name_any()
    }

    fn spec(&self, field: &str) -> &str {
        text(&self.object.data, &format!("/spec/{field}"))
    }

    fn source(&self) -> SourceKey {
        SourceKey::new(self.spec("sourceNamespace"), self.spec("source"))
    }

    fn catalog_key(&self) -> CatalogKey {
        resolving::catalog_key(&self.source())
    }

    fn status_text(&self, field: &str) -> &str {
        self.status[field].as_str().unwrap_or_default()
    }

    /// Of the last plan it knows.
    fn generation(&self) -> i64 {
        self.status["installPlanGeneration"].as_i64().unwrap_or(0)
    }

    fn set(&mut self, condition: &Condition) {
        set_condition(&mut self.conditions, condition, None);
    }

    fn unset(&mut self, kind: &str) {
        remove_condition(&mut self.conditions, kind);
    }

    /// The ClusterServiceVersion it has led to, if that is there.
    fn installed<'c>(&self, csvs: &'c [DynamicObject]) -> Option<&'c DynamicObject> {
        let named = |field: &str| {
            let name = self.status_text(field);
            csvs.iter().find(|csv| !name.is_empty() && csv.name_any() == name)
        };
        named("installedCSV").or_else(|| named("currentCSV"))
    }

    /// Says that its bundle is being pulled, which may take a while.
    async fn tell_unpacking(&mut self, context: &Context, namespace: &str) -> Result<(), Error> {
        self.set(&Condition::new("BundleUnpacking", "True", "UnpackingInProgress", ""));
        let mut told = self.status.clone();
        told["conditions"] = self.conditions.clone().into();
        told["lastUpdated"] = now().into();
        let api = SUBSCRIPTION.within(&context.client, namespace);
        write_status(&api, &mut self.object, told).await
    }

    async fn write(mut self, context: &Context, namespace: &str) -> Result<(), Error> {
        match self.conditions.is_empty() {
            true => drop(self.status.as_object_mut().map(|fields| fields.remove("conditions"))),
            false => self.status["conditions"] = self.conditions.clone().into(),
        }
        // Said only with something new.
        if status(&self.object) != &self.status {
            self.status["lastUpdated"] = now().into();
        }
        let api = SUBSCRIPTION.within(&context.client, namespace);
        write_status(&api, &mut self.object, self.status).await
    }
}

/// Looks at all Subscriptions of a namespace.
pub(crate) async fn reconcile_all(
    context: &Context,
    namespace: &str,
    group: &Group,
    subscriptions: Vec<DynamicObject>,
) -> Result<Outcome, Error> {
    let mut subs: Vec<Sub> = subscriptions.into_iter().filter(|it| !is_deleting(it)).map(Sub::new).collect();
    if subs.is_empty() {
        return Ok(Outcome::Done);
    }
    // The oldest choose first.
    subs.sort_by_key(|sub| (sub.object.creation_timestamp().map(|time| time.0), sub.name()));
    let lists = Default::default();
    let csvs = CSV.within(&context.client, namespace).list(&lists).await?.items;
    let plans = INSTALL_PLAN.within(&context.client, namespace).list(&lists).await?.items;
    for sub in &mut subs {
        note_health(context, namespace, sub).await?;
        take_up(sub, &plans);
        follow(sub, &csvs, &plans);
        note_deprecations(context, sub);
    }
    let busy = plans.iter().any(install_plan::is_under_way);
    let mut outcome = Outcome::Done;
    if !busy {
        let request = request(context, namespace, group, &subs, &csvs);
        let mut failed = install_plan::failed_bundles(&plans);
        failed.extend(csvs.iter().filter(|csv| is_rolled_back(csv) && !is_copied(csv)).map(ResourceExt::name_any));
        let settled = settle(context, namespace, request, &mut subs, &plans, failed).await?;
        let Settled { answer, unpacked, unreadable } = settled;
        for sub in &mut subs {
            match answer.refused.get(&sub.name()) {
                Some(message) => {
                    let known = sub
                        .conditions
                        .iter()
                        .any(|it| it["type"] == "ResolutionFailed" && it["message"] == message.as_str());
                    if !known {
                        context.events.warning(&SUBSCRIPTION, &sub.object, "ResolutionFailed", message).await;
                    }
                    sub.set(&Condition::new("ResolutionFailed", "True", "ConstraintsNotSatisfiable", message.as_str()));
                }
                None => sub.unset("ResolutionFailed"),
            }
        }
        for sub in &mut subs {
            let fault = answer.left_out.get(&sub.name()).and_then(|bundle| Some((bundle, unreadable.get(bundle)?)));
            note_unreadable(context, sub, fault).await;
        }
        if let Some(unpacked) = unpacked {
            plan(context, namespace, &mut subs, &answer.resolution.steps, &unpacked, &plans).await?;
        }
        if !unreadable.is_empty() {
            // What is wrong may be the registry.
            outcome = Outcome::Backoff;
        }
    }
    for sub in subs {
        sub.write(context, namespace).await?;
    }
    Ok(outcome)
}

/// What is to be done for the Subscriptions of a namespace.
struct Settled {
    answer: Answer,
    /// The bundles of a plan that is to be made.
    unpacked: Option<Unpacked>,
    unreadable: Unreadable,
}

/// Resolves, and reads the bundles. One that cannot be read concerns those that want it, and the rest is resolved without
/// them.
async fn settle(
    context: &Context,
    namespace: &str,
    request: Request,
    subs: &mut [Sub],
    plans: &[DynamicObject],
    mut failed: BTreeSet<String>,
) -> Result<Settled, Error> {
    let mut unreadable = Unreadable::new();
    // Nothing new is to be said of what is tried again: what is written leads to another look, and that would never end.
    let is_again = subs.iter().any(|sub| sub.conditions.iter().any(|it| it["type"] == UNPACK_FAILED));
    // Each round has a bundle less to choose from.
    loop {
        let answer = resolving::ask_without(request.clone(), &failed).await?;
        let steps = &answer.resolution.steps;
        let waiting = plans.iter().any(|plan| install_plan::is_waiting_for(plan, steps));
        if steps.is_empty() || waiting {
            return Ok(Settled { answer, unpacked: None, unreadable });
        }
        for sub in subs.iter_mut().filter(|sub| !is_again && is_for(steps, sub)) {
            sub.tell_unpacking(context, namespace).await?;
        }
        let (unpacked, faults) = install_plan::unpack(context, steps).await;
        subs.iter_mut().for_each(|sub| sub.unset("BundleUnpacking"));
        if faults.is_empty() {
            return Ok(Settled { answer, unpacked: Some(unpacked), unreadable });
        }
        failed.extend(faults.keys().cloned());
        unreadable.extend(faults);
    }
}

/// Whether one of the steps is what a Subscription asks for.
fn is_for(steps: &[Step], sub: &Sub) -> bool {
    steps.iter().any(|step| step.because == Because::Wanted(sub.name()))
}

/// Says why the bundle of a Subscription, or one that it requires, cannot be read.
async fn note_unreadable(context: &Context, sub: &mut Sub, fault: Option<(&String, &String)>) {
    let Some((bundle, message)) = fault else { return sub.unset(UNPACK_FAILED) };
    let message = format!("bundle unpacking failed. Reason: {bundle}: {message}");
    if !sub.conditions.iter().any(|it| it["type"] == UNPACK_FAILED && it["message"] == message.as_str()) {
        context.events.warning(&SUBSCRIPTION, &sub.object, UNPACK_FAILED, &message).await;
    }
    sub.set(&Condition::new(UNPACK_FAILED, "True", UNPACK_FAILED, message.as_str()));
}

/// Makes the InstallPlan of a resolution.
async fn plan(
    context: &Context,
    namespace: &str,
    subs: &mut [Sub],
    steps: &[Step],
    unpacked: &Unpacked,
    plans: &[DynamicObject],
) -> Result<(), Error> {
    let owners: Vec<&DynamicObject> = subs.iter().filter(|sub| is_for(steps, sub)).map(|sub| &sub.object).collect();
    let is_manual = |owner: &&DynamicObject| text(&owner.data, "/spec/installPlanApproval") == "Manual";
    let approval = if owners.iter().any(is_manual) { "Manual" } else { "Automatic" };
    // Plans may be deleted: what the Subscriptions know of counts too.
    let known = subs.iter().map(Sub::generation).max().unwrap_or(0);
    let generation = plans.iter().map(install_plan::generation).max().unwrap_or(0).max(known) + 1;
    let new = install_plan::NewPlan { approval, generation, owners: &owners, steps, unpacked };
    let made = install_plan::create(context, namespace, new).await?;
    for sub in subs.iter_mut() {
        let Some(step) = steps.iter().find(|step| step.because == Because::Wanted(sub.name())) else { continue };
        refer(sub, &made, &step.bundle);
        let (phase, note) = match approval {
            "Manual" => ("RequiresApproval", format!("{} waits for approval: {}", step.bundle, made.name_any())),
            _ => ("Installing", format!("{} is installed: {}", step.bundle, made.name_any())),
        };
        sub.set(&Condition::new("InstallPlanPending", "True", phase, ""));
        context.events.normal(&SUBSCRIPTION, &sub.object, "InstallPlanCreated", &note).await;
    }
    Ok(())
}

/// Notes the plan that installs the bundle of a Subscription.
fn refer(sub: &mut Sub, plan: &DynamicObject, bundle: &str) {
    let reference = json!({
        "apiVersion": INSTALL_PLAN.api_version(), "kind": INSTALL_PLAN.kind, "name": plan.name_any(),
        "namespace": plan.namespace().unwrap_or_default(), "uid": plan.uid().unwrap_or_default(),
        "resourceVersion": plan.resource_version().unwrap_or_default(),
    });
    sub.status["currentCSV"] = bundle.into();
    sub.status["installplan"] = json!({
        "apiVersion": reference["apiVersion"], "kind": reference["kind"], "name": reference["name"],
        "uuid": reference["uid"],
    });
    sub.status["installPlanRef"] = reference;
    sub.status["installPlanGeneration"] = install_plan::generation(plan).into();
    sub.status["state"] = "UpgradePending".into();
}

/// Takes up a plan that was made for a Subscription by a process that ended before it could note that.
fn take_up(sub: &mut Sub, plans: &[DynamicObject]) {
    let (uid, known) = (sub.object.uid(), sub.generation());
    let is_its = |plan: &&DynamicObject| plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
    let unknown = plans.iter().filter(|plan| !is_deleting(plan) && install_plan::generation(plan) > known);
    let Some(plan) = unknown.filter(is_its).max_by_key(|plan| install_plan::generation(plan)) else { return };
    if let Some(bundle) = install_plan::bundle_of(plan, sub.spec("name")) {
        refer(sub, plan, &bundle);
    }
}

/// What the Subscriptions of a namespace ask for.
fn request(context: &Context, namespace: &str, group: &Group, subs: &[Sub], csvs: &[DynamicObject]) -> Request {
    let visible = context.catalogs.visible_in(namespace, &context.global_namespace);
    let fails_forward = group.fails_forward();
    let is_gone = |csv: &&DynamicObject| {
        is_deleting(csv)
            || matches!(text(&csv.data, "/status/phase"), "Replacing" | "Deleting")
            || is_copied(csv)
            || is_rolled_back(csv)
    };
    let present: Vec<&DynamicObject> = csvs.iter().filter(|csv| !is_gone(csv)).collect();
    let mut wants = Vec::new();
    let mut packages: BTreeMap<String, &str> = BTreeMap::new();
    for sub in subs {
        let installed = sub.installed(csvs);
        if let Some(csv) = installed {
            packages.insert(csv.name_any(), sub.spec("name"));
        }
        // Whoever removed its version has uninstalled it.
        let was_removed = installed.is_none() && !sub.status_text("installedCSV").is_empty();
        let may_change = installed.is_none_or(|csv| {
            let failed = text(&csv.data, "/status/phase") == "Failed";
            is_settled(csv) || (failed && fails_forward)
        });
        if was_removed || !may_change || context.catalogs.get(&sub.catalog_key()).is_none() {
            continue;
        }
        wants.push(Want {
            name: sub.name(),
            package: sub.spec("name").to_owned(),
            installed: installed.map(ResourceExt::name_any),
            choice: Choice::Subscription {
                source: sub.source(),
                channel: sub.spec("channel").to_owned(),
                starting_csv: sub.spec("startingCSV").to_owned(),
                versions: None,
            },
        });
    }
    let installed = present.iter().filter_map(|csv| {
        let whole = serde_json::to_value(csv).ok()?;
        match Installed::of_csv(&whole, packages.get(&csv.name_any()).copied()) {
            Ok(installed) => Some(installed),
            Err(error) => {
                tracing::warn!(%error, csv = csv.name_any(), "an installed version is not counted");
                None
            }
        }
    });
    Request {
        namespace: namespace.to_owned(),
        sources: visible.iter().map(|catalog| source(catalog)).collect(),
        installed: installed.collect(),
        wants,
        ..Request::default()
    }
}

/// Says which catalogs there are and whether they can be used.
async fn note_health(context: &Context, namespace: &str, sub: &mut Sub) -> Result<(), Error> {
    let mut health = Vec::new();
    let mut targeted = None;
    let mut places = vec![context.global_namespace.as_str()];
    if namespace != context.global_namespace {
        places.push(namespace);
    }
    let before = list(&sub.status, "/catalogHealth").to_vec();
    for place in places {
        for catalog in CATALOG_SOURCE.within(&context.client, place).list(&Default::default()).await?.items {
            let name = catalog.name_any();
            let key = CatalogKey::Source { namespace: place.to_owned(), name: name.clone() };
            let healthy = context.catalogs.get(&key).is_some();
            if sub.catalog_key() == key {
                targeted = Some(healthy);
            }
            let known = before.iter().find(|known| {
                text(known, "/catalogSourceRef/name") == name && text(known, "/catalogSourceRef/namespace") == place
            });
            let since = match known {
                Some(known) if known["healthy"] == healthy => known["lastUpdated"].clone(),
                _ => now().into(),
            };
            health.push(json!({
                "catalogSourceRef": {
                    "apiVersion": CATALOG_SOURCE.api_version(), "kind": CATALOG_SOURCE.kind, "name": name,
                    "namespace": place, "uid": catalog.uid().unwrap_or_default(),
                },
                "healthy": healthy, "lastUpdated": since,
            }));
        }
    }
    let (source, space) = (sub.spec("source").to_owned(), sub.spec("sourceNamespace").to_owned());
    let visible = space == namespace || space == context.global_namespace;
    let condition =
        |status, reason, message: String| Condition::new("CatalogSourcesUnhealthy", status, reason, message);
    sub.set(&match targeted {
        Some(true) => {
            condition("False", "AllCatalogSourcesHealthy", "all available catalogsources are healthy".to_owned())
        }
        Some(false) => {
            condition("True", "UnhealthyCatalogSourceFound", format!("targeted catalogsource {space}/{source} unhealthy"))
        }
        None if !visible => condition(
            "True",
            "UnhealthyCatalogSourceFound",
            format!(
                "catalogsource {space}/{source} cannot be drawn from here: only catalogs of this namespace and of {} can",
                context.global_namespace
            ),
        ),
        None => {
            condition("True", "UnhealthyCatalogSourceFound", format!("targeted catalogsource {space}/{source} missing"))
        }
    });
    sub.status["catalogHealth"] = health.into();
    Ok(())
}

/// Follows the plan and the version a Subscription has led to.
fn follow(sub: &mut Sub, csvs: &[DynamicObject], plans: &[DynamicObject]) {
    for field in ["installedCSV", "currentCSV"] {
        let version = csvs.iter().find(|csv| csv.name_any() == sub.status_text(field));
        if let Some(back) = version.and_then(rolled_back_to) {
            sub.status[field] = back.into();
        }
    }
    let plan_name = text(&sub.status, "/installPlanRef/name").to_owned();
    if !plan_name.is_empty() {
        let plan = plans.iter().find(|plan| plan.name_any() == plan_name);
        let condition = match plan {
            None => Some(Condition::new("InstallPlanMissing", "True", "ReferencedInstallPlanNotFound", "")),
            Some(plan) => of_plan(sub, plan),
        };
        for kind in ["InstallPlanMissing", "InstallPlanPending", "InstallPlanFailed"] {
            if condition.as_ref().is_none_or(|condition| condition.kind != kind) {
                sub.unset(kind);
            }
        }
        if let Some(condition) = condition {
            sub.set(&condition);
        }
    }
    let current = sub.status_text("currentCSV").to_owned();
    let is_there = csvs.iter().any(|csv| !current.is_empty() && csv.name_any() == current);
    if is_there {
        sub.status["installedCSV"] = current.into();
        let pending = sub.conditions.iter().any(|condition| condition["type"] == "InstallPlanPending");
        if !pending && sub.status_text("state") != "UpgradeFailed" {
            sub.status["state"] = "AtLatestKnown".into();
        }
    }
}

/// What a plan means for its Subscription.
fn of_plan(sub: &mut Sub, plan: &DynamicObject) -> Option<Condition> {
    let message = install_plan::message(plan);
    match text(&plan.data, "/status/phase") {
        "Complete" => {
            if sub.status_text("state") == "UpgradeFailed" {
                sub.status["state"] = "UpgradePending".into();
            }
            None
        }
        "Failed" => {
            sub.status["state"] = "UpgradeFailed".into();
            // What was planned is not what is there.
            let installed = sub.status["installedCSV"].clone();
            match installed.is_null() {
                true => drop(sub.status.as_object_mut().map(|fields| fields.remove("currentCSV"))),
                false => sub.status["currentCSV"] = installed,
            }
            Some(Condition::new("InstallPlanFailed", "True", "InstallComponentFailed", message))
        }
        phase => {
            let reason = if phase.is_empty() { "InstallPlanNotYetReconciled" } else { phase };
            sub.status["state"] = "UpgradePending".into();
            Some(Condition::new("InstallPlanPending", "True", reason, message))
        }
    }
}

/// Says what of the subscription its catalog calls deprecated.
fn note_deprecations(context: &Context, sub: &mut Sub) {
    let Some(catalog) = context.catalogs.get(&sub.catalog_key()) else { return };
    let Some(package) = catalog.index.describe_package(sub.spec("name")) else { return };
    let channel_name = match sub.spec("channel") {
        "" => package.default_channel_name.clone(),
        named => named.to_owned(),
    };
    let channel = package.channels.iter().find(|channel| channel.name == channel_name);
    let installed = sub.status_text("installedCSV").to_owned();
    let bundle = (!installed.is_empty())
        .then(|| catalog.index.channel_versions(sub.spec("name"), &channel_name))
        .and_then(|versions| versions.into_iter().find(|version| version.name == installed)?.deprecation);
    let mut messages = Vec::new();
    for (kind, message) in [
        ("PackageDeprecated", package.deprecation.as_ref().map(|it| it.message.clone())),
        ("ChannelDeprecated", channel.and_then(|channel| channel.deprecation.as_ref()).map(|it| it.message.clone())),
        ("BundleDeprecated", bundle),
    ] {
        match message {
            Some(message) => {
                sub.set(&Condition::new(kind, "True", "", message.as_str()));
                messages.push(message);
            }
            None => sub.unset(kind),
        }
    }
    match messages.is_empty() {
        true => sub.unset("Deprecated"),
        false => sub.set(&Condition::new("Deprecated", "True", "", messages.join("; "))),
    }
}
