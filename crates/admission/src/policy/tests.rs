//! What policies do to requests.

use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, UserInfo};
use serde_json::{Value, json};

use super::*;
use crate::chain::{Chain, Plugin};
use crate::testing::{TestHost, World, request, resource};
use crate::{Notes, Operation};

fn constraints() -> Value {
    let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    json!({"resourceRules": [rule], "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
}

/// A policy named `p` with these members of its spec, bound by `b`.
struct Case {
    spec: Value,
    binding: Value,
    parameters: Vec<Value>,
    notes: Notes,
}

impl Case {
    fn new(spec: Value) -> Self {
        let binding = json!({"validationActions": ["Deny"]});
        Self { spec, binding, parameters: Vec::new(), notes: Notes::default() }
    }

    fn bound(mut self, binding: Value) -> Self {
        self.binding = binding;
        self
    }

    fn policies(&self, policies: &Policies) {
        let mut policy = json!({"metadata": {"name": "p"}, "spec": self.spec});
        policy["spec"]["matchConstraints"] = constraints();
        let mut binding = json!({"metadata": {"name": "b"}, "spec": self.binding});
        binding["spec"]["policyName"] = "p".into();
        policies.apply(Stored::Binding, &Change::Put(&binding));
        policies.apply(Stored::Policy, &Change::Put(&policy));
    }

    fn run(&self, plugin: Box<dyn Plugin>, object: &mut Value) -> ApiResult<()> {
        let things = resource("example.com", "Thing", "things");
        let user = UserInfo { name: "alice".into(), ..UserInfo::default() };
        let host = TestHost { parameters: self.parameters.clone(), ..TestHost::default() };
        let mut attributes = request(Operation::Create, &things, &user, "a", Some(object));
        attributes.host = &host;
        attributes.notes = &self.notes;
        let chain = Chain::new(vec![plugin]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            chain.mutate(&mut attributes, &World::default()).await?;
            chain.validate(&attributes, &World::default()).await.map(drop)
        })
    }

    fn validate(&self, object: Value) -> ApiResult<()> {
        let policies = Policies::validating();
        self.policies(&policies);
        let mut object = object;
        self.run(Box::new(ValidatingAdmissionPolicy::new(policies)), &mut object)
    }

    fn mutate(&self, mut object: Value) -> ApiResult<Value> {
        let policies = Policies::mutating();
        self.policies(&policies);
        self.run(Box::new(MutatingAdmissionPolicy::new(policies)), &mut object).map(|()| object)
    }
}

fn object() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"n": 3}})
}

fn refused(result: ApiResult<impl std::fmt::Debug>) -> (u16, &'static str, String) {
    let ApiError { code, reason, message, .. } = result.expect_err("refused");
    (code, reason, message)
}

fn rule(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

#[test]
fn a_rule_that_does_not_hold_refuses_the_request() {
    assert_eq!(Case::new(rule("object.spec.n == 3")).validate(object()), Ok(()));
    assert_eq!(
        refused(Case::new(rule(" object.spec.n > 3 ")).validate(object())),
        (
            422,
            "Invalid",
            "things.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.spec.n > 3"
                .to_owned()
        )
    );
}

#[test]
fn messages_and_reasons_are_the_first_that_are_of_use() {
    let message = |validation: Value| refused(Case::new(json!({"validations": [validation]})).validate(object()));
    let said = |text: &str| text.rsplit(": ").next().unwrap_or_default().to_owned();
    let (code, reason, text) = message(json!({"expression": "false", "message": " m ", "reason": "Forbidden"}));
    assert_eq!((code, reason, said(&text).as_str()), (403, "Forbidden", "m"));
    for (expression, expected) in
        [("'n is ' + string(object.spec.n)", "n is 3"), ("object.none", "m"), ("'a\\nb'", "m"), ("'  '", "m")]
    {
        let (_, _, text) = message(json!({"expression": "false", "message": "m", "messageExpression": expression}));
        assert_eq!(said(&text), expected, "{expression}");
    }
}

#[test]
fn failures_to_evaluate_count_by_the_failure_policy() {
    let (code, _, text) = refused(Case::new(rule("object.none == 1")).validate(object()));
    assert_eq!(code, 422);
    assert!(text.ends_with("expression 'object.none == 1' resulted in error: no such key: none"), "{text}");
    let mut spec = rule("object.none == 1");
    spec["failurePolicy"] = "Ignore".into();
    assert_eq!(Case::new(spec).validate(object()), Ok(()));
}

#[test]
fn warnings_and_audit_annotations_do_not_refuse() {
    let mut spec = rule("false");
    spec["auditAnnotations"] =
        json!([{"key": "k", "valueExpression": "'v'"}, {"key": "none", "valueExpression": "null"}]);
    let case = Case::new(spec).bound(json!({"validationActions": ["Warn", "Audit"]}));
    assert_eq!(case.validate(object()), Ok(()));
    assert_eq!(
        case.notes.take_warnings(),
        ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"]
    );
    let noted: Vec<(String, String)> = case.notes.take_annotations().into_iter().map(|a| (a.key, a.value)).collect();
    assert_eq!(noted.len(), 2, "{noted:?}");
    assert_eq!(noted[0].0, "validation.policy.admission.k8s.io/validation_failure");
    assert_eq!(noted[1], ("p/k".to_owned(), "v".to_owned()));
}

#[test]
fn parameters_are_found_for_each_request() {
    let mut spec = rule("object.spec.n < int(params.data.max)");
    spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let binding =
        json!({"validationActions": ["Deny"], "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let mut case = Case::new(spec).bound(binding);
    let (_, _, text) = refused(case.validate(object()));
    assert!(
        text.ends_with(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        ),
        "{text}"
    );
    let limits = |max: &str| json!({"metadata": {"namespace": "ns", "name": "limits"}, "data": {"max": max}});
    case.parameters = vec![limits("4")];
    assert_eq!(case.validate(object()), Ok(()));
    case.parameters = vec![limits("3")];
    assert!(case.validate(object()).is_err());
    case.spec["paramKind"] = json!({"apiVersion": "example.com/v1", "kind": "Unknown"});
    let (_, _, text) = refused(case.validate(object()));
    assert!(
        text.ends_with("ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Unknown'"),
        "{text}"
    );
}

#[test]
fn budgets_end_a_policy() {
    let expensive = "authorizer.group('').resource('x').check('get').allowed()";
    let expensive = [expensive, expensive].join(" && ");
    let rules: Vec<Value> = (0..16).map(|_| json!({"expression": expensive})).collect();
    let (_, _, text) = refused(Case::new(json!({"validations": rules})).validate(object()));
    assert!(
        text.ends_with("validation failed due to running out of cost budget, no further validation rules will be run")
    );
}

fn apply(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn patch(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

#[test]
fn mutations_change_the_object() {
    let labelled =
        Case::new(apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}")).mutate(object()).expect("ok");
    assert_eq!(labelled["metadata"], json!({"name": "a", "labels": {"a": "b"}}));
    let patched = Case::new(patch("[JSONPatch{op: 'replace', path: '/spec/n', value: object.spec.n + 1}]"));
    assert_eq!(patched.mutate(object()).expect("ok")["spec"]["n"], 4);
    let tested =
        Case::new(patch("[JSONPatch{op: 'test', path: '/spec/n', value: 9}, JSONPatch{op: 'remove', path: '/spec'}]"));
    assert_eq!(tested.mutate(object()), Ok(object()));
}

#[test]
fn mutations_that_fail_refuse_the_request() {
    for (spec, expected) in [
        (
            patch("[JSONPatch{op: 'remove', path: '/none'}]"),
            "JSON Patch: error in remove for path: '/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            apply("Object{spec: Object.other{n: 1}}"),
            "type mismatch: unexpected type name \"Object.other\", expected \"Object.spec\", which matches field name path from root Object type",
        ),
        (
            apply("Object{spec: object.none}"),
            "expression 'Object{spec: object.none}' resulted in error: no such key: none",
        ),
    ] {
        let (code, reason, text) = refused(Case::new(spec).mutate(object()));
        assert_eq!((code, reason), (403, "Invalid"));
        assert_eq!(text, format!("policy 'p' with binding 'b' denied request: {expected}"));
    }
}

#[test]
fn what_is_gone_is_no_longer_in_force() {
    let policies = Policies::validating();
    Case::new(rule("false")).policies(&policies);
    assert!(!policies.is_empty());
    policies.apply(Stored::Binding, &Change::Delete("b"));
    assert!(policies.is_empty());
}

#[test]
fn policies_and_reviews_are_never_held_against_policies() {
    let user = UserInfo::default();
    for (group, kind, plural, exempt) in [
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", true),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
        ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", true),
        ("", "ConfigMap", "configmaps", false),
    ] {
        let resource = resource(group, kind, plural);
        assert_eq!(is_exempt(&request(Operation::Create, &resource, &user, "a", None)), exempt, "{plural}");
    }
}
