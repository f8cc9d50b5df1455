//! What is done for a project, one piece at a time, through its own API.

use std::sync::Arc;

use kube::core::response::StatusDetails;

use super::ProjectControllers;
use crate::cluster_role_aggregation::ClusterRoleAggregation;
use crate::definitions::Definitions;
use crate::discovery::Discovery;
use crate::error::{Error, status};
use crate::garbage_collector::{GarbageCollector, Uid};
use crate::namespace::Namespaces;
use crate::plane::{Plane, PlaneClient};
use crate::policy_status::PolicyStatus;
use crate::resource_quota::ResourceQuotas;
use crate::work_queue::Outcome;
use crate::{root_ca, service_account};

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Work {
    /// Names and conditions of its definitions.
    Definitions(Plane),
    /// A namespace that is being deleted.
    Namespace(Plane, String),
    /// The default account of a namespace.
    Account(Plane, String),
    /// The CA bundle of a namespace.
    Bundle(Plane, String),
    /// The usage of a quota.
    Quota(Plane, String, String),
    /// The rules of roles that gather others.
    Roles(Plane),
    /// The status of an admission policy.
    Policy(Plane, String),
}

/// For a project that is gone, or about to go, there is nothing left to do.
fn done_if_gone(result: Result<Outcome, Error>) -> Result<Outcome, Error> {
    match result {
        Err(Error::Request(error)) if is_project_gone(&error) => Ok(Outcome::Done),
        // Discovery tells the answer as text.
        Err(Error::Discovery { detail, .. }) if detail.contains("\"kind\":\"projects\"") => Ok(Outcome::Done),
        other => other,
    }
}

fn is_project_gone(error: &kube::Error) -> bool {
    let Some(status) = status(error) else { return false };
    let about = status.details.as_ref().filter(|details| details.kind == "projects");
    let terminating = |details: &StatusDetails| details.causes.iter().any(|cause| cause.reason == "ProjectTerminating");
    about.is_some_and(|details| status.is_not_found() || terminating(details))
}

impl ProjectControllers {
    pub(super) async fn perform(&self, work: Work) -> Result<Outcome, Error> {
        done_if_gone(self.attempt(work).await)
    }

    async fn attempt(&self, work: Work) -> Result<Outcome, Error> {
        let client = |plane: &Plane| PlaneClient::of(&self.root, plane).get();
        match work {
            Work::Definitions(plane) => Definitions::settle_all(client(&plane)).await,
            Work::Roles(plane) => ClusterRoleAggregation::settle_all(client(&plane)).await,
            Work::Policy(plane, name) => PolicyStatus::new(client(&plane)).settle(&name).await,
            Work::Account(plane, namespace) => {
                service_account::create_default(client(&plane), &namespace).await.map(|()| Outcome::Done)
            }
            Work::Bundle(plane, namespace) => match &self.root_ca {
                Some(bundle) => root_ca::publish(client(&plane), bundle, &namespace).await.map(|()| Outcome::Done),
                None => Ok(Outcome::Done),
            },
            Work::Namespace(plane, name) => {
                let client = client(&plane);
                let discovery = Arc::new(Discovery::new(client.clone()));
                Namespaces::new(client, discovery, self.namespace_deletion_grace).delete(&name).await
            }
            Work::Quota(plane, namespace, name) => {
                let client = client(&plane);
                let discovery = Arc::new(Discovery::new(client.clone()));
                discovery.refresh().await?;
                let key = (namespace.into(), name.into());
                ResourceQuotas::new(client, discovery).count(&key).await.map(|()| Outcome::Done)
            }
        }
    }

    pub(super) async fn collect(&self, plane: &Plane, uid: &Uid) -> Result<Outcome, Error> {
        let collecting = async {
            let Some(collector) = self.prepared(plane).await? else { return Ok(Outcome::Done) };
            collector.attempt_to_delete(uid).await
        };
        done_if_gone(collecting.await)
    }

    pub(super) async fn orphan(&self, plane: &Plane, uid: &Uid) -> Result<Outcome, Error> {
        let orphaning = async {
            let Some(collector) = self.prepared(plane).await? else { return Ok(Outcome::Done) };
            collector.orphan(uid).await
        };
        done_if_gone(orphaning.await)
    }

    /// The project's garbage collector, knowing the types of the project.
    async fn prepared(&self, plane: &Plane) -> Result<Option<Arc<GarbageCollector>>, Error> {
        let Some(collector) = self.collectors().get(plane).cloned() else { return Ok(None) };
        collector.learn_types().await?;
        Ok(Some(collector))
    }
}
