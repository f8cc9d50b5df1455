//! A request as expressions see it: the values of `object`, `oldObject`, `request`, `namespaceObject` and `authorizer`,
//! and how expressions over them are compiled and run.

use bailiwick_cel::admission::{
    self, Access, MATCH_CONDITIONS_BUDGET, OUT_OF_BUDGET, PER_CALL_LIMIT, Params, variables,
};
use bailiwick_cel::decl::dynamic;
use bailiwick_cel::library::{ResourceTarget, authorizer_value, resource_check_value};
use bailiwick_cel::{Bindings, Budget, Env, Program, Type, Value as Cel};
use serde_json::{Map, Value, json};

use crate::attributes::{Attributes, DryRun, KindRef, ResourceRef};
use crate::host::Versioned;
use crate::matching::Matched;

/// The AdmissionRequest of a request as `request` shows it; reviews add the uid and the objects.
pub fn request_fields(attributes: &Attributes<'_>, matched: Matched<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    let text = |text: &str| Some(Value::from(text)).filter(|_| !text.is_empty());
    put("kind", kind_value(matched.kind));
    put("resource", resource_value(matched.resource));
    if let Some(subresource) = text(attributes.subresource) {
        put("subResource", subresource);
    }
    put("requestKind", kind_value(attributes.kind));
    put("requestResource", resource_value(attributes.resource_ref()));
    if let Some(subresource) = text(attributes.subresource) {
        put("requestSubResource", subresource);
    }
    if let Some(name) = text(attributes.name) {
        put("name", name);
    }
    if let Some(namespace) = text(attributes.namespace) {
        put("namespace", namespace);
    }
    put("operation", attributes.operation.as_str().into());
    put("userInfo", user_value(attributes));
    put("dryRun", (attributes.dry_run == DryRun::Yes).into());
    put("options", attributes.options.to_value());
    fields
}

fn kind_value(kind: KindRef<'_>) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource_value(resource: ResourceRef<'_>) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.resource})
}

fn user_value(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let mut fields = Map::new();
    if !user.name.is_empty() {
        fields.insert("username".into(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        fields.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        fields.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone())));
        fields.insert("extra".into(), Value::Object(extra.collect()));
    }
    Value::Object(fields)
}

/// The values of `authorizer` and `authorizer.requestResource`.
#[derive(Clone, Debug)]
pub struct AccessValues {
    authorizer: Cel<'static>,
    request_resource: Cel<'static>,
}

impl AccessValues {
    /// Those of the user who sent the request.
    pub fn of(attributes: &Attributes<'_>) -> Self {
        let authorizer = attributes.host.authorizer(attributes.user);
        let target = ResourceTarget {
            group: attributes.resource.group.clone(),
            resource: attributes.resource.plural.clone(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace.to_owned(),
            name: attributes.name.to_owned(),
            ..ResourceTarget::default()
        };
        Self {
            authorizer: authorizer_value(authorizer.clone()),
            request_resource: resource_check_value(authorizer, target),
        }
    }
}

/// What expressions about one request are given, in one version of its resource.
pub struct Input<'a> {
    /// An AdmissionRequest, see [`request_fields`].
    pub request: &'a Value,
    pub object: Option<&'a Value>,
    pub old_object: Option<&'a Value>,
    /// The namespace of the object; none for cluster-scoped ones, and none ever for webhooks.
    pub namespace: Option<&'a Value>,
    pub access: Option<&'a AccessValues>,
}

impl<'a> Input<'a> {
    /// Values of the variables, to which a policy adds `params` and `variables`.
    pub fn bindings(&self) -> Bindings<'a> {
        // All are plain JSON when expressions run; the declared types were for the checker.
        let json = |value: Option<&'a Value>| value.map_or(Cel::Null, dynamic);
        let mut bindings = Bindings::new()
            .bind(variables::OBJECT, json(self.object))
            .bind(variables::OLD_OBJECT, json(self.old_object))
            .bind(variables::REQUEST, json(Some(self.request)))
            .bind(variables::NAMESPACE, json(self.namespace));
        if let Some(access) = self.access {
            bindings = bindings
                .bind(variables::AUTHORIZER, access.authorizer.clone())
                .bind(variables::REQUEST_RESOURCE, access.request_resource.clone());
        }
        bindings
    }
}

/// Compiles an expression whose result must be of one of these types. The error is upstream's text, without what it
/// puts before it.
pub fn compile(env: &Env, expression: &str, returns: &[Type]) -> Result<Program, String> {
    bailiwick_cel::admission::compile(env, expression, returns)
        .and_then(|checked| checked.program().map_err(|error| format!("program instantiation failed: {error}")))
}

/// Why nothing more is evaluated for this request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{OUT_OF_BUDGET}")]
pub struct OutOfBudget;

/// Runs one expression on what is left of a budget. The inner error is upstream's text.
pub fn evaluate<'a>(
    program: &'a Program,
    expression: &str,
    bindings: &'a Bindings<'a>,
    remaining: &mut u64,
) -> Result<Result<Cel<'a>, String>, OutOfBudget> {
    let mut budget = Budget::new(PER_CALL_LIMIT);
    let result = program.evaluate(bindings, &mut budget);
    *remaining = remaining.checked_sub(budget.spent()).ok_or(OutOfBudget)?;
    Ok(result.map_err(|error| format!("expression '{expression}' resulted in error: {error}")))
}

/// Several errors as one text, as Go's aggregates print them: repeated ones once, more than one in brackets.
pub fn aggregate(errors: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match distinct.len() {
        1 => distinct.remove(0),
        _ => format!("[{}]", distinct.join(", ")),
    }
}

/// What to do when an expression or a webhook fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// From an object with a `failurePolicy`.
    pub fn of(holder: &Value) -> Self {
        match holder.get("failurePolicy").and_then(Value::as_str) {
            Some("Ignore") => Self::Ignore,
            _ => Self::Fail,
        }
    }
}

/// The conditions that a request must meet besides the rules.
#[derive(Debug, Default)]
pub struct MatchConditions {
    conditions: Box<[Condition]>,
    mentions_access: bool,
}

#[derive(Debug)]
struct Condition {
    name: Box<str>,
    expression: Box<str>,
    program: Result<Program, String>,
}

/// What match conditions say to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Matches,
    /// The condition of this name, if it was one, is false.
    Excluded(Option<Box<str>>),
    /// Conditions failed, and the request with them.
    Failed(String),
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook or policy.
    pub fn compile(holder: &Value, params: Params) -> Self {
        let env = admission::environment(params, Access::Declared);
        let conditions = holder.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
        let conditions: Box<[Condition]> = conditions
            .map(|condition| {
                let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
                let expression = text("expression");
                let program = compile(env, expression, &[Type::Bool]).map_err(|e| format!("compilation error: {e}"));
                Condition { name: text("name").into(), expression: expression.into(), program }
            })
            .collect();
        // A word too many costs a little, one too few would cost the answer.
        let mentions_access = conditions.iter().any(|c| c.expression.contains(variables::AUTHORIZER));
        Self { conditions, mentions_access }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether evaluation needs [`AccessValues`].
    pub fn mentions_access(&self) -> bool {
        self.mentions_access
    }

    /// Evaluates all conditions until one is false. Policies bind `params` themselves.
    pub fn evaluate(&self, bindings: &Bindings<'_>, policy: FailurePolicy) -> Verdict {
        let failed = |error: String| match policy {
            FailurePolicy::Fail => Verdict::Failed(error),
            FailurePolicy::Ignore => Verdict::Excluded(None),
        };
        let mut remaining = MATCH_CONDITIONS_BUDGET;
        let mut errors = Vec::new();
        let mut excluded = None;
        // Upstream runs them all before it looks at the first result, so that a budget used up later counts.
        for condition in &self.conditions {
            let program = match &condition.program {
                Ok(program) => program,
                Err(error) => {
                    errors.push(error.clone());
                    continue;
                }
            };
            match evaluate(program, &condition.expression, bindings, &mut remaining) {
                Err(OutOfBudget) => return failed(OUT_OF_BUDGET.to_owned()),
                Ok(Err(error)) => errors.push(error),
                Ok(Ok(Cel::Bool(false))) if excluded.is_none() => excluded = Some(condition.name.clone()),
                Ok(Ok(_)) => {}
            }
        }
        if excluded.is_some() {
            return Verdict::Excluded(excluded);
        }
        if errors.is_empty() { Verdict::Matches } else { failed(aggregate(errors)) }
    }

    /// Evaluates the conditions of a webhook on a request.
    pub fn evaluate_request(
        &self,
        attributes: &Attributes<'_>,
        matched: Matched<'_>,
        versioned: &Versioned<'_>,
        policy: FailurePolicy,
    ) -> Verdict {
        let request = Value::Object(request_fields(attributes, matched));
        let access = self.mentions_access.then(|| AccessValues::of(attributes));
        let input = Input {
            request: &request,
            object: versioned.object.as_deref(),
            old_object: versioned.old_object.as_deref(),
            namespace: None,
            access: access.as_ref(),
        };
        self.evaluate(&input.bindings(), policy)
    }
}

#[cfg(test)]
mod tests;
