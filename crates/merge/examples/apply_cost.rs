//! What field management adds to a write: `cargo run --release -p bailiwick-merge --example apply_cost`.
//!
//! Prints microseconds of processor time per call for a ConfigMap of 1 KiB and a custom resource with 30 properties.

use std::hint::black_box;

use bailiwick_merge::apply::{FieldManager, Force, NoOtherVersions, ResetFields, TypeRef};
use bailiwick_schema::decode::decode_value;
use bailiwick_schema::structural;
use bailiwick_schema::time::Instant;
use bailiwick_schema::types::Types;
use serde_json::{Map, Value, json};

const NOW: Instant = Instant { unix_seconds: 1_700_000_000, nanoseconds: 0 };
const ROUNDS: u32 = 50;
const BATCH: u32 = 100;

fn main() {
    let ty = Types::native().by_gvk("", "v1", "ConfigMap").expect("a native type");
    let data: Map<String, Value> = (0..8).map(|i| (format!("key-{i}"), json!("v".repeat(100)))).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(), "data": data});
    let object = decode_value(ty, &object).expect("a config map").value;
    measure("ConfigMap, 1 KiB", TypeRef::native(ty), "v1", "ConfigMap", object, &["data", "key-3"]);

    let properties: Map<String, Value> = (0..28).map(|i| (format!("field{i}"), json!({"type": "string"}))).collect();
    let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    schema["properties"]["spec"]["properties"]["ports"] = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}},
    });
    schema["properties"]["spec"]["properties"]["tags"] =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema = structural::compile(&schema).expect("a structural schema");
    let mut spec: Map<String, Value> = (0..28).map(|i| (format!("field{i}"), json!("w".repeat(25)))).collect();
    spec.insert("ports".to_owned(), json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]));
    spec.insert("tags".to_owned(), json!(["a", "b", "c"]));
    let object = json!({"apiVersion": "x.test/v1", "kind": "Widget", "metadata": metadata(), "spec": spec});
    measure(
        "custom resource, 30 properties",
        TypeRef::custom(&schema),
        "x.test/v1",
        "Widget",
        object,
        &["spec", "field3"],
    );
}

fn metadata() -> Value {
    json!({"name": "x", "namespace": "default", "labels": {"app": "x", "team": "y"}})
}

fn measure(name: &str, types: TypeRef<'_>, api_version: &str, kind: &str, object: Value, changed: &[&str; 2]) {
    let reset = ResetFields::NONE;
    let fields = FieldManager { types, api_version, kind, subresource: "", reset: &reset, converter: &NoOtherVersions };
    println!("{name}: {} bytes", object.to_string().len());

    let mut live = object.clone();
    fields.create(&mut live, "kubectl-create", NOW).expect("tracked");
    live["metadata"]["uid"] = json!("8a2e7bd4-0000-4000-8000-000000000000");
    live["metadata"]["resourceVersion"] = json!("7");
    let mut other = live.clone();
    other[changed[0]][changed[1]] = json!("changed");
    let mut second = other.clone();
    fields.update(&live, &mut second, "controller", NOW).expect("tracked");
    let mut third = second.clone();
    third[changed[0]][changed[1]] = json!("changed again");

    timed("create", || object.clone(), |new| fields.create(new, "kubectl-create", NOW).is_ok());
    timed("update, nothing changed", || live.clone(), |new| fields.update(&live, new, "controller", NOW).is_ok());
    timed("update, one field taken", || other.clone(), |new| fields.update(&live, new, "controller", NOW).is_ok());
    timed("update, one own field", || third.clone(), |new| fields.update(&second, new, "controller", NOW).is_ok());

    let config = object;
    let applied = fields.apply(None, &config, "applier", Force::No, NOW).expect("applied").object;
    let mut more = config.clone();
    more[changed[0]][changed[1]] = json!("changed");
    timed("apply, creates", || (), |_| fields.apply(None, &config, "applier", Force::No, NOW).is_ok());
    timed(
        "apply, nothing changed",
        || (),
        |_| fields.apply(Some(&applied), &config, "applier", Force::No, NOW).is_ok(),
    );
    timed("apply, one field", || (), |_| fields.apply(Some(&applied), &more, "applier", Force::No, NOW).is_ok());
}

/// The cost of `run` without that of making and dropping its input.
fn timed<T>(name: &str, make: impl Fn() -> T, run: impl Fn(&mut T) -> bool) {
    let mut nanos = 0;
    for _ in 0..ROUNDS {
        let mut inputs: Vec<T> = (0..BATCH).map(|_| make()).collect();
        let start = cpu_nanos();
        for input in &mut inputs {
            assert!(black_box(run(black_box(input))));
        }
        nanos += cpu_nanos() - start;
    }
    println!("  {name}: {:.2} µs", nanos as f64 / 1e3 / f64::from(ROUNDS * BATCH));
}

/// Processor time of this thread, which other programs on a busy machine do not add to.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}
