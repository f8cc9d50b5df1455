//! `cargo xtask bench --policies 100`: what ValidatingAdmissionPolicies cost a write. Half of them match the objects that
//! are written and evaluate a rule, half match others; the same writes are measured before there are any.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{CPU, P99, RATE, Scenario};
use crate::conformance::servers::Running;

/// The peer takes policies up once a second.
const ACTIVE_AFTER_MAX: Duration = Duration::from_secs(60);
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Writes without policies, and with them.
pub fn scenarios(operations: u32) -> Vec<Scenario> {
    let of = |name: &'static str, shown, arguments: String| Scenario {
        name,
        shown,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    };
    vec![
        of("create without policies, 16 at once", &[RATE, CPU, P99], format!("create --ns p1 --c 16 --n {operations}")),
        of("update without policies, 16 at once", &[RATE, CPU, P99], format!("update --ns p1 --c 16 --n {operations}")),
        of("", &[], String::new()),
        of("create with policies, 16 at once", &[RATE, CPU, P99], format!("create --ns p2 --c 16 --n {operations}")),
        of("update with policies, 16 at once", &[RATE, CPU, P99], format!("update --ns p2 --c 16 --n {operations}")),
    ]
}

/// Makes the policies and waits until the last of them is in force.
pub fn install(running: &Running, policies: u32) -> Result<()> {
    let server = &running.server;
    for number in 0..policies {
        let resource = if number % 2 == 0 { "configmaps" } else { "secrets" };
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]});
        let name = format!("bench-{number:03}");
        let policy = json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{
                "expression": format!("!has(object.data) || object.data.all(key, key.size() < 100 && key != 'forbidden-{number}')"),
                "message": "the data has a key that it may not have",
            }],
        }});
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        for (plural, object) in
            [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
        {
            let status = server.post(&format!("{GROUP}/{plural}"), &object)?;
            if status != 201 {
                bail!("{plural} {name}: {status}");
            }
        }
    }
    let last = policies.saturating_sub(1) / 2 * 2;
    let probe: Value = json!({"metadata": {"name": "probe"}, "data": {format!("forbidden-{last}"): "x"}});
    let before = Instant::now();
    while server.post("/api/v1/namespaces/default/configmaps?dryRun=All", &probe)? != 422 {
        if before.elapsed() > ACTIVE_AFTER_MAX {
            bail!("the policies never came into force");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
