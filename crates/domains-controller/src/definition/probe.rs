//! The definition of `DomainProbe`: a piece of work for one agent, made by the controller and removed when it is answered.

use serde_json::{Value, json};

use bailiwick_domains::endpoint::places::ADDRESSES_MAX;
use bailiwick_domains::probe::{EVIDENCE_BYTES_MAX, QUESTIONS_MAX};

use super::{GROUP, VERSION, column, date};

/// The CustomResourceDefinition of `DomainProbe`.
pub fn probe_definition() -> Value {
    let question = json!({
        "type": "object",
        "required": ["kind", "name"],
        "properties": {
            "kind": {"type": "string", "enum": ["survey", "look", "call", "file"]},
            "name": {"type": "string", "minLength": 1, "maxLength": 253},
            "brand": {"type": "string", "minLength": 1, "maxLength": 63, "description": "file: whose proof it is."},
            "token": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "file: what the file must have."},
            "record": {"type": "string", "minLength": 1, "maxLength": 16, "description": "survey, look: the record type."},
            "addresses": {
                "type": "array", "maxItems": ADDRESSES_MAX, "items": {"type": "string", "maxLength": 64},
                "description": "call: the addresses behind which the service is looked at; those that are not public are not called.",
            },
        },
        "x-kubernetes-validations": [{
            "rule": "self.kind == 'call' ? has(self.addresses) : self.kind == 'file' ? has(self.brand) && has(self.token) : has(self.record)",
            "message": "a survey and a look need a record, a call needs addresses, a file needs brand and token",
        }],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("domainprobes.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "domainprobes", "singular": "domainprobe", "kind": "DomainProbe", "listKind": "DomainProbeList"},
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Agent", "string", ".spec.agent"),
                    column("Answered", "date", ".status.answeredAt"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "DomainProbe is a piece of work for an agent at a vantage point.",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["agent", "questions", "deadline"],
                            "properties": {
                                "agent": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Whose work it is."},
                                "questions": {"type": "array", "minItems": 1, "maxItems": QUESTIONS_MAX, "items": question},
                                "deadline": date("An answer later than this is not waited for."),
                            },
                            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a probe cannot be changed"}],
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "answeredAt": date("When the agent answered."),
                                "evidence": {
                                    "type": "string", "maxLength": EVIDENCE_BYTES_MAX,
                                    "description": "What it found: JSON, one element for each question.",
                                },
                            },
                        },
                    },
                }},
            }],
        },
    })
}
