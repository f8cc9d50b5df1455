//! What calls of Kubernetes' libraries cost when they run, and what they are estimated to cost. Estimates decide which
//! rules a definition may carry, so every number here is part of the API.

use crate::cost::{
    CallEstimate, CostEstimate, EstimateContext, Node, REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR,
    SizeEstimate, scale,
};
use crate::types::Type;
use crate::value::Value;

/// Adds the charge of an accessor: one unit.
pub(crate) fn nominal(_: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    Some(1)
}

/// The estimate of an accessor.
pub(crate) fn nominal_estimate(_: &EstimateContext<'_>, _: Option<&Node<'_>>, _: &[Node<'_>]) -> Option<CallEstimate> {
    Some(CallEstimate::cost(CostEstimate::fixed(1)))
}

/// Walking along the first argument once.
pub(crate) fn scan(args: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    Some(scale(args.first()?.cost_size(), STRING_TRAVERSAL_COST_FACTOR))
}

/// Walking along the first argument and building a result of its size.
pub(crate) fn scan_twice(args: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    Some(scale(args.first()?.cost_size().saturating_mul(2), STRING_TRAVERSAL_COST_FACTOR))
}

/// Building the result, counted twice.
pub(crate) fn result_twice(_: &[Value<'_>], result: &Value<'_>) -> Option<u64> {
    Some(scale(result.cost_size().saturating_mul(2), STRING_TRAVERSAL_COST_FACTOR))
}

/// The product of what a text and a pattern weigh.
pub(crate) fn match_cost(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * STRING_TRAVERSAL_COST_FACTOR).ceil() as u64;
    text.saturating_mul(scale(pattern, REGEX_STRING_LENGTH_COST_FACTOR))
}

/// Visiting everything inside the first argument.
pub(crate) fn visit(args: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    Some(args.first().map(weight).unwrap_or_default())
}

/// The leaves of a value; texts count by length, rounded down. What cannot be read counts nothing.
fn weight(value: &Value<'_>) -> u64 {
    let text = |length: usize| (length as f64 * STRING_TRAVERSAL_COST_FACTOR) as u64;
    match value {
        Value::String(string) => text(string.len()),
        Value::Bytes(bytes) => text(bytes.len()),
        Value::List(list) => list.iter().flatten().map(|item| weight(&item)).fold(0, u64::saturating_add),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                let value = map.get(key).ok().flatten();
                weight(key).saturating_add(value.as_ref().map(weight).unwrap_or_default())
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}

/// Walking along the only argument of a global function.
pub(crate) fn scan_argument(
    ctx: &EstimateContext<'_>,
    _: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<CallEstimate> {
    let size = ctx.size_of(args.first()?);
    Some(CallEstimate::cost(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR)))
}

/// The same with a result as large as the argument.
pub(crate) fn scan_argument_sized(
    ctx: &EstimateContext<'_>,
    _: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<CallEstimate> {
    let size = ctx.size_of(args.first()?);
    Some(CallEstimate::sized(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR), size))
}

/// Walking along the receiver, with a result as large.
pub(crate) fn scan_target_sized(
    ctx: &EstimateContext<'_>,
    target: Option<&Node<'_>>,
    _: &[Node<'_>],
) -> Option<CallEstimate> {
    let size = ctx.size_of(target?);
    Some(CallEstimate::sized(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR), size))
}

/// Visiting every item of the receiver, or every character if it is a text.
pub(crate) fn visit_target(
    ctx: &EstimateContext<'_>,
    target: Option<&Node<'_>>,
    _: &[Node<'_>],
) -> Option<CallEstimate> {
    let target = target?;
    let size = ctx.size_of(target);
    let Some(element) = ctx.element(target) else {
        return Some(CallEstimate::cost(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR)));
    };
    let mut per_item = CostEstimate::fixed(1);
    if matches!(element.ty, Type::String | Type::Bytes) {
        per_item = per_item.add(ctx.size_of(&element).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR));
    }
    Some(CallEstimate::cost(size.multiply_by_cost(per_item)))
}

/// The estimate of matching a pattern against a text.
pub(crate) fn match_estimate(text: SizeEstimate, pattern: SizeEstimate) -> CostEstimate {
    let text = text.add(SizeEstimate::fixed(1)).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR);
    text.multiply(pattern.multiply_by_cost_factor(REGEX_STRING_LENGTH_COST_FACTOR))
}
