//! Writers that create, change and delete ConfigMaps and remember what the server acknowledged. Each owns its objects, so
//! that the sequence of changes of every object is known exactly, even when an answer is lost with the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

/// Selects the writers' objects; controllers put others into a namespace.
pub const SELECTOR: &str = "writer=churn";
/// How long a reader may take to see the last write: kube-rs waits up to 30 s before it watches again after errors.
pub const CATCH_UP: Duration = Duration::from_secs(90);
const WRITERS: usize = 4;
const NAMES_PER_WRITER: usize = 4;
/// How long a writer waits for a server that is being restarted.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// What happened to an object, as far as a watcher can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created or changed, and then had this resourceVersion.
    Applied(u64),
    /// It went away.
    Deleted,
}

/// The changes of each object in order.
pub type History = BTreeMap<String, Vec<Change>>;

/// Whether a writer may lose its server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Crashes {
    /// A failed connection fails the test.
    Never,
    /// After a failed connection the writer asks the restarted server what became of its write.
    Expected,
}

/// How long to write: `$BAILIWICK_CHURN_SECONDS`, or a few seconds.
pub fn duration() -> Duration {
    let seconds = std::env::var("BAILIWICK_CHURN_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// Makes a namespace of its own for a test.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let metadata = ObjectMeta { generate_name: Some(prefix.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Ok(Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?.name_any())
}

/// The resourceVersion of an object as a number that can be compared.
pub fn revision(object: &ConfigMap) -> Result<u64> {
    let version = object.resource_version().with_context(|| format!("{} has no resourceVersion", object.name_any()))?;
    version.parse().with_context(|| format!("the resourceVersion {version:?}"))
}

/// Writes for the given time with several writers and returns everything that was acknowledged.
pub async fn write(api: &Api<ConfigMap>, duration: Duration, crashes: Crashes) -> Result<History> {
    let until = Instant::now() + duration;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|number| {
            let writer = Writer {
                number,
                api: api.clone(),
                crashes,
                random: StdRng::seed_from_u64(number as u64),
                history: History::new(),
            };
            tokio::spawn(writer.run(until))
        })
        .collect();
    let mut history = History::new();
    for task in tasks {
        history.extend(task.await??);
    }
    Ok(history)
}

struct Writer {
    number: usize,
    api: Api<ConfigMap>,
    crashes: Crashes,
    random: StdRng,
    history: History,
}

impl Writer {
    async fn run(mut self, until: Instant) -> Result<History> {
        let mut count = 0_u64;
        while Instant::now() < until {
            let name = format!("w{}-{}", self.number, self.random.random_range(0..NAMES_PER_WRITER));
            match self.step(&name, count).await {
                Ok(change) => self.record(&name, change),
                Err(kube::Error::Api(status)) => bail!("writing {name}: {status}"),
                Err(_) if self.crashes == Crashes::Expected => self.recover(&name).await?,
                Err(error) => return Err(error).with_context(|| format!("writing {name}")),
            }
            count += 1;
        }
        Ok(self.history)
    }

    async fn step(&mut self, name: &str, count: u64) -> Result<Change, kube::Error> {
        let value = count.to_string();
        let object: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"writer": "churn"}},
            "data": {"value": value},
        }))
        .map_err(kube::Error::SerdeError)?;
        let alive = matches!(self.history.get(name).and_then(|changes| changes.last()), Some(Change::Applied(_)));
        let patch = PatchParams::default();
        let written = match self.random.random_range(0..5) {
            _ if !alive => self.api.create(&PostParams::default(), &object).await?,
            0 => {
                self.api.delete(name, &DeleteParams::default()).await?;
                return Ok(Change::Deleted);
            }
            1 => self.api.replace(name, &PostParams::default(), &object).await?,
            2 => self.api.patch(name, &patch, &Patch::Merge(json!({"data": {"value": value}}))).await?,
            3 => self.api.patch(name, &patch, &Patch::Strategic(json!({"data": {"other": value}}))).await?,
            _ => {
                let operations = json!([{"op": "replace", "path": "/data/value", "value": value}]);
                let operations = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
                self.api.patch(name, &patch, &Patch::<()>::Json(operations)).await?
            }
        };
        // The server gave a resourceVersion, or reading its events will fail first.
        Ok(Change::Applied(revision(&written).unwrap_or_default()))
    }

    fn record(&mut self, name: &str, change: Change) {
        let changes = self.history.entry(name.to_owned()).or_default();
        // A write that changes nothing has the resourceVersion of the one before, and no event.
        if changes.last() != Some(&change) {
            changes.push(change);
        }
    }

    /// Learns from the restarted server whether the write whose answer was lost has happened.
    async fn recover(&mut self, name: &str) -> Result<()> {
        let deadline = Instant::now() + RESTART_TIMEOUT;
        let found = loop {
            match self.api.get_opt(name).await {
                Ok(found) => break found,
                Err(error) if Instant::now() > deadline => return Err(error).context("the server did not come back"),
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        };
        match found {
            Some(object) => self.record(name, Change::Applied(revision(&object)?)),
            None if self.history.contains_key(name) => self.record(name, Change::Deleted),
            None => {}
        }
        Ok(())
    }
}
