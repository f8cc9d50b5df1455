//! The expressions of admission policies, compiled as admission will compile them: each sees the variables before it.

use bailiwick_cel::admission::{CompileError, Compiled, Composition, Declared, Params};
use bailiwick_cel::{Structure, Type};
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::qualified_name;
use serde_json::Value;

use super::rules::{REINVOCATION_POLICIES, compile_error, validate_word};
use crate::field_errors::invalid_each;
use crate::fields::{list, present, text};

/// Audit events carry the annotations of all policies; this keeps one policy from filling them.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Half of what an annotation's value may be, because expressions often concatenate.
const MAX_AUDIT_EXPRESSION_BYTES: usize = 5 * 1024;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
/// Words that CEL keeps for itself.
const CEL_RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The expressions of one policy.
pub(super) struct Expressions {
    pub composition: Composition,
    pub params: Params,
    /// Whether expressions can name `variables`.
    pub composed: bool,
}

impl Expressions {
    fn compile(&self, expression: &str, returns: &[Type], declared: Declared) -> Result<Compiled, CompileError> {
        if self.composed {
            return self.composition.compile(expression, returns, declared);
        }
        Compiled::new(declared.environment(), expression, returns)
    }

    /// A variable, which those after it see.
    pub fn variable(&mut self, variable: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = text(variable, "name");
        if name.trim().is_empty() {
            errors.push(Error::required(&path.child("name"), "name is not specified"));
        } else if !is_cel_identifier(name) {
            errors.push(Error::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let expression = text(variable, "expression");
        let expression_path = path.child("expression");
        if expression.trim().is_empty() {
            errors.push(Error::required(&expression_path, "expression is not specified"));
        } else {
            let declared = self.composition.declare(name, expression, Declared::WithAccess(self.params));
            errors.extend(compile_error(&expression_path, expression, declared));
        }
        errors
    }

    /// The rules and annotations of a validating policy.
    pub fn validations(&self, name: &str, spec: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        let validations = list(spec, "validations");
        let annotations = list(spec, "auditAnnotations");
        let annotations_path = path.child("auditAnnotations");
        if validations.is_empty() && annotations.is_empty() {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(Error::required(&path.child("validations"), detail));
            errors.push(Error::required(&annotations_path, detail));
            return errors;
        }
        for (index, validation) in validations.iter().enumerate() {
            errors.extend(self.validation(validation, &path.child("validations").index(index)));
        }
        if annotations.len() > MAX_AUDIT_ANNOTATIONS {
            let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
            let shown: Vec<Value> = annotations.iter().map(annotation_as_upstream_shows_it).collect();
            errors.push(Error::invalid(&annotations_path, shown, detail));
        }
        for (index, annotation) in annotations.iter().enumerate() {
            let path = annotations_path.index(index);
            errors.extend(self.annotation(name, annotation, &path));
            let key = text(annotation, "key");
            if annotations[..index].iter().any(|earlier| text(earlier, "key") == key) {
                errors.push(Error::duplicate(&path.child("key"), key));
            }
        }
        errors
    }

    fn validation(&self, validation: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        let expression = text(validation, "expression");
        let expression_path = path.child("expression");
        if expression.trim().is_empty() {
            errors.push(Error::required(&expression_path, "expression is not specified"));
        } else {
            let compiled = self.compile(expression, &[Type::Bool], Declared::WithAccess(self.params));
            errors.extend(compile_error(&expression_path, expression, compiled));
        }
        let message_expression = text(validation, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let path = path.child("messageExpression");
            errors.push(Error::invalid(&path, message_expression, "must be non-empty if specified"));
        } else if !message_expression.is_empty() {
            let compiled = self.compile(message_expression, &[Type::String], Declared::WithoutAccess(self.params));
            errors.extend(compile_error(&path.child("messageExpression"), message_expression, compiled));
        }
        let message = text(validation, "message");
        if !message.is_empty() && message.trim().is_empty() {
            errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
        } else if message.trim().contains(['\n', '\r']) {
            errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
        }
        errors.extend(validate_word(validation, "reason", REASONS, path));
        errors
    }

    fn annotation(&self, policy: &str, annotation: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        let key = text(annotation, "key");
        let key_path = path.child("key");
        if policy.is_empty() {
            errors.push(Error::invalid(&key_path, key, "requires metadata.name be non-empty"));
        } else {
            let full = format!("{policy}/{key}");
            errors.extend(invalid_each(&key_path, &full, qualified_name(&full)));
        }
        let expression_path = path.child("valueExpression");
        let expression = text(annotation, "valueExpression").trim();
        if expression.is_empty() {
            errors.push(Error::required(&expression_path, "valueExpression is not specified"));
        } else if expression.len() > MAX_AUDIT_EXPRESSION_BYTES {
            let detail = format!("must not exceed {MAX_AUDIT_EXPRESSION_BYTES} bytes in length");
            errors.push(Error::required(&expression_path, detail));
        } else {
            let compiled = self.compile(expression, &[Type::String, Type::Null], Declared::WithAccess(self.params));
            errors.extend(compile_error(&expression_path, text(annotation, "valueExpression"), compiled));
        }
        errors
    }

    /// The mutations of a mutating policy.
    pub fn mutations(&self, spec: &Value, path: &Path) -> ErrorList {
        let mut errors = ErrorList::new();
        let mutations = list(spec, "mutations");
        if mutations.is_empty() {
            errors.push(Error::required(&path.child("mutations"), "mutations must contain at least one item"));
        }
        for (index, mutation) in mutations.iter().enumerate() {
            errors.extend(self.mutation(mutation, &path.child("mutations").index(index)));
        }
        match text(spec, "reinvocationPolicy") {
            "" => errors.push(Error::required(&path.child("reinvocationPolicy"), "")),
            _ => errors.extend(validate_word(spec, "reinvocationPolicy", REINVOCATION_POLICIES, path)),
        }
        errors
    }

    fn mutation(&self, mutation: &Value, path: &Path) -> ErrorList {
        let (wanted, other, kind, returns) = match text(mutation, "patchType") {
            "" => return vec![Error::required(&path.child("patchType"), "")],
            kind @ "JSONPatch" => {
                ("jsonPatch", "applyConfiguration", kind, Type::list(Type::structure(Structure::JSON_PATCH)))
            }
            kind @ "ApplyConfiguration" => {
                ("applyConfiguration", "jsonPatch", kind, Type::structure(Structure::OBJECT))
            }
            unknown => return vec![Error::not_supported(&path.child("patchType"), unknown, PATCH_TYPES)],
        };
        let mut errors = ErrorList::new();
        match present(mutation, wanted) {
            None => {
                let detail = format!("must be specified when patchType is {kind}");
                errors.push(Error::required(&path.child(wanted), detail));
            }
            Some(patch) if text(patch, "expression").trim().is_empty() => {
                errors.push(Error::required(&path.child(wanted).child("expression"), ""));
            }
            Some(patch) => {
                let expression = text(patch, "expression").trim();
                let compiled = self.compile(expression, &[returns], Declared::Patches(self.params));
                errors.extend(compile_error(&path.child(wanted).child("expression"), expression, compiled));
            }
        }
        if present(mutation, other).is_some() {
            let detail = format!("must not be specified when patchType is {kind}");
            errors.push(Error::invalid(&path.child(other), format!("{{{other}}}"), detail));
        }
        errors
    }
}

fn is_cel_identifier(name: &str) -> bool {
    name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && !CEL_RESERVED.contains(&name)
}

/// Messages show Go's internal type, whose fields have no JSON names.
fn annotation_as_upstream_shows_it(annotation: &Value) -> Value {
    serde_json::json!({
        "Key": text(annotation, "key"), "ValueExpression": text(annotation, "valueExpression"),
    })
}
