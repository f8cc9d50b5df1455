//! Values that are not structs, lists or maps: what each type accepts, how it is normalised and what it says otherwise.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::base64_go;
use super::scanner::{Literal, SyntaxError};
use super::typed::{Decoder, json_kind};
use crate::quantity::Quantity;
use crate::time;
use crate::types::{FieldType, GoType};

/// Decodes the value that begins with `first`, which is not null.
pub(super) fn decode(
    decoder: &mut Decoder<'_>,
    ty: FieldType,
    go: GoType,
    first: u8,
) -> Result<Option<Value>, SyntaxError> {
    match (ty, first) {
        (FieldType::String, b'"') => Ok(Some(Value::String(decoder.scanner.string()?.into_owned()))),
        (FieldType::Bool, b't' | b'f') => Ok(Some(Value::Bool(decoder.scanner.literal()? == Literal::True))),
        (FieldType::Int32 | FieldType::Int64, b'-' | b'0'..=b'9') => {
            let text = decoder.scanner.number()?;
            match integer(ty, text) {
                Some(number) => Ok(Some(Value::Number(number.into()))),
                None => {
                    decoder.save_mismatch(&format!("number {text}"), go);
                    Ok(None)
                }
            }
        }
        (FieldType::Double, b'-' | b'0'..=b'9') => {
            let text = decoder.scanner.number()?;
            match double(text) {
                Some(number) => Ok(Some(Value::Number(number))),
                None => {
                    decoder.save_mismatch(&format!("number {text}"), go);
                    Ok(None)
                }
            }
        }
        (FieldType::Bytes, b'"') => bytes(decoder),
        (FieldType::Bytes, b'[') => Ok(Some(Value::String(base64_go::encode(&decoder.byte_list()?)))),
        (FieldType::Time, _) => instant(decoder, first, time::Precision::Seconds),
        (FieldType::MicroTime, _) => instant(decoder, first, time::Precision::Microseconds),
        (FieldType::Quantity, _) => quantity(decoder),
        _ => decoder.mismatched(first, go),
    }
}

/// Go's integers take no fraction or exponent, and must fit.
fn integer(ty: FieldType, text: &str) -> Option<i64> {
    match ty {
        FieldType::Int32 => text.parse::<i32>().ok().map(i64::from),
        _ => text.parse::<i64>().ok(),
    }
}

fn double(text: &str) -> Option<Number> {
    go_number(text.parse().ok()?)
}

/// A float, held as an integer where Go prints one; none if it is not finite.
pub(crate) fn go_number(value: f64) -> Option<Number> {
    /// Below this every integral float is exact and Go prints its plain digits.
    const EXACT: f64 = 1e15;
    if value.fract() == 0.0 && value.abs() < EXACT { Some((value as i64).into()) } else { Number::from_f64(value) }
}

fn bytes(decoder: &mut Decoder<'_>) -> Result<Option<Value>, SyntaxError> {
    let text = decoder.scanner.string()?;
    match base64_go::canonical(text) {
        Ok(text) => Ok(Some(Value::String(text.into_owned()))),
        Err(error) => {
            decoder.save_error(error.to_string());
            Ok(None)
        }
    }
}

fn instant(decoder: &mut Decoder<'_>, first: u8, precision: time::Precision) -> Result<Option<Value>, SyntaxError> {
    let Some(text) = own_string(decoder, first)? else { return Ok(None) };
    match time::parse(&text, precision) {
        // Year one is Go's zero time, which prints as null.
        Ok(instant) if instant.is_zero() => Ok(Some(Value::Null)),
        Ok(_) if time::is_canonical(&text, precision) => Ok(Some(Value::String(text.into_owned()))),
        Ok(instant) => Ok(Some(Value::String(instant.format(precision)))),
        Err(error) => {
            decoder.stop(error.to_string());
            Ok(None)
        }
    }
}

/// The string a type with its own decoder asks for.
fn own_string<'a>(decoder: &mut Decoder<'a>, first: u8) -> Result<Option<Cow<'a, str>>, SyntaxError> {
    if first == b'"' {
        return decoder.scanner.string().map(Some);
    }
    decoder.stop_at_mismatch(json_kind(first), "string");
    decoder.scanner.skip_value()?;
    Ok(None)
}

/// Quantities are read from the raw text: a number or a string without its quotes.
fn quantity(decoder: &mut Decoder<'_>) -> Result<Option<Value>, SyntaxError> {
    let start = decoder.scanner.position();
    decoder.scanner.skip_value()?;
    let raw = String::from_utf8_lossy(decoder.scanner.since(start));
    let text = raw.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&raw);
    match text.trim().parse::<Quantity>() {
        Ok(quantity) => Ok(Some(Value::String(quantity.to_string()))),
        Err(error) => {
            decoder.stop(error.to_string());
            Ok(None)
        }
    }
}
