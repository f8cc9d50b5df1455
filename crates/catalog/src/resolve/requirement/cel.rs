//! Constraints written in CEL, over the list `properties` of a bundle, with `semver_compare`.

use std::sync::{Arc, LazyLock};

use bailiwick_cel::decl::dynamic;
use bailiwick_cel::{Bindings, Budget, CallContext, Env, EvalError, Library, Overload, Program, Type, Value};
use serde_json::json;

use crate::fbc::Property;
use crate::version::Version;

/// What one evaluation may cost: a list of properties is short, so this is hundreds of times what sensible rules need.
const COST_LIMIT: u64 = 1_000_000;

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let compare = Overload::global("semver_compare", [Type::Dyn, Type::Dyn], Type::Int, semver_compare);
    Env::builder()
        .variable("properties", Type::list(Type::map(Type::String, Type::Dyn)))
        .library(Library::new("semver_compare").overload("semver_compare", compare))
        .build()
});

fn semver_compare<'a>(args: &[Value<'a>], _ctx: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let version = |value: Option<&Value<'a>>| {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        Version::parse_tolerant(text).map_err(|_| EvalError::new(format!("unable to parse '{text}' to semver format")))
    };
    let order = version(args.first())?.compare(&version(args.get(1))?);
    Ok(Value::Int(order as i64))
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    program: Arc<Program>,
}

impl Rule {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let checked = ENVIRONMENT.compile(text).map_err(|issues| issues.to_string())?;
        if checked.output_type() != &Type::Bool {
            return Err("cel expressions must have type Bool".to_owned());
        }
        let program = checked.program().map_err(|error| error.to_string())?;
        Ok(Rule { text: text.to_owned(), program: Arc::new(program) })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A rule that fails does not hold.
    pub(super) fn holds(&self, properties: &[Property]) -> bool {
        let list = properties.iter().filter_map(|property| {
            let value: serde_json::Value = serde_json::from_str(&property.value).ok()?;
            Some(json!({"type": property.kind, "value": value}))
        });
        let list = serde_json::Value::Array(list.collect());
        let bindings = Bindings::new().bind("properties", dynamic(&list));
        let result = self.program.evaluate(&bindings, &mut Budget::new(COST_LIMIT));
        matches!(result, Ok(Value::Bool(true)))
    }

    pub(super) fn olm_text(&self, message: &str) -> String {
        use crate::go::quote;
        format!("with constraint: {} and message: {}", quote(&self.text), quote(message))
    }
}
