//! Copies of ClusterServiceVersions in the namespaces that their operators watch, as OLM makes them, so that whoever
//! works there sees which operators there are. For operators that watch all namespaces there are none: with many
//! namespaces they would be most of what is stored, which is why OLM lets users turn them off.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::context::Context;
use crate::crds::dynamic;
use crate::error::{Error, is_not_found};
use crate::kinds::CSV;
use crate::object::{is_deleting, now, status, write_status};
use crate::operator_group::Group;
use crate::permissions::Watched;

/// On a copy: the namespace of the original.
pub(crate) const COPIED_FROM: &str = "olm.copiedFrom";

pub(crate) fn is_copied(csv: &DynamicObject) -> bool {
    csv.labels().contains_key(COPIED_FROM)
}

/// Looks at the copies of a namespace's versions, and at the copies in the namespace.
pub(crate) async fn reconcile(context: &Context, namespace: &str, group: &Group) -> Result<(), Error> {
    let all = CSV.within(&context.client, namespace).list(&ListParams::default()).await?.items;
    let (copies, mut originals): (Vec<_>, Vec<_>) = all.into_iter().partition(is_copied);
    for copy in &copies {
        let from = copy.labels().get(COPIED_FROM).map(String::as_str).unwrap_or_default();
        let original = CSV.within(&context.client, from).get_opt(&copy.name_any()).await?;
        if original.is_none_or(|original| is_deleting(&original)) {
            remove(context, namespace, &copy.name_any()).await?;
        }
    }
    originals.retain(|csv| !is_deleting(csv));
    let places: Vec<&str> = match group {
        Group::One(_, Some(Watched::Namespaces(names))) => {
            names.iter().map(String::as_str).filter(|name| *name != namespace).collect()
        }
        _ => Vec::new(),
    };
    if originals.is_empty() && copies.is_empty() && places.is_empty() {
        return Ok(());
    }
    let selector = ListParams::default().labels(&format!("{COPIED_FROM}={namespace}"));
    let present = CSV.all(&context.client).list(&selector).await?.items;
    for copy in &present {
        let place = copy.namespace().unwrap_or_default();
        let has_original = originals.iter().any(|csv| csv.name_any() == copy.name_any());
        if !has_original || !places.contains(&place.as_str()) {
            remove(context, &place, &copy.name_any()).await?;
        }
    }
    for csv in &originals {
        for place in &places {
            let known = present
                .iter()
                .find(|copy| copy.name_any() == csv.name_any() && copy.namespace().as_deref() == Some(*place));
            match copy_to(context, csv, namespace, place, known).await {
                // The namespace is not there, is on its way out, or has a version of its own by this name.
                Err(Error::Request(kube::Error::Api(refusal))) if matches!(refusal.code, 403 | 404 | 409) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

async fn copy_to(
    context: &Context,
    csv: &DynamicObject,
    namespace: &str,
    place: &str,
    known: Option<&DynamicObject>,
) -> Result<(), Error> {
    let api = CSV.within(&context.client, place);
    let wanted = copy_of(csv, namespace, place)?;
    let mut present = match known {
        None => api.create(&PostParams::default(), &wanted).await?,
        Some(known) if is_same(known, &wanted) => known.clone(),
        Some(known) => {
            let mut wanted = wanted;
            wanted.metadata.resource_version = known.resource_version();
            api.replace(&known.name_any(), &PostParams::default(), &wanted).await?
        }
    };
    let mut state = status(csv).clone();
    if !state.is_object() {
        return Ok(());
    }
    let message = format!("The operator is running in {namespace} but is managing this namespace");
    state["reason"] = "Copied".into();
    state["message"] = message.into();
    for field in ["conditions", "requirementStatus"] {
        state.as_object_mut().map(|fields| fields.remove(field));
    }
    // The time is that of the copy's last change.
    let before = status(&present);
    let times = ["lastUpdateTime", "lastTransitionTime"];
    for time in times {
        state[time] = before[time].clone();
    }
    if before != &state {
        times.iter().for_each(|time| state[*time] = now().into());
    }
    write_status(&api, &mut present, state).await
}

fn is_same(known: &DynamicObject, wanted: &DynamicObject) -> bool {
    known.data["spec"] == wanted.data["spec"]
        && known.labels() == wanted.labels()
        && known.annotations() == wanted.annotations()
}

fn copy_of(csv: &DynamicObject, namespace: &str, place: &str) -> Result<DynamicObject, Error> {
    /// What is of the original alone.
    const OWN: [&str; 2] = ["olm.targetNamespaces", "kubectl.kubernetes.io/last-applied-configuration"];
    let mut annotations = csv.annotations().clone();
    annotations.retain(|key, _| !OWN.contains(&key.as_str()));
    let mut labels = csv.labels().clone();
    labels.insert(COPIED_FROM.to_owned(), namespace.to_owned());
    let spec: &Value = &csv.data["spec"];
    dynamic(json!({
        "apiVersion": CSV.api_version(), "kind": CSV.kind,
        "metadata": {"name": csv.name_any(), "namespace": place, "labels": labels, "annotations": annotations},
        "spec": spec,
    }))
}

async fn remove(context: &Context, place: &str, name: &str) -> Result<(), Error> {
    match CSV.within(&context.client, place).delete(name, &Default::default()).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::text;

    #[test]
    fn a_copy_says_where_it_comes_from_and_not_whom_it_serves() {
        let csv = dynamic(json!({
            "apiVersion": CSV.api_version(), "kind": CSV.kind,
            "metadata": {"name": "a.v1", "namespace": "home", "finalizers": ["x"],
                "annotations": {"olm.targetNamespaces": "home,away", "olm.operatorNamespace": "home"}},
            "spec": {"version": "1.0.0"},
        }))
        .unwrap();
        let copy = copy_of(&csv, "home", "away").unwrap();
        assert!(is_copied(&copy) && !is_copied(&csv));
        assert_eq!(text(&copy.data, "/spec/version"), "1.0.0");
        assert!(copy.finalizers().is_empty());
        assert_eq!(copy.annotations().keys().collect::<Vec<_>>(), ["olm.operatorNamespace"]);
    }
}
