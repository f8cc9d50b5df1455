//! Whoever has changed a definition finds the change in the next request: nothing here asks twice.

use serde_json::{Value, json};

use crate::plane::{DEFINITIONS, Plane, definition, thing};

const GROUP: &str = "changes.example.com";
const THINGS: &str = "/apis/changes.example.com/v1/namespaces/default/things";

fn schema(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schema_holds_for_the_next_request_in_discovery_and_openapi_too() {
    let plane = Plane::start().await;
    plane.establish(&definition(GROUP, &[schema(json!({"size": {"type": "integer"}}))])).await;
    let path = format!("{DEFINITIONS}/things.{GROUP}");
    for round in 0..25 {
        let field = format!("field{round}");
        let change = |schemas: &[Value]| json!({"spec": definition(GROUP, schemas)["spec"]});
        // Another rule, another field, another column and a second version that comes and goes.
        let first =
            schema(json!({"size": {"type": "integer", "maximum": round}, &field: {"type": "string", "default": "d"}}));
        let second = schema(json!({&field: {"type": "string"}}));
        let schemas = if round % 2 == 0 { vec![first, second] } else { vec![first] };
        let (status, answer) = plane.send("PATCH", &path, &change(&schemas)).await;
        assert_eq!(status, 200, "{answer}");

        let name = format!("a{round}");
        let (status, made) = plane.send("POST", THINGS, &thing(GROUP, &name, json!({"size": round}))).await;
        assert_eq!((status, &made["spec"][&field]), (201, &json!("d")), "round {round}: the new default: {made}");
        let (status, refused) = plane.send("POST", THINGS, &thing(GROUP, "b", json!({"size": round + 1}))).await;
        assert_eq!(status, 422, "round {round}: the new maximum: {refused}");

        let second_version = format!("/apis/{GROUP}/v2");
        let served = if round % 2 == 0 { 200 } else { 404 };
        assert_eq!(plane.get(&second_version).await.0, served, "round {round}: discovery of the version");
        let group = plane.get(&format!("/apis/{GROUP}")).await.1;
        assert_eq!(group["versions"].as_array().map(Vec::len), Some(schemas.len()), "round {round}: {group}");
        assert_eq!(plane.get(&format!("{second_version}/namespaces/default/things/{name}")).await.0, served);

        let document = plane.get(&format!("/openapi/v3/apis/{GROUP}/v1")).await.1;
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let ours = schemas.values().find(|schema| schema["x-kubernetes-group-version-kind"][0]["kind"] == "Thing");
        let properties = ours.map(|schema| &schema["properties"]["spec"]["properties"]).expect("the type");
        assert_eq!(properties["size"]["maximum"], json!(round), "round {round}: OpenAPI v3");
        assert!(properties[&field].is_object(), "round {round}: {properties}");
        let index = plane.get("/openapi/v3").await.1;
        let listed = index["paths"].get(format!("apis/{GROUP}/v2")).is_some();
        assert_eq!(listed, round % 2 == 0, "round {round}: the index of OpenAPI v3");
        if round % 8 == 0 {
            let text = String::from_utf8(plane.bytes("GET", "/openapi/v2", &Value::Null).await.1.to_vec()).unwrap();
            assert!(text.contains(&format!("\"{field}\"")), "round {round}: OpenAPI v2");
        }
    }
}
