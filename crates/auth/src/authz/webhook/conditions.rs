//! Match conditions: CEL expressions over the SubjectAccessReview that say whether a webhook is asked.

use std::sync::{Arc, LazyLock};

use bailiwick_cel::{
    Bindings, Budget, DeclField, DeclKind, DeclType, Env, EnvBuilder, EvalError, ListSemantics, Program, Type,
    Value as CelValue, library,
};
use serde_json::{Map, Value, json};

/// The cost that one expression may have, as for all expressions of the server.
const COST_MAX: u64 = 1_000_000;
/// The variable that expressions see.
const REQUEST: &str = "request";

/// One compiled expression.
pub struct Condition {
    expression: String,
    program: Program,
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(String);

/// All conditions of a webhook; every one must hold.
#[derive(Default)]
pub struct Conditions(Vec<Condition>);

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let base = library::kubernetes().into_iter().fold(Env::builder(), EnvBuilder::library);
    match REQUEST_TYPE.cel_type("kubernetes.SubjectAccessReviewSpec") {
        Some(ty) => base.variable(REQUEST, ty).build(),
        None => base.build(),
    }
});

static REQUEST_TYPE: LazyLock<Arc<DeclType>> = LazyLock::new(|| {
    let text = || Arc::new(DeclType::new(DeclKind::String));
    let list = |of: Arc<DeclType>| Arc::new(DeclType::list(of, ListSemantics::Atomic, u64::from(u32::MAX)));
    let object = |fields: Vec<(&str, Arc<DeclType>)>| {
        let fields = fields.into_iter().map(|(name, decl)| DeclField { name: name.into(), decl, required: false });
        Arc::new(DeclType::object(fields.collect()))
    };
    let requirement = object(vec![("key", text()), ("operator", text()), ("values", list(text()))]);
    let selector = object(vec![("rawSelector", text()), ("requirements", list(requirement))]);
    let resource = object(vec![
        ("namespace", text()),
        ("verb", text()),
        ("group", text()),
        ("version", text()),
        ("resource", text()),
        ("subresource", text()),
        ("name", text()),
        ("fieldSelector", selector.clone()),
        ("labelSelector", selector),
    ]);
    let extra = Arc::new(DeclType::map(list(text()), u64::from(u32::MAX)));
    object(vec![
        ("resourceAttributes", resource),
        ("nonResourceAttributes", object(vec![("path", text()), ("verb", text())])),
        ("user", text()),
        ("groups", list(text())),
        ("extra", extra),
        ("uid", text()),
    ])
});

impl Condition {
    pub fn compile(expression: &str) -> Result<Self, ConditionError> {
        let checked = ENVIRONMENT
            .compile(expression)
            .map_err(|issues| ConditionError(format!("compilation failed: {issues}")))?;
        if *checked.output_type() != Type::Bool {
            return Err(ConditionError(format!("must evaluate to bool but got {}", checked.output_type())));
        }
        let program =
            checked.program().map_err(|error| ConditionError(format!("program instantiation failed: {error}")))?;
        Ok(Self { expression: expression.to_owned(), program })
    }

    fn holds(&self, request: &Value) -> Result<bool, EvalError> {
        let bindings = Bindings::new().bind(REQUEST, REQUEST_TYPE.view(request)?);
        match self.program.evaluate(&bindings, &mut Budget::new(COST_MAX))? {
            CelValue::Bool(held) => Ok(held),
            _ => Ok(false),
        }
    }
}

impl Conditions {
    pub fn new(conditions: Vec<Condition>) -> Self {
        Self(conditions)
    }

    /// Whether the webhook is to be asked. One condition that does not hold decides, even if others fail.
    pub(super) fn matches(&self, spec: &Value) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let request = complete(spec);
        let mut errors = Vec::new();
        for condition in &self.0 {
            match condition.holds(&request) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => errors.push(format!(
                    "cel evaluation error: expression '{}' resulted in error: {error}",
                    condition.expression
                )),
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(crate::go_format::aggregate(&errors)) }
    }
}

/// The spec with all its texts, also those that reviews leave out for being empty.
fn complete(spec: &Value) -> Value {
    let with_empty = |fields: &[&str], given: Option<&Value>| {
        let mut all: Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), "".into())).collect();
        all.extend(given.and_then(Value::as_object).cloned().unwrap_or_default());
        Value::from(all)
    };
    let mut request = with_empty(&["user", "uid"], Some(spec));
    const RESOURCE: &[&str] = &["namespace", "verb", "group", "version", "resource", "subresource", "name"];
    for (part, fields) in [("resourceAttributes", RESOURCE), ("nonResourceAttributes", &["path", "verb"])] {
        if spec.get(part).is_some() {
            request[part] = with_empty(fields, spec.get(part));
        }
    }
    for (field, empty) in [("groups", json!([])), ("extra", json!({}))] {
        if spec.get(field).is_none() {
            request[field] = empty;
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expressions: &[&str], spec: Value) -> Result<bool, String> {
        let compiled = expressions.iter().map(|text| Condition::compile(text).expect("compiled")).collect();
        Conditions::new(compiled).matches(&spec)
    }

    #[test]
    fn all_conditions_must_hold() {
        let spec =
            || json!({"user": "u", "groups": ["g"], "resourceAttributes": {"verb": "get", "namespace": "kube-system"}});
        assert_eq!(matches(&[], spec()), Ok(true));
        assert_eq!(matches(&["has(request.resourceAttributes)", "request.user == 'u'"], spec()), Ok(true));
        assert_eq!(matches(&["request.resourceAttributes.namespace != 'kube-system'"], spec()), Ok(false));
        assert_eq!(matches(&["!('g' in request.groups)", "request.uid == ''"], spec()), Ok(false));
        assert_eq!(matches(&["request.resourceAttributes.name == ''"], spec()), Ok(true));
        assert_eq!(matches(&["has(request.nonResourceAttributes)"], spec()), Ok(false));
        assert_eq!(matches(&["request.?nonResourceAttributes.path.orValue('x') == 'x'"], spec()), Ok(true));
    }

    #[test]
    fn a_failing_condition_fails_unless_another_does_not_hold() {
        let failing = "request.nonResourceAttributes.path == '/x'";
        let error = matches(&[failing, "true"], json!({"user": "u"})).expect_err("fails");
        assert!(
            error.starts_with("cel evaluation error: expression 'request.nonResourceAttributes.path == '/x''"),
            "{error}"
        );
        assert_eq!(matches(&[failing, "false"], json!({"user": "u"})), Ok(false));
    }

    #[test]
    fn expressions_are_checked() {
        let wrong = |text: &str| Condition::compile(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(wrong("request.nothing == 'x'").starts_with("compilation failed: "));
        assert_eq!(wrong("request.user"), "must evaluate to bool but got string");
    }
}
