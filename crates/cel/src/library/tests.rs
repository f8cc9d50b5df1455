//! Kubernetes' libraries against cel-go: values, errors, run-time costs and estimates of some hundred expressions, as
//! recorded in `testdata/libraries.recorded.json` from k8s.io/apiserver v0.36 with `jsonpatch` added.

use serde_json::{Value as Json, json};

use crate::cost::{Node, SizeEstimate, SizeEstimator};
use crate::library::{json_patch, kubernetes};
use crate::{Bindings, Budget, Env, EnvBuilder, Value};

/// Expressions in which we differ on purpose, with the reason.
const MEANT_TO_DIFFER: [(&str, &str); 5] = [
    (r#"dyn("%s").format([{1.5: 2}])"#, "a double is no key; we say so before the expression runs"),
    (
        r#"quantity("123456789012345678901234567890123456789012345678901234567890").isGreaterThan(quantity("123456789012345678901234567890123456789012345678901234567889"))"#,
        "we keep 37 digits",
    ),
    (r#"{"a": "x", "b": "x"}.transformMapEntry(k, v, {v: k})"#, "the failing insertion is not charged"),
    (r#"quantity("5") == quantity("5").add(0)"#, "upstream compares a pointer with a value and fails"),
    (r#"quantity("5").add(0) == quantity("5").sub(0)"#, "upstream compares a pointer with a value and fails"),
];

struct NothingKnown;

impl SizeEstimator for NothingKnown {
    fn estimate_size(&self, _: &Node<'_>) -> Option<SizeEstimate> {
        None
    }
}

fn env() -> Env {
    kubernetes().into_iter().fold(Env::builder(), EnvBuilder::library).library(json_patch()).build()
}

/// A value in the shape of the recording.
fn shown(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Int(number) => json!(number),
        Value::Double(number) if number.is_finite() => json!(number),
        Value::Double(number) if number.is_nan() => json!("NaN"),
        Value::Double(number) => json!(if *number > 0.0 { "+Inf" } else { "-Inf" }),
        Value::String(text) => json!(&**text),
        Value::Optional(None) => json!("none"),
        Value::Optional(Some(inner)) => json!({"some": shown(inner)}),
        Value::List(list) => list.iter().map(|item| shown(&item.expect("an item"))).collect(),
        Value::Map(map) => {
            let entry = |key: Value<'_>| {
                let value = map.get(&key).expect("an entry").expect("a value");
                (key.as_str().expect("a text key").to_owned(), shown(&value))
            };
            Json::Object(map.keys().into_iter().map(entry).collect())
        }
        other => json!({"other": other.type_name()}),
    }
}

/// The recording shows values of other types as Go does; of those only that there is one counts.
fn same_value(expected: &Json, ours: &Json) -> bool {
    let go_value = expected.as_str().is_some_and(|text| text.contains("types.") || text.starts_with("cel."));
    match (expected.as_f64(), ours.as_f64()) {
        // JSON does not always read back the very float that was written.
        (Some(expected), Some(ours)) => (expected - ours).abs() <= expected.abs() * 1e-15,
        _ => expected == ours || (go_value && ours.get("other").is_some()),
    }
}

fn differences(env: &Env, case: &Json) -> Vec<String> {
    let expression = case["expression"].as_str().expect("an expression");
    let mut wrong = Vec::new();
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => {
            if case["invalid"] != json!(issues.to_string()) {
                wrong.push(format!("invalid: {issues}\n  expected {case}"));
            }
            return wrong;
        }
    };
    if case.get("invalid").is_some() {
        return vec![format!("valid, expected {}", case["invalid"])];
    }
    let program = match checked.program() {
        Ok(program) => program,
        Err(why) => {
            if case["program"] != json!(why.to_string()) {
                wrong.push(format!("no program: {why}, expected {case}"));
            }
            return wrong;
        }
    };
    let estimate = checked.estimate_cost(&NothingKnown);
    if json!([estimate.min, estimate.max]) != case["estimate"] {
        wrong.push(format!("estimate {}..{}, expected {}", estimate.min, estimate.max, case["estimate"]));
    }
    let bindings = Bindings::new();
    let mut budget = Budget::unlimited();
    match program.evaluate(&bindings, &mut budget) {
        Ok(value) => {
            let value = shown(&value);
            if !same_value(&case["value"], &value) {
                wrong.push(format!("value {value}, expected {case}"));
            }
        }
        Err(error) => {
            if case["error"] != json!(error.to_string()) {
                wrong.push(format!("error {error:?}, expected {case}"));
            }
        }
    }
    if json!(budget.spent()) != case["cost"] {
        wrong.push(format!("cost {}, expected {}", budget.spent(), case["cost"]));
    }
    wrong
}

#[test]
fn libraries_answer_and_cost_as_recorded() {
    let recorded: Vec<Json> =
        serde_json::from_str(include_str!("../../testdata/libraries.recorded.json")).expect("a recording");
    let env = env();
    let mut all = String::new();
    for case in &recorded {
        let expression = case["expression"].as_str().expect("an expression");
        let wrong = differences(&env, case);
        let exempt = MEANT_TO_DIFFER.iter().any(|(known, _)| *known == expression);
        assert!(!(exempt && wrong.is_empty()), "no longer differs: {expression}");
        for line in wrong.iter().filter(|_| !exempt) {
            all += &format!("{expression}\n  {line}\n");
        }
    }
    assert!(all.is_empty(), "{all}");
    assert!(recorded.len() > 300);
}
