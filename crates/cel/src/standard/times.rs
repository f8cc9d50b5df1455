//! Parts of timestamps and durations.

use jiff::civil;

use crate::error::EvalError;
use crate::library::CallContext;
use crate::value::{Timestamp, Value};

type Outcome<'a> = Result<Value<'a>, EvalError>;

/// The clock of a timestamp, in UTC or the zone of the second argument.
fn clock(args: &[Value<'_>]) -> Result<(Timestamp, civil::DateTime), EvalError> {
    match args {
        [Value::Timestamp(at)] => Ok((*at, at.civil_in("UTC").map_err(|error| EvalError::new(error.to_string()))?)),
        [Value::Timestamp(at), Value::String(zone)] => {
            Ok((*at, at.civil_in(zone).map_err(|error| EvalError::new(error.to_string()))?))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn full_year<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(clock(args)?.1.year().into()))
}

pub(super) fn month<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(i64::from(clock(args)?.1.month()) - 1))
}

pub(super) fn day_of_year<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(i64::from(clock(args)?.1.day_of_year()) - 1))
}

pub(super) fn day_of_month<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(i64::from(clock(args)?.1.day()) - 1))
}

pub(super) fn date<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(clock(args)?.1.day().into()))
}

pub(super) fn day_of_week<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Int(clock(args)?.1.weekday().to_sunday_zero_offset().into()))
}

/// A part of a duration as a whole number of units, or of a timestamp's clock.
fn part<'a>(args: &[Value<'a>], nanos_per_unit: i64, of_clock: fn(civil::DateTime) -> i64) -> Outcome<'a> {
    if let [Value::Duration(span)] = args {
        return Ok(Value::Int(span.nanos / nanos_per_unit));
    }
    Ok(Value::Int(of_clock(clock(args)?.1)))
}

pub(super) fn hours<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    part(args, 3_600_000_000_000, |at| at.hour().into())
}

pub(super) fn minutes<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    part(args, 60_000_000_000, |at| at.minute().into())
}

pub(super) fn seconds<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    part(args, 1_000_000_000, |at| at.second().into())
}

pub(super) fn milliseconds<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    part(args, 1_000_000, |at| i64::from(at.subsec_nanosecond()) / 1_000_000)
}
