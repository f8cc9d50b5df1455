//! A policy with its expressions compiled. What does not compile is kept as an error, to be met by the requests that
//! need it: the policy was stored when it did compile, or by another version.

use bailiwick_cel::admission::{Compiled as CompiledExpression, Composition, Declared, Params, variables};
use bailiwick_cel::{LazyVariable, Program, Structure, Type};
use serde_json::Value;

use crate::cel_request::MatchConditions;

/// The two kinds of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Validating,
    Mutating,
}

/// An expression and what runs it, or why nothing can.
pub(super) struct Expression {
    pub text: Box<str>,
    pub program: Result<Program, String>,
}

/// One rule of a validating policy.
pub(super) struct Validation {
    pub expression: Expression,
    pub message: Box<str>,
    pub message_expression: Option<Expression>,
    pub reason: Box<str>,
}

/// An annotation of the audit event.
pub(super) struct AuditAnnotation {
    pub key: Box<str>,
    pub value: Expression,
}

/// One change of a mutating policy.
pub(super) struct Mutation {
    pub form: PatchForm,
    pub expression: Expression,
}

/// What an expression of a mutation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchForm {
    ApplyConfiguration,
    JsonPatch,
}

/// Which variables any expression may look at, so that the others need not be made. A word too many costs a little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    pub request: bool,
    pub namespace: bool,
    pub access: bool,
}

/// A policy ready to run.
pub(super) struct Compiled {
    pub match_conditions: MatchConditions,
    pub variables: Vec<LazyVariable>,
    pub validations: Vec<Validation>,
    pub audit_annotations: Vec<AuditAnnotation>,
    pub mutations: Vec<Mutation>,
    pub reinvocable: bool,
    pub mentions: Mentions,
}

fn text<'a>(holder: &'a Value, field: &str) -> &'a str {
    holder.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(holder: &'a Value, field: &str) -> &'a [Value] {
    holder.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Compiled {
    /// Compiles the spec of a policy.
    pub fn new(kind: Kind, spec: &Value) -> Self {
        let has_params = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
        let params = if has_params { Params::Declared } else { Params::Absent };
        let mut compiler = Compiler { composition: Composition::new(), mentions: Mentions::default(), composed: false };
        for variable in list(spec, "variables") {
            let expression = text(variable, "expression");
            compiler.note(expression);
            compiler.composed = true;
            // What is wrong is remembered in the variable.
            let _ = compiler.composition.declare(text(variable, "name"), expression, Declared::WithAccess(params));
        }
        for condition in list(spec, "matchConditions") {
            compiler.note(text(condition, "expression"));
        }
        let (mut validations, mut audit_annotations, mut mutations) = (Vec::new(), Vec::new(), Vec::new());
        match kind {
            Kind::Validating => {
                validations.extend(list(spec, "validations").iter().map(|v| compiler.validation(v, params)));
                audit_annotations.extend(list(spec, "auditAnnotations").iter().map(|a| AuditAnnotation {
                    key: text(a, "key").into(),
                    value: compiler.expression(
                        text(a, "valueExpression"),
                        &[Type::String, Type::Null],
                        Declared::WithAccess(params),
                    ),
                }));
            }
            Kind::Mutating => {
                mutations.extend(list(spec, "mutations").iter().filter_map(|m| compiler.mutation(m, params)));
            }
        }
        Self {
            match_conditions: MatchConditions::compile(spec, params),
            mentions: compiler.mentions,
            variables: compiler.composition.into_variables(),
            validations,
            audit_annotations,
            mutations,
            reinvocable: text(spec, "reinvocationPolicy") == "IfNeeded",
        }
    }
}

struct Compiler {
    composition: Composition,
    mentions: Mentions,
    composed: bool,
}

impl Compiler {
    fn note(&mut self, expression: &str) {
        self.mentions.request |= expression.contains(variables::REQUEST);
        self.mentions.namespace |= expression.contains(variables::NAMESPACE);
        self.mentions.access |= expression.contains(variables::AUTHORIZER);
    }

    fn expression(&mut self, text: &str, returns: &[Type], declared: Declared) -> Expression {
        self.note(text);
        let compiled = if self.composed {
            self.composition.compile(text, returns, declared)
        } else {
            CompiledExpression::new(declared.environment(), text, returns)
        };
        let program = compiled.map(|compiled| compiled.program).map_err(|error| error.to_string());
        Expression { text: text.into(), program }
    }

    fn validation(&mut self, validation: &Value, params: Params) -> Validation {
        let message = text(validation, "messageExpression");
        Validation {
            expression: self.expression(text(validation, "expression"), &[Type::Bool], Declared::WithAccess(params)),
            message: text(validation, "message").trim().into(),
            message_expression: (!message.is_empty())
                .then(|| self.expression(message, &[Type::String], Declared::WithoutAccess(params))),
            reason: text(validation, "reason").into(),
        }
    }

    fn mutation(&mut self, mutation: &Value, params: Params) -> Option<Mutation> {
        let (form, holder, returns) = match text(mutation, "patchType") {
            "ApplyConfiguration" => {
                (PatchForm::ApplyConfiguration, "applyConfiguration", Type::structure(Structure::OBJECT))
            }
            "JSONPatch" => (PatchForm::JsonPatch, "jsonPatch", Type::list(Type::structure(Structure::JSON_PATCH))),
            _ => return None,
        };
        let holder = mutation.get(holder)?;
        let expression = self.expression(text(holder, "expression"), &[returns], Declared::Patches(params));
        Some(Mutation { form, expression })
    }
}
