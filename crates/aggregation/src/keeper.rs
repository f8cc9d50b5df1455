//! The task that looks after one remote APIService: whether it is available, what it serves, what its OpenAPI documents
//! say. Looks at once when the APIService changes, again after a while when all is well, and sooner when it is not.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::aggregator::Aggregator;
use crate::availability::{self, Condition, ConditionStatus};
use crate::documents::Freshness;
use crate::route::Route;
use crate::{discovery, openapi};

/// How often a server that works is looked at, as upstream: nothing tells us when it goes away.
const RECHECK: Duration = Duration::from_secs(30);
/// How often its documents are asked for; unchanged ones are not sent again.
const DOCUMENTS_INTERVAL: Duration = Duration::from_secs(60);
/// The first pause after a failure; each further one is twice as long, up to [`RECHECK`].
const RETRY: Duration = Duration::from_millis(50);

/// Writes what was found out to the APIService.
pub trait StatusWriter: Send + Sync {
    /// Makes the condition `Available` of the named APIService this one.
    fn write<'a>(
        &'a self,
        name: &'a str,
        condition: &'a Condition,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// A running task; ends when dropped.
pub(crate) struct Keeper {
    task: AbortHandle,
    changed: Arc<Notify>,
    /// Says that it has looked once.
    looked: watch::Receiver<bool>,
}

impl Keeper {
    pub fn spawn(handle: &Handle, name: String, aggregator: Weak<Aggregator>, writer: Arc<dyn StatusWriter>) -> Self {
        let changed = Arc::new(Notify::new());
        let signal = changed.clone();
        let (look, looked) = watch::channel(false);
        let task = handle.spawn(async move { keep(&name, &aggregator, &*writer, &signal, &look).await });
        Self { task: task.abort_handle(), changed, looked }
    }

    /// Ends when it has looked once, whatever it saw.
    pub fn looked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut looked = self.looked.clone();
        async move {
            // An error says that the task has ended.
            let _ = looked.wait_for(|looked| *looked).await;
        }
    }

    /// Looks again without waiting.
    pub fn look_again(&self) {
        self.changed.notify_one();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is remembered between looks.
#[derive(Default)]
struct Memory {
    discovery: discovery::Memory,
    openapi: openapi::Memory,
    documents_due: Option<Instant>,
}

async fn keep(
    name: &str,
    aggregator: &Weak<Aggregator>,
    writer: &dyn StatusWriter,
    changed: &Notify,
    looked_once: &watch::Sender<bool>,
) {
    let mut memory = Memory::default();
    let mut last: Option<Arc<Route>> = None;
    let mut pause = RETRY;
    loop {
        let Some(route) = aggregator.upgrade().and_then(|aggregator| aggregator.route_of(name)) else { return };
        if last.as_ref().is_some_and(|last| !last.shares_connections(&route)) {
            memory = Memory::default();
            pause = RETRY;
        }
        let looked = look(&route, writer, &mut memory).await;
        looked_once.send_replace(true);
        last = Some(route);
        let wait = match looked {
            Ok(()) => {
                pause = RETRY;
                RECHECK
            }
            Err(error) => {
                tracing::debug!(%error, api_service = name, "an APIService is not as it should be");
                let wait = pause;
                pause = (pause * 2).min(RECHECK);
                wait
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = changed.notified() => {}
        }
    }
}

async fn look(route: &Route, writer: &dyn StatusWriter, memory: &mut Memory) -> Result<(), String> {
    let documents = route.documents();
    let condition = availability::check(route).await;
    let written = match &condition {
        None => Err("it cannot be connected to as it is configured".to_owned()),
        Some(condition) => tell(route, condition, writer).await,
    };
    let backend = match route.backend().await {
        Ok(backend) => backend,
        Err(error) => {
            documents.set_stale();
            return Err(error.to_string());
        }
    };
    let available = condition.as_ref().is_some_and(|condition| condition.status == ConditionStatus::True);
    let due = memory.documents_due.is_none_or(|due| Instant::now() >= due);
    if !available || due || documents.discovered().freshness == Freshness::Stale {
        match discovery::fetch(&backend, route.service(), &mut memory.discovery).await {
            Ok(version) => documents.set_discovered(version, Freshness::Current),
            Err(error) => {
                documents.set_stale();
                return Err(error);
            }
        }
    }
    if available && due {
        openapi::refresh(&backend, route.service(), documents, &mut memory.openapi).await?;
        memory.documents_due = Some(Instant::now() + DOCUMENTS_INTERVAL);
    }
    written?;
    match condition {
        Some(condition) if !available => Err(condition.message),
        _ => Ok(()),
    }
}

async fn tell(route: &Route, condition: &Condition, writer: &dyn StatusWriter) -> Result<(), String> {
    let service = route.service();
    if service.available.as_ref() == Some(condition) {
        return Ok(());
    }
    tracing::info!(
        api_service = service.name,
        available = condition.status.as_str(),
        reason = %condition.reason,
        message = condition.message,
        "the availability of an APIService changes"
    );
    writer.write(&service.name, condition).await?;
    route.interruptions().written(service, condition);
    Ok(())
}
