//! Objects under rules, compared with what kube-apiserver answered (`testdata/rules.recorded.json`, made from
//! `rules.cases.json` by the api crate's `record_objects.py`), and what no recording can show.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::structural::{self, PruneOptions, Root, UnknownFields, compile};

fn whole(case: &Value, body: &Value, schema: &Schema) -> Value {
    let mut object = body.clone();
    object["apiVersion"] = case["apiVersion"].clone();
    object["kind"] = case["kind"].clone();
    object["metadata"]["name"] = "x".into();
    let options = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Report };
    structural::prune(&mut object, schema, options);
    structural::drop_nulls(&mut object, schema);
    structural::default(&mut object, schema);
    object
}

/// Errors sorted as recorded, and warnings.
fn findings(
    case: &Value,
    rules: &Rules,
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
) -> (Vec<String>, Vec<String>) {
    let object = whole(case, new, schema);
    let old = old.map(|old| whole(case, old, schema));
    let errors = structural::validate(&object, schema, &Path::root());
    assert!(blocks_rules(&errors).is_none(), "{errors:?}");
    let mut budget = OBJECT_COST_BUDGET;
    let found = rules.validate(&Path::root(), &object, old.as_ref(), &mut budget);
    let mut errors: Vec<String> =
        found.errors.iter().map(|e| format!("{} {}: {}", e.kind.reason(), e.field, e.body())).collect();
    errors.sort_unstable();
    (errors, found.warnings)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn rules_refuse_and_forgive_what_kube_apiserver_does() {
    let recorded: Vec<Value> =
        serde_json::from_str(include_str!("../../../testdata/rules.recorded.json")).expect("a recording");
    let (mut compared, mut differences) = (0, String::new());
    for case in &recorded {
        let schema = compile(&case["schema"]).expect("a schema");
        let rules = Rules::new(schema.clone());
        let updates = case["updates"].as_array().into_iter().flatten();
        for recorded in case["objects"].as_array().into_iter().flatten().chain(updates) {
            let (errors, mut warnings) = match recorded.get("object") {
                Some(object) => findings(case, &rules, &schema, object, None),
                None => findings(case, &rules, &schema, &recorded["new"], Some(&recorded["old"])),
            };
            let mut expected = texts(&recorded["warnings"]);
            warnings.sort_unstable();
            expected.sort_unstable();
            compared += 1;
            if (&errors, &warnings) != (&texts(&recorded["errors"]), &expected) {
                differences += &format!("{} {recorded}\n  ours: {errors:#?} {warnings:#?}\n", case["name"]);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(compared > 100);
}

#[test]
fn an_object_that_uses_up_its_budget_is_refused() {
    let schema = compile(&json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'"}],
    }}}}))
    .expect("a schema");
    let rules = Rules::new(schema);
    let object = json!({"l": ["a", "a", "a", "a"]});
    let mut budget = 100;
    assert_eq!(rules.validate(&Path::root(), &object, None, &mut budget), Findings::default());
    let spent = 100 - budget;
    let mut budget = spent - 1;
    let found = rules.validate(&Path::root(), &object, None, &mut budget);
    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, [format!("l[3]: Invalid value: \"string\": {OUT_OF_BUDGET}")]);
    assert_eq!(budget, -1);
}

#[test]
fn schema_errors_that_change_what_rules_see_keep_them_from_running() {
    let errors = vec![crate::field::Error::required(&Path::new("spec"), "")];
    let error = blocks_rules(&errors).expect("an error");
    assert!(error.to_string().starts_with("<nil>: Invalid value: null: some validation rules were not checked"));
    assert_eq!(blocks_rules(&vec![crate::field::Error::invalid(&Path::new("a"), 1, "")]), None);
}

/// JSON of any shape, not too deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z(%0-9:é]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-dlmosx]|set|map|spec", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn objects_that_contradict_their_schema_are_refused_without_panic(new in any_json(), old in any_json()) {
        static RECORDED: std::sync::OnceLock<Vec<Rules>> = std::sync::OnceLock::new();
        let all = RECORDED.get_or_init(|| {
            let cases: Vec<Value> =
                serde_json::from_str(include_str!("../../../testdata/rules.recorded.json")).expect("a recording");
            cases.iter().map(|case| Rules::new(compile(&case["schema"]).expect("a schema"))).collect()
        });
        let (new, old) = (json!({"spec": new}), json!({"spec": old}));
        for rules in all {
            let mut budget = OBJECT_COST_BUDGET;
            rules.validate(&Path::root(), &new, None, &mut budget);
            rules.validate(&Path::root(), &new, Some(&old), &mut budget);
        }
    }
}
