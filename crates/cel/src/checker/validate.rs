//! Constants that would fail in every run are refused at once: durations, timestamps and patterns.

use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind};
use crate::regexes;
use crate::value::{Duration, Timestamp, Value};

/// Reports every call with a constant argument that cannot work.
pub(super) fn literals(expr: &Expr, report: &mut impl FnMut(ExprId, String)) {
    match &expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => literals(operand, report),
        ExprKind::Call(call) => {
            check_call(call, report);
            call.target.iter().chain(&call.args).for_each(|arg| literals(arg, report));
        }
        ExprKind::List { elements, .. } => elements.iter().for_each(|element| literals(element, report)),
        ExprKind::Map(entries) => entries.iter().for_each(|entry| {
            literals(&entry.key, report);
            literals(&entry.value, report);
        }),
        ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| literals(&field.value, report)),
        ExprKind::Comprehension(fold) => {
            let Comprehension { iter_range, accu_init, loop_condition, loop_step, result, .. } = &**fold;
            [iter_range, accu_init, loop_condition, loop_step, result].into_iter().for_each(|e| literals(e, report));
        }
    }
}

fn check_call(call: &Call, report: &mut impl FnMut(ExprId, String)) {
    let Some(last) = call.args.last() else { return };
    let ExprKind::Literal(Value::String(text)) = &last.kind else { return };
    let fits = match (&*call.function, call.args.len(), call.target.is_some()) {
        ("duration", 1, false) => Duration::parse(text).is_some(),
        ("timestamp", 1, false) => Timestamp::parse_rfc3339(text).is_some_and(Timestamp::is_in_range),
        ("matches", 1, true) | ("matches", 2, false) => regexes::compile(text).is_ok(),
        _ => true,
    };
    if !fits {
        report(last.id, format!("invalid {} argument", call.function));
    }
}
