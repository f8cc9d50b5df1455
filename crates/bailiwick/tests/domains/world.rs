//! The world of the scenarios: the fake internet, a control plane with the domains service, and a clock that can be moved.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bailiwick::{ControlPlane, Running, Service};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::seams::{Clock, Roots};
use bailiwick_domains_controller::{GROUP, Options, RESCAN_ANNOTATION, VERSION};
use bailiwick_fakenet::Bed;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::Notify;

/// Nothing that is waited for takes a tenth of this.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What one tenant may have, small enough to be reached.
pub const DOMAINS_PER_TENANT: usize = 4;
pub const CHECKS_PER_TENANT: usize = 8;
pub const CHECKS_PER_MINUTE: u32 = 6;

/// Where delegated challenges lead.
pub const DELEGATION_ZONE: &str = "dcv.target.net";
/// The zone that has a nameserver for each token.
pub const NAMESERVER_ZONE: &str = "ns.target.net";

pub struct World {
    pub bed: Bed,
    pub plane: Running,
    /// An administrator, through the socket.
    pub client: Client,
    pub clock: Arc<MovableClock>,
    restart: Arc<Notify>,
    restarted: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

/// The machine's clock, and how far it was moved.
#[derive(Default)]
pub struct MovableClock(Mutex<SignedDuration>);

impl MovableClock {
    pub fn advance(&self, by: SignedDuration) {
        *self.0.lock().expect("nobody panics with it") += by;
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.0.lock().expect("nobody panics with it")
    }
}

impl World {
    pub async fn up() -> Result<Self> {
        let bed = Bed::up()?;
        let directory = tempfile::tempdir()?;
        // The controller asks from one place; other places are agents.
        let mut roots = Roots::from_file(&bed.roots_file())?;
        roots.vantage_points.truncate(1);
        let clock = Arc::new(MovableClock::default());
        let options = Options {
            domains_per_tenant_max: DOMAINS_PER_TENANT,
            checks_per_tenant_max: CHECKS_PER_TENANT,
            checks_per_minute: CHECKS_PER_MINUTE,
            delegation_zone: Some(DomainName::parse(DELEGATION_ZONE)?),
            nameserver_zone: Some(DomainName::parse(NAMESERVER_ZONE)?),
            ..Options::new(clock.clone(), Arc::new(roots))
        };
        let metrics = options.metrics.clone();
        let (restart, restarted) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (ending, begun) = (restart.clone(), restarted.clone());
        let service = Service::new("domains", |context| async move {
            let mut shutdown = context.shutdown;
            loop {
                begun.fetch_add(1, Ordering::SeqCst);
                let ending = ending.clone();
                let told = async move { ending.notified().await };
                let run = bailiwick_domains_controller::run(context.client.clone(), options.clone(), told);
                tokio::select! {
                    ended = run => ended?,
                    () = shutdown.wait() => return Ok(()),
                }
            }
        });
        let service = service.with_metrics(move |text| metrics.append(text));
        let plane = ControlPlane::builder(directory.path()).service(service).start().await?;
        let client = client(&plane.kubeconfig).await?;
        let world = Self { bed, plane, client, clock, restart, restarted, _directory: directory };
        until_served(&world.client).await?;
        Ok(world)
    }

    /// Ends the controller and starts another one, which knows nothing but what objects say.
    pub async fn restart(&self) {
        let before = self.restarted.load(Ordering::SeqCst);
        self.restart.notify_one();
        while self.restarted.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A namespace of a scenario's own.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
        Ok(())
    }

    pub fn domains(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource("Domain", "domains"))
    }

    pub fn checks(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource("DomainCheck", "domainchecks"))
    }

    /// All events that are told in a namespace: reason and note, in the order of their times.
    pub async fn events(&self, namespace: &str) -> Result<Vec<(String, String)>> {
        events(&self.client, namespace).await
    }

    /// Has the service look at a domain now, as the portal's button does, so many minutes later, and waits until it has, and
    /// has told what it found.
    pub async fn rescan(&self, api: &Api<DynamicObject>, name: &str, minutes: i64) -> Result<DynamicObject> {
        self.clock.advance(SignedDuration::from_mins(minutes));
        let stamp = Timestamp::now().to_string();
        let patch = serde_json::json!({"metadata": {"annotations": {RESCAN_ANNOTATION: stamp}}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        until_named(api.clone(), name, |object| {
            text(object, "/status/observedRescan") == stamp && object.data.pointer("/status/unannounced").is_none()
        })
        .await
    }

    /// Waits until an event of this reason is told in a namespace, and returns its note.
    pub async fn event(&self, client: &Client, namespace: &str, reason: &str) -> Result<String> {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let seen = until(api, |event| event.reason.as_deref() == Some(reason)).await;
        let event = seen.with_context(|| format!("no event {reason} in {namespace}"))?;
        Ok(event.note.unwrap_or_default())
    }
}

/// All events that are told in a namespace of a server.
pub async fn events(client: &Client, namespace: &str) -> Result<Vec<(String, String)>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = api.list(&ListParams::default()).await?.items;
    events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    Ok(events.into_iter().map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}

/// Waits until a server serves the service's types.
pub async fn until_served(client: &Client) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // The last of the definitions.
    let probes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("DomainProbe", "domainprobes"));
    while let Err(error) = probes.list(&ListParams::default()).await {
        ensure!(tokio::time::Instant::now() < deadline, "the definitions are not served: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// A client with the credentials of a file.
pub async fn client(kubeconfig: &std::path::Path) -> Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?)
}

pub fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind), plural)
}

/// Creates an object of ours.
pub async fn create(api: &Api<DynamicObject>, kind: &str, name: &str, spec: Value) -> Result<DynamicObject> {
    let resource = resource(kind, "");
    let mut object = DynamicObject::new(name, &resource);
    object.data = serde_json::json!({"spec": spec});
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Watches until an object is as wished.
pub async fn until<K>(api: Api<K>, is: impl Fn(&K) -> bool) -> Result<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let watching = async {
        let mut objects = watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
        let mut last = None;
        loop {
            match objects.next().await {
                Some(Ok(object)) if is(&object) => return Ok(object),
                Some(Ok(object)) => last = Some(object),
                Some(Err(error)) => println!("{error}"),
                None => anyhow::bail!("the watch ended; the last one seen was {last:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, watching).await.context("it did not happen in time")?
}

/// Watches one object until it is as wished.
pub async fn until_named(
    api: Api<DynamicObject>,
    name: &str,
    is: impl Fn(&DynamicObject) -> bool,
) -> Result<DynamicObject> {
    let reached = until(api.clone(), |object| object.metadata.name.as_deref() == Some(name) && is(object)).await;
    match reached {
        Ok(object) => Ok(object),
        Err(error) => {
            let now = api.get_opt(name).await?.map(|object| object.data.to_string());
            Err(error).with_context(|| format!("{name} is {}", now.unwrap_or_default()))
        }
    }
}

/// A condition of an object: status, reason and message.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> (&'a str, &'a str, &'a str) {
    let all = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = all.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

/// A text in an object.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Asserts that a text tells something.
#[track_caller]
pub fn tells(text: &str, what: &str) {
    assert!(text.contains(what), "the user is not told {what:?} in:\n{text}");
}
