//! Kubernetes' own list functions: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`.

use std::cmp::Ordering;

use super::charges;
use super::{CallContext, Library, Overload};
use crate::error::EvalError;
use crate::operations::{compare, equals};
use crate::types::Type;
use crate::value::{Duration, List, Value};

/// Lists, as of Kubernetes 1.23.
pub fn lists() -> Library {
    let visit = |overload: Overload| overload.with_cost(charges::visit).with_estimate(charges::visit_target);
    let mut library = Library::new("kubernetes.lists");
    // Overload ids name the element type, so each is written out.
    let comparable = [
        (Type::Int, ["list_int_is_sorted_bool", "list_int_max_int", "list_int_min_int"]),
        (Type::Uint, ["list_uint_is_sorted_bool", "list_uint_max_uint", "list_uint_min_uint"]),
        (Type::Double, ["list_double_is_sorted_bool", "list_double_max_double", "list_double_min_double"]),
        (Type::Bool, ["list_bool_is_sorted_bool", "list_bool_max_bool", "list_bool_min_bool"]),
        (Type::Duration, ["list_duration_is_sorted_bool", "list_duration_max_duration", "list_duration_min_duration"]),
        (
            Type::Timestamp,
            ["list_timestamp_is_sorted_bool", "list_timestamp_max_timestamp", "list_timestamp_min_timestamp"],
        ),
        (Type::String, ["list_string_is_sorted_bool", "list_string_max_string", "list_string_min_string"]),
        (Type::Bytes, ["list_bytes_is_sorted_bool", "list_bytes_max_bytes", "list_bytes_min_bytes"]),
    ];
    for (element, [sorted, max, min]) in comparable {
        let list = || [Type::list(element.clone())];
        library = library
            .overload("isSorted", visit(Overload::member(sorted, list(), Type::Bool, is_sorted)))
            .overload(
                "max",
                visit(Overload::member(max, list(), element.clone(), |args, _| extreme(args, "max", Ordering::Less))),
            )
            .overload(
                "min",
                visit(Overload::member(min, list(), element.clone(), |args, _| {
                    extreme(args, "min", Ordering::Greater)
                })),
            );
    }
    let sum = |id, element: Type, implementation| {
        visit(Overload::member(id, [Type::list(element.clone())], element, implementation))
    };
    let element = || Type::param("A");
    library
        .overload("sum", sum("list_int_sum_int", Type::Int, |args, _| total(args, Value::Int(0))))
        .overload("sum", sum("list_uint_sum_uint", Type::Uint, |args, _| total(args, Value::Uint(0))))
        .overload("sum", sum("list_double_sum_double", Type::Double, |args, _| total(args, Value::Double(0.0))))
        .overload(
            "sum",
            sum("list_duration_sum_duration", Type::Duration, |args, _| {
                total(args, Value::Duration(Duration { nanos: 0 }))
            }),
        )
        .overload(
            "indexOf",
            visit(Overload::member("list_a_index_of_int", [Type::list(element()), element()], Type::Int, index_of)),
        )
        .overload(
            "lastIndexOf",
            visit(Overload::member(
                "list_a_last_index_of_int",
                [Type::list(element()), element()],
                Type::Int,
                last_index_of,
            )),
        )
}

fn receiver<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, EvalError> {
    args.first().and_then(Value::as_list).ok_or_else(EvalError::no_such_overload)
}

/// Pairs without an order do not break one.
fn is_sorted<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let mut previous: Option<Value<'_>> = None;
    for item in receiver(args)?.iter() {
        let item = item?;
        if previous.is_some_and(|previous| compare(&previous, &item) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

/// Keeps the first value until one comes that it compares to as `replaced_when`.
fn extreme<'a>(args: &[Value<'a>], name: &str, replaced_when: Ordering) -> Result<Value<'a>, EvalError> {
    let mut best: Option<Value<'a>> = None;
    for item in receiver(args)?.iter() {
        let item = item?;
        if best.as_ref().is_none_or(|best| compare(best, &item) == Ok(replaced_when)) {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

fn total<'a>(args: &[Value<'a>], zero: Value<'a>) -> Result<Value<'a>, EvalError> {
    let mut total = zero;
    for item in receiver(args)?.iter() {
        total = match (&total, &item?) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or("integer overflow"),
            (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or("unsigned integer overflow"),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            (Value::Duration(a), Value::Duration(b)) => {
                let nanos = a.nanos.checked_add(b.nanos);
                nanos.map(|nanos| Value::Duration(Duration { nanos })).ok_or("integer overflow")
            }
            _ => return Err(EvalError::no_such_overload()),
        }
        .map_err(EvalError::new)?;
    }
    Ok(total)
}

fn position(args: &[Value<'_>], mut positions: impl Iterator<Item = usize>) -> Result<i64, EvalError> {
    let [Value::List(list), wanted] = args else { return Err(EvalError::no_such_overload()) };
    let found = positions.find(|at| matches!(list.get(*at), Some(Ok(item)) if equals(&item, wanted) == Ok(true)));
    Ok(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index_of<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(position(args, 0..receiver(args)?.len())?))
}

fn last_index_of<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(position(args, (0..receiver(args)?.len()).rev())?))
}
