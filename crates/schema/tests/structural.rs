//! Structural schemas from the outside: laws that hold for every schema and object, and hostile input.
//!
//! The last test runs generated schemas and objects for a few seconds, a minute where `CI` is set;
//! `BAILIWICK_FUZZ_SECONDS` sets another time and `BAILIWICK_FUZZ_SEED` repeats a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_schema::field::Path;
use bailiwick_schema::structural::{
    CompileError, MalformedFields, PruneOptions, Root, Schema, UnknownFields, coerce, compile, default, drop_nulls,
    prune, validate, validate_list_types, validate_update,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

const PRUNE: PruneOptions = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Report };
const NAMES: [&str; 6] = ["a", "b", "c", "metadata", "kind", "apiVersion"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..9).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(1.0)),
        Just(json!(1e30)),
        Just(json!(u64::MAX)),
        "[a-c]{0,3}".prop_map(Value::from),
        Just(json!("2024-01-01T00:00:00Z")),
    ]
}

/// Any value, with the names that schemas use.
fn object() -> impl Strategy<Value = Value> {
    let deeper = |inner: BoxedStrategy<Value>| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    };
    scalar().prop_recursive(4, 32, 4, move |inner| deeper(inner.boxed()))
}

fn with(base: Value, more: Vec<(&'static str, Value)>) -> Value {
    let mut base = base;
    for (key, value) in more {
        base[key] = value;
    }
    base
}

fn restriction() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        Just(("nullable", json!(true))),
        Just(("minimum", json!(1))),
        Just(("maximum", json!(2.5))),
        Just(("multipleOf", json!(2))),
        Just(("exclusiveMinimum", json!(true))),
        Just(("maxLength", json!(1))),
        Just(("minLength", json!(2))),
        Just(("pattern", json!("^[a-c]\\w*$"))),
        Just(("format", json!("date-time"))),
        Just(("format", json!("int32"))),
        Just(("enum", json!(["a", 1, null, {"a": 1}]))),
        Just(("maxItems", json!(1))),
        Just(("minItems", json!(1))),
        Just(("maxProperties", json!(1))),
        Just(("required", json!(["a", "b"]))),
        Just(("oneOf", json!([{"required": ["a"]}, {"properties": {"b": {"minimum": 3}}}]))),
        Just(("anyOf", json!([{"minLength": 1}, {"items": {"maximum": 1}}]))),
        Just(("allOf", json!([{"maxLength": 2}, {"not": {"enum": ["a"]}}]))),
        Just(("x-kubernetes-preserve-unknown-fields", json!(true))),
        Just(("x-kubernetes-embedded-resource", json!(true))),
        Just(("x-kubernetes-int-or-string", json!(true))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf =
        (prop::sample::select(&["string", "integer", "number", "boolean", "object"][..]), scalar(), any::<bool>());
    let leaf =
        leaf.prop_map(
            |(kind, default, has_default)| {
                if has_default { json!({"type": kind, "default": default}) } else { json!({"type": kind}) }
            },
        );
    let lists = json!([null, "atomic", "set", "map"]);
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let lists = lists.clone();
        let properties = prop::collection::btree_map(name(), inner.clone(), 0..5);
        let shape = prop_oneof![
            (properties, any::<bool>()).prop_map(|(properties, default)| {
                let schema = json!({"type": "object", "properties": properties});
                if default { with(schema, vec![("default", json!({}))]) } else { schema }
            }),
            inner.clone().prop_map(|schema| json!({"type": "object", "additionalProperties": schema})),
            any::<bool>().prop_map(|allowed| json!({"type": "object", "additionalProperties": allowed})),
            (inner, 0..4_usize).prop_map(move |(items, kind)| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": lists[kind],
                    "x-kubernetes-list-map-keys": ["a", "b"]})
            }),
        ];
        (shape, prop::collection::vec(restriction(), 0..3)).prop_map(|(schema, more)| with(schema, more))
    })
}

/// What happens to an object before it is validated.
fn admit(object: &mut Value, schema: &Schema) {
    prune(object, schema, PRUNE);
    drop_nulls(object, schema);
    let _ = coerce(object, schema, Root::Value, MalformedFields::Drop);
    default(object, schema);
}

fn check_laws(schema: &Arc<Schema>, object: &Value, other: &Value) {
    let mut pruned = object.clone();
    prune(&mut pruned, schema, PRUNE);
    let mut again = pruned.clone();
    assert!(prune(&mut again, schema, PRUNE).is_empty(), "what was pruned has nothing unknown");
    assert_eq!(again, pruned, "pruning is idempotent");

    let mut defaulted = object.clone();
    default(&mut defaulted, schema);
    let mut again = defaulted.clone();
    default(&mut again, schema);
    assert_eq!(again, defaulted, "defaulting is idempotent");

    let mut admitted = object.clone();
    admit(&mut admitted, schema);
    let root = Path::root();
    let errors = validate(&admitted, schema, &root);
    assert_eq!(validate(&admitted, schema, &root), errors, "validation is deterministic");
    let update = validate_update(&admitted, other, schema, &root);
    assert!(update.iter().all(|error| errors.contains(error)), "an update has no faults a creation has not");
    validate_list_types(&admitted, schema, &root);
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent(schema in schema(), object in object(), other in object()) {
        let schema = compile(&schema).expect("generated schemas compile");
        check_laws(&schema, &object, &other);
    }

    #[test]
    fn what_was_pruned_and_defaulted_stays_when_defaults_are_pruned(schema in schema(), object in object()) {
        let schema = compile(&schema).expect("generated schemas compile");
        prop_assume!(defaults_are_pruned(&schema));
        let mut once = object;
        prune(&mut once, &schema, PRUNE);
        default(&mut once, &schema);
        let mut twice = once.clone();
        prune(&mut twice, &schema, PRUNE);
        default(&mut twice, &schema);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn equal_schemas_are_one_allocation(schema in schema()) {
        let one = compile(&schema).expect("compiles");
        prop_assert!(Arc::ptr_eq(&one, &compile(&schema).expect("compiles")));
    }

    #[test]
    fn compiling_never_panics(mut schema in schema(), key in name(), junk in object()) {
        let _ = compile(&junk);
        for field in ["properties", "items", "type", "required", "enum", "default", "maximum", "allOf", "not", key.as_str()] {
            schema[field] = junk.clone();
            if let Ok(compiled) = compile(&schema) {
                validate(&junk, &compiled, &Path::root());
            }
        }
    }
}

fn defaults_are_pruned(schema: &Schema) -> bool {
    let own = schema.default.as_ref().is_none_or(|value| {
        let mut pruned = value.clone();
        let root = if schema.embedded_resource { Root::Resource } else { Root::Value };
        prune(&mut pruned, schema, PruneOptions { root, unknown_fields: UnknownFields::Ignore });
        pruned == *value
    });
    let children = schema.properties.iter().map(|(_, child)| child).chain(&schema.items).chain(schema.additional());
    own && children.into_iter().all(|child| defaults_are_pruned(child))
}

#[test]
fn schemas_that_are_too_deep_are_refused() {
    let nest = |levels: usize| {
        (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}))
    };
    assert!(compile(&nest(100)).is_ok());
    assert_eq!(compile(&nest(200)), Err(CompileError::TooDeep));
    let alternatives = (0..200).fold(json!({}), |inner, _| json!({"anyOf": [inner]}));
    assert_eq!(compile(&alternatives), Err(CompileError::TooDeep));
}

#[test]
fn a_huge_schema_compiles_once_per_different_node() {
    let properties: Map<String, Value> =
        (0..50_000).map(|n| (format!("p{n}"), json!({"type": "string", "maxLength": n % 7}))).collect();
    let schema = compile(&json!({"type": "object", "properties": properties})).expect("large but flat");
    let object: Map<String, Value> = (0..50_000).map(|n| (format!("p{n}"), json!("x".repeat(n % 7 + 1)))).collect();
    let errors = validate(&object.into(), &schema, &Path::root());
    assert_eq!(errors.len(), 10_000, "errors are bounded");
}

#[test]
fn objects_in_which_everything_is_wrong_are_refused_quickly() {
    let keys = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}});
    let schema = compile(&json!({"type": "object", "properties": {
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": keys},
        "enum": {"type": "string", "enum": (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>()},
    }}))
    .expect("schema");
    let items = |value: i64| (0..50_000).map(|n| json!({"k": n.to_string(), "v": value})).collect::<Vec<_>>();
    let (old, new) = (json!({"list": items(5), "enum": "x"}), json!({"list": items(6), "enum": "y"}));
    let errors = validate_update(&new, &old, &schema, &Path::root());
    assert_eq!(errors.len(), 10_000);
}

/// Prints the input that broke a law.
struct ShownOnPanic<'a>([&'a Value; 3]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let [schema, one, other] = self.0;
            println!("schema {schema}\nobject {one}\nother {other}");
        }
    }
}

#[test]
fn generated_schemas_and_objects_keep_the_laws() {
    let seconds = match std::env::var("BAILIWICK_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()) {
        Some(seconds) => seconds,
        None if std::env::var_os("CI").is_some() => 60,
        None => 3,
    };
    let seed: u64 = std::env::var("BAILIWICK_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |now| now.as_millis() as u64)
    });
    println!("BAILIWICK_FUZZ_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while Instant::now() < end {
        let schema = schema().new_tree(&mut runner).expect("schema").current();
        let compiled = compile(&schema).expect("generated schemas compile");
        for _ in 0..8 {
            let one = object().new_tree(&mut runner).expect("object").current();
            let other = object().new_tree(&mut runner).expect("object").current();
            let shown = ShownOnPanic([&schema, &one, &other]);
            check_laws(&compiled, &one, &other);
            drop(shown);
        }
        rounds += 1;
    }
    assert!(rounds > 0);
}
