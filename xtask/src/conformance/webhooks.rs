//! `webhooks: …` in a case: configurations of admission webhooks that call the suite's own server, made before the case's
//! other steps and waited for until they count. Each is about ConfigMaps of the case's namespace unless it says more.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    kind: Kind,
    /// Webhooks: `at` is the path on the suite's server, everything else is a member of the webhook.
    hooks: Vec<Map<String, Value>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// The set-up steps for `webhooks`.
pub fn steps(raw: Value) -> Result<Vec<Value>> {
    let configurations: Vec<Configuration> = serde_json::from_value(raw).context("in webhooks")?;
    let mut steps = Vec::new();
    for (at, configuration) in configurations.into_iter().enumerate() {
        // A kube-apiserver takes a moment to notice a configuration. A webhook that nobody else is asked about tells.
        let probe = format!("p{at}");
        let mut hooks = vec![webhook(
            json!({"name": "probe.example.com", "at": "teapot", "objectSelector": {"matchLabels": {"probe": probe}}}),
            0,
        )?];
        for (index, hook) in configuration.hooks.into_iter().enumerate() {
            hooks.push(webhook(Value::Object(hook), index)?);
        }
        let path = format!("POST /apis/admissionregistration.k8s.io/v1/{}", configuration.kind.plural());
        let name = format!("{{{{id}}}}-{at}");
        steps.push(json!({"request": path, "json": {"metadata": {"name": name}, "webhooks": hooks}}));
        let object = json!({"metadata": {"name": "probe", "labels": {"probe": probe}}});
        steps.push(json!({
            "request": "POST /api/v1/namespaces/{{ns}}/configmaps?dryRun=All", "json": object, "until": {"@status": 418},
            "compare": [],
        }));
    }
    Ok(steps)
}

fn webhook(said: Value, index: usize) -> Result<Value> {
    let Value::Object(mut said) = said else { bail!("a webhook is a map") };
    let at = said.remove("at").and_then(|at| at.as_str().map(str::to_owned)).unwrap_or_else(|| "allow".to_owned());
    let rule = json!({"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                      "resources": ["configmaps"], "scope": "Namespaced"});
    let mut hook = json!({
        "name": format!("h{index}.example.com"),
        "clientConfig": {"url": format!("{{{{hook}}}}/{at}"), "caBundle": "{{hook_ca}}"},
        "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}},
        "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
    });
    if let Value::Object(members) = &mut hook {
        members.extend(said);
    }
    Ok(hook)
}
