//! Going back: when a version that was to take another's place fails, the other comes back, with everything as it was.
//! OLM leaves both where they are, the old one `Replacing` for good. The version that failed stays beside the other and
//! says why; it goes when somebody deletes the InstallPlan, to try again, or when the other is replaced or removed.

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::{FINALIZER, Look, Next, Phase, RUNNING_INTERVAL, dependencies, owned_by, set_phase, to};
use crate::before::Keeping;
use crate::copied_csv::is_copied;
use crate::error::Error;
use crate::install_plan;
use crate::installing::{OWNED_KINDS, sweep};
use crate::kinds::CSV;
use crate::object::{annotation, is_deleting, text};
use crate::target::Target;

/// On a version that failed: the one that came back.
const ROLLED_BACK: &str = "bailiwick.dev/rolled-back-to";
/// On the same: the plan by which it was installed.
const FAILED_PLAN: &str = "bailiwick.dev/failed-install-plan";
pub(crate) const ROLLBACK_ANNOTATIONS: [&str; 2] = [ROLLED_BACK, FAILED_PLAN];
/// What the message of a version that failed goes on with.
const SUFFIX: &str = "; rolled back to ";

/// The reason of a version of which something was refused, and that is not tried again.
pub(super) const NO_RETRY: &str = "InstallComponentFailedNoRetry";
/// Reasons of failures that do not pass. What is missing may come, and what does not answer may do so later.
const FINAL: [&str; 9] = [
    NO_RETRY,
    "InstallCheckFailed",
    "InvalidInstallStrategy",
    "InvalidWebhookDescription",
    "InvalidInstallModes",
    "UnsupportedOperatorGroup",
    "OwnerConflict",
    "InterOperatorGroupOwnerConflict",
    "CannotModifyStaticOperatorGroupProvidedAPIs",
];

/// The version that came back when this one failed.
pub(crate) fn rolled_back_to(csv: &DynamicObject) -> Option<&str> {
    annotation(csv, ROLLED_BACK)
}

pub(crate) fn is_rolled_back(csv: &DynamicObject) -> bool {
    rolled_back_to(csv).is_some()
}

impl Look<'_> {
    /// The version that is there and that this one is to replace, unless failures are passed over.
    pub(super) fn could_go_back_to(&self, csv: &DynamicObject) -> Option<&DynamicObject> {
        let replaces = text(&csv.data, "/spec/replaces");
        let is_it = |other: &&DynamicObject| {
            other.name_any() == replaces && other.name_any() != csv.name_any() && !is_deleting(other)
        };
        self.all.iter().filter(|_| !self.group.fails_forward()).find(is_it).filter(|old| !is_copied(old))
    }

    /// Why this version has failed for good, if it has and another can come back.
    pub(super) fn failed_for_good(&self, csv: &DynamicObject) -> Option<&'static str> {
        let reason = FINAL.into_iter().find(|reason| text(&csv.data, "/status/reason") == *reason)?;
        let has_failed = text(&csv.data, "/status/phase") == "Failed" && self.replacement(csv).is_none();
        (has_failed && self.could_go_back_to(csv).is_some()).then_some(reason)
    }

    /// The plan that a version was installed by.
    fn plan_of(&self, csv: &str) -> Option<&DynamicObject> {
        let done = self.plans.iter().filter(|plan| matches!(text(&plan.data, "/status/phase"), "Complete" | "Failed"));
        done.filter(|plan| install_plan::is_about(plan, csv))
            .max_by_key(|plan| plan.data.pointer("/spec/generation").and_then(serde_json::Value::as_i64))
    }

    /// The upgrades that a version is one of: what it requires and what requires it, installed by the same plan.
    fn upgrades_with(&self, csv: &DynamicObject) -> Vec<(&DynamicObject, &DynamicObject)> {
        let plan = self.plan_of(&csv.name_any());
        let is_planned = |version: &DynamicObject| {
            let name = version.name_any();
            name == csv.name_any() || plan.is_some_and(|plan| install_plan::is_about(plan, &name))
        };
        let there = self.all.iter().filter(|it| !is_copied(it) && !is_deleting(it) && is_planned(it));
        let upgrades: Vec<_> = there.filter_map(|version| Some((version, self.could_go_back_to(version)?))).collect();
        let needs = |(a, b): (usize, usize)| {
            let (of_a, of_b) = ([upgrades[a].0, upgrades[a].1], [upgrades[b].0, upgrades[b].1]);
            of_a.iter().any(|it| of_b.iter().any(|other| dependencies::requires(it, other)))
        };
        let mut linked: Vec<usize> =
            (0..upgrades.len()).filter(|at| upgrades[*at].0.name_any() == csv.name_any()).collect();
        let mut next = 0;
        while let Some(from) = linked.get(next).copied() {
            let more: Vec<usize> = (0..upgrades.len())
                .filter(|at| !linked.contains(at) && (needs((from, *at)) || needs((*at, from))))
                .collect();
            linked.extend(more);
            next += 1;
        }
        linked.into_iter().map(|at| upgrades[at]).collect()
    }

    /// The version that is not up yet and that another, which is, would have to go back with.
    pub(super) fn waits_for(&self, newer: &DynamicObject) -> Option<String> {
        let upgrades = self.upgrades_with(newer);
        let unsettled =
            upgrades.into_iter().find(|(version, _)| !super::is_settled(version) && !is_rolled_back(version));
        unsettled.map(|(version, _)| version.name_any())
    }

    /// Brings back what a version that failed was to replace, and what was upgraded for it.
    pub(super) async fn roll_back(&self, csv: &DynamicObject, reason: &'static str) -> Result<Next, Error> {
        let name = csv.name_any();
        let upgrades = self.upgrades_with(csv);
        let mut faults = Vec::new();
        // One that is marked already was put back by a process that ended before it came to this one.
        for (version, _) in upgrades.iter().rev().filter(|(version, _)| !is_rolled_back(version)) {
            match self.context.targets.of(version, self.namespace, None).await? {
                Ok(target) => {
                    let kept = Keeping::of_version(self.context, self.namespace, &version.name_any());
                    faults.extend(kept.put_back(&target).await?);
                }
                // Nothing can be done there now, and what is there is not lost.
                Err(_) => return Ok((None, Some(RUNNING_INTERVAL))),
            }
        }
        let said = text(&csv.data, "/status/message");
        let said = said.split_once(SUFFIX).map_or(said, |(before, _)| before).to_owned();
        let undone = install_plan::undone(&faults);
        let back_to = |old: &DynamicObject| format!("{said}{SUFFIX}{}: {undone}", old.name_any());
        let plan = self.plan_of(&name);
        if let (Some(plan), Some(old)) = (plan, self.could_go_back_to(csv)) {
            let together: Vec<String> = upgrades.iter().map(|(version, _)| version.name_any()).collect();
            let message = format!("bundle {name}: {}", back_to(old));
            install_plan::fail(self.context, plan, (&name, &together), &message).await?;
        }
        // This one last: until it is marked, all of it is done again.
        let (own, others): (Vec<_>, Vec<_>) = upgrades.into_iter().partition(|(version, _)| version.name_any() == name);
        for (version, old) in others {
            let message = format!("goes back together with {name}, which failed{SUFFIX}{}", old.name_any());
            self.mark(version, old, &Phase::new("Failed", "RolledBack", message), plan).await?;
        }
        for (version, old) in own {
            self.mark(version, old, &Phase::new("Failed", reason, back_to(old)), plan).await?;
        }
        Ok((None, None))
    }

    async fn mark(
        &self,
        csv: &DynamicObject,
        old: &DynamicObject,
        phase: &Phase,
        plan: Option<&DynamicObject>,
    ) -> Result<(), Error> {
        let api = CSV.within(&self.context.client, self.namespace);
        set_phase(self.context, &api, csv.clone(), phase, None).await?;
        let annotations = json!({ROLLED_BACK: old.name_any(), FAILED_PLAN: plan.map(ResourceExt::name_any)});
        let patch = json!({"metadata": {"annotations": annotations}});
        api.patch(&csv.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let note = format!("{} failed, and this version came back", csv.name_any());
        self.context.events.warning(&CSV, old, "RolledBack", &note).await;
        Ok(())
    }

    /// What becomes of a version that failed once the other has come back.
    pub(super) async fn stays_failed(&self, csv: &DynamicObject, back_to: &str) -> Result<Next, Error> {
        let old = self.all.iter().find(|it| it.name_any() == back_to && !is_deleting(it) && !is_copied(it));
        let has_plan = annotation(csv, FAILED_PLAN)
            .is_none_or(|name| self.plans.iter().any(|plan| plan.name_any() == name && !is_deleting(plan)));
        let Some(old) = old.filter(|_| has_plan) else {
            return Ok(to(Phase::new("Deleting", "Replaced", text(&csv.data, "/status/message"))));
        };
        // What both have is the other's again by then.
        let is_back = matches!(text(&old.data, "/status/phase"), "Installing" | "Succeeded");
        if !is_back || !csv.finalizers().iter().any(|it| it == FINALIZER) {
            return Ok((None, None));
        }
        match self.context.targets.of(csv, self.namespace, None).await? {
            Ok(target) => self.remove_rest(csv, &target).await?,
            Err(_) => return Ok((None, Some(RUNNING_INTERVAL))),
        }
        Ok((None, None))
    }

    /// Removes what only the version that failed has.
    async fn remove_rest(&self, csv: &DynamicObject, target: &Target) -> Result<(), Error> {
        let name = csv.name_any();
        sweep(target, &OWNED_KINDS, &owned_by(&name, self.namespace), &|_, _, _| false).await?;
        Keeping::of_version(self.context, self.namespace, &name).forget().await?;
        let kept: Vec<&String> = csv.finalizers().iter().filter(|it| *it != FINALIZER).collect();
        let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": csv.resource_version()}});
        let api = CSV.within(&self.context.client, self.namespace);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}
