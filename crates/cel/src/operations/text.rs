//! Values as text: what `string()` gives, and what messages show.

use crate::value::Value;

/// A double as Go's `%g` prints it.
pub fn format_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Go's shortest form keeps plain notation below seven digits.
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{number}")
}

/// A value as messages show it.
pub fn to_text(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => format_double(*number),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(at) => at.to_string(),
        Value::Duration(span) => span.to_string(),
        Value::List(list) => {
            let items: Vec<String> = list.iter().filter_map(Result::ok).map(|item| to_text(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries: Vec<String> = map
                .keys()
                .iter()
                .filter_map(|key| Some(format!("{}: {}", to_text(key), to_text(&map.get(key).ok()??))))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Type(ty) => ty.type_name().to_owned(),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(inner)) => format!("optional({})", to_text(inner)),
        Value::Opaque(value) => format!("{value:?}"),
        Value::Struct(value) => {
            let fields: Vec<String> =
                value.fields().map(|(name, field)| format!("{name}: {}", to_text(field))).collect();
            format!("{}{{{}}}", value.name(), fields.join(", "))
        }
        Value::Preserved(json) => json.to_string(),
    }
}
