//! One metadata watch per resource type, shared by all controllers.
//!
//! [`run`] keeps a watch open on every type the server has and tells each [`Observer`] what it sees, in the order of
//! each type's own changes. Nothing is remembered here: an observer keeps what it needs and no more. Types that come
//! and go (definitions, API services) are noticed by watching those very objects.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::discovery::{Discovery, ResourceType};
use crate::header::Header;

/// Types are looked for again this often even if nothing seems to have changed them: what an aggregated server serves
/// can change without a trace in our objects.
const REDISCOVERY_INTERVAL: Duration = Duration::from_secs(600);
/// When to ask again after a definition changed: servers publish a new type within a moment, but not at once.
const REDISCOVERY_DELAYS: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(500), Duration::from_secs(3), Duration::from_secs(15)];
/// The least pause between refreshes while types keep changing: definitions tend to come by the hundred.
const BURST_PAUSE: Duration = Duration::from_millis(500);
/// The pause after a refresh, in multiples of what it took: discovery takes a twentieth of the time at most.
const REFRESH_SHARE: u32 = 20;
/// Pause after discovery failed.
const DISCOVERY_RETRY: Duration = Duration::from_secs(2);
/// Objects per page of a watch's first list: what one type may hold in memory for a moment.
const PAGE_SIZE: u32 = 250;

/// How long a server that was asked to begin a watch with what there is may be silent before it has told it all. One that
/// does not know the question never says that it has.
const STREAM_PATIENCE: Duration = Duration::from_secs(10);

/// Something seen on the watch of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// What follows, until [`Change::Listed`], is everything there is.
    ListStarted,
    /// The object exists in this state: it is new, or changed, or was listed.
    Present(&'a ObjectMeta),
    /// The object is gone; this was its last state.
    Deleted(&'a ObjectMeta),
    /// What was not present since [`Change::ListStarted`] is gone.
    Listed,
    /// The type is no longer served, and so are no objects of it.
    TypeRemoved,
}

/// A controller's ear. Called from the watches' tasks, so it must be quick and must not block.
pub(crate) trait Observer: Send + Sync {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>);
}

/// Whether a type is watched. Events are not: they own nothing, nothing owns them, and there are too many.
pub(crate) fn is_watched(resource: &ResourceType) -> bool {
    let is_event = resource.api.plural == "events" && matches!(resource.api.group.as_str(), "" | "events.k8s.io");
    !is_event && resource.supports(&["list", "watch", "delete"])
}

/// Watches every type, forever. `all_listed` becomes true once each type known at the start was listed.
pub(crate) async fn run(
    client: Client,
    discovery: Arc<Discovery>,
    observers: Arc<[Arc<dyn Observer>]>,
    all_listed: watch::Sender<bool>,
) {
    let context = Context { client, observers, types_changed: Arc::new(Notify::new()) };
    let mut watches = Watches { tasks: JoinSet::new(), running: HashMap::new() };
    // Held by each watch of the first round until it has listed.
    let (unlisted, mut all_released) = mpsc::channel::<Infallible>(1);
    let mut unlisted = Some(unlisted);
    let mut follow_up: &[Duration] = &[];
    let mut due = Instant::now();
    let (mut refreshed_at, mut pause) = (None, REDISCOVERY_DELAYS[0]);
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(due) => {
                let started = Instant::now();
                let refreshed = discovery.refresh().await;
                // With thousands of types a refresh costs something; many new types at once are then looked at together.
                pause = REDISCOVERY_DELAYS[0].max(started.elapsed() * REFRESH_SHARE);
                if refreshed_at.replace(started).is_some_and(|last: Instant| started - last < 2 * BURST_PAUSE) {
                    pause = pause.max(BURST_PAUSE);
                }
                let wait = match refreshed {
                    Ok(catalog) => {
                        watches.follow(&catalog.types, &context, unlisted.take());
                        let next = follow_up.split_first();
                        next.map_or(REDISCOVERY_INTERVAL, |(next, rest)| { follow_up = rest; *next })
                    }
                    Err(error) => {
                        tracing::warn!(%error, "discovery failed and is tried again");
                        DISCOVERY_RETRY
                    }
                };
                // Follow-ups too: while many types come, each look would bring another one after it.
                due = Instant::now() + wait.max(pause);
            }
            () = context.types_changed.notified() => {
                follow_up = &REDISCOVERY_DELAYS;
                due = due.min(Instant::now() + pause);
            }
            None = all_released.recv(), if !*all_listed.borrow() => {
                all_listed.send_replace(true);
            }
            Some(_) = watches.tasks.join_next() => {}
        }
    }
}

struct Context {
    client: Client,
    observers: Arc<[Arc<dyn Observer>]>,
    types_changed: Arc<Notify>,
}

struct Watches {
    /// Ends with the future that owns it.
    tasks: JoinSet<()>,
    running: HashMap<(String, String), (Arc<ResourceType>, AbortHandle)>,
}

impl Watches {
    /// Starts and ends watches so that there is one for each of `types`.
    fn follow(&mut self, types: &[Arc<ResourceType>], context: &Context, unlisted: Option<mpsc::Sender<Infallible>>) {
        let key = |found: &ResourceType| (found.api.group.clone(), found.api.plural.clone());
        let wanted: HashMap<_, _> =
            types.iter().filter(|found| is_watched(found)).map(|found| (key(found), found)).collect();
        self.running.retain(|key, (resource, task)| {
            let keep = wanted.get(key).is_some_and(|found| found.api == resource.api);
            if !keep {
                task.abort();
            }
            if !wanted.contains_key(key) {
                tracing::debug!(resource = resource.group_resource(), "no longer served");
                context.observers.iter().for_each(|observer| observer.observe(resource, Change::TypeRemoved));
            }
            keep
        });
        for (key, resource) in wanted {
            self.running.entry(key).or_insert_with(|| {
                let watch = Watch {
                    resource: resource.clone(),
                    observers: context.observers.clone(),
                    types_changed: context.types_changed.clone(),
                    unlisted: unlisted.clone(),
                };
                (resource.clone(), self.tasks.spawn(watch.run(context.client.clone())))
            });
        }
    }
}

/// The watch of one type.
struct Watch {
    resource: Arc<ResourceType>,
    observers: Arc<[Arc<dyn Observer>]>,
    types_changed: Arc<Notify>,
    /// Let go of after the first list.
    unlisted: Option<mpsc::Sender<Infallible>>,
}

impl Watch {
    async fn run(mut self, client: Client) {
        let api: Api<Header> = Api::all_with(client, &self.resource.api);
        // One request instead of two, and no page of a list in memory.
        self.follow(api.clone(), watcher::Config::default().streaming_lists(), STREAM_PATIENCE).await;
        // Some server behind this one, which cannot begin a watch with what there is.
        self.follow(api, watcher::Config::default().page_size(PAGE_SIZE), Duration::MAX).await;
    }

    /// Tells what is seen, until the server turns out not to know this way of asking: it says so, or does not get on for
    /// so long with telling what there is.
    async fn follow(&mut self, api: Api<Header>, config: watcher::Config, patience: Duration) {
        let mut events = watcher::watcher(api, config).default_backoff().boxed();
        let mut patience_of_now = Duration::MAX;
        while let Ok(Some(event)) = tokio::time::timeout(patience_of_now, events.next()).await {
            match event {
                Ok(event) => {
                    patience_of_now = match event {
                        Event::Init | Event::InitApply(_) => patience,
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => Duration::MAX,
                    };
                    self.dispatch(&event);
                }
                Err(error) => {
                    tracing::debug!(resource = self.resource.group_resource(), %error, "watch interrupted");
                    if is_type_gone(&error) {
                        self.types_changed.notify_one();
                    }
                    if is_not_streamed(&error) {
                        return;
                    }
                    patience_of_now = Duration::MAX;
                }
            }
        }
    }

    fn dispatch(&mut self, event: &Event<Header>) {
        let defines_types = self.resource.is("apiextensions.k8s.io", "customresourcedefinitions")
            || self.resource.is("apiregistration.k8s.io", "apiservices");
        let change = match event {
            Event::Init => Change::ListStarted,
            Event::InitApply(object) => Change::Present(&object.metadata),
            Event::Apply(object) => Change::Present(&object.metadata),
            Event::Delete(object) => Change::Deleted(&object.metadata),
            Event::InitDone => Change::Listed,
        };
        self.observers.iter().for_each(|observer| observer.observe(&self.resource, change));
        if defines_types && matches!(event, Event::Apply(_) | Event::Delete(_)) {
            self.types_changed.notify_one();
        }
        if matches!(change, Change::Listed) {
            self.unlisted = None;
        }
    }
}

/// Whether a watch failed because its type is not served.
pub(crate) fn is_type_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            crate::error::is_not_found(error)
        }
        _ => false,
    }
}

/// Whether the server refuses to begin a watch with what there is.
fn is_not_streamed(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            status.is_invalid() && status.message.contains("sendInitialEvents")
        }
        _ => false,
    }
}
