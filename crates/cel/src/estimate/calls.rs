//! Estimates of calls: those libraries give, and those of the standard functions.

use super::Coster;
use crate::ast::{Call, Expr, operators};
use crate::cost::{
    CallEstimate, CostEstimate, EstimateContext, Node, REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR,
    SizeEstimate,
};
use crate::library::Estimate;
use crate::types::Type;

impl<'c> Coster<'c> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn function_cost(
        &mut self,
        expr: &Expr,
        call: &'c Call,
        overload: &str,
        estimate: Option<Estimate>,
        target: Option<&Node<'c>>,
        args: &[Node<'c>],
        arg_costs: &[CostEstimate],
    ) -> CallEstimate {
        let arguments = arg_costs.iter().fold(CostEstimate::default(), |sum, cost| sum.add(*cost));
        let context = EstimateContext { sizes: self.sizes };
        let given = estimate
            .and_then(|estimate| estimate(&context, target, args))
            .or_else(|| self.equality_cost(&context, call, args));
        if let Some(given) = given {
            return CallEstimate { cost: given.cost.add(arguments), result_size: given.result_size };
        }
        let traversal = |size: SizeEstimate| size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR);
        let size = |node: &Node<'_>| node.computed_size.unwrap_or(SizeEstimate::UNKNOWN);
        match (overload, target, args) {
            ("string_to_bytes", _, [arg]) => {
                let size = size(arg);
                let result = SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) };
                CallEstimate::sized(traversal(size).add(arguments), result)
            }
            ("bytes_to_string", _, [arg]) => {
                let size = size(arg);
                let result = SizeEstimate { min: size.min / 4, max: size.max };
                CallEstimate::sized(traversal(size).add(arguments), result)
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                CallEstimate::cost(traversal(size(arg)).add(arguments))
            }
            ("in_list", _, [_, list]) => CallEstimate::cost(size(list).multiply_by_cost_factor(1.0).add(arguments)),
            ("matches_string", Some(text), [pattern]) => {
                let text = traversal(size(text).add(SizeEstimate::fixed(1)));
                let pattern = size(pattern).multiply_by_cost_factor(REGEX_STRING_LENGTH_COST_FACTOR);
                CallEstimate::cost(text.multiply(pattern).add(arguments))
            }
            ("contains_string", Some(text), [part]) => {
                CallEstimate::cost(traversal(size(text)).multiply(traversal(size(part))).add(arguments))
            }
            ("logical_or" | "logical_and", _, _) => {
                let [left, right] = arg_costs else { return CallEstimate::cost(arguments) };
                CallEstimate::cost(CostEstimate { min: left.min, max: left.add(*right).max })
            }
            ("conditional", _, [_, truthy, falsy]) => {
                let ([_, truthy_expr, falsy_expr], [condition, truthy_cost, falsy_cost]) =
                    (call.args.as_slice(), arg_costs)
                else {
                    return CallEstimate::cost(arguments);
                };
                if let (Some(a), Some(b)) = (self.entry_size(truthy_expr), self.entry_size(falsy_expr)) {
                    self.entries.insert(expr.id, a.union(b));
                }
                let result = size(truthy).union(size(falsy));
                CallEstimate::sized(condition.add(truthy_cost.union(*falsy_cost)), result)
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let result = size(left).add(size(right));
                if let [left, right] = call.args.as_slice()
                    && let (Some(a), Some(b)) = (self.entry_size(left), self.entry_size(right))
                {
                    self.entries.insert(expr.id, a.union(b));
                }
                let cost = if overload == "add_list" { CostEstimate::fixed(1) } else { traversal(result) };
                CallEstimate::sized(cost.add(arguments), result)
            }
            (id, _, [left, right]) if compares_sizes(id) => {
                let smallest_max = size(left).max.min(size(right).max);
                let range = SizeEstimate { min: smallest_max.min(1), max: smallest_max };
                CallEstimate::cost(traversal(range).add(arguments))
            }
            _ => CallEstimate::cost(CostEstimate::fixed(1).add(arguments)),
        }
    }

    /// What a library says about `==` of its type.
    fn equality_cost(&self, context: &EstimateContext<'_>, call: &Call, args: &[Node<'_>]) -> Option<CallEstimate> {
        let [left, right] = args else { return None };
        if &*call.function != operators::EQUALS || left.ty != right.ty {
            return None;
        }
        match left.ty {
            Type::Opaque(_) | Type::Struct(_) => {
                let estimate = self.checked.env.inner.equality.get(left.ty.type_name())?;
                estimate(context, None, args)
            }
            _ => None,
        }
    }
}

/// Comparisons whose cost is that of the shorter operand.
fn compares_sizes(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "less_bytes"
            | "less_equals_string"
            | "less_equals_bytes"
            | "greater_string"
            | "greater_bytes"
            | "greater_equals_string"
            | "greater_equals_bytes"
    )
}
