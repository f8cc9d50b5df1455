//! CatalogSources: where the catalog comes from, whether it can be used, when to look for a newer one.
//!
//! A catalog that works stays until a newer one does: what cannot be pulled or read leaves the one before in place and is
//! told in the status.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_catalog::resolve::Snapshot;
use bailiwick_controllers::work_queue::Outcome;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::catalogs::{Catalog, CatalogKey};
use crate::context::{Context, Key, Role};
use crate::error::{Error, plain};
use crate::kinds::{CATALOG_SOURCE, CONFIG_MAP, SECRET};
use crate::object::{now, status, text};
use crate::pull::PulledCatalog;
use crate::{config_map_catalog, remote_catalog};

/// How often a catalog is read again when its interval cannot be understood, or when another server has it; upstream's
/// figure.
const DEFAULT_POLL: Duration = Duration::from_secs(15 * 60);
/// More often than this nobody is asked.
const POLL_MIN: Duration = Duration::from_secs(1);
/// How often the ConfigMaps of catalogs are looked at: they are few, and watching all ConfigMaps would cost more.
const CONFIG_MAP_POLL: Duration = Duration::from_secs(15);
/// The port OLM's catalog pods have.
const SERVICE_PORT: &str = "50051";

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    source_type: String,
    image: String,
    address: String,
    config_map: String,
    display_name: String,
    publisher: String,
    priority: i32,
    secrets: Vec<String>,
    update_strategy: Option<UpdateStrategy>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    registry_poll: Option<RegistryPoll>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct RegistryPoll {
    interval: String,
}

/// What was read for a catalog, and when.
#[derive(Clone)]
pub(crate) struct Read {
    /// What it was read from: another place makes it stale at once.
    place: String,
    pub digest: String,
    pub at: Instant,
}

/// What was read for all catalogs.
#[derive(Default)]
pub(crate) struct SourcesRead(Mutex<HashMap<CatalogKey, Read>>);

impl SourcesRead {
    /// What was last read from a place.
    pub fn known(&self, key: &CatalogKey, place: &str) -> Option<Read> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        known.filter(|known| known.place == place)
    }

    /// Gives the digest that was known before, if it is no catalog's any more.
    pub fn remember(&self, key: &CatalogKey, place: &str, digest: &str) -> Option<String> {
        let entry = Read { place: place.to_owned(), digest: digest.to_owned(), at: Instant::now() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(key.clone(), entry);
        unused(&all, before)
    }

    /// Gives the digest that was known, if it is no catalog's any more.
    pub fn forget(&self, key: &CatalogKey) -> Option<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(key);
        unused(&all, before)
    }
}

fn unused(all: &HashMap<CatalogKey, Read>, before: Option<Read>) -> Option<String> {
    before.map(|it| it.digest).filter(|digest| all.values().all(|it| it.digest != *digest))
}

/// Where a catalog is to be read from.
enum Place<'s> {
    Image(&'s str),
    Address(&'s str),
    ConfigMap(&'s str),
}

impl Spec {
    fn place(&self) -> Result<Place<'_>, String> {
        let kind = &self.source_type;
        match kind.as_str() {
            "grpc" if !self.address.is_empty() => Ok(Place::Address(&self.address)),
            "grpc" if !self.image.is_empty() => Ok(Place::Image(&self.image)),
            "grpc" => Err(format!("image and address unset: at least one must be set for sourcetype: {kind}")),
            "configmap" | "internal" if self.config_map.is_empty() => {
                Err(format!("configmap name unset: must be set for sourcetype: {kind}"))
            }
            "configmap" | "internal" => Ok(Place::ConfigMap(&self.config_map)),
            _ => Err(format!("unknown sourcetype: {kind}")),
        }
    }

    /// How often to look for another catalog, and what is wrong with how that was said.
    fn poll(&self) -> (Option<Duration>, Option<String>) {
        let poll = self.update_strategy.as_ref().and_then(|strategy| strategy.registry_poll.as_ref());
        let Some(poll) = poll else {
            return match self.place() {
                Ok(Place::Address(_)) => (Some(DEFAULT_POLL), None),
                Ok(Place::ConfigMap(_)) => (Some(CONFIG_MAP_POLL), None),
                _ => (None, None),
            };
        };
        match poll.interval.parse::<jiff::SignedDuration>().map(Duration::try_from) {
            Ok(Ok(interval)) => (Some(interval.max(POLL_MIN)), None),
            _ => {
                let message = format!(
                    "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s \
                     instead. Error: time: invalid duration {:?}",
                    poll.interval
                );
                (Some(DEFAULT_POLL), Some(message))
            }
        }
    }
}

/// A catalog is gone. What was read is forgotten with it: were the same catalog named again, it would count as known and not
/// be there.
pub(crate) fn let_go(context: &Context, read: &SourcesRead, key: &CatalogKey) {
    context.served.stop(key);
    if let Some(digest) = read.forget(key) {
        context.puller.forget_index(&digest);
    }
    if context.catalogs.remove(key) {
        context.catalogs_changed();
    }
}

/// Looks at a CatalogSource.
pub(crate) async fn reconcile(
    context: &Context,
    read: &SourcesRead,
    namespace: &str,
    name: &str,
) -> Result<Outcome, Error> {
    let key = CatalogKey::Source { namespace: namespace.to_owned(), name: name.to_owned() };
    let api = CATALOG_SOURCE.within(&context.client, namespace);
    let gone = || let_go(context, read, &key);
    let Some(mut object) = api.get_opt(name).await? else {
        gone();
        context.forget(&Key::CatalogSource { namespace: namespace.to_owned(), name: name.to_owned() });
        return Ok(Outcome::Done);
    };
    let spec: Spec =
        object.data.get("spec").and_then(|spec| serde_json::from_value(spec.clone()).ok()).unwrap_or_default();
    let place = match spec.place() {
        Ok(place) => place,
        Err(message) => {
            gone();
            let status = with_error(&object, "SpecInvalidError", &message);
            context.write_status(&api, &mut object, status).await?;
            return Ok(Outcome::Done);
        }
    };
    let place_text = match &place {
        Place::Image(image) => format!("image {image}"),
        Place::Address(address) => format!("address {address}"),
        Place::ConfigMap(map) => format!("configmap {map}"),
    };
    let (interval, poll_fault) = spec.poll();
    let known = read.known(&key, &place_text);
    let is_due = match (&known, &place) {
        (None, _) | (_, Place::ConfigMap(_)) => true,
        (Some(known), _) => interval.is_some_and(|interval| known.at.elapsed() >= interval),
    };
    if known.is_none() && context.catalogs.get(&key).is_none() {
        let mut status = status(&object).clone();
        connecting(&mut status);
        context.write_status(&api, &mut object, status).await?;
    }
    let secrets = pull_secrets(context, namespace, &spec.secrets).await?;
    let mut fault = None;
    let mut reference = None;
    if is_due {
        let digest = known.as_ref().map(|known| known.digest.clone());
        let fetched = match place {
            Place::Image(image) => context.puller.catalog(image, &secrets, digest).await,
            Place::Address(address) => match remote_catalog::read(address, context.puller.guard(address)).await {
                Ok(text) => context.puller.index_of_text(text).await.map(Some),
                Err(message) => Err(Error::Other(message)),
            },
            Place::ConfigMap(map) => match from_config_map(context, namespace, map, &object).await {
                Ok((pulled, found)) => {
                    reference = Some(found);
                    Ok(Some(pulled))
                }
                Err(error) => Err(error),
            },
        };
        let fetched = fetched.map(|fetched| fetched.filter(|it| digest_differs(&known, it)));
        match fetched {
            Ok(Some(PulledCatalog { index, digest })) => {
                let index = Arc::new(index);
                let snapshot = Snapshot::of_index(&index).map_err(|error| Error::Other(error.to_string()))?;
                if context.role == Role::Leader {
                    context.served.serve(&key, index.clone())?;
                }
                context.catalogs.put(catalog(&key, &spec, &object, index, Arc::new(snapshot), secrets.clone()));
                context.events.normal(&CATALOG_SOURCE, &object, "CatalogReady", &format!("serving {digest}")).await;
                if let Some(before) = read.remember(&key, &place_text, &digest) {
                    context.puller.forget_index(&before);
                }
                context.catalogs_changed();
            }
            Ok(None) => {
                if let Some(known) = &known {
                    read.remember(&key, &place_text, &known.digest);
                }
            }
            Err(error) => fault = Some(error.to_string()),
        }
    }
    // What does not need another pull, such as a priority, counts at once.
    if let Some(current) = context.catalogs.get(&key) {
        let wanted = catalog(&key, &spec, &object, current.index.clone(), current.snapshot.clone(), secrets);
        let same = wanted.priority == current.priority
            && wanted.display_name == current.display_name
            && wanted.publisher == current.publisher
            && wanted.labels == current.labels
            && wanted.pull_secrets == current.pull_secrets;
        if !same {
            context.catalogs.put(wanted);
            context.catalogs_changed();
        }
    }
    let polled = is_due && interval.is_some() && matches!(spec.place(), Ok(Place::Image(_)));
    let mut status = ready(context, &key, &object, polled);
    if let Some(reference) = reference {
        status["configMapReference"] = reference;
    }
    match (&fault, &poll_fault) {
        (Some(fault), _) => {
            if context.catalogs.get(&key).is_none() {
                status["connectionState"]["lastObservedState"] = "TRANSIENT_FAILURE".into();
            }
            status["reason"] = "RegistryServerError".into();
            status["message"] = fault.as_str().into();
            if text(&object.data, "/status/message") != fault {
                context.events.warning(&CATALOG_SOURCE, &object, "RegistryServerError", fault).await;
            }
        }
        (None, Some(message)) => {
            status["reason"] = "InvalidIntervalError".into();
            status["message"] = message.as_str().into();
        }
        (None, None) => {
            if let Some(fields) = status.as_object_mut() {
                fields.remove("reason");
                fields.remove("message");
            }
        }
    }
    context.write_status(&api, &mut object, status).await?;
    Ok(match (fault, interval) {
        (Some(_), _) => Outcome::Backoff,
        (None, Some(interval)) => Outcome::After(interval),
        (None, None) => Outcome::Done,
    })
}

fn digest_differs(known: &Option<Read>, fetched: &PulledCatalog) -> bool {
    known.as_ref().is_none_or(|known| known.digest != fetched.digest)
}

fn catalog(
    key: &CatalogKey,
    spec: &Spec,
    object: &DynamicObject,
    index: Arc<bailiwick_catalog::serve::Index>,
    snapshot: Arc<Snapshot>,
    pull_secrets: Vec<String>,
) -> Catalog {
    Catalog {
        key: key.clone(),
        display_name: spec.display_name.clone(),
        publisher: spec.publisher.clone(),
        priority: spec.priority,
        labels: object.labels().clone(),
        created: object.creation_timestamp().map(|time| time.0.to_string()).unwrap_or_default(),
        index,
        snapshot,
        pull_secrets,
    }
}

async fn from_config_map(
    context: &Context,
    namespace: &str,
    name: &str,
    object: &DynamicObject,
) -> Result<(PulledCatalog, Value), Error> {
    let api = CONFIG_MAP.within(&context.client, namespace);
    let map = api.get(name).await;
    let map =
        map.map_err(|error| Error::Other(format!("failed to get catalog config map {name}: {}", plain(&error))))?;
    let text =
        config_map_catalog::read(&map.data).map_err(|error| Error::Other(format!("ConfigMap {name}: {error}")))?;
    let known = &status(object)["configMapReference"];
    let version = map.resource_version().unwrap_or_default();
    let since = match known["resourceVersion"] == version.as_str() {
        true => known["lastUpdateTime"].clone(),
        false => now().into(),
    };
    let reference = json!({
        "name": name, "namespace": namespace, "uid": map.uid().unwrap_or_default(),
        "resourceVersion": version, "lastUpdateTime": since,
    });
    Ok((context.puller.index_of_text(text).await?, reference))
}

/// The Docker configurations in Secrets of the namespace; those that are not there are passed over, as kubelets do.
pub(crate) async fn pull_secrets(context: &Context, namespace: &str, names: &[String]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let api = SECRET.within(&context.client, namespace);
    for name in names {
        let Some(secret) = api.get_opt(name).await? else { continue };
        for key in [".dockerconfigjson", ".dockercfg"] {
            let data = secret.data.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
            let decoded = data.and_then(crate::target::decode_base64);
            found.extend(decoded.and_then(|bytes| String::from_utf8(bytes).ok()));
        }
    }
    Ok(found)
}

fn connecting(status: &mut Value) {
    if !status.is_object() {
        *status = json!({});
    }
    if status["connectionState"]["lastObservedState"].is_null() {
        status["connectionState"] = json!({"lastObservedState": "CONNECTING"});
    }
}

fn with_error(object: &DynamicObject, reason: &str, message: &str) -> Value {
    let mut status = status(object).clone();
    if !status.is_object() {
        status = json!({});
    }
    status["reason"] = reason.into();
    status["message"] = message.into();
    status
}

/// The status of a source as far as its catalog is there.
fn ready(context: &Context, key: &CatalogKey, object: &DynamicObject, polled: bool) -> Value {
    let mut status = status(object).clone();
    connecting(&mut status);
    if context.catalogs.get(key).is_none() {
        return status;
    }
    let address = match text(&object.data, "/spec/address") {
        "" => context.served.address(key).map(|address| address.to_string()).unwrap_or_default(),
        remote => remote.to_owned(),
    };
    let state = &status["connectionState"];
    if state["lastObservedState"] != "READY" || state["address"] != address.as_str() {
        status["connectionState"] = json!({"address": address, "lastObservedState": "READY", "lastConnect": now()});
    }
    if text(&object.data, "/spec/address").is_empty() && status["registryService"].is_null() {
        status["registryService"] = json!({
            "protocol": "grpc", "serviceName": object.name_any(), "port": SERVICE_PORT,
            "serviceNamespace": object.namespace().unwrap_or_default(), "createdAt": now(),
        });
    }
    if polled {
        status["latestImageRegistryPoll"] = now().into();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_catalog_has_any_more_is_told() {
        let read = SourcesRead::default();
        let key = |name: &str| CatalogKey::Cluster { name: name.to_owned() };
        assert_eq!(read.remember(&key("a"), "image a", "one"), None);
        assert_eq!(read.remember(&key("b"), "image b", "one"), None);
        assert_eq!(read.remember(&key("a"), "image a", "two"), None, "the other has it still");
        assert_eq!(read.remember(&key("a"), "image a", "two"), None);
        assert_eq!(read.forget(&key("b")), Some("one".to_owned()));
        assert_eq!(read.remember(&key("a"), "image c", "three"), Some("two".to_owned()));
    }

    fn spec(value: Value) -> Spec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_missing_is_said_in_olms_words() {
        let refused = |value: Value| spec(value).place().err().unwrap();
        assert_eq!(
            refused(json!({"sourceType": "grpc"})),
            "image and address unset: at least one must be set for sourcetype: grpc"
        );
        assert_eq!(
            refused(json!({"sourceType": "configmap"})),
            "configmap name unset: must be set for sourcetype: configmap"
        );
        assert_eq!(refused(json!({"sourceType": "nope"})), "unknown sourcetype: nope");
    }

    #[test]
    fn intervals_are_gos_durations() {
        let poll = |interval: &str| {
            spec(
                json!({"sourceType": "grpc", "image": "a", "updateStrategy": {"registryPoll": {"interval": interval}}}),
            )
            .poll()
        };
        assert_eq!(poll("45m"), (Some(Duration::from_secs(45 * 60)), None));
        assert_eq!(poll("1h30m"), (Some(Duration::from_secs(90 * 60)), None));
        let (interval, fault) = poll("soon");
        assert_eq!(interval, Some(DEFAULT_POLL));
        assert!(fault.unwrap().starts_with("error parsing spec.updateStrategy.registryPoll.interval. Using"));
        assert_eq!(spec(json!({"sourceType": "grpc", "image": "a"})).poll(), (None, None));
    }
}
