//! Reflectors must report every acknowledged write exactly once and in order, and hold what a fresh list returns, however
//! they read: with pages or as a stream, before or amid the writing, and across crashes of the server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use bailiwick_testkit::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

use crate::churn::{self, CATCH_UP, Change, Crashes, History, SELECTOR};

/// Small, so that lists have several pages.
const PAGE_SIZE: u32 = 3;
/// How often a reader that has to catch up is looked at.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflectors_report_every_write_once_and_in_order() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let client = server.client().await?;
    let namespace = churn::namespace(&client, "reflector-").await?;
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let duration = churn::duration();

    let mut readers = start_readers(&api, Start::Early).await?;
    let writing = tokio::spawn({
        let api = api.clone();
        async move { churn::write(&api, duration, Crashes::Never).await }
    });
    tokio::time::sleep(duration / 2).await;
    readers.extend(start_readers(&api, Start::Late).await?);
    let history = writing.await??;
    settle(&api, &history, &readers).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflectors_resume_after_crashes_of_the_server() -> Result<()> {
    let mut server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let client = server.client().await?;
    let namespace = churn::namespace(&client, "crash-").await?;
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let duration = churn::duration();

    let readers = start_readers(&api, Start::Early).await?;
    let writing = tokio::spawn({
        let api = api.clone();
        async move { churn::write(&api, duration, Crashes::Expected).await }
    });
    for _ in 0..2 {
        tokio::time::sleep(duration / 3).await;
        server.kill();
        server.restart()?;
    }
    let history = writing.await??;
    settle(&api, &history, &readers).await
}

/// When a reader began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Before anything was written.
    Early,
    /// Amid the writing.
    Late,
}

/// A reflector and everything its watcher reported.
struct Reader {
    title: String,
    start: Start,
    store: Store<ConfigMap>,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    lists: usize,
    initial: BTreeMap<String, u64>,
    changes: History,
    problems: Vec<String>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One reader per way of reading, in sync when this returns.
async fn start_readers(api: &Api<ConfigMap>, start: Start) -> Result<Vec<Reader>> {
    let config = watcher::Config::default().labels(SELECTOR);
    let mut readers = Vec::new();
    for (form, config) in [
        ("pages", config.clone().page_size(PAGE_SIZE)),
        ("cached list", config.clone().any_semantic()),
        ("stream", config.streaming_lists()),
    ] {
        let (store, mut writer) = reflector::store();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let recorder = Arc::clone(&seen);
        // Observed before the store has it, so that the record is complete when the store is.
        let mut events = watch::watcher(api.clone(), config).default_backoff().boxed();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                // Errors are connections that end; the watcher resumes by itself.
                let Ok(event) = event else { continue };
                recorder.lock().unwrap_or_else(PoisonError::into_inner).record(&event);
                writer.apply_watcher_event(&event);
            }
        });
        store.wait_until_ready().await?;
        readers.push(Reader { title: format!("{start:?} {form}"), start, store, seen, task });
    }
    Ok(readers)
}

impl Seen {
    fn record(&mut self, event: &Event<ConfigMap>) {
        let (object, change): (_, fn(u64) -> Change) = match event {
            Event::Init => {
                self.lists += 1;
                return;
            }
            Event::InitDone => return,
            Event::InitApply(object) | Event::Apply(object) => (object, Change::Applied),
            Event::Delete(object) => (object, |_| Change::Deleted),
        };
        let revision = match churn::revision(object) {
            Ok(revision) => revision,
            Err(error) => return self.problems.push(format!("{error:#}")),
        };
        let name = object.name_any();
        if matches!(event, Event::InitApply(_)) {
            if self.initial.insert(name.clone(), revision).is_some() {
                self.problems.push(format!("{name} is in the initial list twice"));
            }
        } else {
            self.changes.entry(name).or_default().push(change(revision));
        }
    }

    /// Compares with what the writers were told.
    fn problems(&self, start: Start, history: &History) -> Vec<String> {
        let mut problems = self.problems.clone();
        if self.lists != 1 {
            problems.push(format!("listed {} times", self.lists));
        }
        for (name, expected) in history {
            let seen = self.changes.get(name).map(Vec::as_slice).unwrap_or_default();
            let before = expected.strip_suffix(seen);
            let initial = self.initial.get(name).map(|revision| Change::Applied(*revision));
            let right = match (before, start, initial) {
                (None, ..) => false,
                (Some(before), Start::Early, initial) => before.is_empty() && initial.is_none(),
                (Some(before), Start::Late, Some(initial)) => before.last() == Some(&initial),
                (Some(before), Start::Late, None) => matches!(before.last(), None | Some(Change::Deleted)),
            };
            if !right {
                problems.push(format!("{name}: initially {initial:?}, then {seen:?}; expected {expected:?}"));
            }
        }
        problems.extend(
            self.changes.keys().filter(|name| !history.contains_key(*name)).map(|name| format!("unexpected {name}")),
        );
        problems
    }
}

/// Waits until every reader has seen everything, and fails with what still differs when that takes too long.
async fn settle(api: &Api<ConfigMap>, history: &History, readers: &[Reader]) -> Result<()> {
    let deadline = Instant::now() + CATCH_UP;
    let fresh = api.list(&ListParams::default().labels(SELECTOR)).await?.items;
    loop {
        let mut problems = Vec::new();
        for reader in readers {
            let seen = reader.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut found = seen.problems(reader.start, history);
            let mut cached: Vec<ConfigMap> =
                reader.store.state().iter().map(|object| ConfigMap::clone(object)).collect();
            cached.sort_by_key(ResourceExt::name_any);
            if cached != fresh {
                found.push(format!("the store has {cached:?} instead of {fresh:?}"));
            }
            problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", reader.title)));
        }
        if problems.is_empty() {
            let writes: usize = history.values().map(Vec::len).sum();
            println!("{writes} writes seen by {} reflectors, no difference", readers.len());
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{} problems:\n{}", problems.len(), problems.join("\n"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
