//! Calls of `format` whose text and arguments are both literals: what would fail in every run is refused at once.

use super::string_format::{Clause, Dialect, Piece, pieces};
use crate::ast::{Call, Expr, ExprId, ExprKind};
use crate::types::{Primitive, Type};
use crate::value::Value;

/// Reports the first thing wrong with a call, if it is one of `format` on literals.
pub(crate) fn check(id: ExprId, call: &Call, types: &[Type], report: &mut dyn FnMut(ExprId, String)) {
    let ("format", Some(target), [list]) = (&*call.function, &call.target, &*call.args) else { return };
    let (ExprKind::Literal(Value::String(format)), ExprKind::List { elements, .. }) = (&target.kind, &list.kind) else {
        return;
    };
    match first_fault(format, elements, types) {
        Err((at, message)) => report(at.unwrap_or(id), message),
        Ok(used) if used < elements.len() => {
            let given = elements.len();
            report(id, format!("too many arguments supplied to string.format (expected {used}, got {given})"));
        }
        Ok(_) => {}
    }
}

/// How many arguments are used, or what is wrong and with which of them.
fn first_fault(format: &str, elements: &[Expr], types: &[Type]) -> Result<usize, (Option<ExprId>, String)> {
    let mut used = 0;
    for piece in pieces(format) {
        if matches!(piece, Ok(Piece::Text(_))) {
            continue;
        }
        // A text that ends in the middle of a clause is noticed before a missing argument.
        if let Err(message) = &piece
            && message == "unexpected end of string"
        {
            return Err((None, message.clone()));
        }
        let element = elements.get(used).ok_or_else(|| (None, format!("index {used} out of range")))?;
        used += 1;
        if let Piece::Clause(clause) = piece.map_err(|message| (None, message))?
            && let Some(bad) = misfit(clause, element, types)
        {
            let name = type_of(types, bad).type_name();
            let message = clause.type_error(Dialect::Localized, name);
            return Err((Some(bad.id), format!("error during formatting: {message}")));
        }
    }
    Ok(used)
}

fn type_of<'t>(types: &'t [Type], expr: &Expr) -> &'t Type {
    types.get(expr.id as usize).unwrap_or(&Type::Dyn)
}

/// The expression whose type the clause does not take: the argument, or something inside of a literal.
fn misfit<'e>(clause: Clause, expr: &'e Expr, types: &[Type]) -> Option<&'e Expr> {
    let ty = match type_of(types, expr) {
        Type::Wrapper(Primitive::Bool) => &Type::Bool,
        other => other,
    };
    let fits = matches!(ty, Type::Dyn)
        || match clause {
            Clause::String => !matches!(
                ty,
                Type::Opaque(_) | Type::Struct(_) | Type::Object(_) | Type::Error | Type::Param(_) | Type::Wrapper(_)
            ),
            Clause::Decimal | Clause::Octal => matches!(ty, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(ty, Type::Double | Type::String),
            Clause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex | Clause::UpperHex => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
    if !fits {
        return Some(expr);
    }
    match (&expr.kind, clause) {
        (ExprKind::List { elements, .. }, Clause::String) => {
            elements.iter().find_map(|element| misfit(clause, element, types))
        }
        (ExprKind::Map(entries), Clause::String) => entries
            .iter()
            .find_map(|entry| misfit(clause, &entry.key, types).or_else(|| misfit(clause, &entry.value, types))),
        _ => None,
    }
}
