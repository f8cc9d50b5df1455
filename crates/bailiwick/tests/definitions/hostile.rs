//! Definitions that are as large, deep or expensive as they may be: established for real, published in OpenAPI and used to
//! validate objects, without a hang.

use serde_json::{Map, Value, json};

use crate::plane::{Plane, brief, definition, thing};

pub const MIB: u64 = 1024 * 1024;

/// A hostile schema of `spec`, something it accepts and something it refuses.
pub struct Hostile {
    pub group: &'static str,
    pub spec: Value,
    pub good: Value,
    pub bad: Value,
}

pub fn hostile() -> Vec<Hostile> {
    let enumerated: Vec<String> = (0..20_000).map(|n| format!("value-{n}")).collect();
    let wide: Map<String, Value> = (0..4_000)
        .map(|n| {
            let described = json!({"type": "integer", "maximum": n, "description": "x".repeat(200)});
            (format!("property{n}"), described)
        })
        .collect();
    let deep = |leaf: Value, wrap: &dyn Fn(Value) -> Value| (0..40).fold(leaf, |inner, _| wrap(inner));
    let patterns: Map<String, Value> = (0..500)
        .map(|n| (format!("p{n}"), json!({"type": "string", "pattern": format!("^(a|a?){{1,20}}(b+)+{n}$")})))
        .collect();
    let rules: Vec<Value> = (0..20)
        .map(|n| json!({"rule": format!("self.items.all(a, self.items.all(b, a + b >= {n} - 40))"), "message": "too small"}))
        .collect();
    vec![
        Hostile {
            group: "enum.example.com",
            spec: json!({"type": "object", "properties": {"a": {"type": "string", "enum": enumerated}}}),
            good: json!({"a": "value-19999"}),
            bad: json!({"a": "value-20000"}),
        },
        Hostile {
            group: "wide.example.com",
            spec: json!({"type": "object", "properties": wide}),
            good: json!({"property3999": 3999, "unknown": "is pruned"}),
            bad: json!({"property3999": 4000}),
        },
        Hostile {
            group: "described.example.com",
            spec: json!({"type": "object", "description": "d".repeat(900_000), "properties": {"a": {"type": "boolean"}}}),
            good: json!({"a": true}),
            bad: json!({"a": "true"}),
        },
        Hostile {
            group: "deep.example.com",
            spec: deep(
                json!({"type": "string", "maxLength": 3}),
                &|inner| json!({"type": "object", "properties": {"n": inner}}),
            ),
            good: deep(json!("abc"), &|inner| json!({"n": inner})),
            bad: deep(json!("abcd"), &|inner| json!({"n": inner})),
        },
        Hostile {
            group: "patterns.example.com",
            spec: json!({"type": "object", "properties": patterns}),
            good: json!({"p7": "aaab7"}),
            bad: json!({"p7": format!("{}c", "a".repeat(50_000))}),
        },
        Hostile {
            group: "rules.example.com",
            spec: json!({
                "type": "object", "required": ["items"], "x-kubernetes-validations": rules,
                "properties": {"items": {"type": "array", "maxItems": 20, "items": {"type": "integer"}}},
            }),
            good: json!({"items": [1, 2, 3]}),
            bad: json!({"items": [-30, 2]}),
        },
    ]
}

async fn use_it(plane: &Plane, hostile: &Hostile) {
    let group = hostile.group;
    let schema = json!({"type": "object", "properties": {"spec": hostile.spec}});
    plane.establish(&definition(group, &[schema])).await;
    let things = format!("/apis/{group}/v1/namespaces/default/things");
    let (status, made) = plane.send("POST", &things, &thing(group, "good", hostile.good.clone())).await;
    assert_eq!(status, 201, "{group}: {}", brief(&made));
    assert_eq!(made["spec"].get("unknown"), None, "{group}: unknown fields are pruned");
    let (status, answer) = plane.bytes("POST", &things, &thing(group, "bad", hostile.bad.clone())).await;
    assert_eq!(status, 422, "{group}: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
    assert!(answer.len() as u64 <= MIB, "{group}: a refusal of {} bytes", answer.len());
    let (status, document) = plane.get(&format!("/openapi/v3/apis/{group}/v1")).await;
    assert_eq!(status, 200, "{group}");
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let published = schemas.values().find_map(|schema| schema.pointer("/properties/spec"));
    let first_property = hostile.spec["properties"].as_object().and_then(|all| all.keys().next()).expect("a property");
    assert!(published.is_some_and(|spec| spec["properties"].get(first_property).is_some()), "{group}: it is published");
    let (status, explained) = plane.bytes("GET", "/openapi/v2", &Value::Null).await;
    assert!(status == 200 && explained.len() > 100_000, "{group}: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_definitions_are_established_published_and_used() {
    let plane = Plane::start().await;
    for hostile in hostile() {
        use_it(&plane, &hostile).await;
    }
    // All of them at once, and others are not disturbed.
    let (status, _) = plane.get("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(status, 200);
}
