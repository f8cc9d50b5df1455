//! The definition of `Domain`: what may be written, what is observed, and the columns of the inventory. Both objects of the
//! design document apply: the one with a name alone, and the one that carries observed data in its spec, which is accepted
//! and not believed.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// The API group.
pub const GROUP: &str = "datumapis.com";
/// The version.
pub const VERSION: &str = "v1alpha";

/// How `Domain` is addressed.
pub(crate) fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, "Domain"), "domains")
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
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    json!([
        column("Domain", "string", ".spec.name"),
        column("Registrar", "string", ".status.registrarIANAName"),
        column("DNS Provider", "string", ".status.dnsProvider"),
        column("Expires", "string", ".status.expirationDate"),
        column("Days", "integer", ".status.daysUntilExpiration"),
        column("Verified", "string", ".status.conditions[?(@.type=='Verified')].status"),
        column("Healthy", "string", ".status.conditions[?(@.type=='Healthy')].status"),
        column("Last Change", "date", ".status.lastChangeDetected"),
    ])
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
    let date = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
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
            "lastScan": date("When it was looked at; moved at most once a day when nothing changed."),
            "lastChangeDetected": date("When something last changed."),
            "verification": open("The token, where to put it, and how the proof stands."),
            "observation": open("What later observations are compared with."),
            "expiry": open("Which warnings of expiration were given."),
            "history": {
                "type": "array", "maxItems": 200, "description": "What changed, the latest first.",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "maxItems": 32,
                "description": "ValidDomain, Verified, Healthy.",
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
            },
        },
    })
}
