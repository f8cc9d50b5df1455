//! The webhooks of a ClusterServiceVersion, for admission and for conversion: registered where their server can be found.
//! A webhook that nobody answers would make the operator's own kinds unusable.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, is_not_found};
use crate::kinds::CRD;
use crate::object::{annotation, list, text};
use crate::operator_service::{OperatorService, OperatorServices, service_of};
use crate::target::Target;

const CONVERSION: &str = "ConversionWebhook";

/// What is made for the admission webhooks of a version. The error is for its author.
pub(crate) async fn objects(services: &mut OperatorServices<'_>) -> Result<Result<Vec<Value>, String>, Error> {
    let csv = services.csv();
    let hooks = list(&csv.data, "/spec/webhookdefinitions");
    let names: BTreeSet<&str> = hooks.iter().map(|hook| text(hook, "/generateName")).collect();
    if names.len() != hooks.len() {
        return Ok(Err("CSV contains repeated WebhookDescription name".to_owned()));
    }
    let mut out = Vec::new();
    for hook in hooks.iter().filter(|hook| text(hook, "/type") != CONVERSION) {
        let Some(service) = services.of(hook).await? else { continue };
        out.extend(configuration(csv, hook, &service));
    }
    Ok(Ok(out))
}

/// A definition whose versions the operator converts into each other, and how it says so.
pub(crate) struct Conversion {
    definition: String,
    conversion: Value,
}

/// What the conversion webhooks of a version are for.
pub(crate) async fn conversions(services: &mut OperatorServices<'_>) -> Result<Vec<Conversion>, Error> {
    let csv = services.csv();
    let mut out = Vec::new();
    for hook in list(&csv.data, "/spec/webhookdefinitions").iter().filter(|hook| text(hook, "/type") == CONVERSION) {
        let Some(service) = services.of(hook).await? else { continue };
        for definition in list(hook, "/conversionCRDs").iter().filter_map(Value::as_str) {
            let conversion = json!({"strategy": "Webhook", "webhook": {
                "clientConfig": service.client_config(hook), "conversionReviewVersions": hook["admissionReviewVersions"],
            }});
            out.push(Conversion { definition: definition.to_owned(), conversion });
        }
    }
    Ok(out)
}

/// Has definitions converted by their operator. Only that part of them is written: the rest is the InstallPlan's.
pub(crate) async fn convert(target: &Target, conversions: &[Conversion]) -> Result<(), Error> {
    for Conversion { definition, conversion } in conversions {
        let patch = json!({"spec": {"conversion": conversion}});
        patch_definition(target, definition, &patch).await?;
    }
    Ok(())
}

/// The operator is gone for good: its definitions stay, and nobody is asked about their versions any more.
pub(crate) async fn convert_no_more(target: &Target, csv: &DynamicObject) -> Result<(), Error> {
    let hooks = list(&csv.data, "/spec/webhookdefinitions").iter().filter(|hook| text(hook, "/type") == CONVERSION);
    for definition in hooks.flat_map(|hook| list(hook, "/conversionCRDs")).filter_map(Value::as_str) {
        let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        patch_definition(target, definition, &patch).await?;
    }
    Ok(())
}

async fn patch_definition(target: &Target, name: &str, patch: &Value) -> Result<(), Error> {
    match CRD.all(&target.client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn configuration(csv: &DynamicObject, hook: &Value, service: &OperatorService) -> Option<Value> {
    let (kind, list_name) = match text(hook, "/type") {
        "ValidatingAdmissionWebhook" => ("ValidatingWebhookConfiguration", "webhooks"),
        "MutatingAdmissionWebhook" => ("MutatingWebhookConfiguration", "webhooks"),
        _ => return None,
    };
    let mut webhook = json!({"name": hook["generateName"], "clientConfig": service.client_config(hook)});
    for key in [
        "rules",
        "failurePolicy",
        "matchPolicy",
        "objectSelector",
        "sideEffects",
        "timeoutSeconds",
        "admissionReviewVersions",
        "reinvocationPolicy",
    ] {
        let is_for_mutating = key == "reinvocationPolicy" && kind != "MutatingWebhookConfiguration";
        if !hook[key].is_null() && !is_for_mutating {
            webhook[key] = hook[key].clone();
        }
    }
    let watched = annotation(csv, "olm.targetNamespaces").unwrap_or_default();
    if !watched.is_empty() {
        let names: Vec<&str> = watched.split(',').collect();
        webhook["namespaceSelector"] =
            json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]});
    }
    let digest = Sha256::digest(format!("{}/{}", service.namespace, csv.name_any()).as_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Some(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("{}-{hash}", text(hook, "/generateName"))}, list_name: [webhook],
    }))
}

/// Gives a deployment the certificate of its webhooks and APIs, where OLM's operators look for it.
pub(crate) fn mount(deployment: &mut Value, csv: &Value) {
    let name = text(deployment, "/metadata/name").to_owned();
    let hooks = list(csv, "/spec/webhookdefinitions").iter();
    let mut served = hooks.chain(list(csv, "/spec/apiservicedefinitions/owned"));
    let Some(described) = served.find(|it| text(it, "/deploymentName") == name) else { return };
    let secret = format!("{}-cert", service_of(described));
    let volume = |volume: &str, certificate: &str, key: &str| {
        json!({"name": volume, "secret": {"secretName": secret, "items": [
            {"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]}})
    };
    let volumes =
        [volume("apiservice-cert", "apiserver.crt", "apiserver.key"), volume("webhook-cert", "tls.crt", "tls.key")];
    let mounts = [
        json!({"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"}),
        json!({"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}),
    ];
    let pod = &mut deployment["spec"]["template"]["spec"];
    add(&mut pod["volumes"], &volumes, "name");
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        add(&mut container["volumeMounts"], &mounts, "mountPath");
    }
}

/// Adds items; those with the same key give way.
fn add(into: &mut Value, items: &[Value], key: &str) {
    if !into.is_array() {
        *into = json!([]);
    }
    let Some(known) = into.as_array_mut() else { return };
    known.retain(|it| !items.iter().any(|item| item[key] == it[key]));
    known.extend(items.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_get_the_certificates_of_their_webhooks() {
        let csv = json!({"spec": {"webhookdefinitions": [{"deploymentName": "a.b", "generateName": "v"}]}});
        let mut deployment = json!({"metadata": {"name": "a.b"}, "spec": {"template": {"spec": {
            "volumes": [{"name": "webhook-cert", "emptyDir": {}}], "containers": [{"name": "c"}]}}}});
        mount(&mut deployment, &csv);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"].as_array().unwrap().len(), 2);
        assert_eq!(pod["volumes"][1]["secret"]["secretName"], "a-b-service-cert");
        assert_eq!(pod["containers"][0]["volumeMounts"].as_array().unwrap().len(), 2);
        let untouched = json!({"metadata": {"name": "other"}});
        let mut other = untouched.clone();
        mount(&mut other, &csv);
        assert_eq!(other, untouched);
    }
}
