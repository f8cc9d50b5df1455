//! The definition of `DomainCheck`: one run of a tool, asked for as an object and answered in its status.

use serde_json::{Value, json};

use super::{GROUP, VERSION, column, conditions, date, open_list, text};

/// How long a finished check stays when nothing is said: ten minutes.
pub(crate) const TTL_DEFAULT_SECONDS: u32 = 600;
/// And at most: a week.
const TTL_MAX_SECONDS: u32 = 7 * 86_400;
/// How often a check may be repeated: as often as a person may have a domain looked at.
const REPEAT_MIN_SECONDS: u32 = 300;

/// The CustomResourceDefinition of `DomainCheck`.
pub fn check_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("domainchecks.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": "domainchecks", "singular": "domaincheck", "kind": "DomainCheck", "listKind": "DomainCheckList",
                "shortNames": ["dc"],
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Tool", "string", ".spec.tool"),
                    column("Name", "string", ".spec.name"),
                    column("Phase", "string", ".status.phase"),
                    column("Healthy", "string", ".status.conditions[?(@.type=='Healthy')].status"),
                    column("Summary", "string", ".status.summary"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "selectableFields": [{"jsonPath": ".spec.tool"}, {"jsonPath": ".status.phase"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "DomainCheck runs one of the DNS tools, once or again and again; its status has what the tool found.",
                    "required": ["spec"],
                    "properties": {"spec": spec(), "status": status()},
                }},
            }],
        },
    })
}

fn names(most: usize, description: &str) -> Value {
    json!({"type": "array", "maxItems": most, "items": {"type": "string", "minLength": 1, "maxLength": 253}, "description": description})
}

fn spec() -> Value {
    json!({
        "type": "object",
        "description": "The tool and its arguments. Cannot be changed: make another object to ask again.",
        "required": ["tool"],
        "properties": {
            "tool": {
                "type": "string", "description": "Which tool is run.",
                "enum": ["scan", "verify", "plan", "fqdn", "compare", "zoneCheck", "history", "trace"],
            },
            "name": {"type": "string", "minLength": 1, "maxLength": 253, "description": "The name that is looked at."},
            "type": {"type": "string", "maxLength": 16, "description": "compare, trace: the record type; A if nothing is said."},
            "types": {
                "type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 16},
                "description": "fqdn: the record types; A and AAAA if nothing is said.",
            },
            "endpoints": {"type": "string", "enum": ["look", "skip"], "description": "fqdn: whether the addresses are called as a browser would."},
            "token": text("verify: the token to look for; without one, what to publish is told."),
            "brand": {"type": "string", "maxLength": 40, "description": "verify: the name in `_<brand>-challenge`."},
            "scope": {
                "type": "string", "enum": ["host", "wildcard", "domain"],
                "description": "verify: what the proof is for: the name alone, one level below it, or it and everything below; domain if nothing is said.",
            },
            "accountLabel": {
                "type": "string", "minLength": 1, "maxLength": 40, "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
                "description": "verify: put in front of the record's name, as a Domain's `verification.accountLabel` is.",
            },
            "delegationZone": {
                "type": "string", "minLength": 1, "maxLength": 253,
                "description": "verify: the zone that a CNAME at the challenge's name may lead into instead.",
            },
            "nameserverZone": {
                "type": "string", "minLength": 1, "maxLength": 253,
                "description": "verify: the zone that has a nameserver for each token, to which the name may be delegated instead.",
            },
            "targets": names(16, "plan: where the name is to lead: addresses, or a host."),
            "gateway": {
                "type": "string", "minLength": 1, "maxLength": 253,
                "description": "plan: a Gateway of this namespace; its hosts, those of its HTTPRoutes and its addresses are meant.",
            },
            "analyze": {"type": "boolean", "description": "plan: tell what is live now, and who still remembers something else."},
            "export": {"type": "string", "enum": ["zoneFile", "dnscontrol", "octodns", "domainConnect"], "description": "plan: the report in another tool's form, with the proofs of this namespace's Domains that still need one."},
            "resolvers": names(16, "compare: addresses of further resolvers."),
            "via": {"type": "string", "enum": ["udp", "tls", "https"], "description": "compare: how resolvers are asked."},
            "level": {"type": "string", "enum": ["INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL"], "description": "zoneCheck: the least severity that is told."},
            "servers": names(16, "zoneCheck: servers that the parent would delegate to, NAME[/ADDRESS]."),
            "signers": names(16, "zoneCheck: DS records that the parent would have, TAG,ALGORITHM,TYPE,DIGEST."),
            "at": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "history: what was known then: a day (its end, in UTC) or a moment such as 2026-11-01T12:00:00Z; all changes if nothing is said.",
            },
            "dnssec": {"type": "string", "enum": ["check", "ignore"], "description": "trace: whether signatures are checked."},
            "vantagePoints": names(500, "fqdn, verify: the agents to ask besides this machine; all that are alive if nothing is said."),
            "ttlSecondsAfterFinished": {
                "type": "integer", "format": "int32", "minimum": 0, "maximum": TTL_MAX_SECONDS, "default": TTL_DEFAULT_SECONDS,
                "description": "How long the object stays when it has finished. One that is repeated stays.",
            },
            "repeatSeconds": {
                "type": "integer", "format": "int32", "minimum": REPEAT_MIN_SECONDS, "maximum": TTL_MAX_SECONDS,
                "description": "Run it again and again, this often when all is well; what begins and ends is told as Events. Only for names in the Domains of its namespace.",
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "a check cannot be changed: make another one"},
            {"rule": "has(self.name) || (self.tool == 'plan' && has(self.gateway))", "message": "name is required"},
        ],
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "What the tool found.",
        "properties": {
            "phase": {"type": "string", "enum": ["Pending", "Running", "Succeeded", "Failed"]},
            "reason": {"type": "string", "maxLength": 128, "description": "Why it waits or failed, in a word."},
            "message": {"type": "string", "maxLength": 8192, "description": "And in a sentence."},
            "startTime": date("When it began."),
            "completionTime": date("When it last ended."),
            "nextRun": date("When it is run again, if nothing happens before."),
            "summary": {"type": "string", "maxLength": 8192, "description": "What was found, in a sentence or two."},
            "report": {"type": "string", "maxLength": 262_144, "description": "What was found, as `bailiwick dns` prints it."},
            "troubles": open_list(256, "What is the matter, and since when."),
            "conditions": conditions("Healthy: nothing is the matter; of a plan: it is fulfilled. Served: of a Gateway's plan, whether the names that are live get a certificate and an answer, from every place."),
            "unserved": open_list(256, "What is the matter with the services behind names that are live, and since when."),
            "serves": {"type": "string", "enum": ["Well", "Ill"], "description": "How they stood when that was last known."},
            "stands": {"type": "string", "enum": ["Well", "Ill"], "description": "How it stood when that was last known."},
            "forecast": date("When what is waited for should be over."),
            "observedRescan": {"type": "string", "maxLength": 4096, "description": "The value of the rescan annotation that was obeyed last."},
            "rescanned": date("When that was done."),
            "observedService": {"type": "string", "maxLength": 128, "description": "The digest of the Gateway's names and addresses that were planned for."},
            "unannounced": open_list(64, "Events that are still to be written."),
            "result": {"x-kubernetes-preserve-unknown-fields": true, "description": "What was found, as `bailiwick dns -o json` prints it."},
        },
    })
}
