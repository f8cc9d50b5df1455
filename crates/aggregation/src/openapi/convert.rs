//! A version 3 document of one of version 2, for servers that have only the latter.

use serde_json::{Map, Value, json};

/// What a parameter of version 2 says about its value, which version 3 says in a schema.
const OF_VALUE: [&str; 17] = [
    "type",
    "format",
    "items",
    "default",
    "enum",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "collectionFormat",
];
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
const JSON: &str = "application/json";

/// The document in version 3.
pub(super) fn to_v3(document: &Value) -> Value {
    let mut components = Map::new();
    if let Some(definitions) = object(document, "definitions") {
        let schemas = definitions.iter().map(|(name, schema)| (name.clone(), with_references(schema.clone())));
        components.insert("schemas".into(), Value::Object(schemas.collect()));
    }
    if let Some(parameters) = object(document, "parameters") {
        let others = parameters.iter().filter(|(_, parameter)| parameter["in"] != "body");
        let converted = others.map(|(name, value)| (name.clone(), parameter(value)));
        components.insert("parameters".into(), Value::Object(converted.collect()));
    }
    if let Some(schemes) = object(document, "securityDefinitions") {
        components.insert("securitySchemes".into(), Value::Object(schemes.clone()));
    }
    let paths = object(document, "paths").into_iter().flatten();
    let paths: Map<String, Value> = paths.map(|(path, item)| (path.clone(), path_item(document, item))).collect();
    let info = document.get("info").cloned().unwrap_or_else(|| json!({"title": "", "version": ""}));
    json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})
}

fn object<'a>(value: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    value.get(name).and_then(Value::as_object)
}

fn path_item(document: &Value, item: &Value) -> Value {
    let mut out = Map::new();
    for (name, value) in item.as_object().into_iter().flatten() {
        match name.as_str() {
            method if METHODS.contains(&method) => drop(out.insert(name.clone(), operation(document, value))),
            "parameters" => {
                let parameters = value.as_array().into_iter().flatten().filter(|value| !is_body(document, value));
                out.insert(name.clone(), parameters.map(parameter).collect());
            }
            _ => drop(out.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(out)
}

fn operation(document: &Value, operation: &Value) -> Value {
    let media = |name: &str| -> Vec<String> {
        let own = operation.get(name).or_else(|| document.get(name)).and_then(Value::as_array);
        let named: Vec<String> = own.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if named.is_empty() { vec![JSON.to_owned()] } else { named }
    };
    let mut out = Map::new();
    for (name, value) in operation.as_object().into_iter().flatten() {
        match name.as_str() {
            "consumes" | "produces" | "schemes" => {}
            "parameters" => {
                let (bodies, others): (Vec<&Value>, Vec<&Value>) =
                    value.as_array().into_iter().flatten().partition(|value| is_body(document, value));
                if let Some(body) = bodies.first() {
                    out.insert("requestBody".into(), request_body(resolved(document, body), &media("consumes")));
                }
                out.insert("parameters".into(), others.into_iter().map(parameter).collect());
            }
            "responses" => {
                let produced = media("produces");
                let responses = value.as_object().into_iter().flatten();
                let converted = responses.map(|(code, value)| (code.clone(), response(value, &produced)));
                out.insert(name.clone(), Value::Object(converted.collect()));
            }
            _ => drop(out.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(out)
}

/// A parameter, which may stand among those that are shared.
fn resolved<'a>(document: &'a Value, parameter: &'a Value) -> &'a Value {
    let name = parameter.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix("#/parameters/"));
    name.and_then(|name| object(document, "parameters")?.get(name)).unwrap_or(parameter)
}

fn is_body(document: &Value, parameter: &Value) -> bool {
    resolved(document, parameter)["in"] == "body"
}

fn request_body(parameter: &Value, consumed: &[String]) -> Value {
    let mut body = Map::new();
    for name in ["description", "required"] {
        if let Some(value) = parameter.get(name) {
            body.insert(name.into(), value.clone());
        }
    }
    let schema = with_references(parameter.get("schema").cloned().unwrap_or_default());
    body.insert("content".into(), content(&schema, consumed));
    Value::Object(body)
}

fn content(schema: &Value, media: &[String]) -> Value {
    Value::Object(media.iter().map(|media| (media.clone(), json!({"schema": schema}))).collect())
}

fn parameter(parameter: &Value) -> Value {
    let parameter = with_references(parameter.clone());
    let Value::Object(fields) = parameter else { return parameter };
    if fields.contains_key("$ref") {
        return Value::Object(fields);
    }
    let (of_value, mut out): (Map<String, Value>, Map<String, Value>) =
        fields.into_iter().partition(|(name, _)| OF_VALUE.contains(&name.as_str()));
    let schema: Map<String, Value> = of_value.into_iter().filter(|(name, _)| name != "collectionFormat").collect();
    out.insert("schema".into(), Value::Object(schema));
    Value::Object(out)
}

fn response(response: &Value, produced: &[String]) -> Value {
    let mut response = with_references(response.clone());
    if let Some(fields) = response.as_object_mut()
        && let Some(schema) = fields.remove("schema")
    {
        fields.insert("content".into(), content(&schema, produced));
    }
    response
}

/// The same with references as version 3 writes them.
fn with_references(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    match field {
                        Value::String(reference) if name == "$ref" => {
                            let definitions = reference.replace("#/definitions/", "#/components/schemas/");
                            *reference = definitions.replace("#/parameters/", "#/components/parameters/");
                        }
                        _ => walk(field),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_answers_and_parameters_find_their_new_places() {
        let converted = to_v3(&json!({
            "swagger": "2.0", "info": {"title": "T", "version": "1"}, "produces": ["application/yaml"],
            "paths": {"/a/{name}": {
                "parameters": [{"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true}],
                "post": {
                    "consumes": ["*/*"], "operationId": "make",
                    "parameters": [
                        {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/A"}},
                        {"$ref": "#/parameters/q"},
                    ],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}},
                },
            }},
            "definitions": {"A": {"properties": {"b": {"$ref": "#/definitions/B"}}}, "B": {}},
            "parameters": {"q": {"name": "q", "in": "query", "type": "integer"}},
        }));
        let reference = json!({"$ref": "#/components/schemas/A"});
        let item = &converted["paths"]["/a/{name}"];
        assert_eq!(item["parameters"][0]["schema"], json!({"type": "string", "uniqueItems": true}));
        assert_eq!(item["post"]["requestBody"], json!({"required": true, "content": {"*/*": {"schema": reference}}}));
        assert_eq!(item["post"]["parameters"], json!([{"$ref": "#/components/parameters/q"}]));
        let answer = json!({"description": "OK", "content": {"application/yaml": {"schema": reference}}});
        assert_eq!(item["post"]["responses"]["200"], answer);
        let schemas = &converted["components"]["schemas"];
        assert_eq!(schemas["A"]["properties"]["b"]["$ref"], "#/components/schemas/B");
        assert_eq!(converted["components"]["parameters"]["q"]["schema"], json!({"type": "integer"}));
    }
}
