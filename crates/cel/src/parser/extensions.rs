//! Macros of extensions Kubernetes does not enable: `math.greatest`, `math.least`, and the blocks of named
//! subexpressions that optimisers make.

use super::expand::{Expansion, Failure, Misuse, take};
use crate::ast::{Expr, ExprKind};
use crate::value::Value;

pub(super) fn greatest(e: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    extreme(
        e,
        target,
        args,
        "math.@max",
        [
            "math.greatest() requires at least one argument",
            "math.greatest() invalid single argument value",
            "math.greatest() simple literal arguments must be numeric",
        ],
    )
}

pub(super) fn least(e: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    extreme(
        e,
        target,
        args,
        "math.@min",
        [
            "math.least() requires at least one argument",
            "math.least() invalid single argument value",
            "math.least() simple literal arguments must be numeric",
        ],
    )
}

fn extreme(
    e: &mut Expansion<'_, '_>,
    target: Option<Expr>,
    args: Vec<Expr>,
    function: &str,
    [none, single, literal]: [&'static str; 3],
) -> Result<Expr, Failure> {
    match args.as_slice() {
        [] => Err((Misuse(target.map_or(0, |target| target.id), none), None)),
        [only] => {
            let fits = match &only.kind {
                ExprKind::List { elements, .. } => !elements.is_empty() && elements.iter().all(may_be_numeric),
                _ => may_be_numeric(only),
            };
            if fits { Ok(e.call(function, args)) } else { Err((Misuse(only.id, single), None)) }
        }
        several => {
            if let Some(wrong) = several.iter().find(|arg| !may_be_numeric(arg)) {
                return Err((Misuse(wrong.id, literal), None));
            }
            if several.len() == 2 {
                return Ok(e.call(function, args));
            }
            let list = e.list(args);
            Ok(e.call(function, vec![list]))
        }
    }
}

fn may_be_numeric(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(value) => matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)),
        ExprKind::List { .. } | ExprKind::Map(_) | ExprKind::Struct { .. } => false,
        _ => true,
    }
}

/// `cel.block([a, b], e)`: in `e`, and in later elements, `cel.index(0)` stands for `a`.
pub(super) fn block(e: &mut Expansion<'_, '_>, _target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [slots, result] = take(args)?;
    let ExprKind::List { elements, .. } = slots.kind else {
        return Err((Misuse(slots.id, "cel.block requires the first arg to be a list literal"), None));
    };
    let named = elements.into_iter().enumerate().rev();
    Ok(named.fold(result, |result, (at, element)| e.binding(&format!("@index{at}"), element, result)))
}

pub(super) fn index(e: &mut Expansion<'_, '_>, _target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [position] = take(args)?;
    let position = number(&position)?;
    Ok(e.ident(&format!("@index{position}")))
}

pub(super) fn iteration(e: &mut Expansion<'_, '_>, _target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [depth, unique] = take(args)?;
    let name = format!("@it:{}:{}", number(&depth)?, number(&unique)?);
    Ok(e.ident(&name))
}

fn number(expr: &Expr) -> Result<i64, Failure> {
    match &expr.kind {
        ExprKind::Literal(Value::Int(number)) if *number >= 0 => Ok(*number),
        _ => Err((Misuse(expr.id, "a single non-negative int literal is required"), None)),
    }
}
