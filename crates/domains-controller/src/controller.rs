//! The controller: one object at a time, looking when it is time to look and writing when there is something to write.
//!
//! DNS is looked at every hour, each domain at a second of its own; registries are asked once a day, and every hour when
//! something is the matter or DNS has changed. A claim without proof is looked for every few seconds at first and rarely
//! later. When to look next is kept in memory: after a restart the hour begins again.

mod claims;
mod timing;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::registration::Registration;
use bailiwick_domains::scan::Scan;
use bailiwick_domains::seams::{Clock, Net, Roots};
use bailiwick_domains::toolbox::Toolbox;
use bailiwick_domains::verification::challenge::system_random;
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Challenge, Scope};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::Store;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::Error;
use crate::definition::{domain_definition, resource};
use crate::events::tell;
use crate::judge::{Notice, take_scan, take_verdict, worth_writing};
use crate::status::{DomainSpec, DomainStatus, VerificationStatus};
use timing::Next;

/// Set to another value to have a domain looked at now.
pub const RESCAN_ANNOTATION: &str = "datumapis.com/rescan";

/// Domains that are looked at at once: each waits for servers far away most of the time.
const CONCURRENT_LOOKS: u16 = 32;
/// After a failure of the API.
const RETRY: Duration = Duration::from_secs(5);
/// How long a definition may take to be served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
const ESTABLISH_POLL: Duration = Duration::from_millis(100);

/// What the controller works with.
#[derive(Clone)]
pub struct Options {
    /// The network.
    pub net: Net,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the DNS begins.
    pub roots: Arc<Roots>,
    /// Our name in `_<brand>-challenge`.
    pub brand: String,
    /// The zone that challenges may be delegated to.
    pub delegation_zone: Option<DomainName>,
    /// Domains of one namespace that are looked at; further ones wait.
    pub domains_per_namespace_max: usize,
}

impl Options {
    /// With the seams of the real world, or of the roots that the environment names.
    pub fn new(clock: Arc<dyn Clock>, roots: Arc<Roots>) -> Self {
        Self {
            net: Net::default(),
            clock,
            roots,
            brand: "bailiwick".to_owned(),
            delegation_zone: None,
            domains_per_namespace_max: 1_000,
        }
    }
}

pub(crate) struct Context {
    client: Client,
    toolbox: Toolbox,
    options: Options,
    domains: Store<DynamicObject>,
    next: Mutex<HashMap<String, Next>>,
}

/// Installs the definition and watches over all domains until `shutdown` is ready.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    install(&client).await?;
    let toolbox = Toolbox::new(&options.net, options.clock.clone(), &options.roots)?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let controller = Controller::new_with(api, watcher::Config::default(), resource())
        .with_config(Config::default().concurrency(CONCURRENT_LOOKS))
        .graceful_shutdown_on(shutdown);
    let context = Context { client, toolbox, options, domains: controller.store(), next: Mutex::default() };
    controller
        .run(reconcile, |_, error, _| after_failure(error), Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

fn after_failure(error: &Error) -> Action {
    tracing::debug!(%error, "a domain could not be looked after");
    Action::requeue(RETRY)
}

/// Applies the definition and waits until it is served.
async fn install(client: &Client) -> Result<(), Error> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &kube::api::ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions"),
    );
    let definition = domain_definition();
    let name = definition.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    definitions.patch(&name, &PatchParams::apply("bailiwick-domains").force(), &Patch::Apply(&definition)).await?;
    let established = async {
        loop {
            let found = definitions.get(&name).await?;
            let conditions = found.data.pointer("/status/conditions").and_then(|list| list.as_array().cloned());
            let is =
                |condition: &serde_json::Value| condition["type"] == "Established" && condition["status"] == "True";
            if conditions.unwrap_or_default().iter().any(is) {
                return Ok(());
            }
            tokio::time::sleep(ESTABLISH_POLL).await;
        }
    };
    // A server that takes longer serves it later; the watch waits.
    tokio::time::timeout(ESTABLISH_TIMEOUT, established).await.unwrap_or(Ok(()))
}

/// Looks after one domain.
async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    if object.metadata.deletion_timestamp.is_some() {
        context.forget(&object);
        return Ok(Action::await_change());
    }
    let unreadable = |source| Error::Object { name: object.name_any(), source };
    let spec: DomainSpec = serde_json::from_value(object.data["spec"].clone()).map_err(unreadable)?;
    // A status that somebody else wrote and that cannot be read is written anew.
    let before: DomainStatus = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
    let now = context.options.clock.now();
    let mut after = DomainStatus { observed_generation: object.metadata.generation, ..before.clone() };
    let subject = match Subject::parse(&spec.name) {
        Ok(subject) => subject,
        Err(error) => {
            after.set_condition("ValidDomain", "False", "InvalidName", error.to_string(), now);
            context.write(&object, &before, after, now, &[]).await?;
            return Ok(Action::await_change());
        }
    };
    after.set_condition(
        "ValidDomain",
        "True",
        "Valid",
        subject.lookalike.as_ref().map(ToString::to_string).unwrap_or_default(),
        now,
    );
    if context.over_quota(&object) {
        after.set_condition(
            "Healthy",
            "Unknown",
            "QuotaExceeded",
            "the namespace has too many domains".to_owned(),
            now,
        );
        context.write(&object, &before, after, now, &[]).await?;
        return Ok(Action::requeue(timing::HOUR));
    }
    let mut next = context.next_of(&object, &subject.registered, &before, now);
    let rescan = next.take_rescan(object.annotations().get(RESCAN_ANNOTATION), now);
    context.challenge(&mut after, &subject.name, rescan, now);
    let mut notices = Vec::new();
    if next.dns_due(now) {
        let (scan, asked) = context.scan(&subject, &after, next.registration_due(now)).await;
        next.looked(&scan, asked, &subject.registered);
        notices.extend(take_scan(&mut after, &scan));
    }
    if next.proof_due(now) {
        if let Some(verification) = &after.verification {
            let verdict = context.toolbox.verify(&verification.challenge).await;
            notices.extend(take_verdict(&mut after, &verdict));
        }
        notices.extend(claims::settle(&context, &object, &subject.name, &mut after, now).await?);
        next.proof_looked(after.verification.as_ref(), context.options.clock.now());
    }
    context.write(&object, &before, after, now, &notices).await?;
    let wait = next.wait(context.options.clock.now());
    context.remember(&object, next);
    Ok(Action::requeue(wait))
}

impl Context {
    fn forget(&self, object: &DynamicObject) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).remove(&object.uid().unwrap_or_default());
    }

    fn remember(&self, object: &DynamicObject, next: Next) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).insert(object.uid().unwrap_or_default(), next);
    }

    fn next_of(&self, object: &DynamicObject, domain: &DomainName, status: &DomainStatus, now: Timestamp) -> Next {
        let known =
            self.next.lock().unwrap_or_else(PoisonError::into_inner).get(&object.uid().unwrap_or_default()).cloned();
        known.unwrap_or_else(|| Next::first(domain, status, object.annotations().get(RESCAN_ANNOTATION), now))
    }

    /// Whether older objects of the namespace use its quota up.
    fn over_quota(&self, object: &DynamicObject) -> bool {
        let age = |object: &DynamicObject| (object.creation_timestamp().map(|time| time.0), object.name_any());
        let mine = age(object);
        let namespace = object.namespace();
        let older =
            self.domains.state().iter().filter(|other| other.namespace() == namespace && age(other) < mine).count();
        older >= self.options.domains_per_namespace_max
    }

    /// Sees to it that there is a token, and a new one where the old one counts no more.
    fn challenge(&self, status: &mut DomainStatus, name: &DomainName, rescan: bool, now: Timestamp) {
        let fresh = match &status.verification {
            None => Challenge::new(name, Scope::Domain, &self.options.brand, now, &mut system_random)
                .ok()
                .map(|challenge| Challenge { delegation_zone: self.options.delegation_zone.clone(), ..challenge }),
            Some(verification) => {
                let expired = verification.challenge.is_expired(now) && !verification.standing.holds() && rescan;
                let lapsed = matches!(&verification.standing, Standing::Lapsed { at, .. } if verification.challenge.issued_at < *at);
                (expired || lapsed).then(|| verification.challenge.clone().renewed(now, &mut system_random))
            }
        };
        if let Some(challenge) = fresh {
            let standing = status.verification.take().map(|verification| verification.standing);
            let mut verification = VerificationStatus::new(challenge);
            if let Some(standing) = standing {
                verification.standing = standing;
            }
            status.verification = Some(verification);
        }
    }

    /// Looks at the domain; registries are asked when it is their turn, or when DNS has changed.
    async fn scan(&self, subject: &Subject, status: &DomainStatus, registration_due: bool) -> (Scan, timing::Asked) {
        let known: Option<Registration> =
            status.observation.as_ref().and_then(|observation| observation.registration.clone());
        if let Some(known) = known.filter(|_| !registration_due) {
            let scan = self.toolbox.scan_dns(subject.clone(), known).await;
            let delegated = scan.dns.as_ref().map(|dns| &dns.delegated_to);
            let before = status.observation.as_ref().and_then(|observation| observation.delegated_to.as_ref());
            if delegated == before {
                return (scan, timing::Asked::DnsAlone);
            }
        }
        (self.toolbox.scan(subject.clone()).await, timing::Asked::Everybody)
    }

    /// Writes the status if it is worth it, and tells what is new.
    async fn write(
        &self,
        object: &DynamicObject,
        before: &DomainStatus,
        mut after: DomainStatus,
        now: Timestamp,
        notices: &[Notice],
    ) -> Result<(), Error> {
        if !worth_writing(before, &mut after, now) {
            return Ok(());
        }
        self.replace_status(object, &after).await?;
        tell(&self.client, object, notices).await;
        Ok(())
    }

    async fn replace_status(&self, object: &DynamicObject, status: &DomainStatus) -> Result<(), Error> {
        let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource());
        let mut written = object.clone();
        written.data["status"] = json!(status);
        api.replace_status(&object.name_any(), &PostParams::default(), &written).await?;
        Ok(())
    }
}
