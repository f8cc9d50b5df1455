//! ClusterCatalogs, OLM v1's catalogs: an image, unpacked and served by HTTP.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_catalog::resolve::Snapshot;
use bailiwick_controllers::work_queue::Outcome;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::catalog_source::{self, SourcesRead};
use crate::catalogs::{Catalog, CatalogKey};
use crate::context::{Context, Key};
use crate::error::Error;
use crate::kinds::CLUSTER_CATALOG;
use crate::object::{Condition, list, now, set_condition, status, text};
use crate::pull::PulledCatalog;

/// The label by which catalogs can be chosen by name.
pub(crate) const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

/// Looks at a ClusterCatalog.
pub(crate) async fn reconcile(context: &Context, read: &SourcesRead, name: &str) -> Result<Outcome, Error> {
    let key = CatalogKey::Cluster { name: name.to_owned() };
    let api = CLUSTER_CATALOG.all(&context.client);
    let gone = || catalog_source::let_go(context, read, &key);
    let Some(mut object) = api.get_opt(name).await? else {
        gone();
        context.forget(&Key::ClusterCatalog(name.to_owned()));
        return Ok(Outcome::Done);
    };
    let generation = object.metadata.generation;
    let mut wanted = status(&object).clone();
    if !wanted.is_object() {
        wanted = json!({});
    }
    let mut conditions = list(&wanted, "/conditions").to_vec();
    let mut set = |kind, status, reason, message: String| {
        set_condition(&mut conditions, &Condition::new(kind, status, reason, message), generation);
    };
    if text(&object.data, "/spec/availabilityMode") == "Unavailable" {
        gone();
        let message = "Catalog availability mode is set to Unavailable".to_owned();
        set("Serving", "False", "UserSpecifiedUnavailable", message.clone());
        set("Progressing", "False", "UserSpecifiedUnavailable", message);
        wanted = json!({"conditions": conditions});
        context.write_status(&api, &mut object, wanted).await?;
        return Ok(Outcome::Done);
    }
    let image = text(&object.data, "/spec/source/image/ref").to_owned();
    let place = format!("image {image}");
    let minutes = object.data.pointer("/spec/source/image/pollIntervalMinutes").and_then(Value::as_u64);
    let interval = minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let known = read.known(&key, &place);
    let is_due = match &known {
        None => true,
        Some(known) => interval.is_some_and(|interval| known.at.elapsed() >= interval),
    };
    let mut labels = object.labels().clone();
    labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    let offered = |index, snapshot| Catalog {
        key: key.clone(),
        display_name: name.to_owned(),
        publisher: String::new(),
        priority: priority(&object.data),
        labels: labels.clone(),
        created: String::new(),
        index,
        snapshot,
        pull_secrets: Vec::new(),
    };
    let mut fault = None;
    if is_due {
        match context.puller.catalog(&image, &[], known.as_ref().map(|known| known.digest.clone())).await {
            Ok(Some(PulledCatalog { index, digest })) => {
                let index = Arc::new(index);
                let snapshot = Snapshot::of_index(&index).map_err(|error| Error::Other(error.to_string()))?;
                let address = context.served.serve(&key, index.clone())?;
                context.catalogs.put(offered(index, Arc::new(snapshot)));
                if let Some(before) = read.remember(&key, &place, &digest) {
                    context.puller.forget_index(&before);
                }
                wanted["lastUnpacked"] = now().into();
                let repository = image.split('@').next().unwrap_or(&image);
                wanted["resolvedSource"] = json!({"type": "Image", "image": {"ref": format!("{repository}@{digest}")}});
                wanted["urls"] = json!({"base": format!("http://{address}/catalogs/{name}")});
                context.catalogs_changed();
            }
            Ok(None) => {
                if let Some(known) = &known {
                    read.remember(&key, &place, &known.digest);
                }
            }
            Err(error) => fault = Some(error.to_string()),
        }
    }
    if let Some(current) = context.catalogs.get(&key)
        && (current.priority != priority(&object.data) || current.labels != labels)
    {
        context.catalogs.put(offered(current.index.clone(), current.snapshot.clone()));
        context.catalogs_changed();
    }
    match &fault {
        Some(message) => set("Progressing", "True", "Retrying", format!("source catalog content: {message}")),
        None => {
            let message = "Successfully unpacked and stored content from resolved source".to_owned();
            set("Progressing", "True", "Succeeded", message);
        }
    }
    match context.catalogs.get(&key) {
        Some(_) => set("Serving", "True", "Available", "Serving desired content from resolved source".to_owned()),
        None => set("Serving", "False", "Unavailable", "Content is not available".to_owned()),
    }
    wanted["conditions"] = conditions.into();
    context.write_status(&api, &mut object, wanted).await?;
    Ok(match (fault, interval) {
        (Some(_), _) => Outcome::Backoff,
        (None, Some(interval)) => Outcome::After(interval),
        (None, None) => Outcome::Done,
    })
}

fn priority(data: &Value) -> i32 {
    data.pointer("/spec/priority").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok()).unwrap_or_default()
}
