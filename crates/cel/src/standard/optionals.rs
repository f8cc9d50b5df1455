//! Optional values. `or` and `orValue` are evaluated lazily by the evaluator itself; their implementations here serve
//! arguments that have been evaluated.

use crate::ast::operators;
use crate::error::EvalError;
use crate::library::{CallContext, Library, Overload};
use crate::types::{OPTIONAL_TYPE, Type};
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvalError>;

pub(crate) fn optional_library() -> Library {
    let v = || Type::param("V");
    let k = || Type::param("K");
    let optional = || Type::optional(v());
    let list = || Type::list(v());
    let map = || Type::map(k(), v());
    Library::new("optional")
        .declare_type(OPTIONAL_TYPE, optional_of_dyn())
        .overload("optional.of", Overload::global("optional_of", [v()], optional(), of))
        .overload(
            "optional.ofNonZeroValue",
            Overload::global("optional_ofNonZeroValue", [v()], optional(), of_non_zero),
        )
        .overload("optional.none", Overload::global("optional_none", [], optional(), none))
        .overload("value", Overload::member("optional_value", [optional()], v(), value))
        .overload("hasValue", Overload::member("optional_hasValue", [optional()], Type::Bool, has_value))
        .overload("or", Overload::member("optional_or_optional", [optional(), optional()], optional(), or))
        .overload("orValue", Overload::member("optional_orValue_value", [optional(), v()], v(), or_value))
        .overload(
            operators::OPT_SELECT,
            Overload::global("select_optional_field", [Type::Dyn, Type::String], optional(), planned),
        )
        .overload(
            operators::OPT_INDEX,
            Overload::global("list_optindex_optional_int", [list(), Type::Int], optional(), planned),
        )
        .overload(
            operators::OPT_INDEX,
            Overload::global(
                "optional_list_optindex_optional_int",
                [Type::optional(list()), Type::Int],
                optional(),
                planned,
            ),
        )
        .overload(
            operators::OPT_INDEX,
            Overload::global("map_optindex_optional_value", [map(), k()], optional(), planned),
        )
        .overload(
            operators::OPT_INDEX,
            Overload::global("optional_map_optindex_optional_value", [Type::optional(map()), k()], optional(), planned),
        )
        .overload(
            operators::INDEX,
            Overload::global("optional_list_index_int", [Type::optional(list()), Type::Int], optional(), planned),
        )
        .overload(
            operators::INDEX,
            Overload::global("optional_map_index_value", [Type::optional(map()), k()], optional(), planned),
        )
        .overload("last", Overload::member("list_last", [list()], optional(), last))
        .overload("first", Overload::member("list_first", [list()], optional(), first))
        .overload("optional.unwrap", Overload::global("optional_unwrap", [Type::list(optional())], list(), unwrap))
        .overload("unwrapOpt", Overload::member("optional_unwrapOpt", [Type::list(optional())], list(), unwrap))
}

fn optional_of_dyn() -> Type {
    Type::optional(Type::Dyn)
}

/// Selections and indices become parts of attributes and are never called.
pub(super) fn planned<'a>(_: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Err(EvalError::no_such_overload())
}

fn of<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    args.first().cloned().map(Value::some).ok_or_else(EvalError::no_such_overload)
}

fn of_non_zero<'a>(args: &[Value<'a>], ctx: &mut CallContext<'_>) -> Outcome<'a> {
    let is_zero = match args.first() {
        Some(Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0)) => true,
        Some(Value::Double(number)) => *number == 0.0,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Bytes(bytes)) => bytes.is_empty(),
        Some(Value::List(list)) => list.is_empty(),
        Some(Value::Map(map)) => map.is_empty(),
        Some(Value::Duration(span)) => span.nanos == 0,
        Some(Value::Optional(inner)) => inner.is_none(),
        _ => false,
    };
    if is_zero { Ok(Value::none()) } else { of(args, ctx) }
}

fn none<'a>(_: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::none())
}

fn value<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner))] => Ok(Value::clone(inner)),
        [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn has_value<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn or<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner)), _] => Ok(Value::Optional(Some(inner.clone()))),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn or_value<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(inner)), _] => Ok(Value::clone(inner)),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn first<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    list.get(0).transpose().map(|item| item.map_or_else(Value::none, Value::some))
}

fn last<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    let item = list.len().checked_sub(1).and_then(|at| list.get(at)).transpose()?;
    Ok(item.map_or_else(Value::none, Value::some))
}

fn unwrap<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    let mut items = Vec::with_capacity(list.len());
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inner)) => items.push(Value::clone(&inner)),
            Value::Optional(None) => {}
            other => {
                let shown = crate::operations::to_text(&other);
                return Err(EvalError::new(format!("value {shown} is not optional")));
            }
        }
    }
    Ok(Value::list(items))
}
