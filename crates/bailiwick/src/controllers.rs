//! The generic controllers inside the server's process: ordinary clients of the API, without a socket between.

use std::sync::Arc;

use bailiwick_controllers::{Controller, LeaderElection, Metrics, Options, SEVERAL_SERVERS_GRACE, Signing};
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::{ApiServer, LocalService};
use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Who the controllers are to the API, as upstream.
const USER: &str = "system:kube-controller-manager";

/// Whether other servers write to the same store, and then run the same controllers by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    One,
    Several,
}

/// Controllers that run. They end when this is dropped.
pub(crate) struct Started {
    /// Dropped to ask for the end.
    shutdown: oneshot::Sender<()>,
    task: Option<JoinHandle<()>>,
}

/// Starts `controllers` as clients of `server`.
pub(crate) fn start(
    server: &Arc<ApiServer>,
    controllers: Vec<Controller>,
    ca_pem: String,
    signing: Signing,
    servers: Servers,
    metrics: Metrics,
) -> Started {
    let (shutdown, ended) = oneshot::channel();
    if controllers.is_empty() {
        return Started { shutdown, task: None };
    }
    let user = UserInfo {
        name: USER.to_owned(),
        groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
        ..UserInfo::default()
    };
    let client = kube::Client::new(LocalService::new(server.clone(), user), "default");
    let mut options =
        Options { controllers, root_ca: Some(ca_pem), signing: Some(signing), metrics, ..Options::default() };
    if servers == Servers::Several {
        options.namespace_deletion_grace = SEVERAL_SERVERS_GRACE;
    }
    Started { shutdown, task: Some(tokio::spawn(run(client, options, servers, ended))) }
}

/// With several servers one runs the controllers, but for the one that belongs to each server. They run until the end
/// is asked for, and are started anew when one of them fails.
async fn run(client: kube::Client, options: Options, servers: Servers, ended: oneshot::Receiver<()>) {
    let ended = async {
        // An error says that the sender is gone, which is the signal.
        let _ = ended.await;
    };
    if servers == Servers::One {
        return bailiwick_controllers::run_restarting(client, options, ended).await;
    }
    let ended = ended.shared();
    let (shared, own): (Vec<_>, Vec<_>) = options.controllers.iter().partition(|controller| controller.takes_turns());
    let own = Options { controllers: own, ..options.clone() };
    let shared = Options { controllers: shared, ..options };
    let running = bailiwick_controllers::run_restarting(client.clone(), own.clone(), ended.clone());
    let own = if_any(&own, running);
    let election = LeaderElection { metrics: shared.metrics.clone(), ..LeaderElection::of_controllers() };
    let elected = bailiwick_controllers::run_elected(client.clone(), shared.clone(), election, ended.clone());
    tokio::join!(own, if_any(&shared, elected));
}

async fn if_any(options: &Options, work: impl Future<Output = ()>) {
    if !options.controllers.is_empty() {
        work.await;
    }
}

impl Started {
    /// Ends the controllers and waits until they have.
    pub async fn stop(self) {
        drop(self.shutdown);
        if let Some(task) = self.task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the controllers did not end well");
        }
    }
}
