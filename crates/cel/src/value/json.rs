//! Values as JSON: what an expression made becomes a part of a document.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{Key, Map, Value};
use crate::error::EvalError;

/// Numbers beyond this are not exact in every reader of JSON.
const MAX_EXACT_INTEGER: i64 = (1 << 53) - 1;

/// What becomes of integers that not every reader of JSON takes for what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeIntegers {
    /// They stay numbers.
    Numbers,
    /// They become text, as in the JSON form of protocol buffers.
    Text,
}

impl Value<'_> {
    /// The value as JSON. Keys of maps must be text; types, optional values and those of libraries have no JSON form.
    pub fn to_json(&self, large: LargeIntegers) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(flag) => Json::Bool(*flag),
            Self::Int(number) if large == LargeIntegers::Text && number.abs() > MAX_EXACT_INTEGER => {
                Json::String(number.to_string())
            }
            Self::Int(number) => Json::from(*number),
            Self::Uint(number) if large == LargeIntegers::Text && *number > MAX_EXACT_INTEGER as u64 => {
                Json::String(number.to_string())
            }
            Self::Uint(number) => Json::from(*number),
            Self::Double(number) => double(*number)?,
            Self::String(text) => Json::from(&**text),
            Self::Bytes(bytes) => Json::from(STANDARD.encode(&**bytes)),
            Self::Timestamp(at) => Json::from(at.to_string()),
            Self::Duration(span) => Json::from(span.to_string()),
            Self::List(list) => Json::Array(list.iter().map(|item| item?.to_json(large)).collect::<Result<_, _>>()?),
            Self::Map(map) => Json::Object(object(map, large)?),
            Self::Struct(structure) => {
                let fields = structure.fields().map(|(name, value)| Ok((name.to_owned(), value.to_json(large)?)));
                Json::Object(fields.collect::<Result<_, EvalError>>()?)
            }
            Self::Preserved(json) => Json::clone(json),
            Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => {
                return Err(EvalError::new(format!("type conversion error from '{}' to JSON", self.type_name())));
            }
        })
    }
}

/// Whole doubles are written without a fraction, as Go writes them.
fn double(number: f64) -> Result<Json, EvalError> {
    let whole = number as i64;
    if whole as f64 == number && whole.abs() <= MAX_EXACT_INTEGER {
        return Ok(Json::from(whole));
    }
    Number::from_f64(number)
        .map(Json::Number)
        .ok_or_else(|| EvalError::new(format!("unsupported value: {}", crate::operations::format_double(number))))
}

fn object(map: &Map<'_>, large: LargeIntegers) -> Result<JsonMap<String, Json>, EvalError> {
    // What comes from a document as it is goes back as it is.
    if let Map::Json { members, decl } = map
        && matches!(decl.kind, crate::decl::DeclKind::Dyn)
    {
        return Ok(JsonMap::clone(members));
    }
    let mut members = JsonMap::new();
    for key in map.keys() {
        let Some(Key::String(name)) = Key::from_value(&key) else {
            let shown = crate::operations::to_text(&key);
            return Err(EvalError::new(format!("map key {shown:?} is of type {}, not string", key.type_name())));
        };
        if let Some(value) = map.get(&key)? {
            members.insert(name.to_string(), value.to_json(large)?);
        }
    }
    Ok(members)
}
