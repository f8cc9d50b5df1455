//! A stored APIService, read as far as routing needs it.

use bailiwick_webhook::Trust;
use bailiwick_webhook::services::{DEFAULT_PORT, ServiceRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::availability::{Condition, ConditionStatus};
use crate::{API_REGISTRATION_GROUP, SERVICE_URL_ANNOTATION};

/// Who serves a group version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiService {
    /// `version.group`.
    pub name: String,
    pub group: String,
    pub version: String,
    pub group_priority: i64,
    pub version_priority: i64,
    /// `None` if this server does itself.
    pub remote: Option<Remote>,
    /// Whether the server itself keeps the record for as long as it serves what is recorded.
    pub automatic: bool,
    /// The condition `Available`, as it is stored.
    pub available: Option<Condition>,
}

/// A server that serves a group version for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub service: ServiceRef,
    /// Where it is, if the APIService itself says so.
    pub url: Option<String>,
    pub trust: Trust,
}

#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(default)]
    labels: Option<Labels>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "kube-aggregator.kubernetes.io/automanaged")]
    automanaged: Option<String>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "bailiwick.dev/service-url")]
    service_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    version: String,
    group_priority_minimum: i64,
    version_priority: i64,
    service: Option<Service>,
    ca_bundle: Option<String>,
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    port: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<StoredCondition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCondition {
    r#type: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl ApiService {
    /// Reads the stored JSON.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        debug_assert_eq!(SERVICE_URL_ANNOTATION, "bailiwick.dev/service-url");
        let Stored { metadata, spec, status } = serde_json::from_slice(json)?;
        let trust = match (&spec.ca_bundle, spec.insecure_skip_tls_verify) {
            (_, true) => Trust::Anybody,
            // A bundle that is no base64 cannot be stored; what it holds is looked at when it is used.
            (Some(bundle), _) if !bundle.is_empty() => Trust::Bundle(STANDARD.decode(bundle).unwrap_or_default()),
            _ => Trust::System,
        };
        let url = metadata.annotations.and_then(|annotations| annotations.service_url).filter(|url| !url.is_empty());
        // Nobody else can answer for the records of who answers for what.
        let service = spec.service.filter(|_| spec.group != API_REGISTRATION_GROUP);
        let remote = service.map(|service| Remote {
            service: ServiceRef {
                namespace: service.namespace,
                name: service.name,
                port: service.port.unwrap_or(DEFAULT_PORT),
            },
            url,
            trust,
        });
        let available = status.conditions.unwrap_or_default().into_iter().find(|known| known.r#type == "Available");
        Ok(Self {
            name: metadata.name,
            group: spec.group,
            version: spec.version,
            group_priority: spec.group_priority_minimum,
            version_priority: spec.version_priority,
            remote,
            automatic: metadata.labels.is_some_and(|labels| labels.automanaged.is_some()),
            available: available.map(|known| Condition {
                status: ConditionStatus::parse(&known.status),
                reason: known.reason.into(),
                message: known.message,
            }),
        })
    }

    /// Whether requests may be passed on.
    pub fn is_available(&self) -> bool {
        self.available.as_ref().is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// The path of what it serves. The core group, which has no name, is more than one version.
    pub fn path(&self) -> String {
        match self.group.is_empty() {
            true => format!("/api/{}", self.version),
            false => format!("/apis/{}/{}", self.group, self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(object: serde_json::Value) -> ApiService {
        ApiService::parse(object.to_string().as_bytes()).expect("an APIService")
    }

    #[test]
    fn a_service_makes_it_remote() {
        let service = parse(json!({
            "metadata": {"name": "v1.g", "annotations": {"bailiwick.dev/service-url": "https://h:1", "other": "x"}},
            "spec": {"group": "g", "version": "v1", "groupPriorityMinimum": 5, "versionPriority": 6,
                     "service": {"namespace": "n", "name": "s"}, "insecureSkipTLSVerify": true},
            "status": {"conditions": [{"type": "Available", "status": "True"}]},
        }));
        let remote = service.remote.clone().expect("remote");
        assert_eq!(remote.service, ServiceRef { namespace: "n".into(), name: "s".into(), port: 443 });
        assert_eq!((remote.url.as_deref(), &remote.trust), (Some("https://h:1"), &Trust::Anybody));
        assert!(service.is_available());
        assert_eq!(service.path(), "/apis/g/v1");
    }

    #[test]
    fn the_records_of_api_services_are_never_served_elsewhere() {
        let service = parse(json!({
            "metadata": {"name": "v1.apiregistration.k8s.io"},
            "spec": {"group": "apiregistration.k8s.io", "version": "v1", "service": {"namespace": "n", "name": "s"}},
        }));
        assert_eq!(service.remote, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_api_service_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = ApiService::parse(&bytes);
        }
    }
}
