//! `base64.encode` and `base64.decode`. Kubernetes does not enable them; other users of CEL do.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::{Library, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// The encoders extension.
pub fn encoders() -> Library {
    Library::new("cel.lib.ext.encoders")
        .overload(
            "base64.decode",
            Overload::global("base64_decode_string", [Type::String], Type::Bytes, |args, _| {
                let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
                // Go skips line breaks.
                let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
                let decoded = STANDARD.decode(&text).or_else(|_| STANDARD_NO_PAD.decode(&text));
                decoded.map(Value::bytes).map_err(|_| EvalError::new("illegal base64 data"))
            }),
        )
        .overload(
            "base64.encode",
            Overload::global("base64_encode_bytes", [Type::Bytes], Type::String, |args, _| {
                let [Value::Bytes(bytes)] = args else { return Err(EvalError::no_such_overload()) };
                Ok(Value::string(STANDARD.encode(&**bytes)))
            }),
        )
}
