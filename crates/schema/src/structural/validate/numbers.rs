//! Numbers. The reference keeps bounds as floats but compares integers as integers, with Go's conversions in between;
//! what follows from that is behaviour.

use serde_json::{Number, Value};

use super::{Check, Passed};
use crate::structural::format::Format;
use crate::structural::go_float::go_float;
use crate::structural::location::Location;
use crate::structural::numeric::{Numeric, exact_integer, go_integer};
use crate::structural::schema::{Kind, Schema, ValueValidation};

/// A bound or factor, in the form in which it is compared and shown.
#[derive(Clone, Copy)]
enum Constraint {
    Integer(i64),
    Float(f64),
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(float) => f.write_str(&go_float(*float)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Minimum,
    Maximum,
}

impl Check<'_> {
    pub(super) fn number(
        &mut self,
        value: Numeric,
        schema: &Schema,
        validation: Option<&ValueValidation>,
        at: &Location<'_>,
    ) -> Passed {
        // A choice of types has no range.
        let kind = schema.kind.filter(|_| !schema.int_or_string);
        let range = Range { kind, format: validation.and_then(|v| v.checked_format) };
        self.in_range(range, value, "Checked", at);
        let Some(validation) = validation else { return 0 };
        if let Some(factor) = validation.multiple_of.as_ref().and_then(Number::as_f64) {
            let exact = self.in_range(range, Numeric::Float(factor), "MultipleOf", at);
            self.multiple_of(value, factor, exact, at);
        }
        for (bound, limit, exclusive, prefix) in [
            (Bound::Minimum, &validation.minimum, validation.exclusive_minimum, "Minimum boundary"),
            (Bound::Maximum, &validation.maximum, validation.exclusive_maximum, "Maximum boundary"),
        ] {
            if let Some(limit) = limit.as_ref().and_then(Number::as_f64) {
                let exact = self.in_range(range, Numeric::Float(limit), prefix, at);
                self.bound(value, bound, limit, exclusive, exact, at);
            }
        }
        0
    }

    /// Reports a number that does not fit the schema's type and format; says whether it does.
    fn in_range(&mut self, range: Range, number: Numeric, what: &str, at: &Location<'_>) -> bool {
        let Some(kind) = range.kind else { return true };
        let fits = range.holds(number);
        if !fits {
            self.unplaced(|| {
                let kind = super::kind_name(kind);
                let name = at.name();
                match range.format_name() {
                    Some(format) => format!("{what} value must be of type {kind} with format {format} in {name}"),
                    None => format!("{what} value must be of type {kind} (default format) in {name}"),
                }
            });
        }
        fits
    }

    fn bound(&mut self, value: Numeric, bound: Bound, limit: f64, exclusive: bool, exact: bool, at: &Location<'_>) {
        let (order, limit) = match value {
            Numeric::Integer(value) if exact => {
                let limit = go_integer(limit);
                (Some(value.cmp(&limit)), Constraint::Integer(limit))
            }
            value => (value.as_f64().partial_cmp(&limit), Constraint::Float(limit)),
        };
        let Some(order) = order else { return };
        let beyond = if bound == Bound::Minimum { order.is_lt() } else { order.is_gt() };
        if !(beyond || (exclusive && order.is_eq())) {
            return;
        }
        let relation = match (bound, exclusive) {
            (Bound::Minimum, true) => "greater than",
            (Bound::Minimum, false) => "greater than or equal to",
            (Bound::Maximum, true) => "less than",
            (Bound::Maximum, false) => "less than or equal to",
        };
        let shown = if exact { value.to_value() } else { value.as_f64().into() };
        self.invalid(at, shown, |name| format!("{name} in body should be {relation} {limit}"));
    }

    fn multiple_of(&mut self, value: Numeric, factor: f64, exact: bool, at: &Location<'_>) {
        let (positive, divides, factor) = match value {
            Numeric::Integer(value) if exact => {
                let factor = go_integer(factor);
                (factor > 0, factor > 0 && value.wrapping_rem(factor) == 0, Constraint::Integer(factor))
            }
            value => {
                let value = value.as_f64();
                let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (factor > 0.0, is_integral(quotient), Constraint::Float(factor))
            }
        };
        if !positive {
            let shown = match factor {
                Constraint::Integer(factor) => Value::from(factor),
                Constraint::Float(factor) => Value::from(factor),
            };
            self.invalid(at, shown, |name| format!("factor MultipleOf declared for {name} must be positive: {factor}"));
        } else if !divides {
            let shown = if exact { value.to_value() } else { value.as_f64().into() };
            self.invalid(at, shown, |name| format!("{name} in body should be a multiple of {factor}"));
        }
    }
}

/// What the type and format of a schema can hold.
#[derive(Clone, Copy)]
struct Range {
    kind: Option<Kind>,
    format: Option<Format>,
}

impl Range {
    fn holds(self, number: Numeric) -> bool {
        match (self.kind, self.format) {
            (Some(Kind::Integer), format) => {
                let integer = match number {
                    Numeric::Integer(integer) => Some(integer),
                    Numeric::Float(float) => exact_integer(float),
                };
                match format {
                    Some(Format::Int32) => integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
                    _ => integer.is_some(),
                }
            }
            (Some(Kind::Number), Some(Format::Float)) => (number.as_f64() as f32).is_finite(),
            _ => true,
        }
    }

    fn format_name(self) -> Option<&'static str> {
        match self.format {
            Some(Format::Int32) => Some("int32"),
            Some(Format::Int64) => Some("int64"),
            Some(Format::Float) => Some("float"),
            Some(Format::Double) => Some("double"),
            _ => None,
        }
    }
}

/// Whether the reference takes a float for an integer: within 53 bits, and within a billionth of one from below.
pub(super) fn is_integral(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !(-MAX..=MAX).contains(&float) {
        return false;
    }
    if float.fract() == 0.0 {
        return true;
    }
    let truncated = float.trunc();
    if truncated == 0.0 || float < 0.0 {
        return false;
    }
    (float - truncated).abs() / (float.abs() + truncated.abs()) < EPSILON
}
