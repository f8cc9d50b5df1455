//! Operations and path items, and how each version of OpenAPI writes them.

use bailiwick_schema::openapi::{Definition, Form, Leaf};
use bailiwick_schema::types::Types;
use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::shared::Shared;

pub(super) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A schema that the document defines by name.
#[derive(Clone, Copy)]
pub(super) enum Schema {
    Definition(Definition),
    /// Of this name, defined elsewhere, and the word for it in names of what is shared.
    Named(&'static str, &'static str),
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
    /// May be empty.
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

impl Schema {
    fn name(self) -> &'static str {
        match self {
            Self::Definition(definition) => definition.name(),
            Self::Named(name, _) => name,
        }
    }

    /// For names of what is shared.
    fn word(self) -> &'static str {
        match self {
            Self::Definition(definition) => definition.name().rsplit('.').next().unwrap_or_default(),
            Self::Named(_, word) => word,
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
                Schema::Named(..) => None,
            })
        })
    }

    pub(super) fn render(&self, form: Form, shared: &mut Shared) -> Value {
        let common = self.common_parameters();
        let mut item = Map::new();
        for operation in &self.operations {
            let value = match form {
                Form::V2 => operation.v2(&common, shared),
                Form::V3 => operation.v3(&common, shared),
            };
            item.insert(operation.method.into(), value);
        }
        if !common.is_empty() {
            let parameters = common.iter().map(|parameter| shared.parameter(form, parameter)).collect();
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
    /// The parameters that not all operations of the path have. kubectl looks into PATCH for those that tell what a server
    /// can do, and does not follow references; what they mean is said where others share them.
    fn own_parameters(&self, form: Form, common: &[&Parameter], shared: &mut Shared) -> Vec<Value> {
        let own = self.parameters.iter().filter(|parameter| !common.contains(parameter));
        own.map(|parameter| match (self.method, parameter.name) {
            ("patch", "dryRun" | "fieldValidation") => parameter.without_text().render(form),
            _ => shared.parameter(form, parameter),
        })
        .collect()
    }

    fn head(&self) -> Map<String, Value> {
        let mut operation = Map::new();
        operation.insert("tags".into(), json!([self.tag]));
        if !self.text.is_empty() {
            operation.insert("description".into(), self.text.as_str().into());
        }
        operation.insert("operationId".into(), self.id.as_str().into());
        if let Some((action, kind)) = &self.action {
            operation.insert("x-kubernetes-action".into(), (*action).into());
            operation.insert("x-kubernetes-group-version-kind".into(), kind.clone());
        }
        operation
    }

    fn v3(&self, common: &[&Parameter], shared: &mut Shared) -> Value {
        let mut operation = self.head();
        let parameters = self.own_parameters(Form::V3, common, shared);
        if !parameters.is_empty() {
            operation.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = &self.body {
            operation.insert("requestBody".into(), body.v3(shared));
        }
        let mut responses = Map::new();
        for (code, answer) in &self.responses {
            responses.insert((*code).into(), self.response(code, *answer, shared));
        }
        operation.insert("responses".into(), Value::Object(responses));
        Value::Object(operation)
    }

    /// What is answered. Operations on one kind answer the same with the same code, and write it once.
    fn response(&self, code: &str, answer: Content, shared: &mut Shared) -> Value {
        let Some(schema) = answer.schema(Form::V3) else { return json!({"description": reason(code)}) };
        let response = json!({"description": reason(code), "content": content(self.produces, &schema)});
        match answer {
            Content::Schema(name) if self.action.is_some() => shared.response(name.word(), response),
            _ => response,
        }
    }

    fn v2(&self, common: &[&Parameter], shared: &mut Shared) -> Value {
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
        parameters.extend(self.own_parameters(Form::V2, common, shared));
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
    /// The body in version 3. kubectl looks for strategic merge patches where PATCH is described.
    fn v3(&self, shared: &mut Shared) -> Value {
        let mut body = Map::new();
        body.insert("content".into(), content(self.media_types, &reference(self.schema, Form::V3)));
        if self.required {
            body.insert("required".into(), true.into());
        }
        let body = Value::Object(body);
        match self.is_generic() && !self.media_types.contains(&STRATEGIC_MERGE_PATCH) {
            true => shared.request_body(self.schema.word(), body),
            false => body,
        }
    }

    /// The body as a parameter of version 2.
    fn v2(&self, shared: &mut Shared) -> Value {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(self.schema, Form::V2)});
        if self.required {
            parameter["required"] = true.into();
        }
        if self.is_generic() { shared.parameter_v2("body", parameter) } else { parameter }
    }

    /// Whether all kinds have it in common.
    fn is_generic(&self) -> bool {
        self.schema.name() == Leaf::Patch.name() || self.schema.name() == Types::native().delete_options().name
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

fn reason(code: &str) -> &'static str {
    match code {
        "200" => "OK",
        "201" => "Created",
        "202" => "Accepted",
        "401" => "Unauthorized",
        _ => "",
    }
}
