//! The sets extension: lists compared without regard to order and repetition.

use super::{CallContext, Library, Overload};
use crate::cost::{CallEstimate, CostEstimate, EstimateContext, Node};
use crate::error::EvalError;
use crate::operations::equals;
use crate::types::Type;
use crate::value::{List, Value};

/// `sets.contains`, `sets.equivalent` and `sets.intersects`, as of Kubernetes 1.29.
pub fn sets() -> Library {
    let lists = || [Type::list(Type::param("T")), Type::list(Type::param("T"))];
    Library::new("cel.lib.ext.sets")
        .overload(
            "sets.contains",
            Overload::global("list_sets_contains_list", lists(), Type::Bool, contains)
                .with_cost(|args, _| cost(args, 1))
                .with_estimate(|ctx, _, args| estimate(ctx, args, 1.0)),
        )
        .overload(
            "sets.equivalent",
            Overload::global("list_sets_equivalent_list", lists(), Type::Bool, equivalent)
                .with_cost(|args, _| cost(args, 2))
                .with_estimate(|ctx, _, args| estimate(ctx, args, 2.0)),
        )
        .overload(
            "sets.intersects",
            Overload::global("list_sets_intersects_list", lists(), Type::Bool, intersects)
                .with_cost(|args, _| cost(args, 1))
                .with_estimate(|ctx, _, args| estimate(ctx, args, 1.0)),
        )
}

fn two<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), EvalError> {
    match args {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn holds(list: &List<'_>, wanted: &Value<'_>) -> Result<bool, EvalError> {
    for item in list.iter() {
        if equals(&item?, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_all(list: &List<'_>, wanted: &List<'_>) -> Result<bool, EvalError> {
    for item in wanted.iter() {
        if !holds(list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (list, wanted) = two(args)?;
    Ok(Value::Bool(holds_all(list, wanted)?))
}

fn equivalent<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (a, b) = two(args)?;
    Ok(Value::Bool(holds_all(a, b)? && holds_all(b, a)?))
}

fn intersects<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (a, b) = two(args)?;
    for item in a.iter() {
        if holds(b, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn cost(args: &[Value<'_>], passes: u64) -> Option<u64> {
    let [a, b] = args else { return None };
    Some(a.cost_size().saturating_mul(b.cost_size()).saturating_mul(passes).saturating_add(1))
}

fn estimate(ctx: &EstimateContext<'_>, args: &[Node<'_>], passes: f64) -> Option<CallEstimate> {
    let [a, b] = args else { return None };
    let cost = ctx.size_of(a).multiply(ctx.size_of(b)).multiply_by_cost_factor(passes).add(CostEstimate::fixed(1));
    Some(CallEstimate::cost(cost))
}
