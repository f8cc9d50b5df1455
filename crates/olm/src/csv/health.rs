//! Whether what a version installed works, and what follows: it is done, waited for, or installed again.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{
    Look, NOT_SERVED, Next, Phase, RUNNING_INTERVAL, STARTING_INTERVAL, WORKLOADS_ANNOTATION, deployments,
    operator_condition, requirements, to,
};
use crate::error::Error;
use crate::object::{annotation, text};
use crate::permissions::Watched;
use crate::target::{TARGET_ANNOTATION, Target};
use crate::{api_services, operator_service};

/// How long deployments may take, as upstream.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);

impl Look<'_> {
    /// Whether what is installed works.
    pub(super) async fn watch(
        &self,
        csv: &DynamicObject,
        target: &Target,
        group: &DynamicObject,
        watched: &Watched,
    ) -> Result<Next, Error> {
        let is_succeeded = text(&csv.data, "/status/phase") == "Succeeded";
        if is_succeeded {
            let (met, requirements) = requirements::check(target, csv).await?;
            if !met {
                let phase = Phase::new("Failed", "RequirementsNotMet", "requirements no longer met");
                return Ok((Some((phase, Some(requirements))), Some(STARTING_INTERVAL)));
            }
        }
        let names = deployments::names(&csv.data);
        if names.is_empty() {
            return Ok(to(succeeded()));
        }
        if !target.serves("apps", "v1", "Deployment").await? {
            let runs_elsewhere = std::iter::once(group)
                .chain(self.subscription_of(&csv.name_any()))
                .any(|object| annotation(object, WORKLOADS_ANNOTATION) == Some("elsewhere"));
            return Ok(to(match runs_elsewhere {
                true => {
                    let message = format!(
                        "everything but the deployments ({}) is installed; they run elsewhere, as the annotation \
                         {WORKLOADS_ANNOTATION} says",
                        names.join(", ")
                    );
                    Phase::new("Succeeded", "InstallSucceeded", message)
                }
                false => Phase::new("Installing", NOT_SERVED, not_served(target, &names, csv)),
            }));
        }
        if let Some(message) = self.changed(csv, target, group, watched).await? {
            let message = format!("installing: {message}");
            return Ok(to(match is_succeeded {
                true => Phase::new("Failed", "ComponentUnhealthy", message),
                false => Phase::new("Pending", "NeedsReinstall", message),
            }));
        }
        match self.unavailable(csv, target).await? {
            None => Ok((Some((succeeded(), None)), Some(RUNNING_INTERVAL))),
            Some(reason) if is_succeeded => {
                let phase = Phase::new("Failed", "ComponentUnhealthy", format!("installing: {reason}"));
                Ok((Some((phase, None)), Some(STARTING_INTERVAL)))
            }
            Some(reason) => {
                let since: Option<jiff::Timestamp> = text(&csv.data, "/status/lastTransitionTime").parse().ok();
                let waited = since.map(|since| jiff::Timestamp::now().duration_since(since));
                if waited.is_some_and(|waited| waited.unsigned_abs() > INSTALL_TIMEOUT) {
                    return Ok((
                        Some((Phase::new("Failed", "InstallCheckFailed", "install timeout"), None)),
                        Some(RUNNING_INTERVAL),
                    ));
                }
                let phase = Phase::new("Installing", "InstallWaiting", format!("installing: {reason}"));
                Ok((Some((phase, None)), Some(STARTING_INTERVAL)))
            }
        }
    }

    /// What of the deployments would be made differently now, by another configuration of the Subscription for instance.
    async fn changed(
        &self,
        csv: &DynamicObject,
        target: &Target,
        group: &DynamicObject,
        watched: &Watched,
    ) -> Result<Option<String>, Error> {
        deployments::changed(target, self.namespace, &self.deployments(csv, target, group, watched)).await
    }

    /// The deployments as they should be.
    pub(super) fn deployments(
        &self,
        csv: &DynamicObject,
        target: &Target,
        group: &DynamicObject,
        watched: &Watched,
    ) -> Vec<Value> {
        let whole = serde_json::to_value(csv).unwrap_or_default();
        let condition = operator_condition::name_of(csv, target);
        let place = deployments::Place { namespace: self.namespace, group, watched, condition };
        deployments::objects(&whole, &place, self.subscription_of(&csv.name_any()))
    }

    /// Why what is installed does not work.
    async fn unavailable(&self, csv: &DynamicObject, target: &Target) -> Result<Option<String>, Error> {
        match deployments::unavailable(target, self.namespace, &deployments::names(&csv.data)).await? {
            None => api_services::unavailable(target, csv).await,
            unavailable => Ok(unavailable),
        }
    }

    /// Whether a version that failed may be tried again.
    pub(super) async fn failed(
        &self,
        csv: &DynamicObject,
        target: &Target,
        reason: &str,
        (group, watched): (&DynamicObject, &Watched),
    ) -> Result<Next, Error> {
        match reason {
            "RequirementsNotMet" => {
                let (met, _) = requirements::check(target, csv).await?;
                let phase = Phase::new("Pending", "RequirementsNotMet", "requirements not met");
                Ok(if met { to(phase) } else { (None, Some(STARTING_INTERVAL)) })
            }
            // What is bad is installed again, and what has become well by itself is done.
            "InstallCheckFailed" | "ComponentUnhealthy" => {
                let fault = match target.serves("apps", "v1", "Deployment").await? {
                    false => Some(format!("{} serves no apps/v1 Deployments", target.name())),
                    true => match self.changed(csv, target, group, watched).await? {
                        None => self.unavailable(csv, target).await?,
                        changed => changed,
                    },
                };
                Ok(to(match fault {
                    Some(fault) => Phase::new("Pending", "NeedsReinstall", format!("installing: {fault}")),
                    None => succeeded(),
                }))
            }
            "OwnerConflict" if !self.owner_conflict(csv) => {
                Ok(to(Phase::new("Pending", "RequirementsUnknown", "requirements not yet checked")))
            }
            "InstallComponentFailed" => {
                let since: Option<jiff::Timestamp> = text(&csv.data, "/status/lastTransitionTime").parse().ok();
                let waited = since.map(|since| jiff::Timestamp::now().duration_since(since).unsigned_abs());
                Ok(match waited.is_some_and(|waited| waited >= RUNNING_INTERVAL) {
                    true => to(Phase::new("Pending", "NeedsReinstall", "tried again")),
                    false => (None, Some(RUNNING_INTERVAL)),
                })
            }
            _ => Ok((None, None)),
        }
    }
}

fn succeeded() -> Phase {
    Phase::new("Succeeded", "InstallSucceeded", "install strategy completed with no errors")
}

/// The honest state of an operator that nobody runs.
fn not_served(target: &Target, names: &[String], csv: &DynamicObject) -> String {
    let mut message = format!(
        "installed everything but the deployments ({}): {} serves no apps/v1 Deployments, so nothing runs the operator. \
         Name a cluster that does with the annotation {TARGET_ANNOTATION} on the OperatorGroup, or, if the operator \
         runs elsewhere, annotate the OperatorGroup with {WORKLOADS_ANNOTATION}=elsewhere",
        names.join(", "),
        target.name()
    );
    message.push_str(&operator_service::note(csv));
    message
}
