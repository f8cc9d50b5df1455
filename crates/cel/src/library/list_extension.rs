//! The lists extension at version 3: `slice`, `flatten`, `sort`, `sortBy`, `reverse`, `distinct`, `lists.range`.

use std::cmp::Ordering;

use super::{CallContext, Library, Overload};
use crate::cost::{
    CallEstimate, CostEstimate, EstimateContext, LIST_CREATE_BASE_COST, Node, STRING_TRAVERSAL_COST_FACTOR,
    SizeEstimate,
};
use crate::error::EvalError;
use crate::operations::{compare, equals};
use crate::parser::Macros;
use crate::types::Type;
use crate::value::{List, Value};

/// A range of more numbers than the cost limit of one expression is refused before it takes memory.
const MAX_RANGE: i64 = 10_000_000;

/// Comparing items pair by pair costs this much per pair.
const PAIR_COST: f64 = 2.0;

/// The lists extension, as of Kubernetes 1.34.
pub fn list_extension() -> Library {
    let element = || Type::param("T");
    let list = || Type::list(element());
    let mut library = Library::new("cel.lib.ext.lists")
        .with_macros(Macros::SORT_BY)
        .overload(
            "slice",
            Overload::member("list_slice", [list(), Type::Int, Type::Int], list(), slice)
                .with_cost(result_cost)
                .with_estimate(slice_estimate),
        )
        .overload(
            "flatten",
            Overload::member("list_flatten", [Type::list(list())], list(), flatten)
                .with_cost(flatten_cost)
                .with_estimate(flatten_estimate),
        )
        .overload(
            "flatten",
            Overload::member("list_flatten_int", [Type::list(Type::Dyn), Type::Int], Type::list(Type::Dyn), flatten)
                .with_cost(flatten_cost)
                .with_estimate(flatten_estimate),
        )
        .overload(
            "lists.range",
            Overload::global("lists_range", [Type::Int], Type::list(Type::Int), range)
                .with_cost(result_cost)
                .with_estimate(|_, _, args| Some(allocating(1.0, SizeEstimate::fixed(whole(args.first()?, u64::MAX))))),
        )
        .overload(
            "reverse",
            Overload::member("list_reverse", [list()], list(), reverse)
                .with_cost(result_cost)
                .with_estimate(|ctx, target, _| Some(allocating(1.0, ctx.size_of(target?)))),
        )
        .overload(
            "distinct",
            Overload::member("list_distinct", [list()], list(), distinct)
                .with_cost(|args, _| Some(pairs_cost(args.first()?)))
                .with_estimate(|ctx, target, _| {
                    let size = ctx.size_of(target?);
                    Some(allocating(PAIR_COST, size.multiply(size)))
                }),
        );
    let sortable = [
        (Type::Int, "list_int_sort", "list_int_sortByAssociatedKeys"),
        (Type::Uint, "list_uint_sort", "list_uint_sortByAssociatedKeys"),
        (Type::Double, "list_double_sort", "list_double_sortByAssociatedKeys"),
        (Type::Bool, "list_bool_sort", "list_bool_sortByAssociatedKeys"),
        (Type::Duration, "list_google.protobuf.Duration_sort", "list_google.protobuf.Duration_sortByAssociatedKeys"),
        (Type::Timestamp, "list_google.protobuf.Timestamp_sort", "list_google.protobuf.Timestamp_sortByAssociatedKeys"),
        (Type::String, "list_string_sort", "list_string_sortByAssociatedKeys"),
        (Type::Bytes, "list_bytes_sort", "list_bytes_sortByAssociatedKeys"),
    ];
    for (key, sort_id, sort_by_id) in sortable {
        let keys = || Type::list(key.clone());
        library = library
            .overload(
                "sort",
                Overload::member(sort_id, [keys()], keys(), sort)
                    .with_cost(|args, _| Some(pairs_cost(args.first()?)))
                    .with_estimate(|ctx, target, _| Some(sort_estimate(ctx, target?))),
            )
            .overload(
                "@sortByAssociatedKeys",
                Overload::member(sort_by_id, [list(), keys()], list(), sort_by)
                    .with_cost(|args, _| Some(pairs_cost(args.get(1)?)))
                    .with_estimate(|ctx, _, args| Some(sort_estimate(ctx, args.first()?))),
            );
    }
    library
}

fn receiver<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, EvalError> {
    args.first().and_then(Value::as_list).ok_or_else(EvalError::no_such_overload)
}

fn slice<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(EvalError::no_such_overload());
    };
    let refused = |why: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refused("negative indexes not supported".to_owned());
    };
    if from > to {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    if to > list.len() {
        return refused(format!("list is length {}", list.len()));
    }
    Ok(Value::list(list.iter().skip(from).take(to - from).collect::<Result<_, _>>()?))
}

fn flatten<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let depth = match args {
        [_] => 1,
        [_, Value::Int(depth)] => *depth,
        _ => return Err(EvalError::no_such_overload()),
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten_into(receiver(args)?, depth, &mut out)?;
    Ok(Value::list(out))
}

/// The depth of the recursion is that of the list, which parsers of JSON and expressions bound.
fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

fn range<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::Int(count)] = args else { return Err(EvalError::no_such_overload()) };
    if *count > MAX_RANGE {
        return Err(EvalError::CostLimitExceeded);
    }
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

fn reverse<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let mut items = receiver(args)?.iter().collect::<Result<Vec<_>, _>>()?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in receiver(args)?.iter() {
        let item = item?;
        if !kept.iter().any(|known| equals(&item, known) == Ok(true)) {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn sort<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let list = receiver(args)?;
    sorted(list, list)
}

fn sort_by<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), Value::List(keys)] = args else { return Err(EvalError::no_such_overload()) };
    sorted(list, keys)
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, EvalError> {
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs = Vec::with_capacity(list.len());
    for (item, key) in list.iter().zip(keys.iter()) {
        pairs.push((key?, item?));
    }
    if let Some((first, _)) = pairs.first() {
        if matches!(compare(first, first), Err(error) if error == EvalError::no_such_overload()) {
            return Err(EvalError::new("list elements must be comparable"));
        }
        let kind = std::mem::discriminant(first);
        if pairs.iter().any(|(key, _)| std::mem::discriminant(key) != kind) {
            return Err(EvalError::new("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

/// What making a list costs: the call, the list, and something per unit.
fn allocating_cost(per_unit: f64, size: u64) -> u64 {
    ((size as f64 * per_unit) as u64).saturating_add(1 + LIST_CREATE_BASE_COST)
}

fn result_cost(_: &[Value<'_>], result: &Value<'_>) -> Option<u64> {
    Some(allocating_cost(1.0, result.cost_size()))
}

fn flatten_cost(args: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    let depth = args.get(1).and_then(Value::as_int).unwrap_or(1);
    Some(allocating_cost(depth as f64, args.first()?.cost_size()))
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Bytes(_))
}

/// Comparing all items of a list with each other.
fn pairs_cost(list: &Value<'_>) -> u64 {
    let size = list.cost_size();
    let texts = list.as_list().and_then(|list| list.get(0)).and_then(Result::ok).is_some_and(|first| is_text(&first));
    let per_pair = if texts { PAIR_COST + STRING_TRAVERSAL_COST_FACTOR } else { PAIR_COST };
    allocating_cost(per_pair, size.saturating_mul(size))
}

fn allocating(per_unit: f64, size: SizeEstimate) -> CallEstimate {
    let cost = size.multiply_by_cost_factor(per_unit).add(CostEstimate::fixed(1));
    CallEstimate::sized(cost.add(CostEstimate::fixed(LIST_CREATE_BASE_COST)), size)
}

/// The value of a literal int, zero when negative; otherwise the default.
fn whole(node: &Node<'_>, default: u64) -> u64 {
    match node.literal {
        Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(0),
        _ => default,
    }
}

fn slice_estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let size = ctx.size_of(target?);
    let [start, end] = args else { return None };
    // Upstream lets an end before the start wrap around.
    let length = whole(end, size.max).wrapping_sub(whole(start, 0));
    Some(allocating(1.0, SizeEstimate::fixed(length)))
}

fn flatten_estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let depth = args.first().map_or(1, |depth| whole(depth, u64::MAX));
    Some(allocating(depth as f64, ctx.size_of(target?)))
}

fn sort_estimate(ctx: &EstimateContext<'_>, keys: &Node<'_>) -> CallEstimate {
    let size = ctx.size_of(keys);
    let texts = matches!(keys.ty.first_parameter(), Some(Type::String | Type::Bytes));
    let per_pair = if texts { PAIR_COST + STRING_TRAVERSAL_COST_FACTOR } else { PAIR_COST };
    allocating(per_pair, size.multiply(size))
}
