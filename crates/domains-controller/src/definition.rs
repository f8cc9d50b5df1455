//! The definition of `Domain`: what may be written, what is observed, and the columns of the inventory. Both objects of the
//! design document apply: the one with a name alone, and the one that carries observed data in its spec, which is accepted
//! and not believed.

mod check;
mod probe;

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::records::RECORDS_MAX;

pub(crate) use check::TTL_DEFAULT_SECONDS;
pub use check::check_definition;
pub use probe::probe_definition;

/// The API group.
pub const GROUP: &str = "datumapis.com";
/// The version.
pub const VERSION: &str = "v1alpha";

/// How `Domain` is addressed.
pub(crate) fn domains() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, "Domain"), "domains")
}

/// How `DomainCheck` is addressed.
pub(crate) fn checks() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, "DomainCheck"), "domainchecks")
}

/// The group of the Gateway API, which others define where it is used.
pub(crate) const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// How `Gateway` is addressed.
pub(crate) fn gateways() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GATEWAY_GROUP, "v1", "Gateway"), "gateways")
}

/// How `HTTPRoute` is addressed.
pub(crate) fn routes() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GATEWAY_GROUP, "v1", "HTTPRoute"), "httproutes")
}

/// How `DomainProbe` is addressed.
pub(crate) fn probes() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, "DomainProbe"), "domainprobes")
}

/// The CustomResourceDefinition of `Domain`.
pub fn domain_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("domains.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "domains", "singular": "domain", "kind": "Domain", "listKind": "DomainList", "shortNames": ["dom"]},
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(),
                "selectableFields": [{"jsonPath": ".spec.name"}, {"jsonPath": ".status.registrarIANAName"}, {"jsonPath": ".status.dnsProvider"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "Domain is a domain name that somebody claims and that is watched over.",
                    "required": ["spec"],
                    "properties": {"spec": spec(), "status": status()},
                }},
            }],
        },
    })
}

/// The inventory table.
fn columns() -> Value {
    json!([
        column("Domain", "string", ".spec.name"),
        column("Registrar", "string", ".status.registrarIANAName"),
        column("DNS Provider", "string", ".status.dnsProvider"),
        column("Expires", "string", ".status.expirationDate"),
        column("Days", "integer", ".status.daysUntilExpiration"),
        column("Verified", "string", ".status.conditions[?(@.type=='Verified')].status"),
        column("Healthy", "string", ".status.conditions[?(@.type=='Healthy')].status"),
        column("Last Change", "date", ".status.lastChangeDetected"),
        wide("Source", "string", ".status.registrationSource"),
        wide("As Of", "date", ".status.registrationObserved"),
        wide("Last Scan", "date", ".status.lastScan"),
    ])
}

/// One that is shown with `-o wide`.
fn wide(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "priority": 1})
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn date(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "maxLength": 1024, "description": description})
}

fn spec() -> Value {
    let accepted =
        "As the design document's example has it; accepted, and not believed: what is observed is in the status.";
    json!({
        "type": "object",
        "description": "What is claimed.",
        "required": ["name"],
        "properties": {
            "name": {
                "type": "string", "minLength": 1, "maxLength": 253, "description": "The domain. Cannot be changed.",
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "name is immutable"}],
            },
            "autoRenewal": {
                "type": "string", "enum": ["Enabled", "Disabled", "Unknown"],
                "description": "Whether the owner says that the registration renews itself; registries do not publish it.",
            },
            "verification": {
                "type": "object",
                "description": "What the proof is for. A change needs a new proof.",
                "properties": {
                    "scope": {
                        "type": "string", "enum": ["Host", "Wildcard", "Domain"],
                        "description": "The name alone, one level below it, or everything below it (the default): each has a challenge of its own.",
                    },
                    "accountLabel": {
                        "type": "string", "minLength": 1, "maxLength": 40, "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
                        "description": "Put in front of the challenge's name, so that records of several accounts can stand side by side. The latest proof still has the domain.",
                    },
                },
            },
            "records": {
                "type": "array", "maxItems": RECORDS_MAX,
                "description": "Records that should stay as they are: compared with every server at each look; drift is an Event.",
                "items": {
                    "type": "object", "required": ["name", "type", "value"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 253, "description": "The whole name."},
                        "type": {"type": "string", "enum": ["A", "AAAA", "CAA", "CNAME", "MX", "NS", "TXT"]},
                        "value": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "As a zone file has it."},
                    },
                },
            },
            "registrarIANAID": {"type": "integer", "format": "int64", "description": accepted},
            "registrarIANAname": text(accepted),
            "createdDate": text(accepted),
            "modifiedDate": text(accepted),
            "expirationDate": text(accepted),
            "nameservers": text(accepted),
            "DNSSEC": text(accepted),
            "statusFlags": text(accepted),
        },
    })
}

fn status() -> Value {
    let open = |description: &str| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": description});
    let texts = |description: &str| json!({"type": "array", "maxItems": 64, "items": {"type": "string"}, "description": description});
    json!({
        "type": "object",
        "description": "What is observed.",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "registeredName": text("The name that was registered with the registry."),
            "registrarIANAID": {"type": "integer", "format": "int64", "description": "The registrar's number at IANA."},
            "registrarIANAName": text("The registrar, as the registry writes it."),
            "createdDate": text("When it was registered."),
            "modifiedDate": text("When the registration last changed."),
            "expirationDate": text("When the registration ends."),
            "daysUntilExpiration": {"type": "integer", "format": "int64", "description": "Whole days until then; negative when it has ended."},
            "nameservers": texts("The nameservers at the registry, or those that the parent zone delegates to."),
            "DNSSEC": text("Whether the delegation is signed."),
            "statusFlags": texts("EPP's status flags."),
            "dnsProvider": text("Who serves the zone."),
            "registrationSource": text("rdap or whois."),
            "registrationObserved": date("When the registry was last asked; moved at most once a day when nothing changed."),
            "autoRenewal": {
                "type": "object", "description": "Whether the registration renews itself.",
                "properties": {
                    "declared": text("What the spec says: Enabled, Disabled or Unknown."),
                    "observed": text("autoRenewPeriod in the days after the registry renewed it, else unknown: registries publish nothing more."),
                },
            },
            "firstScan": date("When it was looked at for the first time: nothing is known of what was before."),
            "lastScan": date("When it was looked at; moved at most once a day when nothing changed."),
            "nextCheck": date("When it is looked at after lastScan; from then on every hour."),
            "observedRescan": {"type": "string", "maxLength": 4096, "description": "The value of the rescan annotation that was obeyed last."},
            "lastChangeDetected": date("When something last changed."),
            "verification": open("The token, where to put it, and how the proof stands; sealed by the service, and believed with its seal alone."),
            "observation": open("What later observations are compared with."),
            "expiry": open("Which warnings of expiration were given."),
            "records": open_list(RECORDS_MAX, "How the records of the spec stand."),
            "troubles": open_list(256, "What is the matter with it, and since when."),
            "unannounced": open_list(64, "Events that are still to be written."),
            "history": open_list(200, "What changed, the latest first."),
            "conditions": conditions("ValidDomain, Verified, Healthy, RecordsMatch."),
        },
    })
}

/// A list of objects that the service writes and whose form may grow.
fn open_list(most: usize, description: &str) -> Value {
    let item = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "array", "maxItems": most, "items": item, "description": description})
}

fn conditions(description: &str) -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "maxItems": 32,
        "description": description,
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": date("When the status last changed."),
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}
