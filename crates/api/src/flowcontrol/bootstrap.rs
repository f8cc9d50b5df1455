//! The flow-control objects a server starts with: the mandatory ones, which cannot be changed, and the suggested ones,
//! which it keeps up to date until somebody edits them.

use serde_json::{Value, json};

use super::GROUP;

/// Marks an object that the server itself may update when its suggestion changes.
const AUTO_UPDATE_ANNOTATION: &str = "apf.kubernetes.io/autoupdate-spec";

/// All objects to create at start, priority levels before the schemas that name them.
pub fn bootstrap_objects() -> Vec<Value> {
    let mut objects = mandatory_objects();
    objects.extend(suggested_objects());
    objects.sort_by_key(|object| object["kind"] == "FlowSchema");
    objects
}

/// The objects that flow control cannot do without.
pub fn mandatory_objects() -> Vec<Value> {
    let everybody = groups(&["system:unauthenticated", "system:authenticated"]);
    vec![
        level(
            "catch-all",
            json!({
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
                },
            }),
        ),
        level("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})),
        schema("exempt", "exempt", 1, None, everything(groups(&["system:masters"]))),
        schema("catch-all", "catch-all", 10_000, Some("ByUser"), everything(everybody)),
    ]
}

/// The mandatory object of a kind and name, if there is one.
pub(super) fn mandatory(kind: &str, name: &str) -> Option<Value> {
    // Almost no object has one of these names, and making the objects is work.
    if name != "exempt" && name != "catch-all" {
        return None;
    }
    mandatory_objects().into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

/// The objects that make a good start.
pub fn suggested_objects() -> Vec<Value> {
    let everybody = || groups(&["system:unauthenticated", "system:authenticated"]);
    let nodes = || groups(&["system:nodes"]);
    let kube_system = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
    let controller_manager = user("system:kube-controller-manager");
    let scheduler = user("system:kube-scheduler");
    let leases = |verbs: &[&str]| resource_rule(verbs, "coordination.k8s.io", &["leases"], false);
    vec![
        queued_level("system", 30, 33, 64, 6),
        queued_level("node-high", 40, 25, 64, 6),
        queued_level("leader-election", 10, 0, 16, 4),
        queued_level("workload-high", 40, 50, 128, 6),
        queued_level("workload-low", 100, 90, 128, 6),
        queued_level("global-default", 20, 50, 128, 6),
        schema("system-nodes", "system", 500, Some("ByUser"), everything(nodes())),
        schema(
            "system-node-high",
            "node-high",
            400,
            Some("ByUser"),
            json!({
                "subjects": nodes(),
                "resourceRules": [resource_rule(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])],
            }),
        ),
        schema(
            "probes",
            "exempt",
            2,
            None,
            json!({
                "subjects": everybody(),
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
            }),
        ),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            Some("ByUser"),
            json!({
                "subjects": [controller_manager, scheduler, kube_system],
                "resourceRules": [leases(&["get", "create", "update"])],
            }),
        ),
        schema(
            "kube-controller-manager",
            "workload-high",
            800,
            Some("ByNamespace"),
            everything(json!([controller_manager])),
        ),
        schema("kube-scheduler", "workload-high", 800, Some("ByNamespace"), everything(json!([scheduler]))),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            Some("ByNamespace"),
            everything(json!([kube_system])),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            Some("ByUser"),
            everything(groups(&["system:serviceaccounts"])),
        ),
        schema("global-default", "global-default", 9900, Some("ByUser"), everything(everybody())),
    ]
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name, "annotations": {AUTO_UPDATE_ANNOTATION: "true"}},
        "spec": spec,
    })
}

fn level(name: &str, spec: Value) -> Value {
    object("PriorityLevelConfiguration", name, spec)
}

fn queued_level(name: &str, shares: i64, lendable_percent: i64, queues: i64, hand_size: i64) -> Value {
    level(
        name,
        json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": lendable_percent,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50},
                },
            },
        }),
    )
}

fn schema(name: &str, level: &str, precedence: i64, distinguisher: Option<&str>, rule: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
    });
    if let Some(method) = distinguisher {
        spec["distinguisherMethod"] = json!({"type": method});
    }
    object("FlowSchema", name, spec)
}

fn everything(subjects: Value) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resource_rule(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

/// A rule about resources in all namespaces and, if asked, at cluster scope.
fn resource_rule(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster_scope {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}
