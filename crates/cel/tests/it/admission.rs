//! The environment of admission: its variables, composed variables and constructed patches.

use bailiwick_cel::admission::{Compiled, Composition, Declared, Params};
use bailiwick_cel::{Bindings, Budget, LargeIntegers, LazyVariables, Type, Value, decl};
use serde_json::{Value as Json, json};

const ALL: Declared = Declared::Patches(Params::Declared);
const PLAIN: Declared = Declared::WithAccess(Params::Absent);

fn issue(text: &str, returns: &[Type], declared: Declared) -> String {
    Compiled::new(declared.environment(), text, returns).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn messages_are_those_of_the_reference() {
    assert_eq!(issue("1", &[Type::Bool], PLAIN), "must evaluate to bool but got int");
    assert_eq!(
        issue("1", &[Type::String, Type::Null], PLAIN),
        "must evaluate to one of [string null_type] but got int"
    );
    assert_eq!(
        issue("params.x == 1", &[Type::Bool], PLAIN),
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"
    );
    assert_eq!(
        issue("request.kind == 'a'", &[Type::Bool], PLAIN),
        "compilation failed: ERROR: <input>:1:14: found no matching overload for '_==_' applied to '(kubernetes.GroupVersionKind, string)'\n | request.kind == 'a'\n | .............^"
    );
    assert_eq!(
        issue("JSONPatch{op: 1}", &[Type::Dyn], ALL),
        "compilation failed: ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'\n | JSONPatch{op: 1}\n | ............^"
    );
    assert!(issue("Object{}", &[Type::Dyn], PLAIN).contains("undeclared reference to 'Object'"));
    assert_eq!(issue("Object{}", &[Type::structure("Object")], ALL), "");
    assert_eq!(issue("[JSONPatch{op: 'add'}]", &[Type::list(Type::structure("JSONPatch"))], ALL), "");
    assert_eq!(
        issue("Object.spec{}", &[Type::structure("Object")], ALL),
        "must evaluate to Object but got Object.spec"
    );
}

fn evaluate(variables: &[(&str, &str)], text: &str, object: &Json) -> (Result<Json, String>, u64) {
    let mut composition = Composition::new();
    for (name, expression) in variables {
        let _ = composition.declare(name, expression, ALL);
    }
    let compiled = composition.compile(text, &[Type::Dyn], ALL).expect("compiles");
    let variables = composition.into_variables();
    let bindings = Bindings::new().bind("object", decl::dynamic(object));
    let mut lazy = LazyVariables::new(&variables);
    let mut budget = Budget::unlimited();
    let outcome = compiled.program.evaluate_with(&bindings, &mut lazy, &mut budget);
    let shown = outcome.and_then(|value: Value<'_>| value.to_json(LargeIntegers::Text));
    (shown.map_err(|error| error.to_string()), lazy.take_spent())
}

#[test]
fn variables_are_computed_once_and_only_when_needed() {
    let object = json!({"a": 3});
    let chain = [("x", "object.a * 2"), ("y", "variables.x + variables.x")];
    assert_eq!(evaluate(&chain, "variables.y + variables.x", &object).0, Ok(json!(18)));
    // Four for each of them, however often they are used: an attribute with one step, and the operator.
    assert_eq!(evaluate(&[("x", "object.a * 2")], "variables.x + variables.x", &object).1, 3);
    assert_eq!(evaluate(&[("bad", "object.none")], "true || variables.bad", &object), (Ok(json!(true)), 0));
    assert_eq!(
        evaluate(&[("bad", "object.none")], "variables.bad == 1", &object).0,
        Err("composited variable \"bad\" fails to evaluate: no such key: none".to_owned())
    );
    assert!(evaluate(&[("bad", "nothing")], "variables.bad == 1", &object).0.is_err_and(|error| error.starts_with(
        "composited variable \"bad\" fails to compile: compilation failed: ERROR: <input>:1:1: undeclared"
    )));
    assert_eq!(evaluate(&chain, "has(variables.y) && variables.?x.orValue(1) == 6", &object).0, Ok(json!(true)));
}

#[test]
fn unknown_variables_are_undefined_fields() {
    let composition = Composition::new();
    let error = composition.compile("variables.x", &[Type::Dyn], ALL).expect_err("not declared");
    assert!(error.to_string().contains("undefined field 'x'"), "{error}");
}

#[test]
fn a_chain_of_variables_ends_before_the_stack_does() {
    let mut composition = Composition::new();
    composition.declare("v0", "1", ALL).expect("compiles");
    // A variable that names itself, which it can where the name was declared before.
    composition.declare("v0", "variables.v0 + 1", ALL).expect("compiles");
    let compiled = composition.compile("variables.v0", &[Type::Dyn], ALL).expect("compiles");
    let variables = composition.into_variables();
    let bindings = Bindings::new();
    let mut lazy = LazyVariables::new(&variables);
    let outcome = compiled.program.evaluate_with(&bindings, &mut lazy, &mut Budget::unlimited());
    assert!(outcome.is_err_and(|error| error.to_string().contains("nested too deep")));
}

#[test]
fn patches_are_constructed() {
    let object = json!({"metadata": {"labels": {"a": "b"}}});
    let text = "Object{metadata: Object.metadata{labels: object.metadata.labels, ?annotations: optional.none()}}";
    assert_eq!(evaluate(&[], text, &object).0, Ok(json!({"metadata": {"labels": {"a": "b"}}})));
    let text = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y'), value: {'k': [1, 2]}}]";
    assert_eq!(evaluate(&[], text, &object).0, Ok(json!([{"op": "add", "path": "/a/x~1y", "value": {"k": [1, 2]}}])));
    assert_eq!(
        evaluate(&[], "JSONPatch{op: dyn(1)}", &object).0,
        Err("unexpected type int64 for JSONPatchType 'op' field".to_owned())
    );
}
