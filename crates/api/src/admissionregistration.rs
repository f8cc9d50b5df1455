//! `admissionregistration.k8s.io/v1`: webhook configurations, admission policies and their bindings.
//!
//! Everything about them is checked except that whoever writes a policy or binding may read the parameters it names:
//! that needs the authorizer and is a matter of admission.

mod bindings;
mod expressions;
mod policies;
mod rules;
mod webhooks;

use bailiwick_machinery::table::{Column, TableConvertor};
use bailiwick_machinery::{Resource, Scope, Strategy, object};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, name_column};
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::fields::{list, present, text};
use bindings::Binding;
use policies::{Policy, PolicyStatus};
use webhooks::WebhookConfiguration;

/// Names reserved for configurations that come from files.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// The descriptors of the group.
pub fn resources() -> Vec<Resource> {
    let mut validating_policies = resource(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        Policy::Validating,
        Printer::new(
            || policy_head("Validations", "number of validation rules"),
            |o, now| policy_row("validations", o, now),
        ),
    );
    validating_policies.subresources.push(subresource("status", STATUS_VERBS, PolicyStatus));
    vec![
        resource(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            Policy::Mutating,
            Printer::new(|| policy_head("Mutations", "number of mutations"), |o, now| policy_row("mutations", o, now)),
        ),
        resource(
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            Binding::Mutating,
            Printer::new(binding_head, binding_row),
        ),
        resource(
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            WebhookConfiguration::Mutating,
            Printer::new(webhook_head, webhook_row),
        ),
        validating_policies,
        resource(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            Binding::Validating,
            Printer::new(binding_head, binding_row),
        ),
        resource(
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            WebhookConfiguration::Validating,
            Printer::new(webhook_head, webhook_row),
        ),
    ]
}

fn resource(
    kind: &'static str,
    plural: &'static str,
    strategy: impl Strategy + 'static,
    table: impl TableConvertor + 'static,
) -> Resource {
    let named = Named { group: "admissionregistration.k8s.io", version: "v1", kind, plural };
    Resource { categories: vec!["api-extensions".to_owned()], ..named.stored(Scope::Cluster, strategy, table) }
}

fn static_suffix_warnings(object: &Value) -> Vec<String> {
    if !object::name(object).ends_with(STATIC_SUFFIX) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with {STATIC_SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
    )]
}

fn webhook_head() -> Vec<Column> {
    vec![name_column(), Column::new("Webhooks", "integer", "number of webhooks"), age_column()]
}

fn webhook_row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![json!(object::name(object)), json!(list(object, "webhooks").len()), age(object, now)]
}

fn policy_head(rules: &str, description: &str) -> Vec<Column> {
    vec![
        name_column(),
        Column::new(rules, "integer", description),
        Column::new("ParamKind", "string", "kind of the policy's parameters"),
        age_column(),
    ]
}

fn policy_row(rules: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let param_kind = match present(spec, "paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")),
        None => "<unset>".to_owned(),
    };
    vec![json!(object::name(object)), json!(list(spec, rules).len()), json!(param_kind), age(object, now)]
}

fn binding_head() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("PolicyName", "string", "policy that is bound"),
        Column::new("ParamRef", "string", "parameters the policy is bound to"),
        age_column(),
    ]
}

fn binding_row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let reference = present(spec, "paramRef").map_or_else(|| "<unset>".to_owned(), param_ref_cell);
    vec![json!(object::name(object)), json!(text(spec, "policyName")), json!(reference), age(object, now)]
}

fn param_ref_cell(reference: &Value) -> String {
    match (text(reference, "namespace"), text(reference, "name"), present(reference, "selector")) {
        ("", "", None) | (_, "", None) => "<unset>".to_owned(),
        (_, "", Some(selector)) => selector_as_go_prints_it(selector),
        ("", name, _) => format!("*/{name}"),
        (namespace, name, _) => format!("{namespace}/{name}"),
    }
}

/// The debugging text of Go's generated types, which is what `kubectl get` shows here.
fn selector_as_go_prints_it(selector: &Value) -> String {
    let labels: String = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = list(selector, "matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<&str> = crate::fields::texts(expression, "values");
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(expression, "key"),
                text(expression, "operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::now;

    #[test]
    fn the_tables_show_parameters() {
        for (reference, cell) in [
            (Value::Null, "<unset>"),
            (json!({"name": "a"}), "*/a"),
            (json!({"name": "a", "namespace": "n"}), "n/a"),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
        ] {
            let object = json!({"metadata": {"name": "x"}, "spec": {"policyName": "p", "paramRef": reference}});
            assert_eq!(binding_row(&object, now()), [json!("x"), json!("p"), json!(cell), json!("<unknown>")]);
        }
        let policy = json!({"spec": {"validations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}});
        assert_eq!(policy_row("validations", &policy, now())[1..3], [json!(2), json!("v1/ConfigMap")]);
    }

    #[test]
    fn names_of_files_are_reserved() {
        let warned = |name: &str| static_suffix_warnings(&json!({"metadata": {"name": name}})).len();
        assert_eq!((warned("a.static.k8s.io"), warned("static.k8s.io.a")), (1, 0));
    }
}
