//! The table of standard functions.

use std::sync::Arc;

use super::conversions as convert;
use super::optionals::planned;
use super::times;
use crate::ast::operators as op;
use crate::cost::{self, STRING_TRAVERSAL_COST_FACTOR};
use crate::error::EvalError;
use crate::library::{CallContext, Implementation, Library, Overload, RuntimeCost};
use crate::operations::{self, Relation};
use crate::types::Type;
use crate::value::{Key, Map, OwnedMap, Value};

type Outcome<'a> = Result<Value<'a>, EvalError>;

/// All standard functions, operators and types.
pub(crate) fn library() -> Library {
    let library = Library::new("standard");
    let library = types(library);
    let library = logic(library);
    let library = arithmetic(library);
    let library = relations(library);
    let library = collections(library);
    let library = conversions(library);
    let library = strings(library);
    let library = time_parts(library);
    map_insertion(library)
}

fn types(library: Library) -> Library {
    [
        ("bool", Type::Bool),
        ("bytes", Type::Bytes),
        ("double", Type::Double),
        ("google.protobuf.Duration", Type::Duration),
        ("int", Type::Int),
        ("list", Type::list(Type::Dyn)),
        ("map", Type::map(Type::Dyn, Type::Dyn)),
        ("null_type", Type::Null),
        ("string", Type::String),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("type", Type::Type(None)),
        ("uint", Type::Uint),
    ]
    .into_iter()
    .fold(library, |library, (name, ty)| library.declare_type(name, ty))
}

fn logic(library: Library) -> Library {
    let a = || Type::param("A");
    library
        .overload(op::CONDITIONAL, Overload::global("conditional", [Type::Bool, a(), a()], a(), planned))
        .overload(op::LOGICAL_AND, Overload::global("logical_and", [Type::Bool, Type::Bool], Type::Bool, planned))
        .overload(op::LOGICAL_OR, Overload::global("logical_or", [Type::Bool, Type::Bool], Type::Bool, planned))
        .overload(op::LOGICAL_NOT, Overload::global("logical_not", [Type::Bool], Type::Bool, not))
        .overload(op::NOT_STRICTLY_FALSE, Overload::global("not_strictly_false", [Type::Bool], Type::Bool, planned))
        .overload(op::EQUALS, Overload::global("equals", [a(), a()], Type::Bool, equals))
        .overload(op::NOT_EQUALS, Overload::global("not_equals", [a(), a()], Type::Bool, not_equals))
}

fn arithmetic(library: Library) -> Library {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let list = || Type::list(Type::param("A"));
    let concatenated: RuntimeCost = |args, _| {
        let size = args.iter().map(Value::cost_size).fold(0, u64::saturating_add);
        Some(cost::scale(size, STRING_TRAVERSAL_COST_FACTOR))
    };
    let binary = |library: Library, name, id, a: Type, b: Type, result: Type, f: Implementation| {
        library.overload(name, Overload::global(id, [a, b], result, f))
    };
    let mut l = library;
    l = l.overload(op::ADD, Overload::global("add_bytes", [Bytes, Bytes], Bytes, add).with_cost(concatenated));
    l = binary(l, op::ADD, "add_double", Double, Double, Double, add);
    l = binary(l, op::ADD, "add_duration_duration", Duration, Duration, Duration, add);
    l = binary(l, op::ADD, "add_duration_timestamp", Duration, Timestamp, Timestamp, add);
    l = binary(l, op::ADD, "add_timestamp_duration", Timestamp, Duration, Timestamp, add);
    l = binary(l, op::ADD, "add_int64", Int, Int, Int, add);
    l = binary(l, op::ADD, "add_list", list(), list(), list(), add);
    l = l.overload(op::ADD, Overload::global("add_string", [String, String], String, add).with_cost(concatenated));
    l = binary(l, op::ADD, "add_uint64", Uint, Uint, Uint, add);
    l = binary(l, op::DIVIDE, "divide_double", Double, Double, Double, divide);
    l = binary(l, op::DIVIDE, "divide_int64", Int, Int, Int, divide);
    l = binary(l, op::DIVIDE, "divide_uint64", Uint, Uint, Uint, divide);
    l = binary(l, op::MODULO, "modulo_int64", Int, Int, Int, modulo);
    l = binary(l, op::MODULO, "modulo_uint64", Uint, Uint, Uint, modulo);
    l = binary(l, op::MULTIPLY, "multiply_double", Double, Double, Double, multiply);
    l = binary(l, op::MULTIPLY, "multiply_int64", Int, Int, Int, multiply);
    l = binary(l, op::MULTIPLY, "multiply_uint64", Uint, Uint, Uint, multiply);
    l = l.overload(op::NEGATE, Overload::global("negate_double", [Double], Double, negate));
    l = l.overload(op::NEGATE, Overload::global("negate_int64", [Int], Int, negate));
    l = binary(l, op::SUBTRACT, "subtract_double", Double, Double, Double, subtract);
    l = binary(l, op::SUBTRACT, "subtract_duration_duration", Duration, Duration, Duration, subtract);
    l = binary(l, op::SUBTRACT, "subtract_int64", Int, Int, Int, subtract);
    l = binary(l, op::SUBTRACT, "subtract_timestamp_duration", Timestamp, Duration, Timestamp, subtract);
    l = binary(l, op::SUBTRACT, "subtract_timestamp_timestamp", Timestamp, Timestamp, Duration, subtract);
    binary(l, op::SUBTRACT, "subtract_uint64", Uint, Uint, Uint, subtract)
}

/// Operands of relations, with the end of the overload's identifier.
const RELATION_OPERANDS: [(Type, Type, &str); 14] = [
    (Type::Bool, Type::Bool, "bool"),
    (Type::Int, Type::Int, "int64"),
    (Type::Int, Type::Double, "int64_double"),
    (Type::Int, Type::Uint, "int64_uint64"),
    (Type::Uint, Type::Uint, "uint64"),
    (Type::Uint, Type::Double, "uint64_double"),
    (Type::Uint, Type::Int, "uint64_int64"),
    (Type::Double, Type::Double, "double"),
    (Type::Double, Type::Int, "double_int64"),
    (Type::Double, Type::Uint, "double_uint64"),
    (Type::String, Type::String, "string"),
    (Type::Bytes, Type::Bytes, "bytes"),
    (Type::Timestamp, Type::Timestamp, "timestamp"),
    (Type::Duration, Type::Duration, "duration"),
];

fn relations(mut library: Library) -> Library {
    let shorter: RuntimeCost = |args, _| {
        let size = args.iter().map(Value::cost_size).min().unwrap_or(1);
        Some(cost::scale(size, STRING_TRAVERSAL_COST_FACTOR))
    };
    let table: [(&'static str, &str, Implementation); 4] = [
        (op::LESS, "less", less),
        (op::LESS_EQUALS, "less_equals", less_equals),
        (op::GREATER, "greater", greater),
        (op::GREATER_EQUALS, "greater_equals", greater_equals),
    ];
    for (name, prefix, implementation) in table {
        for (a, b, suffix) in RELATION_OPERANDS {
            let sized = matches!(a, Type::String | Type::Bytes);
            let mut overload = Overload::global("", [a, b], Type::Bool, implementation);
            overload.id = format!("{prefix}_{suffix}").into();
            library = library.overload(name, if sized { overload.with_cost(shorter) } else { overload });
        }
    }
    library
}

fn collections(library: Library) -> Library {
    let a = || Type::param("A");
    let list = || Type::list(a());
    let map = || Type::map(a(), Type::param("B"));
    let mut l = library
        .overload(op::INDEX, Overload::global("index_list", [list(), Type::Int], a(), planned))
        .overload(op::INDEX, Overload::global("index_map", [map(), a()], Type::param("B"), planned))
        .overload(
            op::IN,
            Overload::global("in_list", [a(), list()], Type::Bool, contains)
                .with_cost(|args, _| args.get(1).map(Value::cost_size)),
        )
        .overload(op::IN, Overload::global("in_map", [a(), map()], Type::Bool, contains));
    for (global, member, ty) in [
        ("size_bytes", "bytes_size", Type::Bytes),
        ("size_list", "list_size", list()),
        ("size_map", "map_size", map()),
        ("size_string", "string_size", Type::String),
    ] {
        l = l
            .overload("size", Overload::global(global, [ty.clone()], Type::Int, size))
            .overload("size", Overload::member(member, [ty], Type::Int, size));
    }
    l
}

fn conversions(library: Library) -> Library {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let a = || Type::param("A");
    let traversed: RuntimeCost =
        |args, _| args.first().map(|value| cost::scale(value.cost_size(), STRING_TRAVERSAL_COST_FACTOR));
    let table: [(&'static str, &'static str, Type, Type, Implementation); 30] = [
        ("type", "type", a(), Type::type_of(a()), convert::to_type),
        ("bool", "bool_to_bool", Bool, Bool, convert::to_bool),
        ("bool", "string_to_bool", String, Bool, convert::to_bool),
        ("bytes", "bytes_to_bytes", Bytes, Bytes, convert::to_bytes),
        ("double", "double_to_double", Double, Double, convert::to_double),
        ("double", "int64_to_double", Int, Double, convert::to_double),
        ("double", "string_to_double", String, Double, convert::to_double),
        ("double", "uint64_to_double", Uint, Double, convert::to_double),
        ("duration", "duration_to_duration", Duration, Duration, convert::to_duration),
        ("duration", "int64_to_duration", Int, Duration, convert::to_duration),
        ("duration", "string_to_duration", String, Duration, convert::to_duration),
        ("dyn", "to_dyn", a(), Type::Dyn, convert::to_dyn),
        ("int", "int64_to_int64", Int, Int, convert::to_int),
        ("int", "double_to_int64", Double, Int, convert::to_int),
        ("int", "duration_to_int64", Duration, Int, convert::to_int),
        ("int", "string_to_int64", String, Int, convert::to_int),
        ("int", "timestamp_to_int64", Timestamp, Int, convert::to_int),
        ("int", "uint64_to_int64", Uint, Int, convert::to_int),
        ("string", "string_to_string", String, String, convert::to_string),
        ("string", "bool_to_string", Bool, String, convert::to_string),
        ("string", "double_to_string", Double, String, convert::to_string),
        ("string", "duration_to_string", Duration, String, convert::to_string),
        ("string", "int64_to_string", Int, String, convert::to_string),
        ("string", "timestamp_to_string", Timestamp, String, convert::to_string),
        ("string", "uint64_to_string", Uint, String, convert::to_string),
        ("timestamp", "timestamp_to_timestamp", Timestamp, Timestamp, convert::to_timestamp),
        ("timestamp", "int64_to_timestamp", Int, Timestamp, convert::to_timestamp),
        ("timestamp", "string_to_timestamp", String, Timestamp, convert::to_timestamp),
        ("uint", "uint64_to_uint64", Uint, Uint, convert::to_uint),
        ("uint", "double_to_uint64", Double, Uint, convert::to_uint),
    ];
    let library = table
        .into_iter()
        .fold(library, |l, (name, id, from, to, f)| l.overload(name, Overload::global(id, [from], to, f)));
    library
        .overload("uint", Overload::global("int64_to_uint64", [Int], Uint, convert::to_uint))
        .overload("uint", Overload::global("string_to_uint64", [String], Uint, convert::to_uint))
        .overload("bytes", Overload::global("string_to_bytes", [String], Bytes, convert::to_bytes).with_cost(traversed))
        .overload(
            "string",
            Overload::global("bytes_to_string", [Bytes], String, convert::to_string).with_cost(traversed),
        )
}

fn strings(library: Library) -> Library {
    use Type::{Bool, String};
    let receiver: RuntimeCost =
        |args, _| args.first().map(|value| cost::scale(value.cost_size(), STRING_TRAVERSAL_COST_FACTOR));
    library
        .overload(
            "contains",
            Overload::member("contains_string", [String, String], Bool, string_contains).with_cost(|args, _| {
                let [text, part] = args else { return None };
                let text = cost::scale(text.cost_size(), STRING_TRAVERSAL_COST_FACTOR);
                Some(text.saturating_mul(cost::scale(part.cost_size(), STRING_TRAVERSAL_COST_FACTOR)))
            }),
        )
        .overload(
            "endsWith",
            Overload::member("ends_with_string", [String, String], Bool, ends_with).with_cost(receiver),
        )
        .overload(
            "startsWith",
            Overload::member("starts_with_string", [String, String], Bool, starts_with).with_cost(receiver),
        )
        .overload("matches", Overload::global("matches", [String, String], Bool, matches))
        .overload(
            "matches",
            Overload::member("matches_string", [String, String], Bool, matches).with_cost(|args, _| {
                let [text, pattern] = args else { return None };
                let text = cost::scale(text.cost_size().saturating_add(1), STRING_TRAVERSAL_COST_FACTOR);
                let pattern = cost::scale(pattern.cost_size(), cost::REGEX_STRING_LENGTH_COST_FACTOR);
                Some(text.saturating_mul(pattern))
            }),
        )
}

fn time_parts(library: Library) -> Library {
    let of_clock: [(&'static str, &'static str, &'static str, Implementation); 10] = [
        ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", times::full_year),
        ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", times::month),
        ("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", times::day_of_year),
        ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", times::day_of_month),
        ("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", times::date),
        ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", times::day_of_week),
        ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", times::hours),
        ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", times::minutes),
        ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", times::seconds),
        ("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", times::milliseconds),
    ];
    let library = of_clock.into_iter().fold(library, |l, (name, utc, zoned, f)| {
        l.overload(name, Overload::member(utc, [Type::Timestamp], Type::Int, f))
            .overload(name, Overload::member(zoned, [Type::Timestamp, Type::String], Type::Int, f))
    });
    let of_span: [(&'static str, &'static str, Implementation); 4] = [
        ("getHours", "duration_to_hours", times::hours),
        ("getMinutes", "duration_to_minutes", times::minutes),
        ("getSeconds", "duration_to_seconds", times::seconds),
        ("getMilliseconds", "duration_to_milliseconds", times::milliseconds),
    ];
    of_span
        .into_iter()
        .fold(library, |l, (name, id, f)| l.overload(name, Overload::member(id, [Type::Duration], Type::Int, f)))
}

/// What the macros `transformMap` and `transformMapEntry` build maps with.
fn map_insertion(library: Library) -> Library {
    let k = || Type::param("K");
    let v = || Type::param("V");
    let map = || Type::map(k(), v());
    library
        .overload("cel.@mapInsert", Overload::global("@mapInsert_map_key_value", [map(), k(), v()], map(), insert))
        .overload("cel.@mapInsert", Overload::global("@mapInsert_map_map", [map(), map()], map(), insert_all))
}

fn not<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::Bool(flag)] => Ok(Value::Bool(!flag)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// The two arguments of a binary function.
fn two<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v Value<'a>, &'v Value<'a>), EvalError> {
    match args {
        [a, b] => Ok((a, b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn equals<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::equals(a, b).map(Value::Bool)
}

fn not_equals<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::equals(a, b).map(|equal| Value::Bool(!equal))
}

fn add<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::add(a, b)
}

fn subtract<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::subtract(a, b)
}

fn multiply<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::multiply(a, b)
}

fn divide<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::divide(a, b)
}

fn modulo<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::modulo(a, b)
}

fn negate<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    args.first().ok_or_else(EvalError::no_such_overload).and_then(operations::negate)
}

fn relation<'a>(args: &[Value<'a>], relation: Relation) -> Outcome<'a> {
    let (a, b) = two(args)?;
    operations::compare(a, b).map(|ordering| Value::Bool(relation.holds(ordering)))
}

fn less<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    relation(args, Relation::Less)
}

fn less_equals<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    relation(args, Relation::LessEquals)
}

fn greater<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    relation(args, Relation::Greater)
}

fn greater_equals<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    relation(args, Relation::GreaterEquals)
}

fn contains<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let (item, collection) = two(args)?;
    operations::contains(item, collection).map(Value::Bool)
}

fn size<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let size = match args {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn string_contains<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn starts_with<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.starts_with(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ends_with<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.ends_with(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn matches<'a>(args: &[Value<'a>], ctx: &mut CallContext<'_>) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(pattern)] => Ok(Value::Bool(ctx.regex(pattern)?.is_match(text.as_bytes()))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn insert<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let [Value::Map(map), key, value] = args else { return Err(EvalError::no_such_overload()) };
    let mut entries = owned(map)?;
    insert_new(&mut entries, key, value.clone())?;
    Ok(Value::Map(Map::owned(entries)))
}

fn insert_all<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let [Value::Map(map), Value::Map(other)] = args else { return Err(EvalError::no_such_overload()) };
    let mut entries = owned(map)?;
    for (key, value) in owned(other)?.entries() {
        insert_new(&mut entries, &key.to_value(), value.clone())?;
    }
    Ok(Value::Map(Map::owned(entries)))
}

/// A map's entries as a map that can grow; shared ones are copied.
pub(crate) fn owned<'a>(map: &Map<'a>) -> Result<OwnedMap<'a>, EvalError> {
    match map {
        Map::Owned(map) => Ok(OwnedMap::clone(&Arc::clone(map))),
        Map::Json { .. } => {
            let mut entries = OwnedMap::default();
            for key in map.keys() {
                if let (Some(name), Some(value)) = (Key::from_value(&key), map.get(&key)?) {
                    entries.insert(name, value);
                }
            }
            Ok(entries)
        }
    }
}

/// Adds an entry whose key must be new.
pub(crate) fn insert_new<'a>(map: &mut OwnedMap<'a>, key: &Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
    let name =
        Key::from_value(key).ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
    if map.insert(name, value).is_some() {
        return Err(EvalError::new(format!("insert failed: key {} already exists", operations::to_text(key))));
    }
    Ok(())
}
