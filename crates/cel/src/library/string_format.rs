//! `string.format(list)`: `%s %d %f %e %b %x %X %o`, in two dialects. Kubernetes pins an old version of the extension
//! that prints floating-point numbers as American English does; conformance tests use the newest, which prints plainly.

use std::fmt::Write as _;

use super::go_text::{number_error, quoted, quoted_bytes};
use crate::error::EvalError;
use crate::operations::format_double;
use crate::value::{List, Value};

/// Which version of the extension is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Grouped digits, `×10⁰³`, `∞`.
    Localized,
    /// Go's and C's forms.
    Plain,
}

/// Digits after the decimal point unless the clause says otherwise.
const DEFAULT_PRECISION: usize = 6;

/// The most digits a clause may ask for; more would only cost memory.
const MAX_PRECISION: usize = 1000;

/// One `%` clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(Option<usize>),
    Scientific(Option<usize>),
    Binary,
    Hex,
    UpperHex,
    Octal,
}

/// A piece of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Clause(Clause),
}

/// Splits a format string. Arguments are asked for one by one, so a missing one is reported before a bad clause.
pub(crate) fn pieces(format: &str) -> impl Iterator<Item = Result<Piece<'_>, String>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('%') else {
            let (text, after) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = after;
            return Some(Ok(Piece::Text(text)));
        };
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            return Some(Ok(Piece::Text("%")));
        }
        let parsed = clause(after);
        rest = parsed.as_ref().map(|(_, after)| *after).unwrap_or_default();
        Some(parsed.map(|(clause, _)| Piece::Clause(clause)))
    })
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of string".into());
    }
    let bad = |why: String| format!("could not parse formatting clause: {why}");
    let (precision, text) = match text.strip_prefix('.') {
        None => (None, text),
        Some(after) => {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, after) = after.split_at(digits);
            let precision = |why: &str| bad(format!("error while parsing precision: {why}"));
            if after.is_empty() {
                return Err(precision("could not find end of precision specifier"));
            }
            let number = digits.parse::<i64>().map_err(|_| {
                precision(&format!("error while converting precision to integer: {}", number_error("Atoi", digits)))
            })?;
            (Some(usize::try_from(number).unwrap_or(MAX_PRECISION).min(MAX_PRECISION)), after)
        }
    };
    // The reference looks at bytes here, also in the middle of a character.
    let byte = text.bytes().next().unwrap_or_default();
    let clause = match byte {
        b's' => Clause::String,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(precision),
        b'e' => Clause::Scientific(precision),
        b'b' => Clause::Binary,
        b'x' => Clause::Hex,
        b'X' => Clause::UpperHex,
        b'o' => Clause::Octal,
        other => return Err(bad(format!("unrecognized formatting clause \"{}\"", char::from(other)))),
    };
    Ok((clause, text.get(1..).unwrap_or_default()))
}

/// Formats the arguments.
pub(crate) fn format(format: &str, args: &List<'_>, dialect: Dialect) -> Result<String, EvalError> {
    let mut out = String::with_capacity(format.len());
    let mut next = 0;
    for piece in pieces(format) {
        if let Ok(Piece::Text(text)) = &piece {
            out.push_str(text);
            continue;
        }
        let arg = args.get(next).ok_or_else(|| EvalError::new(format!("index {next} out of range")))??;
        next += 1;
        if let Piece::Clause(clause) = piece.map_err(EvalError::new)? {
            let text = clause.apply(&arg, dialect);
            out.push_str(&text.map_err(|why| EvalError::new(format!("error during formatting: {why}")))?);
        }
    }
    Ok(out)
}

impl Clause {
    /// What is said of an argument of a type that the clause does not take.
    pub fn type_error(self, dialect: Dialect, type_name: &str) -> String {
        let text = match (self, dialect) {
            (Self::String, _) => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            (Self::Decimal, Dialect::Localized) => "decimal clause can only be used on integers",
            (Self::Decimal, Dialect::Plain) => "decimal clause can only be used on ints, uints, and doubles",
            (Self::Fixed(_), Dialect::Localized) => "fixed-point clause can only be used on doubles",
            (Self::Fixed(_), Dialect::Plain) => "fixed-point clause can only be used on ints, uints, and doubles",
            (Self::Scientific(_), Dialect::Localized) => "scientific clause can only be used on doubles",
            (Self::Scientific(_), Dialect::Plain) => "scientific clause can only be used on ints, uints, and doubles",
            (Self::Binary, Dialect::Localized) => "only integers and bools can be formatted as binary",
            (Self::Binary, Dialect::Plain) => "only ints, uints, and bools can be formatted as binary",
            (Self::Hex | Self::UpperHex, Dialect::Localized) => {
                "only integers, byte buffers, and strings can be formatted as hex"
            }
            (Self::Hex | Self::UpperHex, Dialect::Plain) => {
                "only ints, uints, bytes, and strings can be formatted as hex"
            }
            (Self::Octal, Dialect::Localized) => "octal clause can only be used on integers",
            (Self::Octal, Dialect::Plain) => "octal clause can only be used on ints and uints",
        };
        format!("{text}, was given {type_name}")
    }

    fn apply(self, arg: &Value<'_>, dialect: Dialect) -> Result<String, String> {
        let refused = || Err(self.type_error(dialect, arg.type_name()));
        match (self, arg) {
            (Self::String, _) => text_of(arg, dialect).unwrap_or_else(refused),
            (Self::Decimal, Value::Int(n)) => Ok(n.to_string()),
            (Self::Decimal, Value::Uint(n)) => Ok(n.to_string()),
            (Self::Decimal, Value::Double(n)) if dialect == Dialect::Plain => Ok(plain_double(*n)),
            (Self::Binary, Value::Int(n)) => Ok(signed(*n, |n| format!("{n:b}"))),
            (Self::Binary, Value::Uint(n)) => Ok(format!("{n:b}")),
            (Self::Binary, Value::Bool(flag)) => Ok(u8::from(*flag).to_string()),
            (Self::Octal, Value::Int(n)) => Ok(signed(*n, |n| format!("{n:o}"))),
            (Self::Octal, Value::Uint(n)) => Ok(format!("{n:o}")),
            (Self::Hex | Self::UpperHex, _) => {
                let text = match arg {
                    Value::Int(n) => signed(*n, |n| format!("{n:x}")),
                    Value::Uint(n) => format!("{n:x}"),
                    Value::String(text) => hex(text.as_bytes()),
                    Value::Bytes(bytes) => hex(bytes),
                    _ => return refused(),
                };
                Ok(if self == Self::UpperHex { text.to_ascii_uppercase() } else { text })
            }
            (Self::Fixed(precision), _) => match self.double(arg, dialect) {
                Some(number) => Ok(fixed(number, precision.unwrap_or(DEFAULT_PRECISION), dialect)),
                None => refused(),
            },
            (Self::Scientific(precision), _) => match self.double(arg, dialect) {
                Some(number) => Ok(scientific(number, precision.unwrap_or(DEFAULT_PRECISION), dialect)),
                None => refused(),
            },
            _ => refused(),
        }
    }

    fn double(self, arg: &Value<'_>, dialect: Dialect) -> Option<f64> {
        match arg {
            Value::Double(number) => Some(*number),
            Value::Int(number) if dialect == Dialect::Plain => Some(*number as f64),
            Value::Uint(number) if dialect == Dialect::Plain => Some(*number as f64),
            Value::String(text) => match &**text {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                _ => None,
            },
            _ => None,
        }
    }
}

fn signed(number: i64, print: impl Fn(u64) -> String) -> String {
    let digits = print(number.unsigned_abs());
    if number < 0 { format!("-{digits}") } else { digits }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `%s`; `None` for values that have no text.
fn text_of(arg: &Value<'_>, dialect: Dialect) -> Option<Result<String, String>> {
    Some(match arg {
        Value::Null => Ok("null".into()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::Uint(number) => Ok(number.to_string()),
        Value::Double(number) if dialect == Dialect::Plain => Ok(plain_double(*number)),
        Value::Double(number) => Ok(format_double(*number)),
        Value::String(text) => Ok(text.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) if dialect == Dialect::Plain => Ok(String::from_utf8_lossy(bytes).into_owned()),
            Err(_) => {
                Err("could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string".into())
            }
        },
        Value::Timestamp(time) => Ok(time.to_string()),
        Value::Duration(duration) => Ok(duration.to_string()),
        Value::Type(ty) => Ok(ty.type_name().to_owned()),
        Value::List(list) => list_text(list, dialect),
        Value::Map(map) => map_text(map, dialect),
        Value::Optional(_) | Value::Opaque(_) | Value::Struct(_) | Value::Preserved(_) => return None,
    })
}

fn list_text(list: &List<'_>, dialect: Dialect) -> Result<String, String> {
    let mut out = String::from("[");
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&nested(&item.map_err(|error| error.to_string())?, dialect)?);
    }
    out.push(']');
    Ok(out)
}

fn map_text(map: &crate::value::Map<'_>, dialect: Dialect) -> Result<String, String> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys() {
        let value = map.get(&key).map_err(|error| error.to_string())?;
        let Some(value) = value else { continue };
        entries.push((nested(&key, dialect)?, nested(&value, dialect)?));
    }
    entries.sort();
    let mut out = String::from("{");
    for (at, (key, value)) in entries.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = match (at, dialect) {
            (0, Dialect::Localized) => write!(out, "{key}:{value}"),
            (_, Dialect::Localized) => write!(out, ", {key}:{value}"),
            (0, Dialect::Plain) => write!(out, "{key}: {value}"),
            (_, Dialect::Plain) => write!(out, ", {key}: {value}"),
        };
    }
    out.push('}');
    Ok(out)
}

/// A value inside a list or a map. The older dialect writes it as a literal.
fn nested(value: &Value<'_>, dialect: Dialect) -> Result<String, String> {
    let text =
        || text_of(value, dialect).unwrap_or_else(|| Err(format!("no formatting function for {}", value.type_name())));
    if dialect == Dialect::Plain {
        return match value {
            Value::Optional(_) | Value::Opaque(_) | Value::Struct(_) | Value::Preserved(_) => {
                Err(Clause::String.type_error(dialect, value.type_name()))
            }
            _ => text(),
        };
    }
    Ok(match value {
        Value::String(text) => quoted(text),
        Value::Bytes(bytes) => format!("b{}", quoted_bytes(text().map(|_| &**bytes)?)),
        Value::Double(number) if !number.is_finite() => quoted(&infinite(*number, "+Inf", "-Inf")),
        Value::Double(number) => format!("{number:.DEFAULT_PRECISION$}"),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&text()?)),
        Value::Duration(_) => format!("duration({})", quoted(&text()?)),
        _ => text()?,
    })
}

fn infinite(number: f64, positive: &str, negative: &str) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number > 0.0 {
        positive.to_owned()
    } else {
        negative.to_owned()
    }
}

/// A number as the newer dialect writes it: never with an exponent.
fn plain_double(number: f64) -> String {
    if number.is_finite() { format!("{number}") } else { infinite(number, "Infinity", "-Infinity") }
}

fn fixed(number: f64, precision: usize, dialect: Dialect) -> String {
    if dialect == Dialect::Plain {
        return if number.is_finite() {
            format!("{number:.precision$}")
        } else {
            infinite(number, "Infinity", "-Infinity")
        };
    }
    if !number.is_finite() {
        return infinite(number, "∞", "-∞");
    }
    // Negative zero loses its sign here.
    let digits = format!("{:.precision$}", number.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = String::new();
    if number < 0.0 {
        out.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if precision > 0 {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// In the older dialect the precision is, by an old mistake that is now behaviour, the width.
fn scientific(number: f64, precision: usize, dialect: Dialect) -> String {
    if dialect == Dialect::Plain {
        if !number.is_finite() {
            return infinite(number, "Infinity", "-Infinity");
        }
        let text = format!("{number:.precision$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let text = if number.is_finite() {
        let number = if number == 0.0 { 0.0 } else { number };
        let text = format!("{number:.DEFAULT_PRECISION$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let sign = if exponent < 0 { "⁻" } else { "" };
        let superscript: String = format!("{:02}", exponent.abs()).chars().map(superscript).collect();
        format!("{mantissa}×10{sign}{superscript}")
    } else {
        infinite(number, "∞", "-∞")
    };
    format!("{text:>precision$}")
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        // The others follow each other from U+2070 on.
        other => other.to_digit(10).and_then(|n| char::from_u32(0x2070 + n)).unwrap_or(other),
    }
}
