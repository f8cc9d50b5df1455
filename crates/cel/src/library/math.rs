//! The math extension. Kubernetes does not enable it; other users of CEL do.

use std::cmp::Ordering;

use super::{CallContext, Implementation, Library, Overload};
use crate::error::EvalError;
use crate::operations::compare;
use crate::parser::Macros;
use crate::types::Type;
use crate::value::Value;

/// The math extension at version 2.
pub fn math() -> Library {
    let library = extremes(
        Library::new("cel.lib.ext.math").with_macros(Macros::MATH),
        "math.@max",
        [
            "math_@max_double",
            "math_@max_int",
            "math_@max_uint",
            "math_@max_double_double",
            "math_@max_int_int",
            "math_@max_uint_uint",
            "math_@max_int_uint",
            "math_@max_int_double",
            "math_@max_double_int",
            "math_@max_double_uint",
            "math_@max_uint_int",
            "math_@max_uint_double",
            "math_@max_list_double",
            "math_@max_list_int",
            "math_@max_list_uint",
        ],
        |args, _| extreme(args, "math.@max", Ordering::Less),
    );
    let library = extremes(
        library,
        "math.@min",
        [
            "math_@min_double",
            "math_@min_int",
            "math_@min_uint",
            "math_@min_double_double",
            "math_@min_int_int",
            "math_@min_uint_uint",
            "math_@min_int_uint",
            "math_@min_int_double",
            "math_@min_double_int",
            "math_@min_double_uint",
            "math_@min_uint_int",
            "math_@min_uint_double",
            "math_@min_list_double",
            "math_@min_list_int",
            "math_@min_list_uint",
        ],
        |args, _| extreme(args, "math.@min", Ordering::Greater),
    );
    bits(signs(rounding(library)))
}

/// The signatures of `math.greatest` and `math.least`: one number, pairs of all numeric types, lists.
fn extremes(library: Library, name: &'static str, ids: [&'static str; 15], implementation: Implementation) -> Library {
    use Type::{Double, Dyn, Int, Uint};
    let list = Type::list;
    let signatures: [(Vec<Type>, Type); 15] = [
        (vec![Double], Double),
        (vec![Int], Int),
        (vec![Uint], Uint),
        (vec![Double, Double], Double),
        (vec![Int, Int], Int),
        (vec![Uint, Uint], Uint),
        (vec![Int, Uint], Dyn),
        (vec![Int, Double], Dyn),
        (vec![Double, Int], Dyn),
        (vec![Double, Uint], Dyn),
        (vec![Uint, Int], Dyn),
        (vec![Uint, Double], Dyn),
        (vec![list(Double)], Double),
        (vec![list(Int)], Int),
        (vec![list(Uint)], Uint),
    ];
    ids.into_iter().zip(signatures).fold(library, |library, (id, (params, result))| {
        library.overload(name, Overload::global(id, params, result, implementation))
    })
}

fn extreme<'a>(args: &[Value<'a>], name: &str, replaced_when: Ordering) -> Result<Value<'a>, EvalError> {
    let candidates = match args {
        [Value::List(list)] => list.iter().collect::<Result<Vec<_>, _>>()?,
        other => other.to_vec(),
    };
    let mut candidates = candidates.into_iter();
    let Some(mut best) = candidates.next() else {
        return Err(EvalError::new(format!("{name}(list) argument must not be empty")));
    };
    for candidate in candidates {
        let ordering = compare(&best, &candidate).map_err(|why| EvalError::new(format!("{why}: {name}")))?;
        if ordering == replaced_when {
            best = candidate;
        }
    }
    match best {
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => Ok(best),
        _ => Err(EvalError::new(format!("no such overload: {name}"))),
    }
}

fn double(args: &[Value<'_>]) -> Result<f64, EvalError> {
    match args {
        [Value::Double(number)] => Ok(*number),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn rounding(library: Library) -> Library {
    let number = |id, implementation| Overload::global(id, [Type::Double], Type::Double, implementation);
    let test = |id, implementation| Overload::global(id, [Type::Double], Type::Bool, implementation);
    library
        .overload("math.ceil", number("math_ceil_double", |args, _| Ok(Value::Double(double(args)?.ceil()))))
        .overload("math.floor", number("math_floor_double", |args, _| Ok(Value::Double(double(args)?.floor()))))
        .overload("math.round", number("math_round_double", |args, _| Ok(Value::Double(double(args)?.round()))))
        .overload("math.trunc", number("math_trunc_double", |args, _| Ok(Value::Double(double(args)?.trunc()))))
        .overload("math.isInf", test("math_isInf_double", |args, _| Ok(Value::Bool(double(args)?.is_infinite()))))
        .overload("math.isNaN", test("math_isNaN_double", |args, _| Ok(Value::Bool(double(args)?.is_nan()))))
        .overload("math.isFinite", test("math_isFinite_double", |args, _| Ok(Value::Bool(double(args)?.is_finite()))))
}

fn signs(library: Library) -> Library {
    let of = |id, ty: Type, implementation| Overload::global(id, [ty.clone()], ty, implementation);
    let root = |id, ty| Overload::global(id, [ty], Type::Double, sqrt);
    library
        .overload("math.abs", of("math_abs_double", Type::Double, abs))
        .overload("math.abs", of("math_abs_int", Type::Int, abs))
        .overload("math.abs", of("math_abs_uint", Type::Uint, abs))
        .overload("math.sign", of("math_sign_double", Type::Double, sign))
        .overload("math.sign", of("math_sign_int", Type::Int, sign))
        .overload("math.sign", of("math_sign_uint", Type::Uint, sign))
        .overload("math.sqrt", root("math_sqrt_double", Type::Double))
        .overload("math.sqrt", root("math_sqrt_int", Type::Int))
        .overload("math.sqrt", root("math_sqrt_uint", Type::Uint))
}

fn abs<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Double(number)] => Ok(Value::Double(number.abs())),
        [Value::Int(number)] => number.checked_abs().map(Value::Int).ok_or_else(|| EvalError::new("integer overflow")),
        [Value::Uint(number)] => Ok(Value::Uint(*number)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn sign<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Double(number)] if number.is_nan() => Ok(Value::Double(*number)),
        [Value::Double(number)] if *number == 0.0 => Ok(Value::Double(0.0)),
        [Value::Double(number)] => Ok(Value::Double(number.signum())),
        [Value::Int(number)] => Ok(Value::Int(number.signum())),
        [Value::Uint(number)] => Ok(Value::Uint((*number).min(1))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn sqrt<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Double(number)] => Ok(Value::Double(number.sqrt())),
        [Value::Int(number)] => Ok(Value::Double((*number as f64).sqrt())),
        [Value::Uint(number)] => Ok(Value::Double((*number as f64).sqrt())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn bits(library: Library) -> Library {
    use Type::{Int, Uint};
    let pair = |id, ty: Type, implementation| Overload::global(id, [ty.clone(), ty.clone()], ty, implementation);
    let shift = |id, ty: Type, implementation| Overload::global(id, [ty.clone(), Int], ty, implementation);
    library
        .overload("math.bitAnd", pair("math_bitAnd_int_int", Int, |args, _| combine(args, |a, b| a & b)))
        .overload("math.bitAnd", pair("math_bitAnd_uint_uint", Uint, |args, _| combine(args, |a, b| a & b)))
        .overload("math.bitOr", pair("math_bitOr_int_int", Int, |args, _| combine(args, |a, b| a | b)))
        .overload("math.bitOr", pair("math_bitOr_uint_uint", Uint, |args, _| combine(args, |a, b| a | b)))
        .overload("math.bitXor", pair("math_bitXor_int_int", Int, |args, _| combine(args, |a, b| a ^ b)))
        .overload("math.bitXor", pair("math_bitXor_uint_uint", Uint, |args, _| combine(args, |a, b| a ^ b)))
        .overload("math.bitNot", Overload::global("math_bitNot_int_int", [Int], Int, not))
        .overload("math.bitNot", Overload::global("math_bitNot_uint_uint", [Uint], Uint, not))
        .overload("math.bitShiftLeft", shift("math_bitShiftLeft_int_int", Int, shift_left))
        .overload("math.bitShiftLeft", shift("math_bitShiftLeft_uint_int", Uint, shift_left))
        .overload("math.bitShiftRight", shift("math_bitShiftRight_int_int", Int, shift_right))
        .overload("math.bitShiftRight", shift("math_bitShiftRight_uint_int", Uint, shift_right))
}

/// Bits of signed numbers are combined as they are stored.
fn combine<'a>(args: &[Value<'a>], with: fn(u64, u64) -> u64) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(with(*a as u64, *b as u64) as i64)),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(with(*a, *b))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn not<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Int(number)] => Ok(Value::Int(!number)),
        [Value::Uint(number)] => Ok(Value::Uint(!number)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn shift_left<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    shift(args, "math.bitShiftLeft()", u64::checked_shl)
}

/// Signed numbers are shifted as if they had no sign.
fn shift_right<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    shift(args, "math.bitShiftRight()", u64::checked_shr)
}

fn shift<'a>(args: &[Value<'a>], name: &str, by: fn(u64, u32) -> Option<u64>) -> Result<Value<'a>, EvalError> {
    let [number, Value::Int(offset)] = args else { return Err(EvalError::no_such_overload()) };
    if *offset < 0 {
        return Err(EvalError::new(format!("{name} negative offset: {offset}")));
    }
    let offset = u32::try_from(*offset).unwrap_or(u32::MAX);
    match number {
        Value::Int(number) => Ok(Value::Int(by(*number as u64, offset).unwrap_or(0) as i64)),
        Value::Uint(number) => Ok(Value::Uint(by(*number, offset).unwrap_or(0))),
        _ => Err(EvalError::no_such_overload()),
    }
}
