//! The services that the deployments of a ClusterServiceVersion answer at, for its webhooks and APIs: each with a
//! certificate by an authority of its own. They can be found where there are Services, or where they are mapped in the
//! namespace's ConfigMap of endpoints; what cannot be found is not registered.

use bailiwick_webhook::services::ENDPOINTS_CONFIG_MAP;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use kube::api::DynamicObject;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::error::Error;
use crate::kinds::{CONFIG_MAP, SECRET};
use crate::object::{list, text};
use crate::target::Target;

/// The port of a webhook or an API that names none, as upstream.
const DEFAULT_PORT: u64 = 443;
/// Under this key OLM keeps the authority beside a service's certificate.
const CA_KEY: &str = "olmCAKey";
/// How long certificates last: there is nobody to rotate them but the next installation.
const CERTIFICATE_DAYS: i64 = 730;

/// A service that can be found.
#[derive(Clone)]
pub(crate) struct OperatorService {
    pub name: String,
    pub namespace: String,
    /// PEM.
    ca: String,
}

impl OperatorService {
    /// As webhooks name it.
    pub fn client_config(&self, described: &Value) -> Value {
        let mut service = self.reference(described);
        if let Some(path) = described["webhookPath"].as_str() {
            service["path"] = path.into();
        }
        json!({"service": service, "caBundle": self.ca_bundle()})
    }

    /// Its name, namespace and port.
    pub fn reference(&self, described: &Value) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "port": port_of(described)})
    }

    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca)
    }
}

/// The services of a version, made as they are asked for.
pub(crate) struct OperatorServices<'s> {
    pub target: &'s Target,
    csv: &'s DynamicObject,
    namespace: &'s str,
    /// The label, with its value, of what the operator has made.
    owner: (&'static str, String),
    has_services: bool,
    /// Where services are that the control plane has no Services for.
    mapped: Option<DynamicObject>,
    known: Vec<OperatorService>,
    made: Vec<Value>,
}

impl<'s> OperatorServices<'s> {
    pub async fn new(
        target: &'s Target,
        csv: &'s DynamicObject,
        namespace: &'s str,
        owner: (&'static str, String),
    ) -> Result<Self, Error> {
        let has_services = target.serves("", "v1", "Service").await?;
        let mapped = match has_services {
            true => None,
            false => CONFIG_MAP.within(&target.own, namespace).get_opt(ENDPOINTS_CONFIG_MAP).await?,
        };
        Ok(Self { target, csv, namespace, owner, has_services, mapped, known: Vec::new(), made: Vec::new() })
    }

    pub fn csv(&self) -> &'s DynamicObject {
        self.csv
    }

    /// Whether the operator has made an object.
    pub fn made(&self, object: &DynamicObject) -> bool {
        object.labels().get(self.owner.0) == Some(&self.owner.1)
    }

    /// The service that answers what a webhook or an API describes; `None` if it cannot be found.
    pub async fn of(&mut self, described: &Value) -> Result<Option<OperatorService>, Error> {
        let name = service_of(described);
        if let Some(known) = self.known.iter().find(|known| known.name == name) {
            return Ok(Some(known.clone()));
        }
        if !self.is_reachable(&name) {
            return Ok(None);
        }
        let (ca, secret) = certificate(self.target, &name, self.namespace).await?;
        self.made.push(secret);
        if self.has_services {
            self.made.push(service_object(self.csv, described, &name, self.namespace));
        }
        let service = OperatorService { name, namespace: self.namespace.to_owned(), ca };
        self.known.push(service.clone());
        Ok(Some(service))
    }

    /// Secrets and Services that are to be made for what was asked for.
    pub fn into_objects(self) -> Vec<Value> {
        self.made
    }

    fn is_reachable(&self, service: &str) -> bool {
        let entries = self.mapped.as_ref().and_then(|map| map.data.get("data")?.as_object());
        let names_it = |key: &String| key == service || key.starts_with(&format!("{service}."));
        self.has_services || entries.is_some_and(|entries| entries.keys().any(names_it))
    }
}

/// What is to be known about webhooks and APIs where there are no Services.
pub(crate) fn note(csv: &DynamicObject) -> String {
    let hooks = list(&csv.data, "/spec/webhookdefinitions").iter().map(|hook| text(hook, "/generateName").to_owned());
    let apis = list(&csv.data, "/spec/apiservicedefinitions/owned").iter();
    let apis = apis.map(|api| format!("{}.{}", text(api, "/version"), text(api, "/group")));
    let (hooks, apis): (Vec<String>, Vec<String>) = (hooks.collect(), apis.collect());
    let mut out = String::new();
    for (what, names) in [("webhooks", hooks), ("APIs", apis)] {
        if !names.is_empty() {
            out.push_str(&format!(
                ". Its {what} ({}) are registered when their services are mapped in the ConfigMap {ENDPOINTS_CONFIG_MAP}",
                names.join(", ")
            ));
        }
    }
    out
}

/// The service of the deployment that answers.
pub(crate) fn service_of(described: &Value) -> String {
    format!("{}-service", text(described, "/deploymentName").replace('.', "-"))
}

fn port_of(described: &Value) -> u64 {
    described["containerPort"].as_u64().filter(|port| *port > 0).unwrap_or(DEFAULT_PORT)
}

fn service_object(csv: &DynamicObject, described: &Value, service: &str, namespace: &str) -> Value {
    let deployment = text(described, "/deploymentName");
    let deployments = list(&csv.data, "/spec/install/spec/deployments").iter();
    let named = deployments.into_iter().find(|it| text(it, "/name") == deployment);
    let selector = named.and_then(|it| it.pointer("/spec/selector/matchLabels")).cloned().unwrap_or_default();
    let target = match &described["targetPort"] {
        Value::Null => port_of(described).into(),
        port => port.clone(),
    };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace},
        "spec": {
            "selector": selector,
            "ports": [{"name": port_of(described).to_string(), "port": port_of(described), "targetPort": target}],
        },
    })
}

/// The authority of a service's certificate, and the Secret that holds both. One that is there stays as it is, but passes
/// to the version that asks.
async fn certificate(target: &Target, service: &str, namespace: &str) -> Result<(String, Value), Error> {
    let name = format!("{service}-cert");
    if let Some(secret) = SECRET.within(&target.own, namespace).get_opt(&name).await? {
        let ca = crate::target::decode_base64(text(&secret.data, &format!("/data/{CA_KEY}")));
        if let Some(ca) = ca.and_then(|ca| String::from_utf8(ca).ok()).filter(|ca| !ca.is_empty()) {
            return Ok((ca, secret_object(&name, namespace, &secret.data["data"])));
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
    let data = json!({
        "tls.crt": STANDARD.encode(leaf.pem()), "tls.key": STANDARD.encode(key.serialize_pem()),
        CA_KEY: STANDARD.encode(&ca),
    });
    Ok((ca, secret_object(&name, namespace, &data)))
}

fn secret_object(name: &str, namespace: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    })
}
