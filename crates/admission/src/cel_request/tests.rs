//! What match conditions see and say.

use bailiwick_machinery::UserInfo;

use super::*;
use crate::Operation;
use crate::testing::{request, resource};

fn verdict(expressions: &[&str], policy: FailurePolicy) -> Verdict {
    let conditions: Vec<Value> =
        expressions.iter().enumerate().map(|(at, e)| json!({"name": format!("c{at}"), "expression": e})).collect();
    let conditions = MatchConditions::compile(&json!({"matchConditions": conditions}), Params::Absent);
    let things = resource("example.com", "Thing", "things");
    let user = UserInfo { name: "alice".into(), groups: vec!["dev".into()], ..UserInfo::default() };
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"n": 3}});
    let attributes = request(Operation::Create, &things, &user, "a", Some(&mut object));
    let matched = Matched { resource: attributes.resource_ref(), kind: attributes.kind };
    let versioned =
        Versioned { object: attributes.object.as_deref().map(std::borrow::Cow::Borrowed), old_object: None };
    conditions.evaluate_request(&attributes, matched, &versioned, policy)
}

#[test]
fn conditions_see_the_request() {
    for expression in [
        "object.spec.n == 3 && oldObject == null",
        "request.userInfo.username == 'alice' && 'dev' in request.userInfo.groups",
        "request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'ns' && !request.dryRun",
        "request.resource.resource == 'things' && request.kind.kind == 'Thing' && !has(request.subResource)",
        "request.options.kind == 'CreateOptions'",
        "namespaceObject == null",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "!authorizer.serviceAccount('ns', 'x').group('').resource('pods').check('get').allowed()",
        "authorizer.requestResource.check('delete').reason() == 'delete example.com things a in ns'",
    ] {
        assert_eq!(verdict(&[expression], FailurePolicy::Fail), Verdict::Matches, "{expression}");
    }
}

#[test]
fn one_false_condition_excludes_whatever_the_others_say() {
    let excluded = |at: usize| Verdict::Excluded(Some(format!("c{at}").into()));
    assert_eq!(verdict(&["true", "false", "false"], FailurePolicy::Fail), excluded(1));
    assert_eq!(verdict(&["object.spec.x == 1", "false"], FailurePolicy::Fail), excluded(1));
}

#[test]
fn failures_follow_the_failure_policy() {
    let failing = &["object.spec.x == 1", "true"];
    assert_eq!(
        verdict(failing, FailurePolicy::Fail),
        Verdict::Failed("expression 'object.spec.x == 1' resulted in error: no such key: x".to_owned())
    );
    assert_eq!(verdict(failing, FailurePolicy::Ignore), Verdict::Excluded(None));
    let failing = &["object.spec.x == 1", "object.spec.y == 1"];
    let Verdict::Failed(text) = verdict(failing, FailurePolicy::Fail) else { panic!("must fail") };
    assert!(text.starts_with('[') && text.contains(", expression 'object.spec.y"), "{text}");
}

#[test]
fn an_expensive_condition_runs_out_of_budget() {
    let check = "authorizer.group('').resource('pods').check('get').allowed()";
    let expensive = [check, check].join(" && ");
    let conditions = [expensive.as_str(); 4];
    assert_eq!(verdict(&conditions, FailurePolicy::Fail), Verdict::Failed(OUT_OF_BUDGET.to_owned()));
}
