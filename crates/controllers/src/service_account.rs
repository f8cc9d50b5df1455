//! Gives every active namespace its `default` service account, again and again if it is deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::discovery::ResourceType;
use crate::error::{Error, is_namespace_terminating, is_not_found, status};
use crate::monitor::{Change, Observer};
use crate::per_namespace::PerNamespace;
use crate::work_queue::Outcome;

const NAME: &str = "default";
/// Namespaces worked on at the same time.
const WORKERS: usize = 8;

/// See the module.
pub(crate) struct ServiceAccounts {
    client: Client,
    tracker: PerNamespace,
}

impl ServiceAccounts {
    pub fn new(client: Client) -> Self {
        ServiceAccounts { client, tracker: PerNamespace::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let work = self.tracker.queue.work("service-account", WORKERS, |namespace| async move {
            self.create(&namespace).await.map(|()| Outcome::Done)
        });
        work.await;
    }

    async fn create(&self, namespace: &str) -> Result<(), Error> {
        if !self.tracker.is_lacking(namespace) {
            return Ok(());
        }
        create_default(self.client.clone(), namespace).await
    }
}

/// Makes the account unless it is there.
pub(crate) async fn create_default(client: Client, namespace: &str) -> Result<(), Error> {
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    let api: Api<ServiceAccount> = Api::namespaced(client, namespace);
    match api.create(&PostParams::default(), &account).await {
        Err(error) if !is_settled(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a failed create leaves nothing to do: the object is there, or its namespace is going away.
pub(crate) fn is_settled(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| status.is_already_exists())
        || is_not_found(error)
        || is_namespace_terminating(error)
}

impl Observer for ServiceAccounts {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>) {
        if resource.is("", "namespaces") {
            return self.tracker.namespace_changed(change);
        }
        if !resource.is("", "serviceaccounts") {
            return;
        }
        let namespace = |meta: &ObjectMeta| meta.namespace.clone().unwrap_or_default();
        match change {
            Change::ListStarted => self.tracker.object_list_started(),
            Change::Present(meta) if meta.name.as_deref() == Some(NAME) => {
                self.tracker.object_present(&namespace(meta), true);
            }
            Change::Deleted(meta) if meta.name.as_deref() == Some(NAME) => {
                self.tracker.object_deleted(&namespace(meta));
            }
            Change::Listed => self.tracker.objects_listed(),
            Change::Present(_) | Change::Deleted(_) | Change::TypeRemoved => {}
        }
    }
}
