//! Services, of which there are none here: where what a configuration calls `service` is really served.
//!
//! An operator maps services to addresses by flag; whoever may write ConfigMaps in a namespace maps the services of that
//! namespace in the one named [`ENDPOINTS_CONFIG_MAP`], much as they would create a Service elsewhere.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::dial::Origin;
pub use crate::locations::{Location, Locations};

/// The ConfigMap that says where the services of its namespace are: `<service>` or `<service>.<port>`, and a URL.
pub const ENDPOINTS_CONFIG_MAP: &str = "bailiwick-service-endpoints";
/// The port of a service where a reference names none.
pub const DEFAULT_PORT: u16 = 443;

/// A service as configurations name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceRef {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

impl ServiceRef {
    /// The name the service's certificate must have.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// A service as `clientConfig` names it, with the path to call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub port: Option<u16>,
}

impl ServiceReference {
    /// The service itself.
    pub fn service(&self) -> ServiceRef {
        let port = self.port.unwrap_or(DEFAULT_PORT);
        ServiceRef { namespace: self.namespace.clone(), name: self.name.clone(), port }
    }
}

/// Why a service cannot be called, in the words of upstream's resolver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("service {:?} not found", .0.name)]
    NotFound(ServiceRef),
    /// The service is mapped, but not this port of it.
    #[error("no service port {} found for service {:?}", .0.port, .0.name)]
    NoPort(ServiceRef),
    /// The service is mapped to nothing.
    #[error("no endpoints available for service {:?}", .0.name)]
    NoEndpoints(ServiceRef),
    /// The mapping is not an address, or cannot be read.
    #[error("{0}")]
    Unusable(String),
}

/// The answer to where a service is.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = Result<Locations, ServiceError>> + Send + 'a>>;

/// Knows where services are.
pub trait ServiceResolver: Send + Sync {
    fn resolve<'a>(&'a self, service: &'a ServiceRef) -> Resolving<'a>;
}

/// A service that an operator mapped by flag: `<namespace>/<name>[:port]=https://host:port[,https://host:port…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEndpoint {
    pub namespace: String,
    pub name: String,
    /// Every port if not given.
    pub port: Option<u16>,
    pub locations: Locations,
}

impl FromStr for ServiceEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no mapping such as namespace/service:443=https://host:8443");
        let (service, url) = text.split_once('=').ok_or_else(wrong)?;
        let (namespace, rest) = service.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        if namespace.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        let locations = Locations::parse(url, Origin::Operator)?.ok_or_else(wrong)?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), port, locations })
    }
}

/// The text of a namespace's endpoints, by key; `None` where there are none.
pub type Mapping<'a> = Pin<Box<dyn Future<Output = Result<Option<BTreeMap<String, String>>, String>> + Send + 'a>>;

/// Reads the endpoints that namespaces keep in ConfigMaps.
pub trait EndpointMaps: Send + Sync {
    fn endpoints<'a>(&'a self, namespace: &'a str) -> Mapping<'a>;
}

/// Services by flag and by ConfigMap; flags come first.
#[derive(Clone, Default)]
pub struct MappedServices {
    fixed: Vec<ServiceEndpoint>,
    stored: Option<Arc<dyn EndpointMaps>>,
}

impl MappedServices {
    pub fn new(fixed: Vec<ServiceEndpoint>, stored: Option<Arc<dyn EndpointMaps>>) -> Self {
        Self { fixed, stored }
    }

    /// Several flags about one port, or about all, add up; those about one come first.
    fn by_flag(&self, service: &ServiceRef) -> Option<Result<Locations, ServiceError>> {
        let same = |known: &&ServiceEndpoint| known.namespace == service.namespace && known.name == service.name;
        let mapped = |port: Option<u16>| {
            let known = self.fixed.iter().filter(same).filter(|known| known.port == port);
            Locations::all(known.flat_map(|known| known.locations.iter().cloned()))
        };
        self.fixed.iter().find(same)?;
        let found = mapped(Some(service.port)).or_else(|| mapped(None));
        Some(found.ok_or_else(|| ServiceError::NoPort(service.clone())))
    }
}

impl ServiceResolver for MappedServices {
    fn resolve<'a>(&'a self, service: &'a ServiceRef) -> Resolving<'a> {
        Box::pin(async move {
            if let Some(answer) = self.by_flag(service) {
                return answer;
            }
            let Some(stored) = &self.stored else { return Err(ServiceError::NotFound(service.clone())) };
            let endpoints = stored.endpoints(&service.namespace).await.map_err(ServiceError::Unusable)?;
            by_keys(&endpoints.unwrap_or_default(), service)
        })
    }
}

/// What the entries of a ConfigMap say of a service.
fn by_keys(entries: &BTreeMap<String, String>, service: &ServiceRef) -> Result<Locations, ServiceError> {
    let exact = entries.get(&format!("{}.{}", service.name, service.port));
    match exact.or_else(|| entries.get(&service.name)) {
        Some(urls) => match Locations::parse(urls, Origin::Tenant) {
            Ok(found) => found.ok_or_else(|| ServiceError::NoEndpoints(service.clone())),
            Err(reason) => Err(ServiceError::Unusable(reason)),
        },
        None => {
            let other_port = format!("{}.", service.name);
            let mapped = entries.keys().any(|key| key.starts_with(&other_port));
            Err(if mapped { ServiceError::NoPort(service.clone()) } else { ServiceError::NotFound(service.clone()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn service(port: u16) -> ServiceRef {
        ServiceRef { namespace: "ns".into(), name: "api".into(), port }
    }

    fn location(host: &str, port: u16, origin: Origin) -> Locations {
        Location { host: host.into(), port, origin }.into()
    }

    #[tokio::test]
    async fn a_flag_maps_one_port_or_all() {
        let one: ServiceEndpoint = "ns/api:443=https://10.0.0.1:8443".parse().expect("a mapping");
        let services = MappedServices::new(vec![one], None);
        let found = services.resolve(&service(443)).await;
        assert_eq!(found, Ok(location("10.0.0.1", 8443, Origin::Operator)));
        assert_eq!(services.resolve(&service(444)).await, Err(ServiceError::NoPort(service(444))));
        let all: ServiceEndpoint = "ns/api=https://[::1]:8443".parse().expect("a mapping");
        let found = MappedServices::new(vec![all], None).resolve(&service(444)).await.expect("mapped");
        assert_eq!(found.iter().map(Location::authority).collect::<Vec<_>>(), ["[::1]:8443"]);
        let other = ServiceRef { name: "other".into(), ..service(443) };
        let missing = services.resolve(&other).await.expect_err("not mapped");
        assert_eq!(missing.to_string(), "service \"other\" not found");
    }

    #[test]
    fn keys_of_a_config_map_name_a_service_or_one_port_of_it() {
        let entries = [("api.443", "https://a:1"), ("api", "https://b"), ("empty", ""), ("only.8443", "https://c:3")];
        let entries: BTreeMap<String, String> = entries.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(by_keys(&entries, &service(443)), Ok(location("a", 1, Origin::Tenant)));
        assert_eq!(by_keys(&entries, &service(1)), Ok(location("b", 443, Origin::Tenant)));
        let named = |name: &str| ServiceRef { name: name.into(), ..service(443) };
        assert_eq!(by_keys(&entries, &named("empty")), Err(ServiceError::NoEndpoints(named("empty"))));
        assert_eq!(by_keys(&entries, &named("only")), Err(ServiceError::NoPort(named("only"))));
        assert_eq!(by_keys(&entries, &named("x")), Err(ServiceError::NotFound(named("x"))));
    }

    #[tokio::test]
    async fn flags_add_up_and_those_about_a_port_come_first() {
        let flags = ["ns/api=https://a:1,https://b:2", "ns/api=https://c:3", "ns/api:8443=https://d:4"];
        let flags = flags.map(|flag| flag.parse::<ServiceEndpoint>().expect("a mapping"));
        let services = MappedServices::new(flags.to_vec(), None);
        let hosts = async |port| -> Vec<String> {
            let found = services.resolve(&service(port)).await.expect("mapped");
            found.iter().map(|location| location.host.clone()).collect()
        };
        assert_eq!(hosts(443).await, ["a", "b", "c"]);
        assert_eq!(hosts(8443).await, ["d"]);
        assert!(
            "ns/api=".parse::<ServiceEndpoint>().is_err(),
            "an operator who maps to nothing has forgotten something"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_mapping_or_not(text in "\\PC{0,60}") {
            let _ = text.parse::<ServiceEndpoint>();
        }
    }
}
