//! Which names should lead where, read from the objects that say so: Gateways and HTTPRoutes of the Gateway API. A Gateway
//! has the addresses, its listeners and the routes on it have the names. A Domain beside them has the record that proves it.

use std::net::IpAddr;

use serde_json::Value;

use super::{Aim, Host, Proof, Wish};
use crate::name::DomainName;

/// Why no names can be read from the objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("there is no Gateway among the objects")]
    NoGateway,
    #[error("the Gateway {0:?} has no addresses yet: its status names them once it is programmed")]
    NoAddresses(String),
    #[error("no listener and no route names a host: give the names yourself")]
    NoHosts,
    #[error("{0:?} is no host name: {1}")]
    Host(String, crate::name::NameError),
}

/// Reads the wishes of all Gateways among `objects`, with the names of their listeners and of the routes attached to them.
pub fn wishes(objects: &[Value]) -> Result<Vec<Wish>, ServiceError> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == Some(kind));
    let mut found: Vec<Wish> = Vec::new();
    let mut gateways = 0;
    for gateway in of_kind("Gateway") {
        gateways += 1;
        let name = text(gateway, "/metadata/name").unwrap_or_default();
        let aim = aim(gateway).ok_or_else(|| ServiceError::NoAddresses(name.to_owned()))?;
        for host in hostnames(gateway, objects) {
            let host = Host::parse(host).map_err(|error| ServiceError::Host(host.to_owned(), error))?;
            if !found.iter().any(|wish| wish.host == host) {
                found.push(Wish { host, aim: aim.clone() });
            }
        }
    }
    match (gateways, found.is_empty()) {
        (0, _) => Err(ServiceError::NoGateway),
        (_, true) => Err(ServiceError::NoHosts),
        _ => Ok(found),
    }
}

/// The hosts that Gateways among `objects` serve, with or without an address yet. What is no host name is left out.
pub fn hosts(objects: &[Value]) -> Vec<Host> {
    let gateways = objects.iter().filter(|object| text(object, "/kind") == Some("Gateway"));
    let named = gateways.flat_map(|gateway| hostnames(gateway, objects));
    named.filter_map(|host| Host::parse(host).ok()).collect()
}

/// The hosts that Gateways among `objects` serve by HTTPS at its usual port: those of such listeners, and those of routes that such
/// a listener takes. A wildcard stands for many names and is not among them.
pub fn secured(objects: &[Value]) -> Vec<Host> {
    let mut secured = Vec::new();
    for gateway in objects.iter().filter(|object| text(object, "/kind") == Some("Gateway")) {
        let is_secure = |listener: &&Value| {
            let port = listener.get("port").and_then(Value::as_u64);
            text(listener, "/protocol") == Some("HTTPS") && port.is_none_or(|port| port == HTTPS_PORT)
        };
        let listeners: Vec<Option<Host>> = list(gateway, "/spec/listeners")
            .iter()
            .filter(is_secure)
            .map(|listener| text(listener, "/hostname").and_then(|host| Host::parse(host).ok()))
            .collect();
        let takes = |host: &Host| {
            listeners.iter().any(|listener| match listener {
                None => true,
                Some(named) if named.wildcard => host.base != named.base && host.base.is_within(&named.base),
                Some(named) => named == host,
            })
        };
        let hosts = hostnames(gateway, objects).filter_map(|host| Host::parse(host).ok());
        for host in hosts.filter(|host| !host.wildcard && takes(host)) {
            if !secured.contains(&host) {
                secured.push(host);
            }
        }
    }
    secured
}

/// The port of HTTPS.
const HTTPS_PORT: u64 = 443;

/// Takes the hosts out of Gateways and routes that are not to be planned for.
pub fn retain_hosts(objects: &mut [Value], keep: impl Fn(&Host) -> bool) {
    let is_kept = |host: &Value| host.as_str().and_then(|host| Host::parse(host).ok()).is_some_and(|host| keep(&host));
    for object in objects {
        if let Some(hosts) = object.pointer_mut("/spec/hostnames").and_then(Value::as_array_mut) {
            hosts.retain(is_kept);
        }
        for listener in object.pointer_mut("/spec/listeners").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(listener) = listener.as_object_mut().filter(|one| !one.get("hostname").is_some_and(is_kept)) {
                listener.remove("hostname");
            }
        }
    }
}

/// The names of a Gateway's listeners and of the routes attached to it.
fn hostnames<'a>(gateway: &'a Value, objects: &'a [Value]) -> impl Iterator<Item = &'a str> {
    let listeners = list(gateway, "/spec/listeners").iter().filter_map(|listener| text(listener, "/hostname"));
    let routes = objects.iter().filter(|object| text(object, "/kind") == Some("HTTPRoute"));
    let own = routes.filter(move |route| attached(route, gateway));
    listeners.chain(own.flat_map(|route| list(route, "/spec/hostnames")).filter_map(Value::as_str))
}

/// The records that prove the Domains among `objects`, but for those that are proved.
pub fn proofs(objects: &[Value]) -> Vec<Proof> {
    let domains = objects.iter().filter(|object| text(object, "/kind") == Some("Domain"));
    let unproved =
        domains.filter(|domain| text(domain, "/status/verification/standing/state").is_some_and(|at| at != "proved"));
    let proof = |domain: &Value| {
        let name = DomainName::parse(text(domain, "/status/verification/record/name")?).ok()?;
        Some(Proof { name, value: text(domain, "/status/verification/record/content")?.to_owned() })
    };
    unproved.filter_map(proof).collect()
}

/// Whether objects say where names should lead. Domains do not.
pub fn name_a_service(objects: &[Value]) -> bool {
    objects.iter().any(|object| text(object, "/kind") != Some("Domain"))
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a route names the gateway as its parent, in the route's namespace unless it says another.
fn attached(route: &Value, gateway: &Value) -> bool {
    let namespace = |object: &Value| text(object, "/metadata/namespace").unwrap_or("default").to_owned();
    list(route, "/spec/parentRefs").iter().any(|parent| {
        let kind = text(parent, "/kind").unwrap_or("Gateway");
        let place = text(parent, "/namespace").map_or_else(|| namespace(route), str::to_owned);
        kind == "Gateway" && text(parent, "/name") == text(gateway, "/metadata/name") && place == namespace(gateway)
    })
}

/// Addresses that the gateway really has go before those it was asked to have; a host name before addresses, as it follows
/// when they change.
fn aim(gateway: &Value) -> Option<Aim> {
    let observed = list(gateway, "/status/addresses");
    let addresses = if observed.is_empty() { list(gateway, "/spec/addresses") } else { observed };
    let of_type = |wanted: &str| {
        let wanted = wanted.to_owned();
        addresses
            .iter()
            .filter(move |address| text(address, "/type").unwrap_or("IPAddress") == wanted)
            .filter_map(|address| text(address, "/value"))
    };
    let ips: Vec<IpAddr> = of_type("IPAddress").filter_map(|value| value.parse().ok()).collect();
    let host = of_type("Hostname").find_map(|value| DomainName::parse(value).ok());
    match (host, ips.is_empty()) {
        (Some(name), _) => Some(Aim::Host { name, addresses: ips }),
        (None, false) => Some(Aim::Addresses(ips)),
        (None, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gateway(status: &Value) -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "edge", "namespace": "web"},
            "spec": {"listeners": [{"name": "https", "hostname": "*.example.com"}, {"name": "any"}]},
            "status": status,
        })
    }

    fn route(parent: &Value, hostnames: &Value) -> Value {
        json!({"kind": "HTTPRoute", "metadata": {"name": "r", "namespace": "web"}, "spec": {"parentRefs": [parent], "hostnames": hostnames}})
    }

    #[test]
    fn listeners_and_attached_routes_name_the_hosts() {
        let objects = [
            gateway(&json!({"addresses": [{"type": "Hostname", "value": "gw.platform.net"}]})),
            route(&json!({"name": "edge"}), &json!(["www.example.com", "*.example.com"])),
            route(&json!({"name": "other"}), &json!(["elsewhere.example.com"])),
            route(&json!({"name": "edge", "namespace": "far"}), &json!(["far.example.com"])),
        ];
        let wishes = wishes(&objects).expect("wishes");
        let hosts: Vec<String> = wishes.iter().map(|wish| wish.host.to_string()).collect();
        assert_eq!(hosts, ["*.example.com", "www.example.com"]);
        assert!(matches!(&wishes[0].aim, Aim::Host { name, .. } if name.as_str() == "gw.platform.net"));
    }

    #[test]
    fn hosts_that_are_not_meant_are_taken_out() {
        let status = json!({"addresses": [{"value": "203.0.113.7"}]});
        let mut objects =
            [gateway(&status), route(&json!({"name": "edge"}), &json!(["www.example.com", "www.example.org", 7]))];
        retain_hosts(&mut objects, |host| host.base.as_str().ends_with("example.org"));
        let named: Vec<String> = hosts(&objects).iter().map(ToString::to_string).collect();
        assert_eq!(named, ["www.example.org"]);
    }

    #[test]
    fn hosts_of_secure_listeners_are_served_securely() {
        let gateway = |listeners: Value| json!({"kind": "Gateway", "metadata": {"name": "edge", "namespace": "web"}, "spec": {"listeners": listeners}});
        let route = route(&json!({"name": "edge"}), &json!(["www.example.com", "*.example.net", "example.org"]));
        let hosts = |listeners: Value| -> Vec<String> {
            secured(&[gateway(listeners), route.clone()]).iter().map(ToString::to_string).collect()
        };
        let https = |rest: Value| {
            let mut listener = json!({"name": "s", "protocol": "HTTPS", "port": 443});
            listener.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
            listener
        };
        assert_eq!(hosts(json!([https(json!({}))])), ["www.example.com", "example.org"]);
        assert_eq!(hosts(json!([https(json!({"hostname": "*.example.com"}))])), ["www.example.com"]);
        assert_eq!(hosts(json!([https(json!({"hostname": "a.example.com"}))])), ["a.example.com"]);
        assert_eq!(hosts(json!([https(json!({"port": 8443}))])), [""; 0]);
        assert_eq!(hosts(json!([{"name": "plain", "protocol": "HTTP", "port": 80}])), [""; 0]);
    }

    #[test]
    fn a_gateway_without_addresses_is_told() {
        assert_eq!(wishes(&[gateway(&json!({}))]), Err(ServiceError::NoAddresses("edge".into())));
        let named: Vec<String> = hosts(&[gateway(&json!({}))]).iter().map(ToString::to_string).collect();
        assert_eq!(named, ["*.example.com"], "its hosts are known all the same");
        assert_eq!(wishes(&[]), Err(ServiceError::NoGateway));
    }

    #[test]
    fn domains_bring_the_records_that_prove_them_until_they_are_proved() {
        let domain = |name: &str, state: &str| {
            let record = json!({"name": format!("_bailiwick-challenge.{name}"), "type": "TXT", "content": "mzxw6"});
            json!({"kind": "Domain", "status": {"verification": {"record": record, "standing": {"state": state}}}})
        };
        let objects =
            [domain("example.com", "unproved"), domain("example.org", "proved"), json!({"kind": "Domain", "spec": {}})];
        let name = DomainName::parse("_bailiwick-challenge.example.com").expect("a name");
        assert_eq!(proofs(&objects), [Proof { name, value: "mzxw6".into() }]);
        assert!(!name_a_service(&objects));
    }

    #[test]
    fn addresses_are_addresses() {
        let status = json!({"addresses": [{"value": "203.0.113.7"}, {"type": "IPAddress", "value": "2001:db8::7"}]});
        let wishes = wishes(&[gateway(&status)]).expect("wishes");
        assert!(matches!(&wishes[0].aim, Aim::Addresses(addresses) if addresses.len() == 2));
    }
}
