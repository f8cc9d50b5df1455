//! What is refused although its types are right: constants that would fail in every run (durations, timestamps,
//! patterns), and literals that mix types. Kubernetes switches these checks on.

use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind, MapEntry};
use crate::env::{AggregateLiterals, EnvData, LiteralValidation};
use crate::regexes;
use crate::types::Type;
use crate::value::{Duration, Timestamp, Value};

/// Its argument is a list of whatever is to be formatted.
const EXEMPT_FROM_HOMOGENEITY: &str = "format";

/// Reports everything that is refused.
pub(super) fn validate(root: &Expr, types: &[Type], env: &EnvData, report: &mut dyn FnMut(ExprId, String)) {
    let homogeneous = env.literals == AggregateLiterals::Homogeneous;
    let mut validator = Validator { types, constants: env.validation == LiteralValidation::Compile, report };
    validator.visit(root, homogeneous);
}

struct Validator<'v> {
    types: &'v [Type],
    constants: bool,
    report: &'v mut dyn FnMut(ExprId, String),
}

impl Validator<'_> {
    fn visit(&mut self, expr: &Expr, homogeneous: bool) {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.visit(operand, homogeneous),
            ExprKind::Call(call) => {
                if self.constants {
                    self.constant_argument(call);
                    crate::library::format_call::check(expr.id, call, self.types, self.report);
                }
                let homogeneous = homogeneous && &*call.function != EXEMPT_FROM_HOMOGENEITY;
                call.target.iter().chain(&call.args).for_each(|arg| self.visit(arg, homogeneous));
            }
            ExprKind::List { elements, optionals } => {
                if homogeneous {
                    self.list(elements, optionals);
                }
                elements.iter().for_each(|element| self.visit(element, homogeneous));
            }
            ExprKind::Map(entries) => {
                if homogeneous {
                    self.map(entries);
                }
                for entry in entries {
                    self.visit(&entry.key, homogeneous);
                    self.visit(&entry.value, homogeneous);
                }
            }
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| self.visit(&field.value, homogeneous)),
            ExprKind::Comprehension(fold) => {
                let Comprehension { iter_range, accu_init, loop_condition, loop_step, result, .. } = &**fold;
                for part in [iter_range, accu_init, loop_condition, loop_step, result] {
                    self.visit(part, homogeneous);
                }
            }
        }
    }

    fn constant_argument(&mut self, call: &Call) {
        let Some(first) = call.args.first() else { return };
        let ExprKind::Literal(value) = &first.kind else { return };
        let fits = match (&*call.function, value) {
            ("duration", Value::String(text)) => Duration::parse(text).is_some(),
            ("duration", _) => false,
            ("timestamp", Value::String(text)) => Timestamp::parse_rfc3339(text).is_some_and(Timestamp::is_in_range),
            ("timestamp", Value::Int(seconds)) => Timestamp::new(*seconds, 0).is_some(),
            ("matches", Value::String(pattern)) => regexes::compile(pattern).is_ok(),
            _ => true,
        };
        if !fits {
            (self.report)(first.id, format!("invalid {} argument", call.function));
        }
    }

    fn list(&mut self, elements: &[Expr], optionals: &[u32]) {
        let mut expected: Option<&Type> = None;
        for (at, element) in (0u32..).zip(elements) {
            let ty = element_type(self.types, element, optionals.contains(&at));
            match expected {
                None => expected = Some(ty),
                Some(expected) if expected == ty => {}
                Some(expected) => {
                    let message = format!("expected type '{expected}' but found '{ty}'");
                    (self.report)(element.id, message);
                    return;
                }
            }
        }
    }

    fn map(&mut self, entries: &[MapEntry]) {
        let Some((first, rest)) = entries.split_first() else { return };
        let key_type = element_type(self.types, &first.key, false);
        let value_type = element_type(self.types, &first.value, first.optional);
        for entry in rest {
            let key = element_type(self.types, &entry.key, false);
            let value = element_type(self.types, &entry.value, entry.optional);
            for (id, expected, found) in [(entry.key.id, key_type, key), (entry.value.id, value_type, value)] {
                if expected != found {
                    (self.report)(id, format!("expected type '{expected}' but found '{found}'"));
                }
            }
        }
    }
}

/// The type of an element, without the optional that marks it.
fn element_type<'t>(types: &'t [Type], expr: &Expr, optional: bool) -> &'t Type {
    let ty = types.get(expr.id as usize).unwrap_or(&Type::Dyn);
    if optional { ty.optional_inner().unwrap_or(ty) } else { ty }
}
