//! The webhooks of a ClusterServiceVersion: registered where their server can be found, which is where there are Services,
//! or where the service is mapped in the namespace's ConfigMap of endpoints. A webhook that nobody answers would make the
//! operator's own kinds unusable.

use std::collections::BTreeSet;

use bailiwick_webhook::services::ENDPOINTS_CONFIG_MAP;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use kube::api::DynamicObject;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::object::{annotation, list, text};
use crate::target::Target;

/// The port of a webhook that names none, as upstream.
const DEFAULT_PORT: u64 = 443;
/// Under this key OLM keeps the authority beside a service's certificate.
const CA_KEY: &str = "olmCAKey";
/// How long certificates last: there is nobody to rotate them but the next installation.
const CERTIFICATE_DAYS: i64 = 730;

/// What is made for the webhooks of a version. The inner error is for its author.
pub(crate) async fn objects(
    target: &Target,
    csv: &DynamicObject,
    namespace: &str,
) -> Result<Result<Vec<Value>, String>, Error> {
    let hooks = list(&csv.data, "/spec/webhookdefinitions");
    let names: BTreeSet<&str> = hooks.iter().map(|hook| text(hook, "/generateName")).collect();
    if names.len() != hooks.len() {
        return Ok(Err("CSV contains repeated WebhookDescription name".to_owned()));
    }
    let has_services = target.serves("", "v1", "Service").await?;
    let mapped = match has_services {
        true => None,
        false => CONFIG_MAP.within(&target.client, namespace).get_opt(ENDPOINTS_CONFIG_MAP).await?,
    };
    let is_reachable = |service: &str| {
        let entries = mapped.as_ref().and_then(|map| map.data.get("data")?.as_object());
        let names_it = |key: &String| key == service || key.starts_with(&format!("{service}."));
        has_services || entries.is_some_and(|entries| entries.keys().any(names_it))
    };
    let mut out = Vec::new();
    let mut certified: Vec<(String, String)> = Vec::new();
    for hook in hooks {
        let service = service_of(hook);
        if !is_reachable(&service) || text(hook, "/type") == "ConversionWebhook" {
            continue;
        }
        let known = certified.iter().find(|(name, _)| *name == service).map(|(_, ca)| ca.clone());
        let ca = match known {
            Some(ca) => ca,
            None => {
                let (ca, secret) = certificate(target, &service, namespace).await?;
                out.extend(secret);
                if has_services {
                    out.push(service_object(csv, hook, &service, namespace));
                }
                certified.push((service.clone(), ca.clone()));
                ca
            }
        };
        out.extend(configuration(csv, hook, &service, namespace, &ca));
    }
    Ok(Ok(out))
}

/// What is to be known about webhooks where there are no Services.
pub(crate) fn note(hooks: &[Value]) -> String {
    let names: Vec<&str> = hooks.iter().map(|hook| text(hook, "/generateName")).collect();
    format!(
        ". Its webhooks ({}) are registered when their services are mapped in the ConfigMap {ENDPOINTS_CONFIG_MAP}",
        names.join(", ")
    )
}

fn service_of(hook: &Value) -> String {
    format!("{}-service", text(hook, "/deploymentName").replace('.', "-"))
}

fn port_of(hook: &Value) -> u64 {
    hook["containerPort"].as_u64().filter(|port| *port > 0).unwrap_or(DEFAULT_PORT)
}

fn configuration(csv: &DynamicObject, hook: &Value, service: &str, namespace: &str, ca: &str) -> Option<Value> {
    let (kind, list_name) = match text(hook, "/type") {
        "ValidatingAdmissionWebhook" => ("ValidatingWebhookConfiguration", "webhooks"),
        "MutatingAdmissionWebhook" => ("MutatingWebhookConfiguration", "webhooks"),
        _ => return None,
    };
    let mut webhook = json!({
        "name": hook["generateName"],
        "clientConfig": {
            "service": {"name": service, "namespace": namespace, "port": port_of(hook)}, "caBundle": STANDARD.encode(ca),
        },
    });
    if let Some(path) = hook["webhookPath"].as_str() {
        webhook["clientConfig"]["service"]["path"] = path.into();
    }
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
    let digest = Sha256::digest(format!("{namespace}/{}", csv.name_any()).as_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Some(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("{}-{hash}", text(hook, "/generateName"))}, list_name: [webhook],
    }))
}

fn service_object(csv: &DynamicObject, hook: &Value, service: &str, namespace: &str) -> Value {
    let deployment = text(hook, "/deploymentName");
    let deployments = list(&csv.data, "/spec/install/spec/deployments").iter();
    let described = deployments.into_iter().find(|described| text(described, "/name") == deployment);
    let selector = described.and_then(|it| it.pointer("/spec/selector/matchLabels")).cloned().unwrap_or_default();
    let target = match &hook["targetPort"] {
        Value::Null => port_of(hook).into(),
        port => port.clone(),
    };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace},
        "spec": {
            "selector": selector,
            "ports": [{"name": port_of(hook).to_string(), "port": port_of(hook), "targetPort": target}],
        },
    })
}

/// The authority of a service's certificate, and the Secret that holds both unless it is there.
async fn certificate(target: &Target, service: &str, namespace: &str) -> Result<(String, Option<Value>), Error> {
    let name = format!("{service}-cert");
    if let Some(secret) = SECRET.within(&target.client, namespace).get_opt(&name).await? {
        let ca = crate::target::decode_base64(text(&secret.data, &format!("/data/{CA_KEY}")));
        if let Some(ca) = ca.and_then(|ca| String::from_utf8(ca).ok()).filter(|ca| !ca.is_empty()) {
            return Ok((ca, None));
        }
    }
    let other = |error: rcgen::Error| Error::Other(format!("a certificate for {service}: {error}"));
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * CERTIFICATE_DAYS);
    let date = until.to_zoned(jiff::tz::TimeZone::UTC).date();
    let lasting = |mut params: CertificateParams| {
        let (month, day) = (u8::try_from(date.month()).unwrap_or(1), u8::try_from(date.day()).unwrap_or(1));
        params.not_after = rcgen::date_time_ymd(i32::from(date.year()), month, day.min(28));
        params
    };
    let mut params = lasting(CertificateParams::new(Vec::new()).map_err(other)?);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("{service}-ca"));
    let ca_key = KeyPair::generate().map_err(other)?;
    let ca = params.self_signed(&ca_key).map_err(other)?.pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().map_err(other)?;
    let hosts = vec![format!("{service}.{namespace}"), format!("{service}.{namespace}.svc")];
    let leaf = lasting(CertificateParams::new(hosts).map_err(other)?).signed_by(&key, &issuer).map_err(other)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace},
        "data": {
            "tls.crt": STANDARD.encode(leaf.pem()), "tls.key": STANDARD.encode(key.serialize_pem()),
            CA_KEY: STANDARD.encode(&ca),
        },
    });
    Ok((ca, Some(secret)))
}

/// Gives a deployment the certificate of its webhooks, where OLM's operators look for it.
pub(crate) fn mount(deployment: &mut Value, csv: &Value) {
    let name = text(deployment, "/metadata/name").to_owned();
    let hooks = list(csv, "/spec/webhookdefinitions");
    let Some(hook) = hooks.iter().find(|hook| text(hook, "/deploymentName") == name) else { return };
    let secret = format!("{}-cert", service_of(hook));
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
