//! Operations and path items, and how each version of OpenAPI writes them.

use std::collections::BTreeMap;

use bailiwick_schema::openapi::{Definition, Form, Leaf};
use bailiwick_schema::types::Types;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::parameters::Parameter;

/// A schema that the document defines by name.
#[derive(Clone, Copy)]
pub(super) enum Schema {
    Definition(Definition),
    /// Of this name; defined elsewhere.
    Named(&'static str),
}

/// What a request body holds.
#[derive(Clone)]
pub(super) struct Body {
    pub schema: Schema,
    pub required: bool,
    pub media_types: &'static [&'static str],
}

/// What an answer holds.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Text,
    Schema(Schema),
}

/// One operation.
#[derive(Clone)]
pub(super) struct Operation {
    pub method: &'static str,
    pub id: String,
    pub text: String,
    pub tag: String,
    /// `x-kubernetes-action` and the kind it acts on; none for documents about the API itself.
    pub action: Option<(&'static str, Value)>,
    pub parameters: Vec<Parameter>,
    pub body: Option<Body>,
    pub responses: Vec<(&'static str, Content)>,
    pub consumes: &'static [&'static str],
    pub produces: &'static [&'static str],
}

/// The operations of one path.
#[derive(Clone, Default)]
pub(super) struct PathItem {
    pub operations: Vec<Operation>,
}

/// Parameters that version 2 writes once for the whole document, by the name they get.
pub(super) type SharedParameters = BTreeMap<String, Value>;

impl Schema {
    fn name(self) -> &'static str {
        match self {
            Self::Definition(definition) => definition.name(),
            Self::Named(name) => name,
        }
    }
}

impl PathItem {
    /// The definitions it refers to.
    pub(super) fn definitions(&self) -> impl Iterator<Item = Definition> {
        self.operations.iter().flat_map(|operation| {
            let bodies = operation.body.iter().map(|body| body.schema);
            let answers = operation.responses.iter().filter_map(|(_, content)| match content {
                Content::Schema(schema) => Some(*schema),
                _ => None,
            });
            bodies.chain(answers).filter_map(|schema| match schema {
                Schema::Definition(definition) => Some(definition),
                Schema::Named(_) => None,
            })
        })
    }

    pub(super) fn v3(&self) -> Value {
        let common = self.common_parameters();
        let mut item = Map::new();
        for operation in &self.operations {
            item.insert(operation.method.into(), operation.v3(&common));
        }
        if !common.is_empty() {
            item.insert("parameters".into(), common.iter().map(|parameter| parameter.v3()).collect());
        }
        Value::Object(item)
    }

    pub(super) fn v2(&self, shared: &mut SharedParameters) -> Value {
        let common = self.common_parameters();
        let mut item = Map::new();
        for operation in &self.operations {
            item.insert(operation.method.into(), operation.v2(&common, shared));
        }
        if !common.is_empty() {
            let parameters = common.iter().map(|parameter| share(parameter, shared)).collect();
            item.insert("parameters".into(), parameters);
        }
        Value::Object(item)
    }

    /// Parameters that all operations of the path have, in the order of names.
    fn common_parameters(&self) -> Vec<&Parameter> {
        let Some((first, others)) = self.operations.split_first() else { return Vec::new() };
        let mut common: Vec<&Parameter> = first
            .parameters
            .iter()
            .filter(|parameter| others.iter().all(|other| other.parameters.contains(parameter)))
            .collect();
        common.sort_by_key(|parameter| parameter.name);
        common
    }
}

impl Operation {
    fn own_parameters<'a>(&'a self, common: &'a [&Parameter]) -> impl Iterator<Item = &'a Parameter> {
        self.parameters.iter().filter(|parameter| !common.contains(parameter))
    }

    fn head(&self) -> Map<String, Value> {
        let mut operation = Map::new();
        operation.insert("tags".into(), json!([self.tag]));
        operation.insert("description".into(), self.text.as_str().into());
        operation.insert("operationId".into(), self.id.as_str().into());
        if let Some((action, kind)) = &self.action {
            operation.insert("x-kubernetes-action".into(), (*action).into());
            operation.insert("x-kubernetes-group-version-kind".into(), kind.clone());
        }
        operation
    }

    fn v3(&self, common: &[&Parameter]) -> Value {
        let mut operation = self.head();
        let parameters: Vec<Value> = self.own_parameters(common).map(Parameter::v3).collect();
        if !parameters.is_empty() {
            operation.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = &self.body {
            let mut request = Map::new();
            request.insert("content".into(), content(body.media_types, &reference(body.schema, Form::V3)));
            if body.required {
                request.insert("required".into(), true.into());
            }
            operation.insert("requestBody".into(), Value::Object(request));
        }
        let mut responses = Map::new();
        for (code, answer) in &self.responses {
            let mut response = Map::new();
            response.insert("description".into(), reason(code).into());
            if let Some(schema) = answer.schema(Form::V3) {
                response.insert("content".into(), content(self.produces, &schema));
            }
            responses.insert((*code).into(), Value::Object(response));
        }
        operation.insert("responses".into(), Value::Object(responses));
        Value::Object(operation)
    }

    fn v2(&self, common: &[&Parameter], shared: &mut SharedParameters) -> Value {
        let mut operation = self.head();
        operation.insert("schemes".into(), json!(["https"]));
        operation.insert("produces".into(), json!(self.produces));
        if !self.consumes.is_empty() {
            operation.insert("consumes".into(), json!(self.consumes));
        }
        let mut parameters = Vec::new();
        if let Some(body) = &self.body {
            parameters.push(body.v2(shared));
        }
        parameters.extend(self.own_parameters(common).map(|parameter| share(parameter, shared)));
        if !parameters.is_empty() {
            operation.insert("parameters".into(), parameters.into());
        }
        let mut responses = Map::new();
        for (code, answer) in &self.responses {
            let mut response = Map::new();
            response.insert("description".into(), reason(code).into());
            if let Some(schema) = answer.schema(Form::V2) {
                response.insert("schema".into(), schema);
            }
            responses.insert((*code).into(), Value::Object(response));
        }
        operation.insert("responses".into(), Value::Object(responses));
        Value::Object(operation)
    }
}

impl Body {
    /// The body as a parameter. Bodies that all kinds have in common are shared.
    fn v2(&self, shared: &mut SharedParameters) -> Value {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(self.schema, Form::V2)});
        if self.required {
            parameter["required"] = true.into();
        }
        let generic =
            self.schema.name() == Leaf::Patch.name() || self.schema.name() == Types::native().delete_options().name;
        if generic { share_value("body", parameter, shared) } else { parameter }
    }
}

impl Content {
    fn schema(self, form: Form) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Text => Some(json!({"type": "string"})),
            Self::Schema(schema) => Some(reference(schema, form)),
        }
    }
}

fn reference(schema: Schema, form: Form) -> Value {
    json!({"$ref": form.reference(schema.name())})
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    media_types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
}

fn share(parameter: &Parameter, shared: &mut SharedParameters) -> Value {
    let value = parameter.v2();
    if parameter.is_shared() { share_value(parameter.name, value, shared) } else { value }
}

/// Puts a parameter among the shared ones, under a name made of its own and its content, and refers to it.
fn share_value(name: &str, value: Value, shared: &mut SharedParameters) -> Value {
    let hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(value.to_string().as_bytes())[..6]);
    let key = format!("{name}-{hash}");
    let reference = json!({"$ref": format!("#/parameters/{key}")});
    shared.insert(key, value);
    reference
}

fn reason(code: &str) -> &'static str {
    match code {
        "200" => "OK",
        "201" => "Created",
        "202" => "Accepted",
        "401" => "Unauthorized",
        _ => "",
    }
}
