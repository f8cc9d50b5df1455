//! Services of the caller's own: tasks that live as long as the control plane and are clients of its API, without a
//! socket between. The same code runs elsewhere with a client made of a kubeconfig.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::user::UserInfo;
use bailiwick_server::{ApiServer, LocalService, MetricsSource};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a service may end with; the text is logged.
pub type ServiceError = Box<dyn std::error::Error + Send + Sync>;

type Running = Pin<Box<dyn Future<Output = Result<(), ServiceError>> + Send>>;

/// How long services may take to end once they are told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A task that is run with the control plane.
pub struct Service {
    name: String,
    user: UserInfo,
    run: Box<dyn FnOnce(ServiceContext) -> Running + Send>,
    metrics: Option<MetricsSource>,
}

/// What a service is given.
#[derive(Clone)]
pub struct ServiceContext {
    /// The API, as the service's user.
    pub client: kube::Client,
    /// Tells when to end.
    pub shutdown: Shutdown,
}

/// Tells when the control plane stops.
#[derive(Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Returns when it is time to end.
    pub async fn wait(&mut self) {
        // An error says that the control plane is gone, which is the signal.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}

impl Service {
    /// A service that runs `work`. It is an administrator called `bailiwick:service:<name>` unless
    /// [`Service::as_user`] says otherwise. When it ends, with or without an error, that is logged, and everything else
    /// goes on.
    pub fn new<W, F>(name: impl Into<String>, work: W) -> Self
    where
        W: FnOnce(ServiceContext) -> F + Send + 'static,
        F: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        let name = name.into();
        let user = UserInfo {
            name: format!("bailiwick:service:{name}"),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        Self { name, user, run: Box::new(move |context| Box::pin(work(context))), metrics: None }
    }

    /// What the service adds to the server's `/metrics`, in Prometheus' text form.
    #[must_use]
    pub fn with_metrics(mut self, append: impl Fn(&mut String) + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(append));
        self
    }

    pub(crate) fn metrics_source(&self) -> Option<MetricsSource> {
        self.metrics.clone()
    }

    /// Who the service is to the API: its rights are those of this user.
    #[must_use]
    pub fn as_user(mut self, user: UserInfo) -> Self {
        self.user = user;
        self
    }
}

/// Services that run. They are aborted when this is dropped.
pub(crate) struct Started {
    stop: watch::Sender<bool>,
    tasks: Vec<(String, JoinHandle<()>)>,
}

/// Starts services as clients of `server`.
pub(crate) fn start(server: &Arc<ApiServer>, services: Vec<Service>) -> Started {
    let (stop, stopped) = watch::channel(false);
    let start = |service: Service| {
        let client = kube::Client::new(LocalService::new(server.clone(), service.user), "default");
        let running = (service.run)(ServiceContext { client, shutdown: Shutdown(stopped.clone()) });
        let name = service.name.clone();
        let task = tokio::spawn(async move {
            match running.await {
                Ok(()) => tracing::info!(service = name, "service ended"),
                Err(error) => tracing::error!(service = name, %error, "service failed"),
            }
        });
        (service.name, task)
    };
    Started { tasks: services.into_iter().map(start).collect(), stop }
}

impl Started {
    /// Tells all services to end and waits for them; who takes too long is aborted.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        for (name, task) in &mut self.tasks {
            match tokio::time::timeout_at(deadline, &mut *task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(service = *name, %error, "service panicked"),
                Err(_) => tracing::warn!(service = *name, "service did not end in time and is aborted"),
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}
