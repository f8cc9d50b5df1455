//! ClusterServiceVersions: from Pending to Succeeded, replaced and removed, phase by phase with OLM's reasons and
//! messages. Where nothing can run the operator's deployments the phase stays Installing and says so.

mod dependencies;
mod deployments;
mod health;
mod operator_condition;
mod provided_roles;
mod requirements;
mod rollback;

use std::time::Duration;

use bailiwick_controllers::work_queue::Outcome;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::before::Keeping;
use crate::context::Context;
use crate::copied_csv::is_copied;
use crate::error::{Error, is_not_found, is_passing, plain};
use crate::installing::{Installer, NotApplied, OWNED_KINDS, ROLE_KINDS, label_value, sweep};
use crate::kinds::{CSV, INSTALL_PLAN, OPERATOR_CONDITION, OPERATOR_GROUP};
use crate::object::{annotation, is_deleting, list, now, status, text, write_status};
use crate::operator_group::{self, Group};
use crate::operator_service::OperatorServices;
use crate::permissions::{self, Watched};
use crate::target::Target;
use crate::{api_services, install_plan, provided_apis, webhooks};

pub(crate) use rollback::{ROLLBACK_ANNOTATIONS, is_rolled_back, rolled_back_to};

/// The deployments of a version for somebody else than a ClusterServiceVersion.
pub(crate) fn deployments(csv: &Value, namespace: &str, holder: &DynamicObject, watched: &Watched) -> Vec<Value> {
    let place = deployments::Place { namespace, group: holder, watched, condition: None };
    deployments::objects(csv, &place, None)
}

/// Keeps a version until what it installed for the whole cluster is gone.
pub(crate) const FINALIZER: &str = "operators.coreos.com/csv-cleanup";
/// On a version: the namespaces that its operator watches.
const WATCHED_ANNOTATION: &str = "olm.targetNamespaces";
/// On an OperatorGroup or a namespace's Subscription: somebody else runs the operator.
pub(crate) const WORKLOADS_ANNOTATION: &str = "bailiwick.dev/workloads";
/// The reason of a version whose deployments nobody can run.
pub(crate) const NOT_SERVED: &str = "DeploymentsNotServed";
/// How many phases a version may go through in one look; more would be going in circles.
const TRANSITIONS_MAX: usize = 8;
/// How many past phases are remembered, as upstream.
const CONDITIONS_MAX: usize = 20;
/// How often deployments are looked at while they start, and once they run.
const STARTING_INTERVAL: Duration = Duration::from_secs(2);
const RUNNING_INTERVAL: Duration = Duration::from_secs(60);
/// How often another OperatorGroup that provides the same APIs is looked at.
const CONFLICT_INTERVAL: Duration = Duration::from_secs(5);

/// A phase with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    phase: &'static str,
    reason: &'static str,
    message: String,
}

impl Phase {
    fn new(phase: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { phase, reason, message: message.into() }
    }

    fn is_of(&self, csv: &DynamicObject) -> bool {
        let status = status(csv);
        status["phase"] == self.phase && status["reason"] == self.reason && status["message"] == self.message.as_str()
    }
}

/// Whether a version is as far as it can come, so that it may be upgraded or take another's place.
pub(crate) fn is_settled(csv: &DynamicObject) -> bool {
    let (phase, reason) = (text(&csv.data, "/status/phase"), text(&csv.data, "/status/reason"));
    phase == "Succeeded" || (phase == "Installing" && reason == NOT_SERVED)
}

/// Whether nobody has looked at a version yet.
fn has_not_begun(csv: &DynamicObject) -> bool {
    text(&csv.data, "/status/phase").is_empty() && !is_copied(csv)
}

/// Looks at all versions of a namespace.
pub(crate) async fn reconcile_all(
    context: &Context,
    namespace: &str,
    group: &Group,
    subscriptions: &[DynamicObject],
) -> Result<Outcome, Error> {
    let api = CSV.within(&context.client, namespace);
    let mut soonest: Option<Duration> = None;
    let mut all = api.list(&Default::default()).await?.items;
    let names: Vec<String> = all.iter().filter(|csv| !is_copied(csv)).map(ResourceExt::name_any).collect();
    if let Group::One(group, _) = group {
        provided_apis::prune(context, group, &all).await?;
    }
    let groups = match names.is_empty() {
        true => Vec::new(),
        false => OPERATOR_GROUP.all(&context.client).list(&Default::default()).await?.items,
    };
    // Plans are asked about only while a version is new or takes the place of another.
    let is_upgrading = |csv: &DynamicObject| names.iter().any(|name| text(&csv.data, "/spec/replaces") == name);
    let plans = match all.iter().any(|csv| has_not_begun(csv) || is_upgrading(csv)) {
        true => INSTALL_PLAN.within(&context.client, namespace).list(&Default::default()).await?.items,
        false => Vec::new(),
    };
    for name in names {
        for _ in 0..TRANSITIONS_MAX {
            let Some(csv) = all.iter().find(|csv| csv.name_any() == name).filter(|csv| !is_copied(csv)).cloned() else {
                break;
            };
            if is_deleting(&csv) {
                clean_up(context, namespace, csv).await?;
                all = api.list(&Default::default()).await?.items;
                break;
            }
            let look = Look { context, namespace, group, subscriptions, all: &all, groups: &groups, plans: &plans };
            let (phase, again) = look.next(&csv).await?;
            soonest = match (soonest, again) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            let Some((phase, requirements)) = phase else { break };
            if !set_phase(context, &api, csv, &phase, requirements).await? {
                break;
            }
            // One depends on the phase of the other.
            all = api.list(&Default::default()).await?.items;
        }
    }
    Ok(soonest.map_or(Outcome::Done, Outcome::After))
}

/// Writes a phase; whether it is another.
async fn set_phase(
    context: &Context,
    api: &kube::Api<DynamicObject>,
    mut csv: DynamicObject,
    phase: &Phase,
    requirements: Option<Vec<Value>>,
) -> Result<bool, Error> {
    let mut wanted = status(&csv).clone();
    if !wanted.is_object() {
        wanted = json!({});
    }
    if let Some(requirements) = requirements {
        wanted["requirementStatus"] = requirements.into();
    }
    let changed = !phase.is_of(&csv);
    if changed {
        let time = now();
        let entry = json!({
            "phase": phase.phase, "reason": phase.reason, "message": phase.message, "lastUpdateTime": time,
            "lastTransitionTime": time,
        });
        let mut conditions = list(&wanted, "/conditions").to_vec();
        conditions.push(entry.clone());
        let surplus = conditions.len().saturating_sub(CONDITIONS_MAX);
        conditions.drain(..surplus);
        for (key, value) in entry.as_object().into_iter().flatten() {
            wanted[key] = value.clone();
        }
        wanted["conditions"] = conditions.into();
        match phase.phase {
            "Failed" => context.events.warning(&CSV, &csv, phase.reason, &phase.message).await,
            _ => context.events.normal(&CSV, &csv, phase.reason, &phase.message).await,
        }
    }
    write_status(api, &mut csv, wanted).await?;
    if phase.phase == "Deleting" {
        match api.delete(&csv.name_any(), &Default::default()).await {
            Err(error) if !is_not_found(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(changed)
}

/// What one look at a version knows.
struct Look<'l> {
    context: &'l Context,
    namespace: &'l str,
    group: &'l Group,
    subscriptions: &'l [DynamicObject],
    all: &'l [DynamicObject],
    /// The OperatorGroups of all namespaces.
    groups: &'l [DynamicObject],
    /// The InstallPlans of the namespace, if a version is new or an upgrade is under way.
    plans: &'l [DynamicObject],
}

/// The next phase, with what is required if that was looked at, and when to look again.
type Next = (Option<(Phase, Option<Vec<Value>>)>, Option<Duration>);

fn to(phase: Phase) -> Next {
    (Some((phase, None)), None)
}

impl Look<'_> {
    async fn next(&self, csv: &DynamicObject) -> Result<Next, Error> {
        let (phase, reason) = (text(&csv.data, "/status/phase"), text(&csv.data, "/status/reason"));
        if phase == "Deleting" {
            return Ok(to(Phase::new("Deleting", "Replaced", text(&csv.data, "/status/message"))));
        }
        if let Some(back_to) = rolled_back_to(csv) {
            return self.stays_failed(csv, back_to).await;
        }
        // The end of the plan leads here again.
        if self.is_being_applied(csv) {
            return Ok((None, None));
        }
        if let Some(reason) = self.failed_for_good(csv) {
            return self.roll_back(csv, reason).await;
        }
        let (group, watched) = match self.grouped(csv) {
            Ok(grouped) => grouped,
            Err(fault) => return Ok(to(fault)),
        };
        let replaced = self.replacement(csv);
        if replaced.is_none()
            && let Some(fault) = self.api_conflict(csv, group, watched).await?
        {
            // The other group changes without our being told.
            return Ok((Some((fault, None)), Some(CONFLICT_INTERVAL)));
        }
        if let Some(newer) = replaced {
            let mut message = format!("being replaced by csv: {}", newer.name_any());
            if is_settled(newer) {
                let Some(other) = self.waits_for(newer) else {
                    Keeping::of_version(self.context, self.namespace, &newer.name_any()).forget().await?;
                    let message = "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
                    return Ok(to(Phase::new("Deleting", "Replaced", message)));
                };
                message.push_str(&format!("; kept until {other}, which was upgraded with it, is installed"));
            }
            return Ok(to(Phase::new("Replacing", "BeingReplaced", message)));
        }
        if is_regrouped(csv, watched) && matches!(phase, "Installing" | "Succeeded") {
            let message = "the namespaces of the OperatorGroup have changed";
            return Ok(to(Phase::new("Pending", "NeedsReinstall", message)));
        }
        match phase {
            "" => return Ok(to(Phase::new("Pending", "RequirementsUnknown", "requirements not yet checked"))),
            "Failed" if is_of_apis(reason) => {
                return Ok(to(Phase::new("Pending", "RequirementsUnknown", "requirements not yet checked")));
            }
            "Failed" if is_of_group(reason) => {
                let message = "InstallModes now support target namespaces";
                return Ok(to(Phase::new("Pending", "RequirementsUnknown", message)));
            }
            // What was to replace it is gone.
            "Replacing" => {
                return Ok(to(Phase::new("Pending", "RequirementsUnknown", "requirements not yet checked")));
            }
            _ => {}
        }
        let account = Some(text(&group.data, "/spec/serviceAccountName")).filter(|name| !name.is_empty());
        let target = match self.context.targets.of(csv, self.namespace, account).await? {
            Ok(target) => target,
            Err(message) => {
                let message = format!("install strategy failed: {message}");
                return Ok((
                    Some((Phase::new("Failed", "InstallComponentFailed", message), None)),
                    Some(RUNNING_INTERVAL),
                ));
            }
        };
        match phase {
            // The change of the version leads here again.
            "Pending" if is_regrouped(csv, watched) => {
                self.note_watched(csv, watched).await?;
                Ok((None, None))
            }
            "Pending" => self.pending(csv, &target).await,
            "InstallReady" => self.install(csv, &target, group, watched).await,
            "Installing" | "Succeeded" => self.watch(csv, &target, group, watched).await,
            "Failed" => self.failed(csv, &target, reason, (group, watched)).await,
            _ => Ok((None, None)),
        }
    }

    /// The group that the version belongs to, or why it cannot be installed in it.
    fn grouped(&self, csv: &DynamicObject) -> Result<(&DynamicObject, &Watched), Phase> {
        let (group, watched) = match self.group {
            Group::None => {
                return Err(Phase::new("Failed", "NoOperatorGroup", "csv in namespace with no operatorgroups"));
            }
            Group::TooMany(_) => {
                let message = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
                return Err(Phase::new("Failed", "TooManyOperatorGroups", message));
            }
            Group::One(group, watched) => (group, watched),
        };
        let Some(watched) = watched else {
            let message = "no targetNamespaces are matched operatorgroups namespace selection";
            return Err(Phase::new("Failed", "NoTargetNamespaces", message));
        };
        if let Some(message) = operator_group::invalid_modes(&csv.data) {
            return Err(Phase::new("Failed", "InvalidInstallModes", message));
        }
        if let Err(message) = operator_group::supports(&csv.data, self.namespace, watched) {
            return Err(Phase::new("Failed", "UnsupportedOperatorGroup", message));
        }
        Ok((group, watched))
    }

    /// Why the version may not provide what it does in this group, in OLM's words.
    async fn api_conflict(
        &self,
        csv: &DynamicObject,
        group: &DynamicObject,
        watched: &Watched,
    ) -> Result<Option<Phase>, Error> {
        Ok(match provided_apis::reconcile(self.context, csv, group, watched, self.groups).await? {
            provided_apis::Verdict::Free => None,
            provided_apis::Verdict::Conflict => {
                let message = "intersecting operatorgroups provide the same apis";
                Some(Phase::new("Failed", "InterOperatorGroupOwnerConflict", message))
            }
            provided_apis::Verdict::Static => {
                let message = "static provided apis cannot be modified";
                Some(Phase::new("Failed", "CannotModifyStaticOperatorGroupProvidedAPIs", message))
            }
        })
    }

    /// Notes which namespaces the operator watches.
    async fn note_watched(&self, csv: &DynamicObject, watched: &Watched) -> Result<(), Error> {
        let patch = json!({"metadata": {"annotations": {WATCHED_ANNOTATION: watched.annotation()}}});
        let api = CSV.within(&self.context.client, self.namespace);
        api.patch(&csv.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// The version that takes this one's place.
    fn replacement(&self, csv: &DynamicObject) -> Option<&DynamicObject> {
        let name = csv.name_any();
        self.all.iter().find(|other| {
            text(&other.data, "/spec/replaces") == name
                && other.name_any() != name
                && !is_deleting(other)
                && !is_copied(other)
                && !is_rolled_back(other)
                && !self.is_being_applied(other)
        })
    }

    /// Whether the plan of a version is not carried out yet: whoever began it ended in the middle, and what is missing may
    /// still be refused.
    fn is_being_applied(&self, csv: &DynamicObject) -> bool {
        let mut plans = self.plans.iter().filter(|plan| install_plan::is_under_way(plan) && !is_deleting(plan));
        has_not_begun(csv) && plans.any(|plan| install_plan::is_about(plan, &csv.name_any()))
    }

    async fn pending(&self, csv: &DynamicObject, target: &Target) -> Result<Next, Error> {
        let strategy = text(&csv.data, "/spec/install/strategy");
        if strategy != "deployment" {
            let message = format!("install strategy invalid: unrecognized install strategy {strategy:?}");
            return Ok(to(Phase::new("Failed", "InvalidInstallStrategy", message)));
        }
        if let Some(message) = self.not_upgradeable(csv).await? {
            let message = format!("operator is not upgradeable: {message}");
            return Ok(to(Phase::new("Pending", "OperatorConditionNotUpgradeable", message)));
        }
        let (met, requirements) = requirements::check(target, csv).await?;
        if !met {
            let phase = Phase::new("Pending", "RequirementsNotMet", "one or more requirements couldn't be found");
            return Ok((Some((phase, Some(requirements))), Some(STARTING_INTERVAL)));
        }
        if self.owner_conflict(csv) {
            let phase = Phase::new("Failed", "OwnerConflict", "conflicting CRD owner in namespace");
            return Ok((Some((phase, Some(requirements))), None));
        }
        let phase = Phase::new("InstallReady", "AllRequirementsMet", "all requirements found, attempting install");
        Ok((Some((phase, Some(requirements))), None))
    }

    /// Whether another version of the namespace, other than the one it replaces, owns the same definition.
    fn owner_conflict(&self, csv: &DynamicObject) -> bool {
        let owned = |csv: &DynamicObject| -> Vec<String> {
            let owned = list(&csv.data, "/spec/customresourcedefinitions/owned").iter();
            owned.map(|it| text(it, "/name").to_owned()).collect()
        };
        let (name, own) = (csv.name_any(), owned(csv));
        let replaced = text(&csv.data, "/spec/replaces");
        self.all.iter().any(|other| {
            let is_other = other.name_any() != name && other.name_any() != replaced && !is_deleting(other);
            let leaves =
                matches!(text(&other.data, "/status/phase"), "Replacing" | "Deleting" | "Failed" | "" | "Pending");
            is_other && !leaves && !is_copied(other) && owned(other).iter().any(|it| own.contains(it))
        })
    }

    /// What the operator that is to be replaced says against it.
    async fn not_upgradeable(&self, csv: &DynamicObject) -> Result<Option<String>, Error> {
        let replaced = text(&csv.data, "/spec/replaces");
        if replaced.is_empty() || !self.all.iter().any(|other| other.name_any() == replaced) {
            return Ok(None);
        }
        let api = OPERATOR_CONDITION.within(&self.context.client, self.namespace);
        let Some(condition) = api.get_opt(replaced).await? else { return Ok(None) };
        let upgradeable = |path: &str| {
            let mut conditions = list(&condition.data, path).iter();
            conditions.find(|it| it["type"] == "Upgradeable").cloned()
        };
        // Administrators have the last word.
        let said = upgradeable("/spec/overrides").or_else(|| upgradeable("/spec/conditions"));
        let said = said.or_else(|| upgradeable("/status/conditions"));
        Ok(said
            .filter(|said| said["status"] == "False")
            .map(|said| format!("the operator {replaced} is not upgradeable: {}", text(&said, "/message"))))
    }

    /// Applies what the version is made of. What was applied before something is refused stays, as it does with OLM: the
    /// same is tried again, and removing the version removes it. An upgrade goes back instead.
    async fn install(
        &self,
        csv: &DynamicObject,
        target: &Target,
        group: &DynamicObject,
        watched: &Watched,
    ) -> Result<Next, Error> {
        let whole = serde_json::to_value(csv).unwrap_or_default();
        let owner = CSV.owner(csv);
        let name = csv.name_any();
        let mut objects = permissions::objects(&whole, self.namespace, watched);
        if target.serves("apps", "v1", "Deployment").await? {
            objects.extend(self.deployments(csv, target, group, watched));
        }
        let own = ("olm.owner.namespace", self.namespace.to_owned());
        let mut services = OperatorServices::new(target, csv, self.namespace, own).await?;
        let served = match webhooks::objects(&mut services).await? {
            Ok(hooks) => api_services::objects(&mut services).await?.map(|apis| hooks.into_iter().chain(apis)),
            Err(message) => Err(message),
        };
        let served = match served {
            Ok(served) => served,
            Err(message) => {
                let message = format!("install strategy failed: {message}");
                return Ok(to(Phase::new("Failed", "InvalidWebhookDescription", message)));
            }
        };
        let conversions = webhooks::conversions(&mut services).await?;
        objects.extend(services.into_objects());
        objects.extend(served);
        let mut installer = Installer::new(target, self.namespace);
        let mut roles: Vec<(String, String)> = Vec::new();
        for mut object in objects {
            let place = (text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
            roles.push(place);
            install_plan::own(&mut object, &name, self.namespace, &owner, target);
            if let Err(fault) = installer.apply(&object).await {
                let message = format!("install strategy failed: {fault}");
                let reason = match fault {
                    NotApplied::Refused(_) if self.could_go_back_to(csv).is_some() => rollback::NO_RETRY,
                    _ => "InstallComponentFailed",
                };
                let phase = Phase::new("Failed", reason, message);
                return Ok((Some((phase, None)), Some(RUNNING_INTERVAL)));
            }
        }
        webhooks::convert(target, &conversions).await?;
        operator_condition::ensure(target, csv, self.namespace).await?;
        if let Err(error) = provided_roles::ensure(target, csv).await {
            // Whoever leads us there may not be allowed to give others rights; the operator works without.
            match &error {
                Error::Request(refused) if !is_passing(refused) => {
                    let message = format!("namespaces' roles do not cover the operator's kinds: {}", plain(refused));
                    self.context.events.warning(&CSV, csv, "ProvidedAPIRolesFailed", &message).await;
                }
                _ => return Err(error),
            }
        }
        // Permissions for namespaces that are not watched any more; others of the bundle's have other names.
        let prefix = format!("{name}-");
        let is_kept = |_: &str, place: Option<&str>, role: &str| {
            !role.starts_with(&prefix)
                || roles.iter().any(|known| (Some(known.0.as_str()), known.1.as_str()) == (place, role))
        };
        sweep(target, &ROLE_KINDS, &owned_by(&name, self.namespace), &is_kept).await?;
        Ok(to(Phase::new("Installing", "InstallSucceeded", "waiting for install components to report healthy")))
    }

    fn subscription_of(&self, csv: &str) -> Option<&DynamicObject> {
        // Of a version that came back it may still have the one that failed.
        let failed = self.all.iter().filter(|it| rolled_back_to(it) == Some(csv)).map(ResourceExt::name_any);
        let names: Vec<String> = failed.chain([csv.to_owned()]).collect();
        self.subscriptions.iter().find(|subscription| {
            let status = status(subscription);
            names.iter().any(|name| status["currentCSV"] == name.as_str() || status["installedCSV"] == name.as_str())
        })
    }
}

/// Whether the operator is to watch other namespaces than it was installed for.
fn is_regrouped(csv: &DynamicObject, watched: &Watched) -> bool {
    annotation(csv, WATCHED_ANNOTATION) != Some(watched.annotation().as_str())
}

fn is_of_apis(reason: &str) -> bool {
    matches!(reason, "InterOperatorGroupOwnerConflict" | "CannotModifyStaticOperatorGroupProvidedAPIs")
}

fn is_of_group(reason: &str) -> bool {
    matches!(
        reason,
        "NoOperatorGroup"
            | "TooManyOperatorGroups"
            | "NoTargetNamespaces"
            | "UnsupportedOperatorGroup"
            | "InvalidInstallModes"
    )
}

/// The labels of what a version has made.
pub(crate) fn owned_by(name: &str, namespace: &str) -> String {
    format!("olm.owner={},olm.owner.namespace={namespace}", label_value(name))
}

/// Removes what a version installed, but not its definitions, then lets it go.
async fn clean_up(context: &Context, namespace: &str, csv: DynamicObject) -> Result<(), Error> {
    if !csv.finalizers().iter().any(|it| it == FINALIZER) {
        return Ok(());
    }
    let name = csv.name_any();
    let selector = owned_by(&name, namespace);
    match context.targets.of(&csv, namespace, None).await? {
        Ok(target) => sweep(&target, &OWNED_KINDS, &selector, &|_, _, _| false).await?,
        // The way there is gone; what is there is not ours to find any more.
        Err(message) => context.events.warning(&CSV, &csv, "CleanupFailed", &message).await,
    }
    let is_replaced = text(&csv.data, "/status/phase") == "Deleting";
    if !is_replaced && let Ok(target) = context.targets.of(&csv, namespace, None).await? {
        webhooks::convert_no_more(&target, &csv).await?;
    }
    let kept: Vec<&String> = csv.finalizers().iter().filter(|it| *it != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": csv.resource_version()}});
    let api = CSV.within(&context.client, namespace);
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Lets go of the versions of a namespace that is being deleted.
pub(crate) async fn let_go(context: &Context, namespace: &str) -> Result<Outcome, Error> {
    let all = CSV.within(&context.client, namespace).list(&Default::default()).await?.items;
    for csv in all.into_iter().filter(is_deleting) {
        clean_up(context, namespace, csv).await?;
    }
    Ok(Outcome::Done)
}
