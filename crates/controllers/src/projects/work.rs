//! What is done for a project, one piece at a time, through its own API.

use std::sync::Arc;

use super::ProjectControllers;
use crate::cluster_role_aggregation::ClusterRoleAggregation;
use crate::definitions::{Definitions, Settled};
use crate::discovery::Discovery;
use crate::error::Error;
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

impl Work {
    /// The project it is for.
    fn plane(&self) -> &Plane {
        match self {
            Work::Definitions(plane)
            | Work::Namespace(plane, _)
            | Work::Account(plane, _)
            | Work::Bundle(plane, _)
            | Work::Quota(plane, ..)
            | Work::Roles(plane)
            | Work::Policy(plane, _) => plane,
        }
    }
}

impl ProjectControllers {
    pub(super) async fn perform(&self, work: Work) -> Result<Outcome, Error> {
        let plane = work.plane().clone();
        self.ask(&plane, self.attempt(work)).await
    }

    async fn attempt(&self, work: Work) -> Result<Outcome, Error> {
        let client = |plane: &Plane| PlaneClient::of(&self.root, plane).get();
        match work {
            Work::Definitions(plane) => self.settle_definitions(&plane).await.map(|()| Outcome::Done),
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
                let namespaces = Namespaces::new(client, discovery, self.namespace_deletion_grace);
                let outcome = namespaces.delete(&name).await?;
                if outcome == Outcome::Done {
                    // It may have gone with its project, which is not told.
                    self.state().terminating.remove(&(plane, name));
                }
                Ok(outcome)
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

    async fn settle_definitions(&self, plane: &Plane) -> Result<(), Error> {
        // Before anything is looked at, so that no instance goes unnoticed after that.
        self.state().emptying.insert(plane.clone());
        let settled = Definitions::settle_all(PlaneClient::of(&self.root, plane).get()).await;
        if !matches!(settled, Ok(Settled::Emptying(_))) {
            self.state().emptying.remove(plane);
        }
        settled.map(drop)
    }

    pub(super) async fn collect(&self, plane: &Plane, uid: &Uid) -> Result<Outcome, Error> {
        let collecting = async {
            let Some(collector) = self.prepared(plane).await? else { return Ok(Outcome::Done) };
            collector.attempt_to_delete(uid).await
        };
        self.ask(plane, collecting).await
    }

    pub(super) async fn orphan(&self, plane: &Plane, uid: &Uid) -> Result<Outcome, Error> {
        let orphaning = async {
            let Some(collector) = self.prepared(plane).await? else { return Ok(Outcome::Done) };
            collector.orphan(uid).await
        };
        self.ask(plane, orphaning).await
    }

    /// The project's garbage collector, knowing the types of the project.
    async fn prepared(&self, plane: &Plane) -> Result<Option<Arc<GarbageCollector>>, Error> {
        let Some(collector) = self.collectors().get(plane).cloned() else { return Ok(None) };
        collector.learn_types().await?;
        Ok(Some(collector))
    }
}
